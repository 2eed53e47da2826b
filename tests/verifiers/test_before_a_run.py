"""What is checked before a run: the machine's sandbox, and limits that contradict each other."""

from __future__ import annotations

import json
from typing import Any

import pytest

from datamodules import ReasoningDataModule
from datamodules.tasks import TaskConfig
from sapo_vl.protocols import ChecksMachine
from sapo_vl.types import Prompt
from sapo_vl.verifiers import CombinedVerifier, NumberVerifier, VerifierPool
from sapo_vl.verifiers.code import CodeVerifier
from sapo_vl.verifiers.official import LiveCodeBenchOfficial
from sapo_vl.verifiers.sandbox import Sandbox, SandboxError
from sapo_vl.verifiers.sandbox_watch import Outcome

TESTS = json.dumps({"inputs": ["1"] * 3, "outputs": ["2"] * 3, "fn_name": None})


def verifiers(sandbox: Sandbox) -> list[Any]:
    code = CodeVerifier(sandbox=sandbox)
    return [code, LiveCodeBenchOfficial(sandbox=sandbox), CombinedVerifier({"code": code})]


def test_a_sandbox_that_cannot_be_had_is_an_error_before_training(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(self: Sandbox, *_: object) -> Outcome:
        raise SandboxError("no namespaces here")

    monkeypatch.setattr(Sandbox, "_once", refuse)
    for verifier in verifiers(Sandbox()):
        assert isinstance(verifier, ChecksMachine)
        with pytest.raises(SandboxError, match="no namespaces"):
            verifier.check_machine()
        data = ReasoningDataModule(
            processor="unused", tasks=[TaskConfig(name="code", shards="x.tar", verifier=verifier)]
        )
        with pytest.raises(SandboxError, match="no namespaces"):
            data.setup("fit")
    CombinedVerifier({"number": NumberVerifier()}).check_machine()
    assert not isinstance(NumberVerifier(), ChecksMachine)


def test_a_sandbox_is_tried_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes: list[Any] = [SandboxError("no process to be had"), Outcome("ok", "2\n", "")]

    def once(self: Sandbox, *_: object) -> Outcome:
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    monkeypatch.setattr(Sandbox, "_once", once)
    monkeypatch.setattr("sapo_vl.verifiers.sandbox._PAUSE", 0.0)
    assert Sandbox().run("print(2)", "").stdout == "2\n"
    outcomes += [SandboxError("none"), SandboxError("none at all")]
    with pytest.raises(SandboxError, match="none at all"):
        Sandbox().run("print(2)", "")


@pytest.mark.parametrize("number", range(3))
def test_a_pool_that_would_kill_an_honest_verdict_is_refused(number: int) -> None:
    verifier = verifiers(Sandbox())[number]
    prompt = Prompt(reference=TESTS, task="programs", verifier=verifier)
    with (
        VerifierPool(workers=1, seconds=5.0) as pool,
        pytest.raises(ValueError, match=r"set the pool.s seconds above") as refused,
    ):
        pool.judge([(prompt, "no code")])
    assert "'programs' may take" in str(refused.value)
    assert verifier.seconds_for(prompt) == [60.0, 26.0, 60.0][number]
