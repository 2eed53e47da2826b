"""Exit 0 if this interpreter has what pyproject.toml asks for: requirements.py [EXTRA,EXTRA]."""

import sys
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any


def missing(extras: list[str]) -> list[str]:
    """Requirements of the package and ``extras`` that are not installed in a fitting version."""
    from packaging.requirements import Requirement

    text = (Path(__file__).resolve().parents[1] / "pyproject.toml").read_text(encoding="utf-8")
    project = tomllib.loads(text)["project"]
    wanted = [*project["dependencies"]]
    for extra in extras:
        wanted += project["optional-dependencies"][extra]
    return [text for text in wanted if not _satisfied(Requirement(text))]


def _satisfied(requirement: Any) -> bool:
    try:
        installed = version(requirement.name)
    except PackageNotFoundError:
        return False
    return requirement.specifier.contains(installed, prereleases=True)


if __name__ == "__main__":
    try:
        absent = missing([extra for extra in sys.argv[1].split(",") if extra])
    except ImportError:  # a new environment has not even packaging
        sys.exit(1)
    if absent:
        print(f"missing here: {', '.join(absent)}")
    sys.exit(bool(absent))
