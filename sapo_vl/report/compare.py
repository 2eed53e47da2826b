"""Tell tests from training runs, name them, and compare them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sapo_vl.report.compare_runs import compare_runs
from sapo_vl.report.compare_tests import compare_tests


def compare_folders(
    folders: Sequence[Path], out: Path, names: Sequence[str] | None = None
) -> list[Path]:
    """Compare folders of tests, or folders of training runs; returns the files written.

    Args:
        folders: two or more of one kind.
        out: folder to write to.
        names: one a folder; by default as much of the paths' ends as tells them apart.

    Raises:
        ValueError: folders that cannot be compared.
    """
    missing = [str(folder) for folder in folders if not folder.is_dir()]
    if missing:
        raise ValueError(f"no folder {', '.join(missing)}")
    if len(folders) < 2:
        raise ValueError("a comparison needs two folders or more")
    if names is not None and (len(names) != len(folders) or len(set(names)) < len(names)):
        raise ValueError(f"--names needs {len(folders)} different names, one a folder")
    named = dict(zip(names or _names(folders), folders, strict=True))
    tests = [folder for folder in folders if (folder / "metrics.json").is_file()]
    runs = [folder for folder in folders if (folder / "metrics.csv").is_file()]
    if len(tests) == len(folders):
        return compare_tests(named, out)
    if len(runs) == len(folders):
        return compare_runs(named, out)
    neither = [str(f) for f in folders if f not in tests and f not in runs]
    raise ValueError(
        f"{', '.join(neither)} hold neither metrics.json nor metrics.csv"
        if neither
        else "tests (with metrics.json) and training runs (with metrics.csv) cannot be mixed"
    )


def _names(folders: Sequence[Path]) -> list[str]:
    """The shortest ends of the paths that are all different."""
    paths = [folder.resolve() for folder in folders]
    for length in range(1, max(len(path.parts) for path in paths) + 1):
        names = ["/".join(path.parts[-length:]) for path in paths]
        if len(set(names)) == len(names):
            return names
    raise ValueError("a folder is named twice")
