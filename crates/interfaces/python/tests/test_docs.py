"""The examples of the documentation run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from fabrics import every_fabric

import farside

PAGE = Path(__file__).resolve().parents[4] / "docs" / "python.md"


def blocks() -> list[str]:
    """Returns the examples."""
    if not PAGE.exists():
        pytest.skip(f"{PAGE} is not there")
    return re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


@every_fabric
def test_examples_for_ranks(world: farside.World, fabric: str) -> None:
    count = 0
    for block in blocks():
        if "farside.join()" in block:
            exec(compile(block, str(PAGE), "exec"), {"__name__": "example"})
            world.barrier()
            count += 1
    assert count == 6


def test_the_other_examples(tmp_path: Path) -> None:
    program, test = (block for block in blocks() if "farside.join()" not in block)
    for name, block, line in [
        ("program.py", program, []),
        ("test_example.py", test, ["-m", "pytest", "-q", "-p", "no:cacheprovider"]),
    ]:
        (tmp_path / name).write_text(block)
        done = subprocess.run(
            [sys.executable, *line, name], cwd=tmp_path, capture_output=True, text=True, timeout=100
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_a_script_needs_no_other_package(tmp_path: Path) -> None:
    program = next(block for block in blocks() if "farside.local(" in block)
    (tmp_path / "program.py").write_text(program)
    (tmp_path / "cloudpickle.py").write_text("raise ImportError")
    done = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stdout + done.stderr
