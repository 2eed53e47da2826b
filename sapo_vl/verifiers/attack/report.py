"""Attacks every verifier and says what was found; the command line of attack_verifiers.py."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from sapo_vl.verifiers.attack.answers import value_targets, word_targets
from sapo_vl.verifiers.attack.places import place_targets, shape_targets
from sapo_vl.verifiers.attack.programs import code_targets
from sapo_vl.verifiers.attack.published import official_targets
from sapo_vl.verifiers.attack.search import Attack, Found
from sapo_vl.verifiers.attack.targets import Target

_ABOUT = """\
Play a policy that sees scores alone and optimises every reward; list what earns more than the best
honest guess. Exit status 1 where that is no known oddity of an official rule, or a verifier fails.
"""
_SHOWN = 10  # exploits and faults of each target in the report


def all_targets() -> list[Target]:
    """Return every target but code, whose verdicts cost processes."""
    return [
        *value_targets(),
        *word_targets(),
        *place_targets(),
        *shape_targets(),
        *official_targets(),
    ]


def attack_all(
    verdicts: int,
    code_verdicts: int,
    seed: int,
    only: Sequence[str] = (),
    tell: Callable[[str, dict[str, Any]], None] = lambda name, one: None,
) -> dict[str, dict[str, Any]]:
    """Attack every target and return what was found, by its name.

    Args:
        verdicts: over all targets but code, shared out by their weight.
        code_verdicts: of the code verifier; each runs a program or more.
        seed: of every draw.
        only: names of targets; empty: all.
        tell: called with each target's name and findings as they come.

    Raises:
        ValueError: a name of no target.
    """
    cheap = all_targets()
    unit = verdicts / sum(target.share for target in cheap)
    budget = [(target, int(unit * target.share)) for target in cheap]
    budget += [(target, code_verdicts) for target in code_targets()]
    unknown = set(only) - {target.name for target, _ in budget}
    if unknown:
        names = ", ".join(target.name for target, _ in budget)
        raise ValueError(f"no target is called {', '.join(sorted(unknown))}; there are {names}")
    found = {}
    for target, count in budget:
        if (not only or target.name in only) and count:
            began = time.perf_counter()
            found[target.name] = described(target, Attack(target, count, seed).run())
            found[target.name]["seconds"] = round(time.perf_counter() - began, 1)
            tell(target.name, found[target.name])
    return found


def described(target: Target, found: Found) -> dict[str, Any]:
    """Return the findings on one target as JSON values."""
    exploits = sorted(found.exploits.items(), key=lambda item: (-item[1], len(item[0])))
    faults = {
        "raised": found.raised,
        "out_of_range": found.out_of_range,
        "late": found.late,
        "unstable": found.unstable,
    }
    return {
        "prompts": len(target.prompts),
        "verdicts": found.verdicts,
        "responses": found.responses,
        "honest": round(target.honest, 6),
        "best": found.best[:300],
        "best_mean": round(found.best_mean, 6),
        "exploits": len(exploits),
        "examples": [[text[:300], round(mean, 6)] for text, mean in exploits[:_SHOWN]],
        "odd": target.odd,
        "rechecked": found.rechecked,
        "slowest_ms": round(found.slowest * 1000, 1),
        "statuses": dict(found.statuses),
        "faults": {name: len(texts) for name, texts in faults.items()},
        "fault_examples": {
            n: [t[:300] for t in texts[:_SHOWN]] for n, texts in faults.items() if texts
        },
    }


def failures(found: dict[str, dict[str, Any]]) -> list[str]:
    """Return a line for every broken promise, and for every exploit that is not expected."""
    lines = []
    for name, one in found.items():
        if one["exploits"] and not one["odd"]:
            lines.append(f"{name}: {one['examples'][0]} pays more than {one['honest']}")
        lines += [f"{name}: {count} {kind}" for kind, count in one["faults"].items() if count]
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status, 1 where anything was found."""
    parser = argparse.ArgumentParser(prog="attack_verifiers.py", description=_ABOUT)
    parser.add_argument("--verdicts", type=int, default=1_000_000, help="of all rules but code")
    parser.add_argument("--code-verdicts", type=int, default=2_000, help="of code; 0: leave it out")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--only", nargs="*", default=[], metavar="NAME", help="targets; default: all"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all that was found")
    given = parser.parse_args(arguments)
    heads = f"{'verdicts':>9}{'honest':>9}{'best':>9}{'exploits':>9}{'faults':>7}{'ms':>8}"
    print(f"{'target':<24}{heads}")
    try:
        found = attack_all(given.verdicts, given.code_verdicts, given.seed, given.only, _print)
    except ValueError as error:
        parser.error(str(error))
    if given.json is not None:
        given.json.write_text(json.dumps(found, indent=1), encoding="utf-8")
    total = sum(one["verdicts"] for one in found.values())
    rechecked = sum(one["rechecked"] for one in found.values())
    print(f"{total} verdicts, {rechecked} of them judged again with the same outcome or listed")
    problems = failures(found)
    print("\n".join(problems) or "nothing pays more than honest guessing; no promise was broken")
    return int(bool(problems))


def _print(name: str, one: dict[str, Any]) -> None:
    numbers = (
        f"{one['verdicts']:>9}{one['honest']:>9.4f}{one['best_mean']:>9.4f}{one['exploits']:>9}"
    )
    faults = sum(one["faults"].values())
    note = f"  {one['odd']}" if one["odd"] else ""
    print(f"{name:<24}{numbers}{faults:>7}{one['slowest_ms']:>8}{note}", flush=True)
