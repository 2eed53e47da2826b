"""The page in a real browser: its script runs under its own policy, and something is drawn."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import report_run
from PIL import Image

from sapo_vl.report import build_report

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
]
PROBE = """<script>
const chart = document.querySelector("figure[data-synced] svg.chart");
const box = chart.getBoundingClientRect();
const at = {clientX: box.left + box.width * 0.1, clientY: box.top};
chart.dispatchEvent(new PointerEvent("pointermove", at));
document.querySelector(".gallery button[data-tag=fixed]").click();
</script></body>"""

pytestmark = pytest.mark.skipif(BROWSER is None, reason="needs chromium or google-chrome on PATH")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    return build_report(folder / "out", **report_run.write_run(folder))


def browse(page: Path, tmp_path: Path, *flags: str) -> str:
    command = [str(BROWSER), *FLAGS, f"--user-data-dir={tmp_path / 'profile'}", *flags]
    done = subprocess.run(
        [*command, page.as_uri()], capture_output=True, text=True, timeout=120, check=True
    )
    return done.stdout


def test_script_runs_under_the_policy(page: Path, tmp_path: Path) -> None:
    dom = browse(page, tmp_path, "--dump-dom")
    assert re.search(r'<html[^>]* data-ready="true"', dom)
    assert '<form class="filters">' in dom  # shown by the script
    first = dom[dom.index('id="answers-1"') : dom.index('id="answers-2"')]
    items = re.findall(r"<article [^>]*>", first)
    assert sum("hidden" not in item for item in items) == 12


def test_pointer_and_filter(page: Path, tmp_path: Path) -> None:
    # A copy without the policy, which rightly refuses a foreign script such as the probe.
    html = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page.read_text())
    copy = tmp_path / "probe.html"
    copy.write_text(html.replace("</body>", PROBE))
    dom = browse(copy, tmp_path, "--dump-dom")
    assert re.search(r'class="cross" d="M[\d.]+ 8V154"', dom)
    legend = re.search(r"loss <b>([\d.]+)</b>", dom)
    assert legend
    assert float(legend[1]) > 2  # near the first step, not the last value
    first = dom[dom.index('id="answers-1"') : dom.index('id="answers-2"')]
    shown = [a for a in re.findall(r"<article [^>]*>", first) if "hidden" not in a]
    assert shown
    assert all("fixed" in article for article in shown)


@pytest.mark.parametrize("width", [1200, 420])
def test_page_is_drawn(page: Path, tmp_path: Path, width: int) -> None:
    shot = tmp_path / "shot.png"
    browse(page, tmp_path, f"--window-size={width},1000", f"--screenshot={shot}")
    with Image.open(shot) as image:
        colours = image.convert("RGB").getcolors(maxcolors=1 << 24)
    assert colours is not None
    assert len(colours) > 50
    assert max(count for count, _ in colours) < 0.98 * sum(count for count, _ in colours)
