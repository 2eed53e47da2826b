"""Reads the collected hard cases and says how each is judged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sapo_vl.protocols import Verifier
from sapo_vl.types import Prompt
from sapo_vl.verifiers import (
    AnlsVerifier,
    BoxVerifier,
    ChartVerifier,
    ChoiceVerifier,
    FormatVerifier,
    GridVerifier,
    MathVerifier,
    NumberVerifier,
)
from sapo_vl.verifiers.records import as_prompt

CASES = Path(__file__).resolve().parents[2].parent / "shared" / "cases" / "verifier_cases.jsonl"
KINDS: dict[str, type] = {
    "math": MathVerifier,
    "robust": MathVerifier,
    "mcq": ChoiceVerifier,
    "mcq_multi": ChoiceVerifier,
    "number": NumberVerifier,
    "chart": ChartVerifier,
    "anls": AnlsVerifier,
    "bbox": BoxVerifier,
    "zebra": GridVerifier,
    "format": FormatVerifier,
}


def load() -> list[dict[str, Any]]:
    return [case for case in load_all() if case["kind"] in KINDS]


def load_all() -> list[dict[str, Any]]:
    if not CASES.is_file():
        return []
    return [json.loads(line) for line in CASES.read_text(encoding="utf-8").splitlines()]


def response_of(case: dict[str, Any]) -> str:
    if "prediction_parts" in case:
        return "".join(text * times for text, times in case["prediction_parts"])
    return case["prediction"]


def form_of(case: dict[str, Any], response: str) -> str:
    """Return where the case's prompt asked for the answer, as its text shows."""
    if case["kind"] in ("math", "robust", "format"):
        return "boxed"
    if case["kind"] in ("chart", "anls", "bbox", "zebra"):
        return "whole"
    if "answer:" in response.lower():  # before the box: vc-186 has both and the line decides
        return "answer_line"
    return "boxed" if r"\boxed" in response else "whole"


def verifier_of(case: dict[str, Any]) -> Verifier:
    more = {"coords": case["coords"]} if case["kind"] == "bbox" else {}
    verifier: Verifier = KINDS[case["kind"]](form=form_of(case, response_of(case)), **more)
    return verifier


def prompt_of(case: dict[str, Any]) -> Prompt:
    prompt = as_prompt({**case, "response": ""})
    return Prompt(
        reference=prompt.reference,
        options=prompt.options,
        meta=prompt.meta,
        verifier=verifier_of(case),
    )
