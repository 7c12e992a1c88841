"""Tests that run on the ranks of a job: `@pytest.mark.farside(ranks=4)`.

The function runs once on every rank, in processes of its own, with the fixture `world`. Arguments
of other fixtures and of parametrization are sent to the ranks. The marker takes the options of
`farside.local`: ranks, nodes, fabric, timeout, keep_going.
"""

from __future__ import annotations

import importlib
from typing import Any, Optional

import pytest

from farside._local import local


class _Later:
    """Stands for the world, which each rank has of its own."""


@pytest.fixture
def world() -> Any:
    """The job: on each rank its own world."""
    return _Later()


def pytest_configure(config: pytest.Config) -> None:
    """Makes the marker known."""
    config.addinivalue_line(
        "markers",
        "farside(ranks=2, nodes=None, fabric=None, timeout=60): runs the test on so many ranks",
    )


def _call(world: Any, module: str, name: str, owner: Optional[str], values: dict[str, Any]) -> None:
    """Calls a test function on a rank."""
    holder: Any = importlib.import_module(module)
    if owner is not None:
        holder = getattr(holder, owner)()
    ready = {key: world if isinstance(value, _Later) else value for key, value in values.items()}
    getattr(holder, name)(**ready)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Optional[bool]:
    """Runs a test that has the marker on ranks."""
    marker = pyfuncitem.get_closest_marker("farside")
    if marker is None:
        return None
    options = {"ranks": 2, "timeout": 60.0, **marker.kwargs}
    if marker.args:
        options["ranks"] = marker.args[0]
    ranks = options.pop("ranks")
    names = pyfuncitem._fixtureinfo.argnames
    values = {name: pyfuncitem.funcargs[name] for name in names}
    function = pyfuncitem.function
    owner = pyfuncitem.cls.__name__ if pyfuncitem.cls is not None else None
    local(ranks, _call, function.__module__, function.__name__, owner, values, **options)
    return True
