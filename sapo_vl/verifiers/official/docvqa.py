"""The official metric of DocVQA: average normalised Levenshtein similarity."""

from __future__ import annotations

from dataclasses import dataclass

from sapo_vl.types import Prompt, Verdict
from sapo_vl.verifiers.edit_distance import edit_distance
from sapo_vl.verifiers.extraction import Form, check_form, extract_answer

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
        problem = self.check_reference(prompt)
        if problem is not None:
            return Verdict(score=0.0, status="unparsable_reference", reason=problem)
        answer = extract_answer(response, self.form, self.thinking)
        if answer is None:
            return Verdict(score=0.0, status="no_answer", reason=f"no answer of form {self.form}")
        references = [prompt.reference, *prompt.meta.get("answers", [])]
        score, best = max((similarity(answer, text), text) for text in references)
        shown = answer[:_MAX_SHOWN]
        return Verdict(score=score, extracted=shown, reason=f"nearest is the reference {best!r}")

    def check_reference(self, prompt: Prompt) -> str | None:
        """Say what makes the reference unusable; None where it is fine."""
        answers = prompt.meta.get("answers", [])
        if not isinstance(answers, list | tuple) or not all(isinstance(a, str) for a in answers):
            return "meta['answers'] must be a list of strings"
        return None if prompt.reference.strip() else "the reference is empty"


def similarity(answer: str, reference: str) -> float:
    """Return 1 minus the normalised edit distance, or 0 where that is a half or more."""
    left, right = " ".join(answer.lower().split()), " ".join(reference.lower().split())
    longest = max(len(left), len(right))
    # The distance is at least the difference of the lengths: long texts need no table.
    if abs(len(left) - len(right)) >= _THRESHOLD * longest:
        return float(left == right)
    share = edit_distance(left, right) / longest
    return 1 - share if share < _THRESHOLD else 0.0
