"""The jobs that the whole interface is tested on."""

from __future__ import annotations

import ctypes.util
import os
from typing import Any

import pytest

#: Longer runs, as `FARSIDE_LONG=1` asks for.
LONG = bool(os.environ.get("FARSIDE_LONG"))

_no_ofi = pytest.mark.skipif(
    ctypes.util.find_library("fabric") is None, reason="there is no libfabric"
)

_ofi = pytest.mark.farside(ranks=4 if LONG else 2, nodes=2, fabric="ofi")

#: One node; two nodes over UDP; two nodes over libfabric.
JOBS = [
    pytest.param("shm", marks=pytest.mark.farside(ranks=3)),
    pytest.param("nic", marks=pytest.mark.farside(ranks=4, nodes=2)),
    pytest.param("ofi", marks=[_ofi, _no_ofi]),
]

every_fabric: Any = pytest.mark.parametrize("fabric", JOBS)
