"""The official rule of VisuLogic: a letter in the last box, else a phrase that names one."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sapo_vl.types import Prompt, Verdict
from sapo_vl.verifiers.official.verdicts import by_letter
from sapo_vl.verifiers.opening import text_or_verdict
from sapo_vl.verifiers.references import no_letter

_LETTERS = "ABCD"
_LATEX = (r"\text{", r"\rm{", r"\mathbf{", "$", "}")
_LONGEST = 2
_SHORT = 3  # a response shorter than this is the answer
_TOKEN = re.compile(r"\\boxed\{|[^\\]\}")
_FLAGS = (
    "answer:",
    "the final answer is:",
    "the answer is option:",
    "the answer is:",
    "the correct answer is option:",
    "the correct answer is:",
    "the answer should be:",
    "the final answer is",
    "the answer is option",
    "the answer is",
    "the correct answer is option",
    "the correct answer is",
    "the answer should be",
)


@dataclass(frozen=True)
class VisuLogicOfficial:
    r"""Score a response as VisuLogic's evaluation does, without a judge.

    The answer is the last box where it holds at most two characters, or a response that is a letter
    alone, else a letter that ends the response (" B.", " (B).") or begins it on a line of its own,
    else what follows one of thirteen phrases such as "the answer is", up to the sentence's end.

    Known oddities, kept: ``\boxed{(C)}``, ``\boxed{c}``, ``\boxed{ C }`` and
    ``\boxed{\textbf{C}}`` name nothing; a box ends at the first closing brace. Chance is 25 %, and
    nothing is ever drawn at random.

    Args:
        thinking: the model reasons before ``</think>``; only what follows it is scored.
    """

    thinking: bool = False

    def __call__(self, prompt: Prompt, response: str) -> Verdict:
        """Score ``response`` 1.0 or 0.0."""
        text = text_or_verdict(self, prompt, response)
        if isinstance(text, Verdict):
            return text
        letter = find_letter(text)
        if letter is None:
            return Verdict(score=0.0, status="no_answer", reason="the response names no letter")
        return by_letter(letter, prompt)

    def check_reference(self, prompt: Prompt) -> str | None:
        """Say what makes the reference unusable; None where it is fine."""
        return no_letter(prompt, _LETTERS)


def find_letter(text: str) -> str | None:
    """Return the letter that the official code reads, None where it reads none."""
    box = _last_box(text)
    for part in _LATEX:
        box = box and box.replace(part, "")
    whole = box is None or len(box) > _LONGEST or len(text) < _SHORT
    named = (text if whole else box or "").strip()
    return named if _is_letter(named) else _in_words(text)


def _last_box(text: str) -> str | None:
    """Return what stands between the last box and the first brace that closes anything."""
    found, starts = None, list[int]()
    for token in _TOKEN.finditer(text):
        if token[0] == r"\boxed{":
            starts.append(token.end())
        elif starts:
            start = starts.pop()
            found = found if starts else text[start : token.start() + 1]
    return found


def _in_words(text: str) -> str | None:
    for letter in _LETTERS:
        begins = (f"{letter}\n", f"({letter})\n", f"({letter}) {letter}\n")
        if text.endswith((f" {letter}.", f" ({letter}).")) or text.startswith(begins):
            return letter
    rest = text.lower()
    for flag in _FLAGS:
        _, found, after = rest.rpartition(flag)
        if found:
            rest = after.strip().partition("\n")[0].partition(".")[0]  # the next phrase is in it
            if _is_letter(rest.upper()):
                return rest.upper()
    return None


def _is_letter(text: str) -> bool:
    return len(text) == 1 and text in _LETTERS
