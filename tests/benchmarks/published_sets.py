"""A few rows of each benchmark, in files of exactly the published layout.

``SETS[file of configs/eval][source]`` writes the files and gives the ``--data`` of make_shards.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import published_mathematics as mathematics
import published_reading as reading
import published_reasoning as reasoning

SETS: dict[str, dict[str, Callable[[Path], Path]]] = {
    "mathvision": {"mathvision": mathematics.mathvision("test")},
    "mathvision_testmini": {"mathvision": mathematics.mathvision("testmini")},
    "mathvista": {"mathvista": mathematics.mathvista},
    "mathverse": {"mathverse": mathematics.mathverse},
    "mmmu": {"mmmu": reasoning.mmmu},
    "mmmu_pro": {
        "mmmu_pro_4": reasoning.mmmu_pro(4),
        "mmmu_pro_10": reasoning.mmmu_pro(10),
        "mmmu_pro_vision": reasoning.mmmu_pro_vision,
    },
    "wemath": {"wemath": mathematics.wemath},
    "logicvista": {"logicvista": reasoning.logicvista},
    "dynamath": {"dynamath": mathematics.dynamath},
    "visulogic": {"visulogic": reasoning.visulogic},
    "emma": {"emma": reasoning.emma},
    "chartqa": {"chartqa": reading.chartqa},
    "docvqa": {"docvqa": reading.docvqa},
    "countbench": {"countbench": reading.countbench},
    "refcoco": {
        "RefCOCO": reading.refcoco("val", "testA", "testB"),
        "RefCOCOplus": reading.refcoco("val", "testA", "testB"),
        "RefCOCOg": reading.refcoco("val", "test"),
    },
    "geometry3k": {"geometry3k": mathematics.geometry3k},
    "puzzlevqa": {"puzzlevqa": reasoning.puzzle},
    "algopuzzlevqa": {"algopuzzlevqa": reasoning.puzzle},
    "aime24": {"aime24": mathematics.matharena("70")},
    "aime25": {"aime25": mathematics.matharena("70")},
    "hmmt25": {"hmmt25": mathematics.matharena(r"\frac{1}{3}")},
    "beyondaime": {"beyondaime": mathematics.beyondaime},
    "math500": {"math500": mathematics.math500},
    "gsm8k": {"gsm8k": mathematics.gsm8k},
    "zebralogic": {"zebralogic": reasoning.zebralogic},
    "livecodebench_v6": {"livecodebench": reasoning.livecodebench},
}
