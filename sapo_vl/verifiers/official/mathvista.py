"""The official rule of MathVista: from an extracted answer to right or wrong."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from sapo_vl.types import Prompt, Verdict
from sapo_vl.verifiers.edit_distance import edit_distance
from sapo_vl.verifiers.extraction import Form, check_form, extract_answer
from sapo_vl.verifiers.official.plain_float import is_float
from sapo_vl.verifiers.opening import reference_verdict

Named = Literal["text", "label"]

_LETTER = re.compile(r"\(([A-Za-z])\)")
_MAX_CHARS = 2000
_LARGEST = 1e300


@dataclass(frozen=True)
class MathVistaOfficial:
    """Score an extracted answer as MathVista's ``calculate_score`` does.

    MathVista lets a language model extract the answer first; this rule starts from the extraction.
    So ``form`` says where the answer stands, and "whole" takes a response that is the extraction.

    ``prompt.meta`` holds MathVista's ``answer_type`` (text, integer, float, list) and, for floats,
    ``precision``; a prompt with options is multiple choice, its reference is the option's text, or
    its label where ``reference`` says so, as in our shards.

    Known oddities, kept: whatever names no option becomes the option nearest by edit distance, the
    first of equals, so every answer chooses something; an integer is cut, so 3.7 passes for 3; a
    float is compared as the text of its rounded value; a list must be the same text.

    Args:
        form: where the response holds its answer, see `extract_answer`.
        thinking: the model reasons before ``</think>``.
        reference: what names the right option, its text or its label.

    Raises:
        ValueError: an unknown form or kind of reference.
    """

    form: Form = "whole"
    thinking: bool = False
    reference: Named = "text"

    def __post_init__(self) -> None:
        check_form(self.form)
        if self.reference not in get_args(Named):
            raise ValueError(f"reference is {self.reference!r}; it must be text or label")

    def __call__(self, prompt: Prompt, response: str) -> Verdict:
        """Score ``response`` 1.0 or 0.0."""
        unusable = reference_verdict(self, prompt)
        if unusable is not None:
            return unusable
        answer = extract_answer(response, self.form, self.thinking)
        if answer is None and self.form != "whole":
            return Verdict(score=0.0, status="no_answer", reason=f"no answer of form {self.form}")
        answer = answer or ""  # an empty extraction still chooses the nearest option
        if len(answer) > _MAX_CHARS:
            reason = f"the answer has {len(answer)} characters, over {_MAX_CHARS}"
            return Verdict(score=0.0, extracted=answer[:_MAX_CHARS], reason=reason)
        if prompt.options:
            read: str | None = choose(answer, prompt.options)
        else:
            read = read_value(answer, prompt.meta)
        wanted = self._wanted(prompt)
        right = read == wanted
        reason = f"read as {read!r}, the reference is {wanted!r}"
        return Verdict(score=float(right), extracted=answer or None, reason=reason)

    def check_reference(self, prompt: Prompt) -> str | None:
        """Say what makes the reference unusable; None where it is fine."""
        if prompt.options and self._wanted(prompt) not in prompt.options.values():
            return f"the reference {prompt.reference!r} is not the {self.reference} of an option"
        kind, precision = prompt.meta.get("answer_type"), prompt.meta.get("precision")
        if kind == "float" and not prompt.options and not is_float(str(precision)):
            return "meta['precision'] must be a number where meta['answer_type'] is float"
        return None if prompt.reference else "the reference is empty"

    def _wanted(self, prompt: Prompt) -> str | None:
        if prompt.options and self.reference == "label":
            return prompt.options.get(prompt.reference)
        return prompt.reference


def choose(answer: str, options: Mapping[str, str]) -> str:
    """Return the text of the option that the official code takes the answer for."""
    answer = answer.strip()
    named = _LETTER.search(answer)
    letter = named[1].upper() if named else answer
    labels = dict(zip("ABCDEFGHIJKLMNOPQRSTUVWXYZ", options.values(), strict=False))
    if letter in labels:
        return labels[letter]
    return min(options.values(), key=lambda text: edit_distance(letter, text))


def read_value(answer: str, meta: Mapping[str, Any]) -> str | None:
    """Return the answer in the form of its ``answer_type``, None where it has no such form."""
    kind = meta.get("answer_type")
    if kind not in ("integer", "float"):
        return answer
    value = float(answer) if is_float(answer) else _LARGEST
    if not abs(value) < _LARGEST:  # infinite, nan or unreadable: no number in the original either
        return None
    return (
        str(int(value)) if kind == "integer" else str(round(value, int(float(meta["precision"]))))
    )
