"""Jobs of this machine that a notebook, a test or a script starts."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any, Callable, Optional

from farside import _job
from farside.errors import Poisoned, RankLost

try:
    import cloudpickle as _functions  # type: ignore[import-untyped, unused-ignore]
except ImportError:
    _functions = None


class LocalError(RuntimeError):
    """A job of `farside.local` failed without an exception of a rank: its output says how."""


def command() -> str:
    """Returns the path of the `farside` command that belongs to this package."""
    here = Path(sysconfig.get_path("scripts")) / "farside"
    found = str(here) if here.exists() else shutil.which("farside")
    if found is None:
        raise LocalError(f"there is no `farside` command in {here.parent} or in PATH")
    return found


def dumps(value: Any) -> bytes:
    """Returns the bytes of a value; functions and classes of notebooks need cloudpickle."""
    return bytes(_functions.dumps(value)) if _functions is not None else pickle.dumps(value)


#: The name under which ranks run the script that has started them.
MAIN = "__farside_main__"


def _script(function: Callable[..., Any]) -> Optional[Path]:
    """Returns the script that ranks have to run before they know a function, if there is one."""
    if _functions is not None or getattr(function, "__module__", "") != "__main__":
        return None
    main = sys.modules["__main__"]
    script = Path(getattr(main, "__file__", None) or "")
    if not script.is_file() or not hasattr(main, function.__qualname__):
        raise LocalError(
            f"{function.__qualname__} is defined in __main__, which other processes cannot import: "
            "install cloudpickle, or put the function into a module"
        )
    # What ranks return may be of classes of the script.
    sys.modules.setdefault(MAIN, main)
    return script.resolve()


def local(
    ranks: int,
    function: Callable[..., Any],
    *arguments: Any,
    nodes: Optional[int] = None,
    fabric: Optional[str] = None,
    timeout: Optional[float] = None,
    keep_going: bool = False,
    options: tuple[str, ...] = (),
) -> list[Any]:
    """Runs `function(world, *arguments)` on ranks that are processes of this machine.

    Returns what each rank returned, in order. What the ranks print comes out here, line by line.
    If a rank raises an exception, the first that is no mere consequence of another rank's end is
    raised here. `nodes` divides the ranks into nodes that reach each other over a network only;
    `options` are further ones of `farside run`.
    """
    _warn_of_own_job()
    with tempfile.TemporaryDirectory(prefix="farside-") as folder:
        call = Path(folder) / "call"
        script = _script(function)
        if script is not None:
            (Path(folder) / "script").write_text(str(script))
        call.write_bytes(dumps((function, arguments)))
        line = [command(), "run", "-n", str(ranks), *options]
        for name, value in (("--nodes", nodes), ("--fabric", fabric), ("--timeout", timeout)):
            line += [] if value is None else [name, str(value)]
        line += ["--keep-going"] if keep_going else []
        line += [sys.executable, "-m", "farside._worker", folder]
        path = os.pathsep.join(each or os.getcwd() for each in sys.path)
        status = _run(line, {**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"})
        return _results(Path(folder), ranks, status, keep_going)


def _warn_of_own_job() -> None:
    """Says once for a job that the program makes another one instead of joining it."""
    if os.environ.get("FARSIDE_RANK") == "0" and _job._world is None:
        print(
            "farside: no rank has joined the job: the program makes one of its own with "
            "`farside.local`, and every rank runs it by itself. Start it without `farside run`, "
            "or have it join, by `farside.join`",
            file=sys.stderr,
            flush=True,
        )


def _run(line: list[str], environment: dict[str, str]) -> int:
    """Runs a command whose output comes out of this interpreter, also in a notebook."""
    with subprocess.Popen(
        line,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as job:
        assert job.stdout is not None
        try:
            for text in job.stdout:
                sys.stdout.write(text)
                sys.stdout.flush()
        except BaseException:
            # The launcher ends its ranks.
            job.terminate()
            raise
        return job.wait()


def _results(folder: Path, ranks: int, status: int, keep_going: bool) -> list[Any]:
    """Returns the results of all ranks, or raises the exception of one."""
    results: list[Any] = []
    errors: list[BaseException] = []
    for rank in range(ranks):
        file = folder / f"result.{rank}"
        if not file.exists():
            results.append(None)
            continue
        is_error, value = pickle.loads(file.read_bytes())
        if is_error:
            errors.append(value)
        results.append(value)
    for error in errors:
        if not isinstance(error, (RankLost, Poisoned)):
            raise error
    if errors and not keep_going:
        raise errors[0]
    if status != 0 and not keep_going:
        raise LocalError(f"the job ended with status {status}: its output says why")
    return results
