"""scripts/slurm.sh with stand-ins for Slurm's commands."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "scripts/slurm.sh"
SCONTROL = """#!/bin/sh
if [ "$1" = show ]; then echo node-a; echo node-b; else echo "$@" >> "$LOG"; fi
"""
# A fit that ends between iterations once it is asked to, as StopFile does.
SRUN = """#!/bin/sh
echo "$@" > "$LOG.srun"
for i in $(seq 200); do
    if [ -e "$RUN/stop" ]; then rm "$RUN/stop"; exit 0; fi
    sleep 0.05
done
exit 7
"""
FAILING_SRUN = "#!/bin/sh\nexit 3\n"


def start(tmp_path: Path, srun: str) -> subprocess.Popen[str]:
    stubs = tmp_path / "bin"
    stubs.mkdir()
    for name, text in (("srun", srun), ("scontrol", SCONTROL)):
        (stubs / name).write_text(text)
        (stubs / name).chmod(0o755)
    environment = os.environ | {
        "PATH": f"{stubs}:{os.environ['PATH']}",
        "LOG": str(tmp_path / "log"),
        "RUN": str(tmp_path / "run"),
        "SLURM_JOB_ID": "77",
        "SLURM_JOB_NODELIST": "node-[a-b]",
        "SLURM_JOB_NUM_NODES": "2",
        "SLURM_GPUS_ON_NODE": "4",
    }
    command = ["bash", str(SCRIPT), str(tmp_path / "run"), "--config", "a b.yaml"]
    return subprocess.Popen(command, env=environment, text=True, stderr=subprocess.PIPE)


def wait_for(file: Path) -> None:
    for _ in range(400):
        if file.exists():
            return
        time.sleep(0.05)
    raise AssertionError(f"{file} never came")


def test_the_time_limit_ends_the_fit_and_queues_the_job_again(tmp_path: Path) -> None:
    saved = tmp_path / "run/checkpoints"
    for name in ("iteration-000002.ckpt", "iteration-000010.ckpt"):
        (saved / name).mkdir(parents=True)
        (saved / name / "latest").touch()
    (saved / "iteration-000012.ckpt").mkdir()  # cut off while it was written
    (tmp_path / "run/stop").touch()  # left by an earlier job
    job = start(tmp_path, SRUN)
    wait_for(tmp_path / "log.srun")
    time.sleep(0.3)
    assert job.poll() is None
    job.send_signal(signal.SIGUSR1)
    assert job.wait(timeout=30) == 0
    assert (tmp_path / "log").read_text() == "requeue 77\n"
    line = (tmp_path / "log.srun").read_text()
    assert "--nnodes 2 --nproc-per-node 4" in line
    assert "--rdzv-endpoint node-a:29500" in line
    assert "fit --config a b.yaml --trainer.num_nodes 2" in line
    assert line.strip().endswith(f"--ckpt_path {saved}/iteration-000010.ckpt")


def test_a_failed_fit_is_not_queued_again(tmp_path: Path) -> None:
    job = start(tmp_path, FAILING_SRUN)
    assert job.wait(timeout=30) == 3
    assert not (tmp_path / "log").exists()


def test_usage(tmp_path: Path) -> None:
    done = subprocess.run(["bash", str(SCRIPT)], capture_output=True, text=True)
    assert done.returncode == 2
    assert "usage: sbatch" in done.stderr
