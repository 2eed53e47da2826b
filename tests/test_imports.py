"""Imports go one way: what each part of the project may import of the rest, read off the source."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
# The values that travel and what can be done with them; everything may import these.
VALUES = {"types", "protocols"}
DATA_MAY_IMPORT = VALUES | {"processor", "still"}
# Of sapo_vl, each part may import these besides itself. Parts that are not here observe or present
# a run and may import any part; `cli` and `datamodules` have tests of their own below.
MAY_IMPORT = {
    "types": {"protocols"},
    "protocols": {"types"},
    "processor": set(),
    "still": set(),
    "advantage": set(),
    "objectives": VALUES,
    "verifiers": VALUES,
    "policy": VALUES | {"processor"},
    "strategies": VALUES | {"policy"},
    "evaluation": VALUES | {"verifiers"},
    "export": VALUES | {"policy", "processor"},
    "rollout": VALUES | {"policy", "strategies", "export"},
    "modules": VALUES
    | {"advantage", "objectives", "policy", "rollout", "strategies", "verifiers", "evaluation"},
}
TORCH_ALONE = ("advantage", "objectives")


def part_of(file: Path) -> str:
    """``sapo_vl/policy/head.py`` -> policy, ``sapo_vl/types.py`` -> types."""
    return file.relative_to(ROOT).parts[1].removesuffix(".py")


def files(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def imported(file: Path) -> Iterator[tuple[int, str]]:
    """Line and dotted name of everything a file imports, in functions and for types, too."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}:{node.lineno}: a relative import"
            # `from sapo_vl import still` names a part as `import sapo_vl.still` does.
            for alias in node.names:
                yield node.lineno, f"{node.module}.{alias.name}"


def parts_imported(file: Path, package: str) -> Iterator[tuple[str, str]]:
    """Which parts of ``package`` a file imports, each with the place that says so."""
    for line, name in imported(file):
        top, _, rest = f"{name}.".partition(".")
        part = rest.partition(".")[0]
        # `import sapo_vl` and `from sapo_vl import __version__` need no part.
        if top == package and part and not part.startswith("__"):
            yield part, f"{file.relative_to(ROOT)}:{line} imports {name}"


def test_sapo_vl_never_imports_datamodules() -> None:
    found = [w for file in files("sapo_vl") for _, w in parts_imported(file, "datamodules")]
    assert not found


def test_datamodules_imports_values_and_the_processor_of_sapo_vl_and_no_more() -> None:
    found = [
        where
        for file in files("datamodules")
        for part, where in parts_imported(file, "sapo_vl")
        if part not in DATA_MAY_IMPORT
    ]
    assert not found


@pytest.mark.parametrize("part", MAY_IMPORT)
def test_the_parts_of_sapo_vl_import_downwards(part: str) -> None:
    own = [file for file in files("sapo_vl") if part_of(file) == part]
    found = [
        where
        for file in own
        for other, where in parts_imported(file, "sapo_vl")
        if other not in MAY_IMPORT[part] | {part}
    ]
    assert own
    assert not found


@pytest.mark.parametrize("part", TORCH_ALONE)
def test_the_mathematics_imports_torch_alone(part: str) -> None:
    own = [file for file in files("sapo_vl") if part_of(file) == part]
    allowed = {"torch", "typing_extensions", "sapo_vl", *sys.stdlib_module_names}
    names = {name.partition(".")[0] for file in own for _, name in imported(file)}
    assert "torch" in names
    assert names <= allowed


def test_nothing_but_the_entry_point_and_the_plan_imports_the_command_line() -> None:
    found = [
        where
        for file in files("sapo_vl")
        for part, where in parts_imported(file, "sapo_vl")
        if part == "cli" and part_of(file) not in ("__main__", "plan")
    ]
    assert not found
