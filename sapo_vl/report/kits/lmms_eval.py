"""lmms-eval's own scoring over the logs that we exported.

The kit's tasks are not built, since that downloads their data: their functions get the exported
document and response, stripped as the kit strips it. Where a judge would extract the answer, our
extraction stands in for what it says.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sapo_vl.report.kits.outcome import Item, Outcome

_STAND_IN = "our extraction in place of the judge's"
_Score = Callable[[Mapping[str, Any], str, str], float]  # document, response, our extraction


@dataclass(frozen=True, slots=True)
class _Check:
    """How one of the kit's tasks scores; ``rule`` says which of our scores says the same."""

    score: _Score
    rule: str = "score"
    note: str = ""


def check_lmms_eval(kit: Path, files: Mapping[str, Path]) -> Iterator[Outcome]:
    """Let the kit score exported logs.

    Args:
        kit: a checkout of lmms-eval, or the folder that holds the installed package; its
            dependencies must be installed.
        files: name of the kit's task -> exported ``samples_<task>.jsonl``.

    Raises:
        ImportError: the kit cannot be imported.
        ValueError: the kit's model ``from_log`` gives other responses than the log holds.
    """
    sys.path.insert(0, str(kit))
    # Modules of tasks with a judge make a client at import; it is never asked anything.
    for name in ("OPENAI_API_KEY", "AZURE_OPENAI_API_KEY"):
        os.environ.setdefault(name, "none")
    os.environ.setdefault("API_TYPE", "openai")
    for name, file in files.items():
        lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        _check_replay(name, file, lines)
        for check in _CHECKS.get(name, ()):
            items = [_item(check, line) for line in lines]
            yield Outcome(
                kit="lmms-eval",
                task=name,
                file=file.name,
                rule=check.rule,
                total=sum(item.kit for item in items) / len(items),
                items=items,
                note=check.note,
            )


def _item(check: _Check, line: Mapping[str, Any]) -> Item:
    response = line["resps"][0][0].strip()
    ours = line["scores"][0] if check.rule == "score" else line["parts"][0][check.rule]
    score = check.score(line["doc"], response, line["filtered_resps"][0])
    return Item(sample=line["sample"], ours=ours, kit=float(score), response=response)


def _check_replay(name: str, file: Path, lines: Sequence[Mapping[str, Any]]) -> None:
    """The model ``from_log`` must find each document's response in the file beside the log."""
    from_log = _module("models.simple.from_log")
    if not file.with_name(f"from_log_{name}.json").is_file():
        return
    found = from_log.FromLog(logs=str(file.parent)).logs.get(name, {}).get("logs", {})
    wrong = [x["doc_id"] for x in lines if found.get(x["doc_id"], [None])[0] != x["resps"][0][0]]
    if wrong:
        raise ValueError(f"{file.name}: from_log has no or another response for {wrong[:5]}")


def _module(name: str) -> Any:
    return importlib.import_module(f"lmms_eval.{name}")


def _mathvision(doc: Mapping[str, Any], response: str, extracted: str) -> float:
    result = _module("tasks.mathvision.utils").mathvision_process_results(doc, [response])
    return float(result["mathvision_standard_eval"]["scores"][0])


def _mathvista(doc: Mapping[str, Any], response: str, extracted: str) -> float:
    module = _module("tasks.mathvista.utils")
    module.mathvista_evaluator.get_chat_response = lambda *_, **__: extracted
    return float(
        module.mathvista_process_results(doc, [response])["llm_as_judge_eval"]["true_false"]
    )


def _chartqa(doc: Mapping[str, Any], response: str, extracted: str) -> float:
    result = _module("tasks.chartqa.utils").chartqa_process_results(doc, [response])
    return float(result["relaxed_overall"])


def _docvqa(doc: Mapping[str, Any], response: str, extracted: str) -> float:
    return float(_module("api.metrics").anls(doc["answers"], [response])["anls"])


def _mmmu(doc: Mapping[str, Any], response: str, extracted: str) -> float:
    module = _module("tasks.mmmu.utils")
    result = module.mmmu_process_results(doc, [response])["mmmu_acc"]
    return float(module.evaluate_mmmu([result])[1]["acc"])


def _mmmu_pro(doc: Mapping[str, Any], response: str, extracted: str) -> float:
    module = _module("tasks.mmmu_pro.utils")
    result = module.mmmu_pro_process_results(doc, [response])["mmmu_acc"]
    return float(module.evaluate_mmmu([result])[1]["acc"])


def _countbench(doc: Mapping[str, Any], response: str, extracted: str) -> float:
    result = _module("tasks.countbenchqa.utils").countbenchqa_process_results(doc, [response])
    return float(result["acc"])


def _visulogic(doc: Mapping[str, Any], response: str, extracted: str) -> float:
    hub: Any = importlib.import_module("huggingface_hub")
    # The task's module fetches the pictures when it is imported; scoring needs none.
    hub.snapshot_download = lambda *_, **__: tempfile.gettempdir()
    result = _module("tasks.visulogic.utils").visulogic_process_results(doc, [response])
    return float(result["visulogic_acc"])


def _emma(doc: Mapping[str, Any], response: str, extracted: str) -> float:
    module = _module("tasks.emma.utils")
    return float(module.is_equal(module.fast_extract_answer(response), doc["answer"]))


def _grounding(metric: str) -> _Score:
    def score(doc: Mapping[str, Any], response: str, extracted: str) -> float:
        from PIL import Image

        module = _module("tasks.refcoco_grounding.utils")
        whole = {**doc, "image": Image.new("1", tuple(doc["size"]))}
        result = module.refcoco_grounding_process_result(whole, [response])
        return float(module._aggregate([result[f"refcoco_grounding_{metric}"]], metric))

    return score


_MATHVISION = [_Check(_mathvision)]
_GROUNDING = [
    _Check(_grounding("ACC@0.5"), note="refcoco_grounding"),
    _Check(_grounding("IoU"), rule="iou", note="refcoco_grounding"),
]
_CHECKS: dict[str, list[_Check]] = {
    "mathvision_test": _MATHVISION,
    "mathvision_testmini": _MATHVISION,
    "mathvista_testmini_format": [_Check(_mathvista, note=_STAND_IN)],
    "chartqa": [_Check(_chartqa)],
    "docvqa_val": [_Check(_docvqa)],
    "mmmu_val": [_Check(_mmmu, note="the kit draws an option where it finds none")],
    "mmmu_pro_standard_cot": [
        _Check(_mmmu_pro, note="the kit draws an option where it finds none")
    ],
    "mmmu_pro_vision_cot": [_Check(_mmmu_pro, note="the kit compares the whole response")],
    "countbenchqa": [_Check(_countbench, rule="exact")],
    "visulogic": [_Check(_visulogic, note="the kit's own patterns, not the authors' rule")],
    "emma": [_Check(_emma, note="the kit's rule; by default it asks a judge")],
    "refcoco_val": _GROUNDING,
    "refcoco_testA": _GROUNDING,
    "refcoco_testB": _GROUNDING,
    "refcoco_plus_val": _GROUNDING,
    "refcoco_plus_testA": _GROUNDING,
    "refcoco_plus_testB": _GROUNDING,
    "refcocog_val": _GROUNDING,
    "refcocog_test": _GROUNDING,
}
