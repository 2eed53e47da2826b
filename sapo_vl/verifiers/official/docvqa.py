"""The official metric of DocVQA: average normalised Levenshtein similarity."""

from __future__ import annotations

from dataclasses import dataclass

from sapo_vl.types import Prompt, Verdict
from sapo_vl.verifiers.edit_distance import similarity
from sapo_vl.verifiers.extraction import Form, check_form
from sapo_vl.verifiers.opening import answer_or_verdict
from sapo_vl.verifiers.references import all_references, empty_reference, unusable_answers

_THRESHOLD = 0.5
_MAX_SHOWN = 300


@dataclass(frozen=True)
class DocVQAAnls:
    """Score an answer by ANLS: 1 minus its edit distance as a share of the longer text.

    The best of all references counts; a share of a half or more scores 0. Case is ignored, blanks
    are collapsed.

    Known oddities, kept: it measures spelling, not truth ("unlikely" scores 0.75 for "likely").
    The scripts around the metric differ where the share is exactly a half: the paper's formula,
    used here, gives 0, the competition server's script 0.5. They also divide by the length before
    blanks are collapsed; here it is the length that was compared.

    The other references stand in ``prompt.meta["answers"]``, a list of strings.

    Args:
        form: where the response holds its answer; the benchmark asks for a word or phrase: "whole".
        thinking: the model reasons before ``</think>``.

    Raises:
        ValueError: an unknown form.
    """

    form: Form = "whole"
    thinking: bool = False

    def __post_init__(self) -> None:
        check_form(self.form)

    def __call__(self, prompt: Prompt, response: str) -> Verdict:
        """Score ``response`` from 0.0 to 1.0."""
        answer = answer_or_verdict(self, prompt, response)
        if isinstance(answer, Verdict):
            return answer
        key = _key(answer)
        score, best = max(
            (similarity(key, _key(text), _THRESHOLD), text) for text in all_references(prompt)
        )
        shown = answer[:_MAX_SHOWN]
        return Verdict(score=score, extracted=shown, reason=f"nearest is the reference {best!r}")

    def check_reference(self, prompt: Prompt) -> str | None:
        """Say what makes the reference unusable; None where it is fine."""
        return unusable_answers(prompt) or empty_reference(prompt)


def _key(text: str) -> str:
    return " ".join(text.lower().split())
