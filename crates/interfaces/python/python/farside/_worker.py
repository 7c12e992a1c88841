"""A rank of `farside.local`: calls the function and writes down what it returns or raises."""

from __future__ import annotations

import os
import pickle
import runpy
import sys
import traceback
import types
from pathlib import Path
from typing import Any

from farside._job import join
from farside._local import MAIN, LocalError, dumps


def _write(folder: Path, rank: int, is_error: bool, value: Any) -> None:
    """Writes a result as a whole: a rank that is killed meanwhile leaves none."""
    try:
        data = dumps((is_error, value))
        pickle.loads(data)
    except Exception:
        if not is_error:
            raise
        data = pickle.dumps((True, LocalError(f"{type(value).__name__}: {value}")))
    part = folder / f"part.{rank}"
    part.write_bytes(data)
    os.replace(part, folder / f"result.{rank}")


def _run_script(script: str) -> None:
    """Runs the script that has started the job, under another name, for its functions."""
    module = types.ModuleType(MAIN)
    module.__dict__.update(runpy.run_path(script, run_name=MAIN))
    sys.modules["__main__"] = sys.modules[MAIN] = module


def main(folder: Path) -> None:
    """Runs this rank's part."""
    script = folder / "script"
    if script.exists():
        _run_script(script.read_text())
    function, arguments = pickle.loads((folder / "call").read_bytes())
    world = join()
    rank = world.rank
    try:
        result = function(world, *arguments)
    except Exception as error:
        text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        if hasattr(error, "add_note"):
            error.add_note(f"on rank {rank}:\n{text}")
        _write(folder, rank, True, error)
        # The traceback that this rank prints needs no copy of itself.
        if getattr(error, "__notes__", None):
            error.__notes__.pop()
        raise
    _write(folder, rank, False, result)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
