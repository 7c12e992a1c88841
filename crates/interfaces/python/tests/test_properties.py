"""Selections and accumulates against numpy, by properties."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from fabrics import LONG
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

import farside

DTYPES = npst.scalar_dtypes().filter(lambda dtype: dtype.itemsize > 0) | st.just(
    np.dtype([("a", "i2"), ("b", "f8"), ("c", "S3")])
)


@pytest.mark.parametrize(
    "job",
    [
        pytest.param("shm", marks=pytest.mark.farside(ranks=2, timeout=300)),
        pytest.param("nic", marks=pytest.mark.farside(ranks=2, nodes=2, timeout=300)),
    ],
)
def test_any_slice_of_any_array(world: farside.World, job: str) -> None:
    # The other rank allocates as it is told, and is passive otherwise.
    plan = world.window(20, "i8")
    if world.rank == 1:
        follow(world, plan)
        return

    @settings(
        max_examples=1500 if LONG else 100,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        derandomize=True,
    )
    @given(st.data(), DTYPES, npst.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=6))
    def check(data: Any, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
        # All is drawn before the ranks meet, and they part in any case.
        indices = [
            data.draw(npst.basic_indices(shape, max_dims=6, allow_newaxis=True)) for _ in range(3)
        ]
        plan[1, : len(shape) + 2] = [dtype.itemsize, len(shape), *shape]
        plan.store(1, 19, plan.load(1, 19) + 1)
        world.barrier()
        w = world.window(shape, dtype)
        try:
            compare(w, indices, shape, dtype)
        finally:
            world.barrier()
            w.free()

    check()
    plan.store(1, 19, -1)


def compare(
    w: farside.Window, indices: list[Any], shape: tuple[int, ...], dtype: np.dtype[Any]
) -> None:
    """Reads and writes the other rank's part, and an array of this rank's own, in the same way."""
    noise = np.random.default_rng(1).bytes(dtype.itemsize * int(np.prod(shape)))
    mirror = np.frombuffer(noise, dtype).reshape(shape).copy()
    w[1] = mirror
    for index in indices:
        keys = index if isinstance(index, tuple) else (index,)
        selected = mirror[index]
        assert bytes_of(w[(1, *keys)]) == bytes_of(selected), (index, shape, dtype)
        if isinstance(selected, np.ndarray):
            # Strides of all kinds on this side, too.
            turned = (slice(None, None, -1),) * selected.ndim or Ellipsis
            value = selected.copy(order="F")[turned]
            out = np.zeros(selected.shape, dtype, order="F")[turned]
            w.get(1, index, out=out)
            assert bytes_of(out) == bytes_of(selected), (index, shape, dtype)
        else:
            value = mirror.reshape(-1)[0]
        w[(1, *keys)] = value
        mirror[index] = value
        assert bytes_of(w[1]) == bytes_of(mirror), (index, shape, dtype)


def bytes_of(value: Any) -> bytes:
    """Returns the bytes of an array or of a scalar."""
    return bytes(np.asarray(value).tobytes())


def follow(world: farside.World, plan: farside.Window) -> None:
    """Allocates and frees what rank 0 writes down."""
    turn = 0
    while True:
        turn += 1
        seen = plan.wait(19, "!=", turn - 1)
        if seen == -1:
            return
        item, dimensions, *shape = plan.own[:19].tolist()
        world.barrier()
        w = world.window(tuple(shape[:dimensions]), f"V{item}")
        world.barrier()
        w.free()
