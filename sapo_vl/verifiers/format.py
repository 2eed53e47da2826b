r"""Verifier for the shape of a response: one reasoning block, then exactly one answer."""

from __future__ import annotations

from dataclasses import dataclass

from sapo_vl.types import Prompt, Verdict
from sapo_vl.verifiers.extraction import Form, boxes_of, check_form, extract_answer

_OPEN, _CLOSE = "<think>", "</think>"


@dataclass(frozen=True)
class FormatVerifier:
    r"""Accept a response of the right shape, whatever it says.

    With ``thinking``: one ``</think>``, at most one ``<think>`` and that at the very start (the
    templates of thinking models put it in the prompt), something between them. Empty reasoning is
    none. Without: no such tag. After it exactly one answer of ``form``, not empty; a box inside a
    box is one. Use it as a gate of `CombinedVerifier`, so that shape alone earns nothing.

    Args:
        form: how the answer is marked, see `extract_answer`; "whole" asks for any text.
        thinking: whether reasoning must come first.

    Raises:
        ValueError: an unknown form.
    """

    form: Form = "boxed"
    thinking: bool = True

    def __post_init__(self) -> None:
        check_form(self.form)

    def __call__(self, prompt: Prompt, response: str) -> Verdict:
        """Score ``response`` 1.0 or 0.0."""
        problem = self._why_misshapen(response)
        reason = problem or "the response has the right shape"
        return Verdict(score=float(problem is None), reason=reason)

    def check_reference(self, prompt: Prompt) -> str | None:
        """Return None: the reference plays no part."""
        return None

    def _why_misshapen(self, response: str) -> str | None:
        opened, closed = response.count(_OPEN), response.count(_CLOSE)
        if closed != self.thinking or opened > closed:
            return f"{opened} {_OPEN} and {closed} {_CLOSE}"
        reasoning, _, answer = response.rpartition(_CLOSE)
        reasoning = reasoning.strip()
        if opened and not reasoning.startswith(_OPEN):
            return f"{_OPEN} is not at the start"
        if self.thinking and not reasoning.removeprefix(_OPEN).strip():
            return "the reasoning is empty"
        count = self._answers(answer)
        if count != 1:
            return f"{count} answers of form {self.form}"
        return None if extract_answer(answer, self.form) else "the answer is empty"

    def _answers(self, text: str) -> int:
        if self.form == "boxed":
            return len(boxes_of(text))
        if self.form == "answer_tag":
            opened, closed = text.count("<answer>"), text.count("</answer>")
            return opened if opened == closed else 0
        if self.form == "answer_line":
            return text.casefold().count("answer:")
        return 1
