"""Verifier for answers that are a word or a short phrase."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sapo_vl.types import Prompt, Verdict
from sapo_vl.verifiers.extraction import Form, check_form
from sapo_vl.verifiers.opening import answer_or_verdict
from sapo_vl.verifiers.plain import MAX_CHARS, plain, strip_trailing
from sapo_vl.verifiers.references import all_references, unusable_answers

_ARTICLE = re.compile(r"^(?:a|an|the)\s+(?=\S)")
_QUOTES = "\"'\u2018\u2019\u201c\u201d "


def text_key(text: str) -> str:
    """Return the form in which two short texts are compared.

    Case folded, plain, without a leading article, trailing punctuation or quotes. A text made of
    punctuation alone keeps it, so no text but the empty one gives the empty key.
    """
    folded = plain(text).casefold()
    stripped = strip_trailing(folded.strip(_QUOTES)).strip(_QUOTES)
    return _ARTICLE.sub("", stripped, count=1) if stripped else folded


@dataclass(frozen=True)
class TextVerifier:
    """Accept an answer that is the reference, up to case, blanks, article and full stop.

    No part of an answer counts: "a red ball" is not "red".

    Args:
        form: where the response holds its answer, see `extract_answer`.
        thinking: the model reasons before ``</think>``.
        separator: splits the reference into several that are accepted, e.g. ``"|"``; None: one.

    More references may stand in ``prompt.meta["answers"]``, a list of strings.

    Raises:
        ValueError: an unknown form or an empty separator.
    """

    form: Form = "boxed"
    thinking: bool = False
    separator: str | None = None

    def __post_init__(self) -> None:
        check_form(self.form)
        if self.separator == "":
            raise ValueError(
                "separator is empty; give the text between references, or null for one"
            )

    def __call__(self, prompt: Prompt, response: str) -> Verdict:
        """Score ``response`` 1.0 or 0.0."""
        answer = answer_or_verdict(self, prompt, response)
        if isinstance(answer, Verdict):
            return answer
        if len(answer) > MAX_CHARS:
            reason = f"the answer has {len(answer)} characters, over {MAX_CHARS}"
            return Verdict(score=0.0, extracted=answer[:MAX_CHARS], reason=reason)
        key = text_key(answer)
        if key and key in {text_key(reference) for reference in self._references(prompt)}:
            return Verdict(score=1.0, extracted=answer, reason=f"{answer!r} is accepted")
        reason = f"{answer!r} is not {prompt.reference!r}"
        return Verdict(score=0.0, extracted=answer, reason=reason)

    def check_reference(self, prompt: Prompt) -> str | None:
        """Say what makes the reference unusable; None where it is fine."""
        problem = unusable_answers(prompt)
        if problem is not None:
            return problem
        if not any(text_key(reference) for reference in self._references(prompt)):
            return "the reference is empty"
        return None

    def _references(self, prompt: Prompt) -> list[str]:
        own, *others = all_references(prompt)
        return [*(own.split(self.separator) if self.separator else [own]), *others]
