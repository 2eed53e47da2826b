"""The official scorers of benchmarks, as verifiers; one file per rule.

They answer "what would the benchmark's own script say", oddities included, so that scores can be
compared with published ones. None of them is a training reward: each accepts answers that a policy
would learn to give. What officially is drawn at random counts as wrong here. A response is cut at
the last ``</think>`` first, as the harnesses around the scripts do.
"""

from sapo_vl.verifiers.code import CodeVerifier
from sapo_vl.verifiers.official.chartqa import ChartQAOfficial
from sapo_vl.verifiers.official.docvqa import DocVQAAnls
from sapo_vl.verifiers.official.dynamath import DynaMathOfficial
from sapo_vl.verifiers.official.emma import EmmaFast
from sapo_vl.verifiers.official.livecodebench import LiveCodeBenchOfficial
from sapo_vl.verifiers.official.matharena import MathArenaOfficial
from sapo_vl.verifiers.official.mathvision import MathVisionOfficial
from sapo_vl.verifiers.official.mathvista import MathVistaOfficial
from sapo_vl.verifiers.official.mmmu import MMMUOfficial
from sapo_vl.verifiers.official.puzzlevqa import PuzzleVQAOfficial
from sapo_vl.verifiers.official.refcoco import RefCOCOOfficial
from sapo_vl.verifiers.official.visulogic import VisuLogicOfficial
from sapo_vl.verifiers.official.wemath import WeMathOfficial
from sapo_vl.verifiers.official.zebralogic import ZebraLogicOfficial

OFFICIAL: dict[str, type] = {
    "mathvision_official": MathVisionOfficial,
    "mathvista_official": MathVistaOfficial,
    "mmmu_official": MMMUOfficial,
    "chartqa_official": ChartQAOfficial,
    "docvqa_anls": DocVQAAnls,
    "emma_fast": EmmaFast,
    "zebralogic": ZebraLogicOfficial,
    "livecodebench": LiveCodeBenchOfficial,
    "refcoco": RefCOCOOfficial,
    "dynamath_official": DynaMathOfficial,
    "visulogic_official": VisuLogicOfficial,
    "wemath_official": WeMathOfficial,
    "matharena_official": MathArenaOfficial,
    "puzzlevqa_official": PuzzleVQAOfficial,
}
EXTRA: dict[str, type] = {"code": CodeVerifier}

__all__ = [
    "EXTRA",
    "OFFICIAL",
    "ChartQAOfficial",
    "CodeVerifier",
    "DocVQAAnls",
    "DynaMathOfficial",
    "EmmaFast",
    "LiveCodeBenchOfficial",
    "MMMUOfficial",
    "MathArenaOfficial",
    "MathVisionOfficial",
    "MathVistaOfficial",
    "PuzzleVQAOfficial",
    "RefCOCOOfficial",
    "VisuLogicOfficial",
    "WeMathOfficial",
    "ZebraLogicOfficial",
]
