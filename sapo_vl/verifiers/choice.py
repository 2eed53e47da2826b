"""Verifier for multiple choice: the label decides, the text of an option where it is unique."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

from sapo_vl.types import Prompt, Verdict
from sapo_vl.verifiers.extraction import Form, check_form, extract_answer
from sapo_vl.verifiers.numerals import bare_number
from sapo_vl.verifiers.plain import MAX_CHARS, plain, strip_lead_in, strip_trailing
from sapo_vl.verifiers.text import text_key

_SEPARATOR = re.compile(r"\s*(?:[,;/&、]|\band\b)\s*|\s+")
_BRACKETED = re.compile(r"[(\[]\s*(\w+)\s*[)\]]")
_LABEL_FIRST = re.compile(r"(?:[(\[]\s*(\w+)\s*[)\]]|(\w+)\s*[.:)](?!\d))\s*(.*)", re.DOTALL)
_HEDGE = re.compile(r"(?:or|and)?\W*(\w+)\s*(?:[)\].:,;]|$)", re.IGNORECASE)


@dataclass(frozen=True)
class ChoiceVerifier:
    """Accept an answer that names exactly the reference's option or options.

    Read as a label: ``B``, ``(B)``, ``B.``, ``b``, full-width, ``B: its text``, after "The answer
    is"; several labels (``B, D`` or ``BD``) are a set, whose order is free. An option's text counts
    where no label is named and no other option has the same text or value. Labels win over option
    texts that look like labels. An answer that names nothing, or hedges, scores 0; no option is
    ever drawn.

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
        problem = self.check_reference(prompt)
        if problem is not None:
            return Verdict(score=0.0, status="unparsable_reference", reason=problem)
        answer = extract_answer(response, self.form, self.thinking)
        if answer is None:
            return Verdict(score=0.0, status="no_answer", reason=f"no answer of form {self.form}")
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


def read_choice(answer: str, options: dict[str, str]) -> frozenset[str]:
    """Return the labels that ``answer`` names; empty where it names none or hedges."""
    if len(answer) > MAX_CHARS:
        return frozenset()
    text = plain(answer)
    folded = {plain(label).casefold(): label for label in options}
    return _read(text, folded, options) or _read(strip_lead_in(text), folded, options)


def _read(text: str, folded: dict[str, str], options: dict[str, str]) -> frozenset[str]:
    return (
        _only_labels(text, folded)
        or _label_first(text, folded, options)
        or _option_text(text, options)
    )


def _only_labels(text: str, folded: dict[str, str]) -> frozenset[str]:
    tokens = [token for token in _SEPARATOR.split(strip_trailing(text)) if token]
    if len(tokens) == 1 and len(tokens[0]) > 1 and tokens[0].isupper():
        run = [folded.get(char.casefold()) for char in tokens[0]]
        if tokens[0].casefold() not in folded and len(set(run)) == len(run):
            tokens = list(tokens[0])
    found = [folded.get(token.strip("()[].:").casefold()) for token in tokens]
    return frozenset(label for label in found if label is not None) if all(found) else frozenset()


def _label_first(text: str, folded: dict[str, str], options: dict[str, str]) -> frozenset[str]:
    match = _LABEL_FIRST.match(text)
    label = folded.get((match[1] or match[2]).casefold()) if match else None
    if match is None or label is None:
        return frozenset()
    rest = match[3].strip()
    key = _text_key(rest)
    same_text = {other for other, option in options.items() if option and _text_key(option) == key}
    if same_text:
        return frozenset({label}) if label in same_text else frozenset()
    others = {folded.get(word.casefold()) for word in _BRACKETED.findall(rest)}
    # Not where its own text goes on: "(D) B, D and F are turning" for the option "B, D and F".
    own = text_key(options[label])
    hedge = None if own and text_key(rest).startswith(f"{own} ") else _HEDGE.match(rest)
    others |= {folded.get(hedge[1].casefold())} if hedge else set()
    return frozenset() if others - {label, None} else frozenset({label})


def _option_text(text: str, options: dict[str, str]) -> frozenset[str]:
    key = _text_key(text)
    same = [label for label, option in options.items() if option and _text_key(option) == key]
    return frozenset(same) if len(same) == 1 else frozenset()


def _text_key(text: str) -> Fraction | str:
    number = bare_number(strip_trailing(text))
    return text_key(text) if number is None else number


def _list(labels: frozenset[str]) -> str:
    return ", ".join(sorted(labels))
