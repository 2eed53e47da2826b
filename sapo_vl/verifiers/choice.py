"""Verifier for multiple choice: the label decides, the text of an option where it is unique."""

from __future__ import annotations

from dataclasses import dataclass

from sapo_vl.types import Prompt, Verdict
from sapo_vl.verifiers.choice_reading import read_choice
from sapo_vl.verifiers.extraction import Form, check_form
from sapo_vl.verifiers.opening import answer_or_verdict
from sapo_vl.verifiers.plain import MAX_CHARS


@dataclass(frozen=True)
class ChoiceVerifier:
    """Accept an answer that names exactly the reference's option or options.

    Read as a label: ``B``, ``(B)``, ``B.``, ``b``, full-width, ``B: its text``, after "The answer
    is"; several labels (``B, D`` or ``BD``) are a set, whose order is free. An option's text counts
    where no label is named and no other option has the same text or value; formulas are compared
    as mathematics. Labels win over option texts that look like labels. An answer that names
    nothing, or hedges, scores 0; no option is ever drawn.

    Args:
        form: where the response holds its answer, see `extract_answer`.
        thinking: the model reasons before ``</think>``.
        labels: the labels of a question whose options stand in its image, so that
            ``prompt.options`` is empty.

    Raises:
        ValueError: an unknown form.
    """

    form: Form = "boxed"
    thinking: bool = False
    labels: str = "ABCDEFGHIJ"

    def __post_init__(self) -> None:
        check_form(self.form)

    def __call__(self, prompt: Prompt, response: str) -> Verdict:
        """Score ``response`` 1.0 or 0.0."""
        answer = answer_or_verdict(self, prompt, response)
        if isinstance(answer, Verdict):
            return answer
        options = self._options(prompt)
        named, wanted = read_choice(answer, options), read_choice(prompt.reference, options)
        shown = answer[:MAX_CHARS]
        if not named:
            reason = "the answer names none of the options, or hedges"
            return Verdict(score=0.0, extracted=shown, status="no_answer", reason=reason)
        reason = f"names {_list(named)}, the reference {_list(wanted)}"
        return Verdict(score=float(named == wanted), extracted=shown, reason=reason)

    def check_reference(self, prompt: Prompt) -> str | None:
        """Say what makes the reference unusable; None where it is fine."""
        options = self._options(prompt)
        if len({label.strip().casefold() for label in options}) < len(options):
            return f"the labels {', '.join(options)} differ in case or blanks only"
        if not read_choice(prompt.reference, options):
            return f"the reference {prompt.reference!r} names none of {', '.join(options)}"
        return None

    def _options(self, prompt: Prompt) -> dict[str, str]:
        return dict(prompt.options) or dict.fromkeys(self.labels, "")


def _list(labels: frozenset[str]) -> str:
    return ", ".join(sorted(labels))
