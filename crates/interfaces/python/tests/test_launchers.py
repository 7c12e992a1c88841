"""Launchers of clusters start programs, too, on every fabric."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from fabrics import LONG

PROGRAM = Path(__file__).resolve().parent.parent / "examples" / "task_queue.py"


@pytest.mark.parametrize("fabric", ["shm", "nic", "ofi"] if LONG else ["shm", "nic"])
@pytest.mark.parametrize("launcher", ["mpirun.openmpi", "mpiexec.hydra", "srun"])
def test_launchers(launcher: str, fabric: str) -> None:
    path = shutil.which(launcher)
    if path is None:
        pytest.skip(f"there is no {launcher}")
    options = {
        "mpirun.openmpi": ["--oversubscribe"],
        "mpiexec.hydra": [],
        "srun": ["--mpi=pmix", "--overcommit"],
    }
    if launcher == "srun" and subprocess.run(["sinfo"], capture_output=True).returncode != 0:
        pytest.skip("no Slurm is running")
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    done = subprocess.run(
        [path, *options[launcher], "-n", "2", sys.executable, str(PROGRAM)],
        env={**os.environ, **root, "FARSIDE_FABRIC": fabric},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert "the longest chain begins at 2919" in done.stdout, done.stdout + done.stderr
