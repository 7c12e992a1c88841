"""The names of mpi4py."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from fabrics import every_fabric

import farside


@every_fabric
def test_windows_of_mpi(world: farside.World, fabric: str) -> None:
    from farside.mpi import MPI

    comm = MPI.COMM_WORLD
    rank, size = comm.Get_rank(), comm.Get_size()
    assert (rank, size) == (world.rank, world.size)
    right, left = (rank + 1) % size, (rank - 1) % size
    win = MPI.Win.Allocate(10 * MPI.DOUBLE.size, MPI.DOUBLE.size, comm=comm)
    own = np.ndarray(buffer=win.tomemory(), dtype="d", shape=(10,))
    win.Fence()
    win.Put([np.full(3, float(rank)), MPI.DOUBLE], right, target=2)
    win.Fence()
    assert own[2:5].tolist() == [float(left)] * 3
    win.Fence()
    win.Accumulate((np.ones(10), MPI.DOUBLE), 0)
    win.Accumulate(np.array([5.0 + rank]), 0, (9, 1, MPI.DOUBLE), op=MPI.MAX)
    win.Fence(MPI.MODE_NOSUCCEED)
    if rank == 0:
        assert own[0] == size and own[9] >= 5.0 + size - 1
    comm.Barrier()
    into = np.empty(2)
    win.Lock(right, MPI.LOCK_SHARED)
    win.Get((into, 2, MPI.DOUBLE), right, (3, 2, MPI.DOUBLE))
    win.Flush(right)
    assert into.tolist() == [rank + (size if right == 0 else 0)] * 2
    win.Unlock(right)
    win.Lock_all()
    held, was = np.zeros(1), np.zeros(1)
    win.Fetch_and_op(np.array([1.0]), held, 0, 8, MPI.SUM)
    win.Flush(0)
    win.Get_accumulate(np.array([0.0]), was, 0, (8, 1), MPI.SUM)
    win.Fetch_and_op(None, held, 0, 8, MPI.NO_OP)
    assert was[0] >= size + 1 and held[0] >= was[0] - size
    win.Unlock_all()
    comm.Barrier()
    win.Free()

    counter = MPI.Win.Allocate(8 if rank == 0 else 0, 8, comm=comm)
    one, mine = np.ones(1, "i8"), np.zeros(1, "i8")
    seen = []
    for _ in range(5):
        counter.Lock(0)
        counter.Fetch_and_op([one, MPI.LONG], [mine, MPI.LONG], 0)
        counter.Unlock(0)
        seen.append(int(mine[0]))
    everyone = sorted(sum(comm.allgather(seen), []))
    assert everyone == list(range(5 * size))
    comm.Barrier()
    counter.Lock(0)
    counter.Compare_and_swap(np.array([99]), np.array([5 * size]), mine, 0)
    counter.Unlock(0)
    swapped = comm.allreduce(int(mine[0] == 5 * size))
    assert swapped == 1 and mine[0] in (5 * size, 99)
    comm.barrier()
    counter.Free()

    # Memory that the program has.
    data = np.arange(2000.0) + 1000 * rank
    win = MPI.Win.Create(data, data.itemsize, comm=comm)
    assert data[7] == 7 + 1000 * rank
    into = np.empty(5)
    win.Lock(right)
    win.Get(into, right, 100)
    win.Put(np.array([-1.0]), right, 3)
    win.Unlock(right)
    comm.Barrier()
    assert into.tolist() == [100 + k + 1000 * right for k in range(5)] and data[3] == -1
    with pytest.raises(farside.OutOfBounds):
        win.Lock(right)
        win.Get(np.empty(5), right, 1998)
    win.Unlock(right)
    # Large enough to have pages of its own.
    fresh = np.zeros(1 << 17)
    with pytest.raises(farside.InvalidState, match="rank 1 lies in a page"):
        MPI.Win.Create(data[500:] if rank == 1 else fresh, 8, comm=comm)
    win.Free()
    # The pages can be shared again.
    win = MPI.Win.Create(data, data.itemsize, comm=comm)
    assert data[3] == -1 and data[1999] == 1999 + 1000 * rank
    win.Free()
    room = np.frombuffer(MPI.Alloc_mem(8192), "f8")
    win = MPI.Win.Create(room, 8, comm=comm)
    win.Free()
    # A group in the way of MPI's generalized active target.
    win = MPI.Win.Allocate(8, 8, comm=comm)
    if rank == 0:
        win.Post(comm.Get_group().Incl([1]))
        win.Wait()
        assert np.frombuffer(win.tomemory(), "i8")[0] == 42
    if rank == 1:
        win.Start(comm.Get_group().Incl([0]))
        win.Put(np.array([42]), 0)
        win.Complete()
    comm.Barrier()
    win.Free()


@every_fabric
def test_collectives_of_mpi(world: farside.World, fabric: str) -> None:
    from farside.mpi import MPI

    comm = MPI.COMM_WORLD
    rank, size = comm.rank, comm.size
    assert comm.bcast({"a": [1, 2]} if rank == 1 else None, root=1) == {"a": [1, 2]}
    assert comm.allgather((rank, "x" * rank)) == [(r, "x" * r) for r in range(size)]
    assert comm.gather(rank, root=1) == (list(range(size)) if rank == 1 else None)
    assert comm.scatter([[r] for r in range(size)] if rank == 0 else None) == [rank]
    assert comm.alltoall([(rank, to) for to in range(size)]) == [(r, rank) for r in range(size)]
    assert comm.allreduce(rank + 1) == size * (size + 1) // 2
    assert comm.allreduce((rank % 2, rank), op=MPI.MAXLOC) == (1, 1)
    assert comm.reduce([rank], root=0) == (list(range(size)) if rank == 0 else None)
    assert comm.scan(1) == rank + 1 and comm.exscan(1) == (rank or None)
    assert comm.allreduce(rank == 0, op=MPI.LOR) is True
    send, receive = np.arange(4.0) + rank, np.empty(4)
    comm.Allreduce(send, receive, op=MPI.MAX)
    assert receive.tolist() == [k + size - 1 for k in range(4)]
    comm.Allreduce(MPI.IN_PLACE, send)
    assert send[0] == sum(range(size))
    gathered = np.empty((size, 2), "i4")
    comm.Allgather(np.full(2, rank, "i4"), gathered)
    assert gathered[:, 1].tolist() == list(range(size))
    comm.Gather(np.array([rank]), gathered[:, 0].copy() if rank else np.empty(size, "i8"))
    part = np.empty(3)
    comm.Scatter(np.arange(3.0 * size) if rank == 0 else None, part)
    assert part.tolist() == [3 * rank, 3 * rank + 1, 3 * rank + 2]
    array = np.full(5, rank)
    comm.Bcast([array, MPI.LONG], root=size - 1)
    assert array.tolist() == [size - 1] * 5
    halves = comm.Split(rank % 2, -rank)
    assert halves is not None and halves.size == len(range(rank % 2, size, 2))
    assert halves.Get_rank() == halves.members.index(rank) and halves.members[0] >= rank
    total = np.empty(1)
    halves.Reduce(np.ones(1), total if halves.rank == 0 else None)
    assert halves.rank != 0 or total[0] == halves.size
    near = comm.Split_type(MPI.COMM_TYPE_SHARED)
    assert near is not None and near.size <= size
    assert MPI.COMM_SELF.allreduce(5) == 5 and MPI.COMM_SELF.Get_size() == 1
    copy = comm.Dup()
    copy.Barrier()
    copy.Free()
    with pytest.raises(MPI.Exception):
        MPI.Win.Allocate(1 << 60, comm=comm)
    comm.Barrier()


@every_fabric
def test_windows_outlive_their_communicator(world: farside.World, fabric: str) -> None:
    from farside.mpi import MPI

    comm = MPI.COMM_WORLD
    half = comm.Split(comm.rank % 2)
    assert half is not None
    win = MPI.Win.Allocate(64, 8, comm=half)
    rank, size, members = half.rank, half.size, half.members
    half.Free()
    others = [comm.Dup() for _ in range(4)]
    win.Fence()
    win.Put(np.full(8, float(comm.rank)), (rank + 1) % size)
    win.Fence()
    own = np.ndarray(buffer=win.tomemory(), dtype="d", shape=(8,))
    assert own.tolist() == [float(members[rank - 1])] * 8
    for other in others:
        other.Free()
    win.Free()


@pytest.mark.farside(ranks=2)
def test_memory_of_a_freed_window_is_the_programs_alone(world: farside.World) -> None:
    from farside.mpi import MPI

    # So long that it has pages of its own, which grow with it.
    data = np.full(1 << 17, 1.0)
    MPI.Win.Create(data, 8).Free()
    win = MPI.Win.Allocate(data.nbytes, 8)
    other = np.ndarray(buffer=win.tomemory(), dtype="d", shape=data.shape)
    other[...] = 5
    data.resize(1 << 18, refcheck=False)
    data[...] = 3
    assert (other == 5).all()
    del other
    win.Free()


@pytest.mark.farside(ranks=2)
def test_memory_of_a_file_is_not_shared(world: farside.World, tmp_path: Path) -> None:
    from farside.mpi import MPI

    path = tmp_path / f"of-{world.rank}"
    mapped = np.memmap(path, "f8", mode="w+", shape=1024)
    with pytest.raises(farside.InvalidState, match="shared already"):
        MPI.Win.Create(mapped, 8)
    window = world.window(1024, "f8")
    with pytest.raises(farside.InvalidState, match="shared already"):
        MPI.Win.Create(window.own_view(), 8)
    mapped[...] = 7
    mapped.flush()
    assert (np.fromfile(path) == 7).all()
    world.barrier()


@every_fabric
def test_no_process_is_no_operation(world: farside.World, fabric: str) -> None:
    from farside.mpi import MPI

    comm = MPI.COMM_WORLD
    rank, size = comm.rank, comm.size
    win = MPI.Win.Allocate(64, 8, comm=comm)
    own = np.ndarray(buffer=win.tomemory(), dtype="i8", shape=(8,))
    own[:] = 0
    win.Fence()
    # The open chain: the last process has nobody to its right, the first nobody to its left.
    right = rank + 1 if rank + 1 < size else MPI.PROC_NULL
    left = rank - 1 if rank > 0 else MPI.PROC_NULL
    win.Put(np.array([rank + 1]), right)
    win.Accumulate(np.array([rank + 1]), left, 1)
    assert win.Rput(np.array([rank + 1]), right, 2).Wait()
    assert win.Raccumulate(np.array([rank + 1]), left, 3).Wait()
    win.Fence(MPI.MODE_NOSUCCEED)
    from_left, from_right = rank, (rank + 2 if rank + 1 < size else 0)
    assert own.tolist() == [from_left, from_right, from_left, from_right, 0, 0, 0, 0]
    comm.Barrier()

    nobody = MPI.PROC_NULL
    kept = np.array([77])
    win.Lock(nobody)
    win.Get(kept, nobody)
    assert win.Rget(kept, nobody).Wait()
    win.Get_accumulate(np.array([1]), kept, nobody)
    win.Fetch_and_op(np.array([1]), kept, nobody)
    win.Compare_and_swap(np.array([1]), np.array([0]), kept, nobody)
    win.Flush(nobody)
    win.Flush_local(nobody)
    win.Unlock(nobody)
    assert kept[0] == 77
    # Buffers are looked at all the same.
    with pytest.raises(TypeError):
        win.Get(5, nobody)
    comm.Barrier()
    assert own.tolist() == [from_left, from_right, from_left, from_right, 0, 0, 0, 0]
    win.Free()


@pytest.mark.farside(ranks=3)
def test_other_ranks_are_refused(world: farside.World) -> None:
    from farside.mpi import MPI

    comm = MPI.COMM_WORLD
    win = MPI.Win.Allocate(64, 8, comm=comm)
    one = np.array([1])
    win.Lock_all()
    for rank in (-2, MPI.ROOT, -comm.size, comm.size, 1 << 40):
        for call in (
            lambda: win.Put(one, rank),
            lambda: win.Get(one, rank),
            lambda: win.Accumulate(one, rank),
            lambda: win.Rput(one, rank),
            lambda: win.Rget(one, rank),
            lambda: win.Raccumulate(one, rank),
            lambda: win.Get_accumulate(one, one, rank),
            lambda: win.Fetch_and_op(one, one, rank),
            lambda: win.Compare_and_swap(one, one, one, rank),
            lambda: win.Lock(rank),
            lambda: win.Unlock(rank),
            lambda: win.Flush(rank),
            lambda: win.Flush_local(rank),
            lambda: comm.Get_group().Incl([rank]),
            lambda: MPI.Group.Translate_ranks(comm.group, [rank], comm.group),
            lambda: comm.bcast(1, rank),
            lambda: comm.gather(1, rank),
            lambda: comm.scatter([1, 2, 3], rank),
            lambda: comm.reduce(1, root=rank),
            lambda: comm.Bcast(one, rank),
            lambda: comm.Gather(one, np.zeros(3, int), rank),
            lambda: comm.Scatter(np.zeros(3, int), one, rank),
            lambda: comm.Reduce(one, np.zeros(1, int), root=rank),
            lambda: MPI.COMM_SELF.bcast(1, rank),
            lambda: MPI.COMM_SELF.gather(1, rank),
        ):
            with pytest.raises(farside.NoSuchRank):
                call()
    with pytest.raises(TypeError):
        win.Put(one, 1.0)  # type: ignore[arg-type]
    with pytest.raises(farside.NoSuchRank):
        comm.Get_group().Incl([MPI.PROC_NULL])
    with pytest.raises(farside.NoSuchRank):
        comm.bcast(1, MPI.PROC_NULL)
    with pytest.raises(ValueError, match="twice"):
        comm.Get_group().Incl([1, 1])
    group = comm.Get_group()
    some = group.Incl([2, 0])
    assert MPI.Group.Translate_ranks(group, [0, MPI.PROC_NULL, 1], some) == [
        1,
        MPI.PROC_NULL,
        MPI.UNDEFINED,
    ]
    win.Unlock_all()
    comm.Barrier()
    win.Free()


@pytest.mark.farside(ranks=2)
def test_buffers_are_what_they_say(world: farside.World) -> None:
    from farside.mpi import MPI

    comm = MPI.COMM_WORLD
    other = 1 - comm.rank
    win = MPI.Win.Allocate(80, 8, comm=comm)
    own = np.ndarray(buffer=win.tomemory(), dtype="f8", shape=(10,))
    own[:] = np.arange(10.0) + 10 * comm.rank
    comm.Barrier()
    win.Lock_all()
    # What is received into a copy would be lost.
    every_second = np.zeros(8)[::2]
    for buffer in (
        every_second,
        [every_second, MPI.BYTE],
        [every_second, 2],
        [every_second, 2, MPI.DOUBLE],
        np.zeros((2, 2)).T,
        np.frombuffer(bytes(8)),
        bytes(8),
    ):
        with pytest.raises(ValueError):
            win.Get(buffer, other)
    for buffer in (5.0, np.float64(5.0), [1.0, 2.0, 3.0], None, MPI.IN_PLACE, "text"):
        with pytest.raises(TypeError):
            win.Get(buffer, other)
    # Counts beyond the buffer, before it, and of parts of an element.
    room = np.zeros(3)
    for count in (4, -1, (2, 2), (1, -1), (-1, 0)):
        with pytest.raises(ValueError):
            win.Get([room, count, MPI.DOUBLE], other)
    with pytest.raises(ValueError):
        win.Get([np.zeros(3, "u1"), MPI.DOUBLE], other)
    for count in (1.5, "2.5x"):
        with pytest.raises(TypeError):
            win.Get([room, count, MPI.DOUBLE], other)
    with pytest.raises(TypeError):
        win.Get(room, other, 1.5)
    win.Get([room, 1, 2, MPI.DOUBLE], other, 4)
    assert room.tolist() == [0, 0, 4 + 10 * other]
    # Numbers of another byte order would be taken for others.
    swapped = np.zeros(3, np.dtype("f8").newbyteorder())
    for buffer in (swapped, [swapped, MPI.DOUBLE]):
        with pytest.raises(ValueError, match="byte order"):
            win.Get(buffer, other)
        with pytest.raises(ValueError, match="byte order"):
            comm.Bcast(buffer)
    # Memory of a format has elements of it.
    total = np.zeros(2)
    comm.Allreduce(memoryview(np.array([0.5, comm.rank])), total)
    assert total.tolist() == [1.0, 1.0]
    # A target is counted in its own elements, and must have room.
    win.Get([room, 2, MPI.DOUBLE], other, (2, 16, MPI.BYTE))
    assert room[:2].tolist() == [2 + 10 * other, 3 + 10 * other]
    win.Get(room.view("u1"), other, (5, 3, MPI.DOUBLE))
    assert room.tolist() == [5 + 10 * other, 6 + 10 * other, 7 + 10 * other]
    win.Get(room, other, (0, 1))
    assert room.tolist() == [10 * other, 6 + 10 * other, 7 + 10 * other]
    with pytest.raises(ValueError, match="target"):
        win.Get(room, other, (0, 4))
    with pytest.raises(ValueError, match="target"):
        win.Put(room, other, (0, 2))
    with pytest.raises(ValueError, match="target"):
        win.Accumulate(room, other, (0, 2))
    for target in ((0, -1), (-1, 1), -1, (), (0, 1, MPI.DOUBLE, 1)):
        with pytest.raises((ValueError, farside.OutOfBounds)):
            win.Put(room[:1], other, target)
    with pytest.raises(farside.OutOfBounds):
        win.Put(room, other, 1 << 70)
    win.Put(np.zeros(0), other, 10)
    win.Get(np.zeros(0), other, 10)
    win.Accumulate(np.zeros(0), other, 10)
    win.Unlock_all()
    comm.Barrier()
    assert own.tolist() == (np.arange(10.0) + 10 * comm.rank).tolist()
    comm.Barrier()
    win.Free()


@pytest.mark.farside(ranks=2)
def test_atomics_have_one_datatype(world: farside.World) -> None:
    from farside.mpi import MPI

    comm = MPI.COMM_WORLD
    win = MPI.Win.Allocate(64, 8, comm=comm)
    own = np.ndarray(buffer=win.tomemory(), dtype="i8", shape=(8,))
    own[:] = 0
    comm.Barrier()
    win.Lock_all()
    integer, real, none = np.array([1]), np.array([1.0]), np.zeros(0, int)
    for call in (
        lambda: win.Fetch_and_op(integer, real, 0),
        lambda: win.Fetch_and_op(integer, none, 0),
        lambda: win.Fetch_and_op(none, integer, 0),
        lambda: win.Fetch_and_op(none, none, 0),
        lambda: win.Get_accumulate(integer, real, 0),
        lambda: win.Get_accumulate(np.ones(2, int), np.zeros(1, int), 0),
        lambda: win.Accumulate(integer, 0, (0, 1, MPI.DOUBLE)),
        lambda: win.Accumulate(integer, 0, (0, 8, MPI.BYTE)),
        lambda: win.Compare_and_swap(integer, real, integer, 0),
        lambda: win.Compare_and_swap(real, integer, integer, 0),
        lambda: win.Compare_and_swap(integer, integer, real, 0),
        lambda: win.Compare_and_swap(none, none, none, 0),
        lambda: win.Compare_and_swap(integer, integer, np.frombuffer(bytes(8), int), 0),
    ):
        with pytest.raises(ValueError):
            call()
    for kind in (0, 3, MPI.MODE_NOCHECK | 4):
        with pytest.raises(ValueError):
            win.Lock(0, kind)
    win.Unlock_all()
    comm.Barrier()
    assert not own.any()
    comm.Barrier()
    # All kinds of numbers have them, and the old value comes back as it was.
    win.Lock(1 - comm.rank)
    for kind in "bhilBHILfdFD":
        old = np.zeros(2, kind)
        win.Get_accumulate(np.array([2, 3], kind), old, 1 - comm.rank, op=MPI.REPLACE)
        win.Get_accumulate(np.array([4, 5], kind), old, 1 - comm.rank)
        assert old.tolist() == [2, 3]
        win.Accumulate(np.array([6, 7], kind), 1 - comm.rank, op=MPI.PROD)
        win.Get_accumulate(None, old, 1 - comm.rank, op=MPI.NO_OP)
        assert old.tolist() == [36, 56]
    for kind in "bhilBHIL":
        old, held = np.zeros(1, kind), np.array([7], kind)
        win.Put(held, 1 - comm.rank)
        win.Compare_and_swap(np.array([9], kind), np.array([8], kind), old, 1 - comm.rank)
        assert old[0] == 7
        win.Compare_and_swap(np.array([9], kind), np.array([7], kind), old, 1 - comm.rank)
        win.Fetch_and_op(np.array([6], kind), old, 1 - comm.rank, op=MPI.BXOR)
        assert old[0] == 9
    truth = np.array([True])
    win.Get_accumulate(np.array([False]), truth, 1 - comm.rank, op=MPI.REPLACE)
    win.Accumulate(np.array([True]), 1 - comm.rank, op=MPI.BOR)
    win.Fetch_and_op(None, truth, 1 - comm.rank, op=MPI.NO_OP)
    assert truth[0]
    win.Unlock(1 - comm.rank)
    comm.Barrier()
    win.Free()


@every_fabric
def test_accumulates_of_all_names_exclude_each_other(world: farside.World, fabric: str) -> None:
    from farside.mpi import MPI

    comm = MPI.COMM_WORLD
    rounds = 300
    win = MPI.Win.Allocate(16, 8, comm=comm)
    own = np.ndarray(buffer=win.tomemory(), dtype="f8", shape=(2,))
    own[:] = 0
    comm.Barrier()
    win.Lock_all()
    one, old, two = np.ones(1), np.zeros(1), np.zeros(2)
    for _ in range(rounds):
        win.Accumulate(one, 0)
        win.Fetch_and_op(one, old, 0)
        win.Get_accumulate(np.ones(2), two, 0)
    win.Unlock_all()
    comm.Barrier()
    if comm.rank == 0:
        assert own.tolist() == [3 * rounds * comm.size, rounds * comm.size]
    win.Free()


@pytest.mark.farside(ranks=2)
def test_collectives_keep_numbers(world: farside.World) -> None:
    from farside.mpi import MPI

    comm = MPI.COMM_WORLD
    # A result of another kind would be rounded.
    for call in (
        lambda: comm.Allreduce(np.array([0.5]), np.zeros(1, int)),
        lambda: comm.Scan(np.array([0.5]), np.zeros(1, int)),
        lambda: comm.Allgather(np.array([0.5]), np.zeros(2, int)),
        lambda: comm.Alltoall(np.array([0.5, 0.5]), np.zeros(2, int)),
        lambda: comm.Allreduce(np.array([0.5]), np.zeros(2)),
        lambda: comm.Allgather(np.array([0.5]), np.zeros(3)),
        lambda: comm.Alltoall(np.zeros(3), np.zeros(3)),
        lambda: comm.Allreduce(np.array([0.5]), np.frombuffer(bytes(8))),
        lambda: MPI.COMM_SELF.Allreduce(np.array([0.5]), np.zeros(1, int)),
        lambda: MPI.Win.Allocate(8, 0, comm=comm),
        lambda: MPI.Win.Allocate(8, -8, comm=comm),
        lambda: MPI.Alloc_mem(-5),
        lambda: comm.Split_type(77),
    ):
        with pytest.raises(ValueError):
            call()
    for call in (
        lambda: comm.Gather(MPI.IN_PLACE, np.zeros(2)),
        lambda: comm.Alltoall(MPI.IN_PLACE, np.zeros(2)),
        lambda: comm.Allreduce([1, 2, 3], np.zeros(3)),
        lambda: comm.Allgather(None, np.zeros(2)),
        lambda: comm.Allgather({"a": 1}, np.zeros(2)),
        lambda: MPI.Win.Allocate(10.5, comm=comm),
        lambda: MPI.Win.Create([1.0, 2.0, 3.0], comm=comm),
        lambda: MPI.Win.Create(5.0, comm=comm),
    ):
        with pytest.raises(TypeError):
            call()
    with pytest.raises(NotImplementedError):
        comm.Allreduce(np.zeros((2, 2)), np.zeros((2, 2)), op=MPI.MAXLOC)
    assert comm.allreduce(2 + comm.rank, op=MPI.LAND) is True
    assert comm.allreduce(comm.rank, op=MPI.LOR) is True
    truth = np.zeros(2, int)
    comm.Allreduce(np.array([comm.rank, 2]), truth, op=MPI.LAND)
    assert truth.tolist() == [0, 1]
    # Fortran's order and read-only arrays may be sent.
    total, grid = np.zeros((2, 3)), np.asfortranarray(np.arange(6.0).reshape(2, 3))
    comm.Reduce(grid, total if comm.rank == 1 else None, root=1)
    assert comm.rank == 0 or (total == 2 * grid).all()
    same = np.broadcast_to(7.0, 3) if comm.rank == 0 else np.zeros(3)
    comm.Bcast(same)
    assert same.tolist() == [7, 7, 7]
    nothing = np.zeros(0)
    comm.Allreduce(nothing, np.zeros(0))
    comm.Allgather(nothing, np.zeros(0))
    comm.Scatter(nothing if comm.rank == 0 else None, np.zeros(0))
    comm.Alltoall(nothing, np.zeros(0))
    comm.Bcast(nothing)
