"""Rules that score a response against the reference: training reward and benchmark scorer alike.

Each verifier is one small class: called with a `sapo_vl.types.Prompt` and the response it returns a
`sapo_vl.types.Verdict`, and ``check_reference(prompt)`` says before training what is wrong with a
reference (None: nothing). Reading order: `extraction`, `plain`, one verifier, `combined`, `runner`,
`batch`.
"""

from sapo_vl.verifiers.anls import AnlsVerifier
from sapo_vl.verifiers.beside import BesideVerifier
from sapo_vl.verifiers.boxes import BoxVerifier
from sapo_vl.verifiers.by_field import ByFieldVerifier
from sapo_vl.verifiers.by_options import ByOptionsVerifier
from sapo_vl.verifiers.chart import ChartVerifier
from sapo_vl.verifiers.choice import ChoiceVerifier
from sapo_vl.verifiers.combined import CombinedVerifier
from sapo_vl.verifiers.extraction import FORMS, extract_answer
from sapo_vl.verifiers.format import FormatVerifier
from sapo_vl.verifiers.grid import GridVerifier
from sapo_vl.verifiers.language import LanguagePenalty
from sapo_vl.verifiers.math import MathVerifier
from sapo_vl.verifiers.number import NumberVerifier
from sapo_vl.verifiers.official import EXTRA, OFFICIAL
from sapo_vl.verifiers.overlong import OverlongPenalty
from sapo_vl.verifiers.points import PointVerifier
from sapo_vl.verifiers.repetition import RepetitionPenalty
from sapo_vl.verifiers.runner import VerifierPool
from sapo_vl.verifiers.text import TextVerifier
from sapo_vl.verifiers.yes_no import YesNoVerifier

# The training rules, by the names of scripts/verify.py; then the code sandbox and the official
# rules of benchmarks, which name themselves.
TRAINING: dict[str, type] = {
    "math": MathVerifier,
    "choice": ChoiceVerifier,
    "number": NumberVerifier,
    "yes_no": YesNoVerifier,
    "text": TextVerifier,
    "box": BoxVerifier,
    "point": PointVerifier,
    "grid": GridVerifier,
    "anls": AnlsVerifier,
    "chart": ChartVerifier,
    "format": FormatVerifier,
}
VERIFIERS: dict[str, type] = TRAINING | EXTRA | OFFICIAL

__all__ = [
    "EXTRA",
    "FORMS",
    "OFFICIAL",
    "TRAINING",
    "VERIFIERS",
    "AnlsVerifier",
    "BesideVerifier",
    "BoxVerifier",
    "ByFieldVerifier",
    "ByOptionsVerifier",
    "ChartVerifier",
    "ChoiceVerifier",
    "CombinedVerifier",
    "FormatVerifier",
    "GridVerifier",
    "LanguagePenalty",
    "MathVerifier",
    "NumberVerifier",
    "OverlongPenalty",
    "PointVerifier",
    "RepetitionPenalty",
    "TextVerifier",
    "VerifierPool",
    "YesNoVerifier",
    "extract_answer",
]
