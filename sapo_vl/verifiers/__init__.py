"""Rules that score a response against the reference: training reward and benchmark scorer alike.

Each verifier is one small class: called with a `sapo_vl.types.Prompt` and the response it returns a
`sapo_vl.types.Verdict`, and ``check_reference(prompt)`` says before training what is wrong with a
reference (None: nothing). Reading order: `extraction`, `plain`, one verifier, `batch`.
"""

from sapo_vl.verifiers.choice import ChoiceVerifier
from sapo_vl.verifiers.extraction import FORMS, extract_answer
from sapo_vl.verifiers.math import MathVerifier
from sapo_vl.verifiers.number import NumberVerifier
from sapo_vl.verifiers.text import TextVerifier
from sapo_vl.verifiers.yes_no import YesNoVerifier

VERIFIERS: dict[str, type] = {
    "math": MathVerifier,
    "choice": ChoiceVerifier,
    "number": NumberVerifier,
    "yes_no": YesNoVerifier,
    "text": TextVerifier,
}

__all__ = [
    "FORMS",
    "VERIFIERS",
    "ChoiceVerifier",
    "MathVerifier",
    "NumberVerifier",
    "TextVerifier",
    "YesNoVerifier",
    "extract_answer",
]
