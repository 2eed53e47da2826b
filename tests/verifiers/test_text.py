from __future__ import annotations

from typing import Any

import pytest

from sapo_vl.types import Prompt
from sapo_vl.verifiers import TextVerifier


def score(answer: str, reference: str, **meta: Any) -> float:
    verdict = TextVerifier(form="whole")(Prompt(reference=reference, meta=meta), answer)
    assert verdict.status in ("ok", "no_answer")
    return verdict.score


@pytest.mark.parametrize(
    "answer",
    [
        "red ball",
        "Red Ball",
        "a red ball",
        "The red  ball.",
        "**red ball**",
        '"red ball"',
        r"\text{red ball}",
        "\uff52\uff45\uff44 ball",
        "red\nball",
    ],
)
def test_accepted(answer: str) -> None:
    assert score(answer, "red ball") == 1


@pytest.mark.parametrize(
    "answer",
    ["", ".", "red", "ball", "red balls", "not a red ball", "red ball, blue ball", "a" * 9000],
)
def test_rejected(answer: str) -> None:
    assert score(answer, "red ball") == 0


def test_articles_and_punctuation_may_be_all_there_is() -> None:
    assert score("A", "a") == 1
    assert score("?", "?") == 1
    assert score("!", "?") == 0
    assert score("cafe", "CAFE") == 1
    assert score("STRASSE", "stra\u00dfe") == 1


def test_several_references() -> None:
    assert score("grey", "gray", answers=["grey", "silver"]) == 1
    assert score("gray", "gray", answers=["grey"]) == 1
    assert score("black", "gray", answers=["grey"]) == 0
    prompt = Prompt(reference="gray|grey")
    assert TextVerifier(form="whole", separator="|")(prompt, "Grey").score == 1
    assert TextVerifier(form="whole", separator="|")(prompt, "gray|grey").score == 0
    assert TextVerifier(form="whole")(prompt, "Grey").score == 0
    assert TextVerifier(form="whole", separator="|")(Prompt(reference="gray|"), " ").score == 0


@pytest.mark.parametrize(
    ("reference", "meta"),
    [("", {}), (" ", {}), ("red", {"answers": "red"}), ("red", {"answers": [1]})],
)
def test_an_unusable_reference_is_named(reference: str, meta: dict[str, Any]) -> None:
    verifier = TextVerifier(form="whole")
    prompt = Prompt(reference=reference, meta=meta)
    assert verifier.check_reference(prompt)
    verdict = verifier(prompt, reference)
    assert (verdict.score, verdict.status) == (0, "unparsable_reference")


def test_an_empty_separator_is_refused() -> None:
    with pytest.raises(ValueError, match="separator"):
        TextVerifier(separator="")
