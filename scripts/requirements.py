"""Exit 0 if this interpreter has what pyproject.toml asks for: requirements.py [EXTRA,EXTRA].

1: something is missing; 2: the package has no such extra.
"""

import sys
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any


def missing(extras: list[str]) -> list[str]:
    """Requirements of the package and ``extras`` that are not installed in a fitting version.

    Raises:
        ValueError: the package has no such extra.
    """
    from packaging.requirements import Requirement

    text = (Path(__file__).resolve().parents[1] / "pyproject.toml").read_text(encoding="utf-8")
    project = tomllib.loads(text)["project"]
    wanted, known = [*project["dependencies"]], project["optional-dependencies"]
    unknown = sorted(set(extras) - set(known))
    if unknown:
        raise ValueError(f"no extra is called {', '.join(unknown)}; there are {', '.join(known)}")
    for extra in extras:
        wanted += known[extra]
    return [text for text in wanted if not _satisfied(Requirement(text))]


def _satisfied(requirement: Any) -> bool:
    try:
        installed = version(requirement.name)
    except PackageNotFoundError:
        return False
    return requirement.specifier.contains(installed, prereleases=True)


if __name__ == "__main__":
    try:
        absent = missing([extra for extra in "".join(sys.argv[1:2]).split(",") if extra])
    except ImportError:  # a new environment has not even packaging
        sys.exit(1)
    except ValueError as error:
        print(f"requirements.py: {error}", file=sys.stderr)
        sys.exit(2)
    if absent:
        print(f"missing here: {', '.join(absent)}")
    sys.exit(bool(absent))
