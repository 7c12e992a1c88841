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
