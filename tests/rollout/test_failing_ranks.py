"""What fails on one rank ends all of them, with a message that says on which."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from project import Project
from vllm_stub import serving_stub

TESTS = Path(__file__).resolve().parents[1]
FOLDERS = [TESTS.parent, TESTS, TESTS / "strategies"]


@contextmanager
def breaking_server(folder: Path, after: int) -> Iterator[str]:
    """A vLLM server whose engine dies after so many prompts; its address."""
    with serving_stub(folder) as stub:
        answer = stub.answer

        def dying(path: str, body: dict[str, Any]) -> tuple[int, Any]:
            if path == "/inference/v1/generate" and len(stub.bodies) >= after:
                return 500, {"error": {"message": "EngineDeadError"}}
            return answer(path, body)

        stub.answer = dying  # type: ignore[method-assign]
        yield stub.url


def ends(failures: list[dict[str, Any]], out: Path) -> list[list[str]]:
    """What ends each of two ranks in every case."""
    (out / "failures.json").write_text(json.dumps(failures))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2"}
    shared |= {"NODE_RANK": "0", "OMP_NUM_THREADS": "1", "DS_ACCELERATOR": "cpu"}
    shared |= {"PYTHONPATH": os.pathsep.join(map(str, FOLDERS))}
    command = [sys.executable, str(Path(__file__).parent / "failing_case.py"), str(out)]
    processes = []
    for rank in (0, 1):
        with (out / f"log-{rank}.txt").open("w") as log:
            environment = os.environ | shared | {"LOCAL_RANK": str(rank)}
            processes.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log))
    try:
        codes = [process.wait(timeout=400) for process in processes]
    finally:
        for process in processes:
            process.kill()
    logs = [(out / f"log-{rank}.txt").read_text()[-3000:] for rank in (0, 1)]
    assert codes == [0, 0], "\n".join(logs)
    return [[(out / f"{f['name']}-{rank}.txt").read_text() for rank in (0, 1)] for f in failures]


@pytest.mark.slow
def test_no_rank_waits_for_one_that_failed(project: Project, tmp_path: Path) -> None:
    model = Path(project.model)
    with (
        breaking_server(model, after=1 + 4) as in_rollout,  # the probe's and the parity check's
        breaking_server(model, after=1) as in_validation,
        breaking_server(model, after=1000) as sound,
    ):
        failures: list[dict[str, Any]] = [
            {"name": "server", "urls": [sound, in_rollout]},
            {"name": "validation", "urls": [in_validation, sound], "function": "validate"},
            {"name": "verifier", "verifier": True},
            {"name": "parity", "media": True},
        ]
        given = [f | {"model": project.model} for f in failures]
        server, validation, verifier, parity = ends(given, tmp_path)
    died = "/inference/v1/generate answered with status 500: EngineDeadError"
    assert f"{in_rollout}{died}" in server[1]
    assert "rank 1 of 2 failed: VLLMError: prompt 4: " in server[0]
    assert f"{in_rollout}{died}" in server[0]
    assert f"{in_validation}{died}" in validation[0]
    assert "rank 0 of 2 failed: VLLMError: prompt 0: " in validation[1]
    assert "rank 1 of 2 failed: RuntimeError: no worker starts" in verifier[0]
    assert "rank 1 of 2 failed: RuntimeError: parity check: prompt 4 has 1 image" in parity[0]
    for said in (server[1], validation[0], verifier[1], parity[1]):
        assert "of 2, which ends the others" in said
