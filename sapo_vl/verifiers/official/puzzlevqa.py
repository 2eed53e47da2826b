"""The official rule of PuzzleVQA and AlgoPuzzleVQA: the last letter in the response."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sapo_vl.types import Prompt, Verdict
from sapo_vl.verifiers.opening import text_or_verdict

_LETTERS = "ABCD"
_BRACKETED = re.compile(r"\(([ABCD])\)")
_ANY = re.compile("[ABCD]")


@dataclass(frozen=True)
class PuzzleVQAOfficial:
    """Score a response as PuzzleVQA's and AlgoPuzzleVQA's own scripts do.

    The answer is the last ``(A)`` to ``(D)``, else the last capital A to D anywhere, be it the
    first letter of "Based". Options are compared by their text.

    Known oddity, kept: a letter beyond the options means the first one. Not kept: where a response
    holds no such letter the model is asked a second time; here that is no answer.

    Args:
        thinking: the model reasons before ``</think>``; only what follows it is scored.
    """

    thinking: bool = False

    def __call__(self, prompt: Prompt, response: str) -> Verdict:
        """Score ``response`` 1.0 or 0.0."""
        text = text_or_verdict(self, prompt, response)
        if isinstance(text, Verdict):
            return text
        found = _BRACKETED.findall(text) or _ANY.findall(text)
        if not found:
            return Verdict(score=0.0, status="no_answer", reason="no letter from A to D")
        texts, letter = list(prompt.options.values()), found[-1]
        place = _LETTERS.index(letter)
        chosen = texts[place] if place < len(texts) else texts[0]
        wanted = prompt.options[prompt.reference]
        reason = f"{letter} is {chosen!r}, the reference is {wanted!r}"
        return Verdict(score=float(chosen == wanted), extracted=letter, reason=reason)

    def check_reference(self, prompt: Prompt) -> str | None:
        """Say what makes the reference unusable; None where it is fine."""
        if prompt.reference not in prompt.options:
            return f"the reference {prompt.reference!r} is no label of an option"
        return None
