"""FSDP2 on two gloo processes against one process."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
import zero_case
from project import Project
from test_zero import apart, assert_equal, launch
from zero_case import Case


@pytest.mark.slow
def test_iterations_equal_one_process_and_resume_to_the_bit(
    project: Project, tmp_path: Path
) -> None:
    alone = Case("alone", project.model)
    wanted = zero_case.run(alone, tmp_path)
    adam = replace(alone, name="whole", fsdp2=True, optimizer="AdamW", lr=1e-3)
    broken = replace(adam, name="broken", stop=1, folder=str(tmp_path / "checkpoint"))
    got = launch([replace(alone, name="fsdp2", fsdp2=True), adam, broken], tmp_path)
    assert_equal(got["fsdp2"], wanted)
    assert apart(got["whole"], got["broken"]) == 0
    assert got["whole"]["rows"] == got["broken"]["rows"]
    assert [row["iteration"] for row in got["broken"]["rows"]] == [0, 0, 1, 1]
