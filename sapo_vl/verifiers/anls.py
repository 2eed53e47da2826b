"""Verifier for text read from pictures: average normalised Levenshtein similarity (ANLS)."""

from __future__ import annotations

from dataclasses import dataclass

from sapo_vl.types import Prompt, Verdict
from sapo_vl.verifiers.edit_distance import similarity
from sapo_vl.verifiers.extraction import Form, check_form
from sapo_vl.verifiers.opening import answer_or_verdict
from sapo_vl.verifiers.references import all_references, unusable_answers

MAX_CHARS = 1000  # of a reference; nobody reads more than a paragraph out of a picture


@dataclass(frozen=True)
class AnlsVerifier:
    """Score how near an answer is to the nearest reference, in edits per character.

    1 - edits / length of the longer, and 0 where that many edits reach the threshold; case and
    runs of blanks do not count. The rule is that of DocVQA (Mathew et al., 2021). It measures
    reading, not meaning: "unlikely" for "likely" scores 0.75, so as a training reward it suits
    transcription alone.

    Args:
        form: where the response holds its answer, see `extract_answer`.
        thinking: the model reasons before ``</think>``.
        threshold: normalised distance from which on an answer scores 0; 1 scores every answer.

    More references may stand in ``prompt.meta["answers"]``, a list of strings; the best counts.

    Raises:
        ValueError: an unknown form, or a threshold outside (0, 1].
    """

    form: Form = "boxed"
    thinking: bool = False
    threshold: float = 0.5

    def __post_init__(self) -> None:
        check_form(self.form)
        if not 0 < self.threshold <= 1:
            raise ValueError(f"threshold is {self.threshold}; it must lie in (0, 1]")

    def __call__(self, prompt: Prompt, response: str) -> Verdict:
        """Score ``response`` in [0, 1]."""
        answer = answer_or_verdict(self, prompt, response)
        if isinstance(answer, Verdict):
            return answer
        key = _key(answer)
        scores = {
            text: similarity(key, _key(text), self.threshold) for text in all_references(prompt)
        }
        nearest = max(scores, key=lambda text: scores[text])
        shown = answer[:MAX_CHARS]
        reason = f"{shown!r} is {scores[nearest]:.3g} similar to {nearest!r}"
        return Verdict(score=scores[nearest], extracted=shown, reason=reason)

    def check_reference(self, prompt: Prompt) -> str | None:
        """Say what makes the reference unusable; None where it is fine."""
        problem = unusable_answers(prompt)
        if problem is not None:
            return problem
        if not all(_key(text) for text in all_references(prompt)):
            return "a reference is empty"
        if any(len(text) > MAX_CHARS for text in all_references(prompt)):
            return f"a reference has more than {MAX_CHARS} characters"
        return None


def _key(text: str) -> str:
    return " ".join(text.casefold().split())
