from __future__ import annotations

import copy
import multiprocessing
import os
import pickle
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from naughty import Naughty, Unloadable

from sapo_vl.types import Prompt, Verdict
from sapo_vl.verifiers import ChoiceVerifier, MathVerifier, NumberVerifier, VerifierPool
from sapo_vl.verifiers.sandbox import SandboxError

PROMPT = Prompt(reference="x", verifier=Naughty(), images=(b"\x89PNG" * 1000,))
SECONDS = 1.5


@pytest.fixture(scope="module")
def pool() -> Iterator[VerifierPool]:
    with VerifierPool(2, SECONDS, memory_mb=256) as made:
        yield made


def judge(pool: VerifierPool, *texts: str) -> list[Verdict]:
    return pool.judge([(PROMPT, text) for text in texts])


def pids(pool: VerifierPool) -> set[int]:
    return {handle.process.pid for handle in pool._handles}


def test_order_is_kept_over_prompts_and_verifiers(pool: VerifierPool) -> None:
    number, options = NumberVerifier(), {"A": "1", "B": "2"}
    choice = Prompt(reference="B", options=options, verifier=ChoiceVerifier(form="whole"))
    pairs: list[tuple[Prompt, str]] = []
    for i in range(150):
        prompt = Prompt(reference=str(i), verifier=number)
        pairs += [(prompt, rf"\boxed{{{i}}}"), (prompt, rf"\boxed{{{i + 1}}}"), (choice, "B")]
    verdicts = pool.judge(pairs)
    assert verdicts == [prompt.verifier(prompt, text) for prompt, text in pairs if prompt.verifier]
    assert pool.judge([]) == []


def test_a_verdict_travels_whole(pool: VerifierPool) -> None:
    text = "\ud800 \x00 \n \U0001f600 " + "x" * 400_000
    (verdict,) = judge(pool, text)
    assert (verdict.score, verdict.extracted, verdict.parts) == (1, text, {"a": 0.5})
    assert judge(pool, "images")[0].score == 1
    assert int(verdict.reason) in pids(pool)


def test_what_takes_too_long_is_killed_and_the_others_never_notice(pool: VerifierPool) -> None:
    judge(pool, "warm", "warm")
    before, started = pids(pool), time.monotonic()
    verdicts = judge(pool, *["good"] * 20, "sleep", *["good"] * 20, "compute", "good")
    assert time.monotonic() - started < 2 * SECONDS + 20  # other workers have to start
    assert [v.score for v in verdicts] == [1] * 20 + [0] + [1] * 20 + [0, 1]
    assert (verdicts[20].status, verdicts[41].status) == ("timeout", "timeout")
    assert "1.5 s" in verdicts[20].reason
    gone = before - pids(pool)
    assert gone
    assert not any(Path(f"/proc/{pid}").exists() for pid in gone)  # no zombies either


def test_errors_cost_one_sample(pool: VerifierPool) -> None:
    bad = ["memory", "exit", "sys.exit", "raise", "none"]
    verdicts = judge(pool, *[text for name in bad for text in ("good", name, "print")])
    assert [v.score for v in verdicts] == [1, 0, 1] * len(bad)
    assert [v.status for v in verdicts[1::3]] == ["error"] * len(bad)
    reasons = dict(zip(bad, (v.reason for v in verdicts[1::3]), strict=True))
    assert "MemoryError" in reasons["memory"]
    assert "status 7" in reasons["exit"]
    assert "SystemExit" in reasons["sys.exit"]
    assert reasons["raise"] == "RuntimeError: broken"


def test_threads_take_turns(pool: VerifierPool) -> None:
    found: dict[int, list[str | None]] = {}

    def work(number: int) -> None:
        texts = [f"{number}.{i}" for i in range(50)]
        found[number] = [v.extracted for v in judge(pool, *texts)]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {n: [f"{n}.{i}" for i in range(50)] for n in range(4)}


def test_math_with_its_alarm_works_from_a_thread(pool: VerifierPool) -> None:
    prompt = Prompt(reference=r"\sqrt{8}", verifier=MathVerifier())
    found: list[Verdict] = []
    thread = threading.Thread(
        target=lambda: found.extend(pool.judge([(prompt, r"\boxed{2\sqrt{2}}")]))
    )
    thread.start()
    thread.join()
    assert found[0].score == 1


def test_configuration_errors_are_raised(pool: VerifierPool) -> None:
    class Local(Naughty):
        pass

    for verifier, message in ((Unloadable(), "not in this process"), (Local(), "top of an import")):
        with pytest.raises(ValueError, match=message):
            pool.judge([(Prompt(reference="x", verifier=verifier), "good")])
    with pytest.raises(ValueError, match="shard#7 of task 'x' has no verifier"):
        pool.judge([(Prompt(reference="1", key="shard#7", task="x"), "good")])
    for anywhere in (pool, VerifierPool(workers=0)):
        with pytest.raises(SandboxError, match="no namespaces here"):
            judge(anywhere, "good", "no isolation")
    assert judge(pool, "good")[0].score == 1


def test_zero_workers_judge_here() -> None:
    here = VerifierPool(workers=0)
    verdicts = judge(here, "good", "raise")
    assert (verdicts[0].reason, verdicts[1].status) == (str(os.getpid()), "error")


def test_a_dead_worker_is_replaced_and_closing_ends_all() -> None:
    own = VerifierPool(workers=1, seconds=5.0)
    judge(own, "good")
    (first,) = pids(own)
    own._handles[0].process.kill()
    own._handles[0].process.wait()
    assert judge(own, "good")[0].score == 1
    (second,) = pids(own)
    own.close()
    own.close()
    assert not any(Path(f"/proc/{pid}").exists() for pid in (first, second))


def test_copies_start_workers_of_their_own(pool: VerifierPool) -> None:
    for copied in (pickle.loads(pickle.dumps(pool)), copy.deepcopy(pool)):
        assert vars(copied)["seconds"] == SECONDS
        assert not pids(copied)


def in_child(pool: VerifierPool, pipe: Any) -> None:
    pipe.send(([v.score for v in judge(pool, "good", "exit")], pids(pool)))


def test_it_works_in_forked_daemonic_children_as_of_a_dataloader(pool: VerifierPool) -> None:
    judge(pool, "good")
    before = pids(pool)
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    child = context.Process(target=in_child, args=(pool, theirs), daemon=True)
    child.start()
    assert ours.poll(90)
    scores, own = ours.recv()
    assert scores == [1, 0]
    assert not own & before
    child.join(30)
    assert child.exitcode == 0
    assert judge(pool, "good")[0].score == 1
    assert before <= pids(pool)


def test_the_interpreter_exits_at_once_without_orphans(tmp_path: Path) -> None:
    script = textwrap.dedent("""
        import sys
        from sapo_vl.types import Prompt
        from sapo_vl.verifiers import NumberVerifier, VerifierPool
        pool = VerifierPool(workers=1)
        prompt = Prompt(reference="3", verifier=NumberVerifier())
        pool.judge([(prompt, "\\\\boxed{3}")] * 100)
        print(*(handle.process.pid for handle in pool._handles))
        sys.stdout.flush()
    """)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    workers = [int(pid) for pid in done.stdout.split()]
    assert len(workers) == 1
    assert not any(Path(f"/proc/{pid}").exists() for pid in workers)
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("given", "message"),
    [({"workers": -1}, "workers"), ({"seconds": 0.0}, "seconds"), ({"memory_mb": 1}, "memory_mb")],
)
def test_bad_arguments_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        VerifierPool(**given)
