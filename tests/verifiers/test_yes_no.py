from __future__ import annotations

import pytest

from sapo_vl.types import Prompt
from sapo_vl.verifiers import YesNoVerifier


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ("yes", True),
        ("Yes.", True),
        ("YES!", True),
        ("**Yes**", True),
        ("True", True),
        ("yes, there is no cat", True),
        ("Yes - it is", True),
        ("The answer is yes.", True),
        ("Answer: yes", True),
        ("It is true.", True),
        (r"\text{Yes}", True),
        ("no", False),
        ("No, it is red", False),
        ("false", False),
        ("The answer is: no", False),
        ("", None),
        ("?", None),
        ("yes or no", None),
        ("yes and no", None),
        ("yes, no", None),
        ("Yes. No.", None),
        ("No cats are there", None),
        ("not true", None),
        ("no-one", None),
        ("maybe", None),
        ("yesterday", None),
        ("nothing", None),
        ("yes" + " " * 3000, True),
        ("yes, " + "a" * 3000, None),
    ],
)
def test_what_an_answer_says(answer: str, says: bool | None) -> None:
    verifier = YesNoVerifier(form="whole")
    for reference, value in (("Yes", True), ("false", False)):
        verdict = verifier(Prompt(reference=reference), answer)
        assert verdict.score == float(says is value)
        assert verdict.status == ("no_answer" if says is None else "ok")


@pytest.mark.parametrize("reference", ["", "maybe", "yes or no", "1"])
def test_an_unusable_reference_is_named(reference: str) -> None:
    verifier = YesNoVerifier(form="whole")
    assert verifier.check_reference(Prompt(reference=reference))
    verdict = verifier(Prompt(reference=reference), reference)
    assert (verdict.score, verdict.status) == (0, "unparsable_reference")


def test_words_of_another_language() -> None:
    verifier = YesNoVerifier(form="whole", yes=("ja",), no=("nein",))
    assert verifier(Prompt(reference="ja"), "Ja, klar").score == 1
    assert verifier(Prompt(reference="ja"), "yes").score == 0
    with pytest.raises(ValueError, match="both yes and no"):
        YesNoVerifier(yes=("ok",), no=("OK",))
