"""The examples run, the notebook runs, and the types are right."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

import farside
from farside._local import command

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"


def run(*line: str) -> str:
    """Runs a command and returns its output."""
    done = subprocess.run(line, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("halo", "3 ranks, 200 steps"),
        ("histogram", "600000 samples"),
        ("task_queue", "the longest chain begins at 2919"),
        ("shared_table", "most often"),
        ("hub_and_spoke", "bounds of 2 spokes"),
    ],
)
def test_examples(name: str, says: str) -> None:
    start = [command(), "run", "-n", "3", "--timeout", "100"]
    assert says in run(*start, sys.executable, str(EXAMPLES / f"{name}.py"))


def test_a_parameter_server_loses_workers() -> None:
    line = [command(), "run", "-n", "4", "--keep-going", "--timeout", "100", sys.executable]
    done = subprocess.run(
        [*line, str(EXAMPLES / "parameter_server.py")], capture_output=True, text=True, timeout=120
    )
    assert "lost [1, 2]; slope" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("options", [[], ["--nodes", "2"]])
def test_a_program_for_mpi4py_runs_as_it_is(options: list[str]) -> None:
    program = str(EXAMPLES / "hub_and_spoke_mpi.py")
    line = [command(), "run", "-n", "3", "--timeout", "100", *options, sys.executable]
    assert "bounds of 2 spokes" in run(*line, "-m", "farside.mpi", program)


def test_without_a_launcher_there_is_one_rank() -> None:
    program = "import farside; w = farside.join().window(3, 'f8'); w[0, 1] = 2; print(w.own)"
    assert run(sys.executable, "-c", program) == "[0. 2. 0.]\n"


def test_the_command_is_the_packages() -> None:
    assert farside.__version__ in run(command(), "--version")
    assert "run" in run(sys.executable, "-m", "farside", "--help")


@pytest.mark.skipif(importlib.util.find_spec("nbclient") is None, reason="there is no nbclient")
def test_the_notebook() -> None:
    import nbclient
    import nbformat

    notebook = nbformat.read(EXAMPLES / "notebook.ipynb", as_version=4)
    nbclient.NotebookClient(notebook, timeout=100, kernel_name="python3").execute()
    texts = [str(output) for cell in notebook.cells for output in cell.get("outputs", [])]
    assert "rank 0 has [3. 3. 3.]" in "".join(texts)
    assert "raised here: on purpose" in "".join(texts)


@pytest.mark.skipif(importlib.util.find_spec("mypy") is None, reason="there is no mypy")
def test_types(tmp_path: Path) -> None:
    strict = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path)]
    run(*strict, "--package", "farside")
    names = ["halo", "histogram", "task_queue", "shared_table", "parameter_server"]
    run(*strict, *(str(EXAMPLES / f"{name}.py") for name in [*names, "hub_and_spoke"]))
