"""The official rule of We-Math: the letter after the last "Answer"."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sapo_vl.types import Prompt, Verdict
from sapo_vl.verifiers.official.verdicts import by_letter
from sapo_vl.verifiers.opening import text_or_verdict
from sapo_vl.verifiers.references import no_letter

_LETTERS = "ABCDEFGH"
_SIGNS = re.compile(r"[>><<:.]")


@dataclass(frozen=True)
class WeMathOfficial:
    """Score one question as We-Math's own script does.

    The answer is the first character after the last "Answer", once ``<``, ``>``, ``:`` and ``.``
    are taken out; it must be one of A to H.

    Known oddities, kept: a response without "Answer" is read from its beginning, so "A triangle
    has ..." names A; "Answer: (B)" names nothing; nothing after the first character is looked at.
    The four-part metric over a problem and its steps is `sapo_vl.evaluation.FourPart`.

    Args:
        thinking: the model reasons before ``</think>``; only what follows it is scored.
    """

    thinking: bool = False

    def __call__(self, prompt: Prompt, response: str) -> Verdict:
        """Score ``response`` 1.0 or 0.0."""
        text = text_or_verdict(self, prompt, response)
        if isinstance(text, Verdict):
            return text
        letter = _SIGNS.sub("", text.rpartition("Answer")[2]).strip()[:1]
        if not letter or letter not in _LETTERS:
            return Verdict(score=0.0, status="no_answer", reason="no letter follows 'Answer'")
        return by_letter(letter, prompt)

    def check_reference(self, prompt: Prompt) -> str | None:
        """Say what makes the reference unusable; None where it is fine."""
        return no_letter(prompt, _LETTERS)
