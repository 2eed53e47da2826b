"""Put the report together and write it as one HTML file."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from sapo_vl.report.breakdown import make_breakdowns
from sapo_vl.report.checks import Check, run_checks
from sapo_vl.report.curves import draw_panels
from sapo_vl.report.gallery import evaluation_gallery, training_gallery
from sapo_vl.report.images import ImageBudget
from sapo_vl.report.load import load_evaluation, load_stage
from sapo_vl.report.records import Chart, Evaluation, Stage
from sapo_vl.report.results import make_headline, make_tables
from sapo_vl.report.scale import DASH

CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What keeps the page small: prompts per gallery, and images over the whole page."""

    test_prompts: int = 60
    train_prompts: int = 24
    images: int = 160
    image_bytes: int = 6_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class StageView:
    """A stage as the template takes it: charts by group."""

    stage: Stage
    groups: Mapping[str, Sequence[Chart]]
    checks: Sequence[Check]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting with its value in every test; ``differs`` when they are not all equal."""

    name: str
    values: tuple[str, ...]
    differs: bool


def build_report(
    out: Path,
    *,
    title: str,
    stages: Mapping[str, Path],
    tests: Mapping[str, Path],
    summary: Mapping[str, Any] | None,
    limits: Limits | None = None,
) -> Path:
    """Write the report of a run as one HTML file that loads nothing from elsewhere.

    A missing or damaged input becomes a sentence in the report, never an exception.

    Args:
        out: the file to write (``*.html``), or a folder, which gets ``report.html``.
        title: the name of the run.
        stages: folders of training stages by name, in the order they ran.
        tests: folders of test results by name; the first is "before", the last "after".
        summary: what summary.json holds, where there is one.
        limits: how much of the answers and images to show.

    Returns:
        The file written.

    Raises:
        OSError: the file cannot be written.
    """
    limits = limits or Limits()
    trained = [load_stage(name, Path(folder)) for name, folder in stages.items()]
    tested = [load_evaluation(name, Path(folder)) for name, folder in tests.items()]
    page = _render(title, trained, tested, summary or {}, limits)
    path = Path(out)
    path = path if path.suffix == ".html" else path / "report.html"
    return write_whole(path, page)


def _render(
    title: str,
    stages: Sequence[Stage],
    tests: Sequence[Evaluation],
    summary: Mapping[str, Any],
    limits: Limits,
) -> str:
    budget = ImageBudget(count=limits.images, size=limits.image_bytes)
    # Tests first: their images matter most, should the budget run out.
    galleries = [evaluation_gallery(tests, most=limits.test_prompts, budget=budget)]
    galleries += [training_gallery(s, most=limits.train_prompts, budget=budget) for s in stages]
    return render(
        "report.html.jinja",
        title=title,
        headline=make_headline(tests, summary),
        tests=tests,
        tables=make_tables(tests),
        breakdowns=make_breakdowns(tests),
        stages=[_view(stage) for stage in stages],
        galleries=[gallery for gallery in galleries if gallery is not None],
        settings=make_settings(tests),
        summary=json.dumps(summary, indent=2, default=str) if summary else "",
    )


def render(template: str, **values: Any) -> str:
    """Fill a template of this folder with values; style and script come with it."""
    css, js = (_asset(name) for name in ("report.css", "report.js"))
    environment = Environment(
        loader=PackageLoader("sapo_vl.report", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_clean,
    )
    return environment.get_template(template).render(
        css=Markup(css), js=Markup(js), policy=_policy(css, js), **values
    )


def write_whole(path: Path, text: str) -> Path:
    """Write a file so that a reader never meets half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    part.write_bytes(text.encode("utf-8", "replace"))
    return part.replace(path)


def _asset(name: str) -> str:
    return resources.files("sapo_vl.report").joinpath(name).read_text(encoding="utf-8")


def _policy(css: str, js: str) -> str:
    """A content security policy that admits our own script and style by hash, and data images."""
    style, script = (
        base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (css, js)
    )
    return (
        f"default-src 'none'; img-src data:; style-src 'sha256-{style}'; "
        f"script-src 'sha256-{script}'; base-uri 'none'; form-action 'none'"
    )


def _clean(value: Any) -> Any:
    """Drop characters that HTML cannot hold; a model may write any of them."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return CONTROL.sub("\ufffd", value)
    return Markup(CONTROL.sub("\ufffd", value)) if isinstance(value, Markup) else value


def _view(stage: Stage) -> StageView:
    groups: dict[str, list[Chart]] = {}
    for chart in draw_panels(stage.metrics, stage.config):
        groups.setdefault(chart.group, []).append(chart)
    return StageView(stage=stage, groups=groups, checks=run_checks(stage.metrics))


def make_settings(tests: Sequence[Evaluation]) -> list[Setting]:
    """Every setting of every test, those first that differ: they decide what may be compared."""
    tables = [dict(_flat(test.settings)) for test in tests]
    names = dict.fromkeys(name for table in tables for name in table)
    rows = []
    for name in names:
        values = tuple(table.get(name, DASH) for table in tables)
        rows.append(Setting(name=name, values=values, differs=len(set(values)) > 1))
    return sorted(rows, key=lambda row: not row.differs)


def _flat(value: Any, name: str = "") -> list[tuple[str, str]]:
    """Nested settings as (dotted name, value)."""
    if isinstance(value, Mapping) and value:
        pairs = value.items()
        return [x for k, v in pairs for x in _flat(v, f"{name}.{k}" if name else str(k))]
    return [(name, value if isinstance(value, str) else json.dumps(value))] if name else []
