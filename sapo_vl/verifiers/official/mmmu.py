"""The official rule of MMMU and MMMU-Pro, without its random draw."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sapo_vl.types import Prompt, Verdict
from sapo_vl.verifiers.official.mmmu_open import is_right
from sapo_vl.verifiers.official.verdicts import by_letter
from sapo_vl.verifiers.opening import text_or_verdict
from sapo_vl.verifiers.references import all_references, empty_reference, unusable_answers

_MAX_SHOWN = 300
_MAX_CHARS = 100_000  # longer open answers are read from their end
_FEW_WORDS = 5
_ENDS = ",.!?;:'"


@dataclass(frozen=True)
class MMMUOfficial:
    r"""Score a response as MMMU's ``eval_utils`` does.

    A prompt with options is multiple choice: the last of ``(A)``, else of a free-standing ``A``,
    else (in more than five words) of the options' texts. An open answer is right where one of the
    numbers or phrases found in it equals a reference, or holds it as a part.

    Known oddities, kept: "The answer is B. Note that A ..." is A; ``\boxed{C}`` and ``C.`` inside a
    sentence name nothing; an open answer that enumerates 1 to 10 is right for 7; numbers agree at
    two decimals; a short reference counts inside longer words.

    **Not kept**: where nothing is found the original draws a random option. Here that is wrong,
    always, with status "no_answer" and the draw named in the reason.

    Open questions may have several references in ``prompt.meta["answers"]``, a list of strings.

    Args:
        thinking: the model reasons before ``</think>``; only what follows it is scored.
        answer_line: score only what follows the last "Answer:", as MMMU-Pro asks.
    """

    thinking: bool = False
    answer_line: bool = False

    def __call__(self, prompt: Prompt, response: str) -> Verdict:
        """Score ``response`` 1.0 or 0.0."""
        text = text_or_verdict(self, prompt, response)
        if isinstance(text, Verdict):
            return text
        if self.answer_line:
            text = text.rpartition("Answer:")[2]
        return _choice(prompt, text) if prompt.options else _open(prompt, text)

    def check_reference(self, prompt: Prompt) -> str | None:
        """Say what makes the reference unusable; None where it is fine."""
        if prompt.options and prompt.reference not in prompt.options:
            return f"the reference {prompt.reference!r} is none of {', '.join(prompt.options)}"
        return unusable_answers(prompt) or empty_reference(prompt)


def choose(response: str, options: Mapping[str, str]) -> str | None:
    """Return the label that the official code reads, None where it would draw one at random."""
    text = response
    for sign in _ENDS:
        text = text.strip(sign)
    text = f" {text} "
    named = _last(text, options, "({})".format) or _last(text, options, " {} ".format)
    if named is None and len(text.split(maxsplit=_FEW_WORDS)) > _FEW_WORDS:
        named = _last(text.lower(), options, lambda label: options[label].lower())
    return named


def _last(text: str, options: Mapping[str, str], form: Callable[[str], str]) -> str | None:
    places = {label: text.rfind(form(label)) for label in options}
    found = {label: place for label, place in places.items() if place >= 0}
    return max(found, key=lambda label: found[label]) if found else None


def _choice(prompt: Prompt, text: str) -> Verdict:
    named = choose(text, prompt.options)
    if named is None:
        reason = "names no option: the official code draws one at random, which counts as wrong"
        return Verdict(score=0.0, status="no_answer", reason=reason)
    return by_letter(named, prompt)


def _open(prompt: Prompt, text: str) -> Verdict:
    if not text.strip():
        return Verdict(score=0.0, status="no_answer", reason="the response is empty")
    right = is_right(text[-_MAX_CHARS:], all_references(prompt))
    reason = f"{'holds' if right else 'does not hold'} the reference {prompt.reference!r}"
    shown = text.strip()[-_MAX_SHOWN:]
    return Verdict(score=float(right), extracted=shown, reason=reason)
