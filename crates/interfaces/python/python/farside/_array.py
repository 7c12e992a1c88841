"""Global arrays with numpy's indexing."""

from __future__ import annotations

from operator import index
from typing import Any, Optional, Union

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from farside import _core

#: One range of indices in each dimension, and how numpy shows it.
_Axis = Union[int, slice]


class GlobalArray:
    """An array of numbers whose blocks are distributed over the members of a team.

    `a[1:3, ::2]` reads and writes any elements, wherever they are; an index has integers, slices,
    `...`, or an integer array in each dimension. What was written is there for all members after
    `sync`.
    """

    def __init__(
        self,
        team: _core.Team,
        shape: Union[int, tuple[int, ...]],
        dtype: DTypeLike = np.float64,
        ghosts: Optional[list[int]] = None,
    ) -> None:
        """Makes an array, all zero. Collective."""
        self._blocks = team.global_array(shape, dtype, ghosts)
        self._rank = team.members[team.index or 0]

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of elements in each dimension."""
        return self._blocks.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the elements."""
        return self._blocks.dtype

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return int(np.prod(self.shape))

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> Any:
        """Reads elements, as a copy."""
        axes = self._axes(key)
        if axes is None:
            indices, shape = self._rows(key)
            return self._blocks.gather(indices).reshape(shape)
        low, high, rest = self._area(axes)
        return self._blocks.get(low, high)[rest]

    def __setitem__(self, key: Any, value: ArrayLike) -> None:
        """Writes elements; they are there for all members after `sync`."""
        axes = self._axes(key)
        if axes is None:
            indices, shape = self._rows(key)
            data = np.broadcast_to(np.asarray(value, self.dtype), shape)
            self._blocks.scatter(indices, data.reshape(-1))
            return
        low, high, rest = self._area(axes)
        extent = tuple(b - a for a, b in zip(low, high))
        shape = np.empty(extent, "b")[rest].shape
        data = np.broadcast_to(np.asarray(value, self.dtype), shape)
        if all(isinstance(axis, int) or axis.step == 1 for axis in axes):
            self._blocks.put(low, high, data.reshape(extent))
        else:
            grid = np.indices(extent).reshape(len(extent), *extent)
            rows = np.stack([(grid[d] + low[d])[rest].reshape(-1) for d in range(len(low))], -1)
            self._blocks.scatter(rows, data.reshape(-1))

    def accumulate(self, key: Any, value: ArrayLike, scale: Any = None) -> None:
        """Adds `scale` times the value to elements without steps, each atomically."""
        axes = self._axes(key)
        if axes is None or any(isinstance(axis, slice) and axis.step != 1 for axis in axes):
            raise IndexError("accumulate takes integers and slices without steps")
        low, high, _ = self._area(axes)
        extent = tuple(b - a for a, b in zip(low, high))
        shape = tuple(n for n, axis in zip(extent, axes) if isinstance(axis, slice))
        data = np.broadcast_to(np.asarray(value), shape)
        self._blocks.add(low, high, data.reshape(extent), scale)

    def _axes(self, key: Any) -> Optional[list[_Axis]]:
        """Returns an integer or a slice from low to high for each dimension; `None` if arrays."""
        keys = key if isinstance(key, tuple) else (key,)
        if any(isinstance(each, (list, np.ndarray)) for each in keys):
            return None
        if any(each is Ellipsis for each in keys):
            at = next(i for i, each in enumerate(keys) if each is Ellipsis)
            fill = (slice(None),) * (self.ndim - len(keys) + 1)
            keys = keys[:at] + fill + keys[at + 1 :]
        keys += (slice(None),) * (self.ndim - len(keys))
        if len(keys) != self.ndim:
            raise IndexError(f"{len(keys)} indices of an array of {self.ndim} dimensions")
        axes: list[_Axis] = []
        for dimension, (each, count) in enumerate(zip(keys, self.shape)):
            if isinstance(each, slice):
                axes.append(slice(*each.indices(count)))
                continue
            if isinstance(each, (bool, np.bool_)):
                raise IndexError("a truth value is not an index of a global array")
            at = index(each)
            if not -count <= at < count:
                raise IndexError(
                    f"index {at} is out of bounds for dimension {dimension} with {count} elements"
                )
            axes.append(at % count)
        return axes

    def _area(self, axes: list[_Axis]) -> tuple[list[int], list[int], tuple[_Axis, ...]]:
        """Returns the area around the elements, and the index of the elements in it."""
        low: list[int] = []
        high: list[int] = []
        rest: list[_Axis] = []
        for axis in axes:
            if isinstance(axis, int):
                low.append(axis)
                high.append(axis + 1)
                rest.append(0)
                continue
            elements = range(axis.start, axis.stop, axis.step)
            if len(elements) == 0:
                low.append(0)
                high.append(0)
                rest.append(slice(0, 0))
                continue
            first, last = min(elements[0], elements[-1]), max(elements[0], elements[-1])
            low.append(first)
            high.append(last + 1)
            start = elements[0] - first
            stop = start + axis.step * len(elements)
            rest.append(slice(start, stop if stop >= 0 else None, axis.step))
        return low, high, tuple(rest)

    def _rows(self, key: Any) -> tuple[NDArray[np.int64], tuple[int, ...]]:
        """Returns the indices of an index of arrays, a row for each element, and their shape."""
        keys = key if isinstance(key, tuple) else (key,)
        if len(keys) != self.ndim or any(isinstance(each, slice) for each in keys):
            raise IndexError("an index of integer arrays has one for each dimension")
        given = [np.asarray(each) for each in keys]
        if any(each.dtype.kind not in "iu" and each.size > 0 for each in given):
            raise IndexError("a global array is indexed by integers, not by masks or fractions")
        arrays = np.broadcast_arrays(*(each.astype(np.int64) for each in given))
        counts = np.asarray(self.shape)
        rows = np.stack([each.reshape(-1) for each in arrays], -1)
        if np.any((rows < -counts) | (rows >= counts)):
            raise IndexError(f"an index of the array is outside its shape {self.shape}")
        return rows % counts, arrays[0].shape

    def fill(self, value: Any) -> None:
        """Sets all elements. Collective."""
        self._blocks.fill(value)

    def scale(self, factor: Any) -> None:
        """Multiplies all elements. Collective."""
        self._blocks.change(factor, "prod")

    def shift(self, value: Any) -> None:
        """Adds to all elements. Collective."""
        self._blocks.change(value, "sum")

    def sum(self) -> Any:
        """Returns the sum of all elements. Collective."""
        return self._blocks.reduce("sum")

    def min(self) -> Any:
        """Returns the least element. Collective."""
        return self._blocks.reduce("min")

    def max(self) -> Any:
        """Returns the greatest element. Collective."""
        return self._blocks.reduce("max")

    def multiply(self, a: GlobalArray, b: GlobalArray) -> None:
        """Sets this matrix to the product of two others. Collective."""
        self._blocks.multiply(a._blocks, b._blocks)

    def sync(self) -> None:
        """Returns when all members have called it and all that any of them has put has landed."""
        self._blocks.sync()

    def owner(self, *index: int) -> int:
        """Returns the rank that has an element."""
        return self._blocks.owner(list(index))

    def own_blocks(self) -> list[tuple[slice, ...]]:
        """Returns the blocks of this rank, as indices of the array."""
        blocks = self._blocks.blocks()
        own = [(low, high) for rank, low, high in blocks if rank == self._rank]
        return [tuple(slice(a, b) for a, b in zip(low, high)) for low, high in own]

    def update_ghosts(self) -> None:
        """Fills the borders of all blocks with copies of what is beyond. Collective."""
        self._blocks.update_ghosts()

    def own_with_ghosts(self) -> Optional[NDArray[Any]]:
        """Returns a copy of this rank's block with its border."""
        return self._blocks.own_with_ghosts()

    def save(self, path: str) -> None:
        """Writes the array into a file that `numpy.load` reads. Collective."""
        self._blocks.save(path)

    def load(self, path: str) -> None:
        """Reads the array from a file that `numpy.save` has written. Collective."""
        self._blocks.load(path)

    def free(self) -> None:
        """Gives its memory back. Collective."""
        self._blocks.free()
