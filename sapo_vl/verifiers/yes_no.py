"""Verifier for questions that are answered by yes or no, true or false."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sapo_vl.types import Prompt, Verdict
from sapo_vl.verifiers.extraction import Form, check_form
from sapo_vl.verifiers.opening import answer_or_verdict
from sapo_vl.verifiers.plain import MAX_CHARS, plain, strip_lead_in

_FIRST_WORD = re.compile(
    r"\W*(\w+)\W*?(?:(?:[.,;:!。(]|\s-\s|(?=\s(?:it|they|there|he|she|we|because|since)\b))(.*))?$",
    re.DOTALL | re.IGNORECASE,
)


@dataclass(frozen=True)
class YesNoVerifier:
    """Accept an answer that says the same as the reference: yes and true are one, no and false.

    The word must stand alone, before punctuation or before "it is" and its kin: "No, it is red"
    says no, "No cats", "yes or no" and "Yes. Actually no." say nothing. An empty answer equals
    nothing.

    Args:
        form: where the response holds its answer, see `extract_answer`.
        thinking: the model reasons before ``</think>``.
        yes: the words for yes.
        no: the words for no.

    Raises:
        ValueError: an unknown form, or a word that means both.
    """

    form: Form = "boxed"
    thinking: bool = False
    yes: tuple[str, ...] = ("yes", "true", "是", "是的", "对", "正确")
    no: tuple[str, ...] = ("no", "false", "否", "不", "不是", "不对", "错误", "没有")

    def __post_init__(self) -> None:
        check_form(self.form)
        both = {w.casefold() for w in self.yes} & {w.casefold() for w in self.no}
        if both:
            raise ValueError(f"{sorted(both)} stands in both yes and no")

    def __call__(self, prompt: Prompt, response: str) -> Verdict:
        """Score ``response`` 1.0 or 0.0."""
        answer = answer_or_verdict(self, prompt, response)
        if isinstance(answer, Verdict):
            return answer
        said = self.read(answer)
        if said is None:
            reason = "the answer says neither yes nor no"
            return Verdict(
                score=0.0, extracted=answer[:MAX_CHARS], status="no_answer", reason=reason
            )
        wanted = self.read(prompt.reference)
        reason = f"says {'yes' if said else 'no'}, the reference {'yes' if wanted else 'no'}"
        return Verdict(score=float(said == wanted), extracted=answer[:MAX_CHARS], reason=reason)

    def check_reference(self, prompt: Prompt) -> str | None:
        """Say what makes the reference unusable; None where it is fine."""
        if self.read(prompt.reference) is None:
            return f"the reference {prompt.reference!r} is neither yes nor no"
        return None

    def read(self, answer: str) -> bool | None:
        """Return True for yes, False for no, None where the answer says neither or both."""
        if len(answer) > MAX_CHARS:
            return None
        text = plain(answer)
        said = self._first(text)
        return self._first(strip_lead_in(text)) if said is None else said

    def _first(self, text: str) -> bool | None:
        match = _FIRST_WORD.match(text)
        if match is None:
            return None
        said = self._word(match[1])
        if said is None:
            return None
        # "Yes. No." hedges, and so does "Yes. Actually no.": no word that ends a clause, or begins
        # the next one, may answer again.
        words = re.findall(r"(?:^\W*(\w+)|\b(\w+)(?=\W*(?:[.,;!?。]|$)))", match[2] or "")
        again = {self._word(first or last) for first, last in words}
        return None if again - {None} else said

    def _word(self, word: str) -> bool | None:
        if word.casefold() in {w.casefold() for w in self.yes}:
            return True
        if word.casefold() in {w.casefold() for w in self.no}:
            return False
        return None
