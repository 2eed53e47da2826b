from __future__ import annotations

import base64
import hashlib
import random
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import report_run
from PIL import Image

from sapo_vl.report import Limits, build_report


class Page(HTMLParser):
    """The tags, attributes and text of a page, as a browser would see them."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def count(self, tag: str, cls: str = "") -> int:
        return sum(
            t == tag and (not cls or cls in (a.get("class") or "").split()) for t, a in self.tags
        )


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return report_run.write_run(tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="module")
def html(run: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> str:
    return build_report(tmp_path_factory.mktemp("out"), **run).read_text(encoding="utf-8")


def test_headline_says_the_outcome_in_words(html: str) -> None:
    text = Page(html).text
    assert "Test accuracy rose from 38.0% to 66.0%" in text
    assert "+28.0 percentage points (95% interval +23.1 to +32.7)" in text
    assert "Test prompts 400" in text
    assert "2.13M parameters" in text


def test_table_has_every_task_and_sampling(html: str) -> None:
    page = Page(html)
    assert page.count("table", "results") == 2
    for task in report_run.TASKS:
        assert task in page.text
    assert page.count("svg", "interval") == 2 * (len(report_run.TASKS) + 1)
    assert html.index("<b>avg4</b>") < html.index("<b>greedy</b>")


def test_curves_have_titles_explanations_and_descriptions(html: str) -> None:
    page = Page(html)
    assert "sech²" in page.text
    assert "Gate weight by advantage sign" in page.text
    charts = [attrs for tag, attrs in page.tags if tag == "svg" and attrs.get("class") == "chart"]
    assert len(charts) >= 15
    assert all(attrs["role"] == "img" and "from" in (attrs["aria-label"] or "") for attrs in charts)


def test_gallery_puts_tests_side_by_side_and_flips_first(html: str) -> None:
    page = Page(html)
    items = [attrs for tag, attrs in page.tags if attrs.get("class") == "item"]
    assert (items[0]["data-tags"] or "").startswith("fixed")
    first = html[html.index('<article class="item"') :]
    first = first[: first.index("</article>")]
    assert first.count('class="column"') == 2
    assert first.count("<img ") == 1
    assert "Verifier:" in first


def test_page_loads_nothing(html: str) -> None:
    loads = re.findall(r'(?:src|href|action|data|poster|srcset)="([^"]*)"', html)
    assert loads
    assert all(value.startswith(("#", "data:image/")) for value in loads)
    assert not re.search(r"@import|url\(|https?://", html)
    assert ' style="' not in html


def test_policy_admits_exactly_our_script_and_style(html: str) -> None:
    match = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', html)
    assert match
    policy = match[1].replace("&#39;", "'")
    assert policy.startswith("default-src 'none'")
    for tag in ("script", "style"):
        bodies = re.findall(f"<{tag}>(.*?)</{tag}>", html, re.DOTALL)
        assert len(bodies) == 1
        digest = base64.b64encode(hashlib.sha256(bodies[0].encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy


def test_hostile_text_stays_text(tmp_path: Path) -> None:
    evil = "</pre></script><script>alert(1)</script><img src=x onerror=alert(2)>\u202e\x00\ud800"
    folder = tmp_path / 'test"><script>alert(3)</script>'
    quote = '" onmouseover="alert(4)'
    line = {
        "task": evil + quote,
        "key": evil,
        "question": evil,
        "options": {evil: evil},
        "images": [],
        "reference": evil,
        "sampling": evil,
        "responses": [
            {
                "text": evil,
                "score": 0,
                "extracted": evil,
                "status": evil,
                "reason": evil,
                "length": 1,
            }
        ],
    }
    report_run.write_test(folder, 0.5, evil)
    report_run.write_samples(folder, [line])
    report_run.write_metrics(folder, [{"step": 1, f"reward/{evil[:-1]}": 0.5, "eval/<b>/<i>": 0.1}])
    (folder / "config.yaml").write_text("a: </pre><script>alert(5)</script>")
    path = build_report(
        tmp_path, title=evil, stages={evil: folder}, tests={evil: folder}, summary={evil: evil}
    )
    page = Page(path.read_text(encoding="utf-8"))
    assert page.count("script") == 1
    assert page.count("img") == 0
    assert not any(name.startswith("on") for _, attrs in page.tags for name in attrs)
    assert "<script>alert(1)</script>" in page.text
    assert "\x00" not in page.text


def test_images_outside_the_folder_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "test"
    line = {"task": "t", "key": "k", "responses": [{"text": "x", "score": 1}]}
    (tmp_path / "secret.png").write_bytes(b"\x89PNG\r\n\x1a\nsecret")
    names = ["../secret.png", str(tmp_path / "secret.png"), "missing.png", "not_an_image.png"]
    report_run.write_samples(folder, [line | {"images": names}])
    (folder / "not_an_image.png").write_text("<svg onload=alert(1)>")
    page = Page(_build(tmp_path, tests={"test": folder}))
    assert page.count("img") == 0
    assert page.text.count("is not embedded") == len(names)


def test_limits_hold(run: dict[str, Any], tmp_path: Path) -> None:
    limits = Limits(test_prompts=8, train_prompts=3, images=5, image_bytes=20_000)
    page = Page(build_report(tmp_path, **run, limits=limits).read_text(encoding="utf-8"))
    assert page.count("article", "item") == 8 + 3
    assert page.count("img") <= 5
    for task in report_run.TASKS:
        assert any(attrs.get("data-task") == task for _, attrs in page.tags)


def test_large_images_are_shrunk(tmp_path: Path) -> None:
    folder = tmp_path / "test"
    (folder / "images").mkdir(parents=True)
    noise = Image.frombytes("RGB", (1000, 800), random.Random(0).randbytes(1000 * 800 * 3))
    noise.save(folder / "images" / "big.png")
    line = {"key": "k", "images": ["images/big.png"], "responses": [{"text": "x", "score": 1}]}
    report_run.write_samples(folder, [line])
    html = _build(tmp_path, tests={"test": folder})
    assert "data:image/jpeg;base64," in html
    assert len(html) < 700_000


def test_nothing_at_all(tmp_path: Path) -> None:
    page = Page(_build(tmp_path, stages={"sapo": tmp_path / "no"}, tests={"test": tmp_path / "no"}))
    assert "metrics.csv is missing." in page.text
    assert "metrics.json is missing." in page.text
    assert "There are no test scores" in page.text
    assert page.count("svg", "chart") == 0


def test_damaged_files_are_told_and_the_rest_is_kept(tmp_path: Path) -> None:
    folder = tmp_path / "sapo"
    report_run.write_metrics(folder, [{"step": 1, "policy/entropy": 0.5}])
    with (folder / "metrics.csv").open("a") as file:
        file.write("2,nan\n3,0.25\nbroken")
    good = '{"key": "k", "question": "kept", "responses": [{"text": "a", "score": 1}]}'
    (folder / "samples.jsonl").write_text(good + "\n{oops\n[1]\n" + "[" * 100_000)
    (folder / "metrics.json").write_text("{")
    text = Page(_build(tmp_path, stages={"sapo": folder}, tests={"test": folder})).text
    assert "3 unreadable line(s); line 2 is not valid JSON" in text
    assert "metrics.json is not valid JSON" in text
    assert "NaN or infinite values in policy/entropy (1 times)" in text
    assert "entropy 0.25" in text
    assert "kept" in text


def test_only_charts_with_data_are_shown(tmp_path: Path) -> None:
    folder = tmp_path / "sft"
    report_run.write_metrics(folder, [{"step": i, "sft/loss": 1 / (i + 1)} for i in range(5)])
    page = Page(_build(tmp_path, stages={"sft": folder}))
    assert page.count("svg", "chart") == 1
    assert "Imitation loss" in page.text
    assert "Entropy" not in page.text


def test_one_test_without_summary(tmp_path: Path) -> None:
    report_run.write_test(tmp_path / "t", 0.5, "only")
    text = Page(_build(tmp_path, tests={"only": tmp_path / "t"})).text
    assert "50.0% of the test answers are right (95% interval 45.1% to 54.9%)" in text
    assert "Change" not in text


def test_a_change_within_its_interval_is_not_sold_as_one(tmp_path: Path) -> None:
    for name, skill in (("a", 0.5), ("b", 0.52)):
        report_run.write_test(tmp_path / name, skill, name)
    text = Page(_build(tmp_path, tests={n: tmp_path / n for n in ("a", "b")})).text
    assert "The interval includes 0" in text
    assert "1 of 10 settings differ" in text


def test_out_may_name_the_file(tmp_path: Path) -> None:
    path = build_report(tmp_path / "x" / "a.html", title="t", stages={}, tests={}, summary=None)
    assert path == tmp_path / "x" / "a.html"
    assert [p.name for p in path.parent.iterdir()] == ["a.html"]


def _build(tmp_path: Path, **kwargs: Any) -> str:
    given = {"title": "t", "stages": {}, "tests": {}, "summary": None, **kwargs}
    return build_report(tmp_path / "out", **given).read_text(encoding="utf-8")
