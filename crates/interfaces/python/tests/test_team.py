"""Teams, collectives, locks, epochs, maps and global arrays."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from fabrics import every_fabric

import farside


@every_fabric
def test_collectives(world: farside.World, fabric: str) -> None:
    n, me = world.size, world.rank
    for name in ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8", "c8", "c16"]:
        mine = (np.arange(6).reshape(2, 3) + me).astype(name)
        everyone = [(np.arange(6).reshape(2, 3) + rank).astype(name) for rank in range(n)]
        assert np.array_equal(world.all_reduce(mine), np.sum(everyone, 0).astype(name)), name
        assert np.array_equal(world.all_reduce(mine, "prod"), np.prod(everyone, 0).astype(name))
        assert np.array_equal(world.all_gather(mine[:, ::2]), np.stack(everyone)[:, :, ::2])
        assert np.array_equal(world.scan(mine), np.sum(everyone[: me + 1], 0).astype(name))
        before = world.scan(mine, exclusive=True)
        assert before is None if me == 0 else np.array_equal(before, sum(everyone[:me]))
        if np.dtype(name).kind in "iuf":
            assert np.array_equal(world.all_reduce(mine, "max"), everyone[-1])
            assert np.array_equal(world.all_reduce(mine, "min"), everyone[0])
        if np.dtype(name).kind in "iu":
            assert np.array_equal(world.all_reduce(mine, "xor"), np.bitwise_xor.reduce(everyone))
        root = world.reduce(mine, root=n - 1)
        assert (root is None) == (me != n - 1)
    assert world.all_reduce(me == 0, "or") and not world.all_reduce(me == 0, "and")
    assert world.all_reduce(2.5) == 2.5 * n and isinstance(world.all_reduce(1), np.integer)
    array = np.arange(8.0)[::2] * me
    assert world.broadcast(array, root=1) is array and array.tolist() == [0, 2, 4, 6]
    sent = np.arange(2 * n) + 100 * me
    got = world.all_to_all(sent)
    assert got.reshape(n, 2)[:, 0].tolist() == [2 * me + 100 * rank for rank in range(n)]
    assert world.all_gather_bytes(b"x" * me) == [b"x" * rank for rank in range(n)]
    assert world.broadcast_bytes(b"news" if me == 0 else None) == b"news"
    parts = [bytes([me, to]) * to for to in range(n)]
    assert world.all_to_all_bytes(parts) == [bytes([rank, me]) * me for rank in range(n)]
    with pytest.raises(farside.Unsupported, match="max of complex"):
        world.all_reduce(1j, "max")
    with pytest.raises(farside.InvalidArgument, match="not an operation"):
        world.all_reduce(1, "average")
    with pytest.raises(farside.InvalidArgument, match="divided among"):
        world.all_to_all(np.zeros(n + 1))


@every_fabric
def test_teams(world: farside.World, fabric: str) -> None:
    odd = world.split(world.rank % 2, key=world.size - world.rank)
    assert odd is not None
    assert odd.members == [r for r in reversed(range(world.size)) if r % 2 == world.rank % 2]
    assert odd.members[odd.index or 0] == world.rank
    assert odd.all_reduce(1) == odd.size == len(odd)
    w = odd.window(3, "i4")
    w[odd.members[0], 0] = 5
    odd.sync()
    assert w[odd.members[0], 0] == 5
    with pytest.raises(farside.NoSuchRank, match="not a member"):
        w[(world.rank + 1) % 2]
    odd.barrier()
    w.free()
    odd.free()
    with pytest.raises(farside.InvalidState, match="team was freed"):
        odd.barrier()
    alone = world.split(None if world.rank else 1)
    assert (alone is None) == (world.rank != 0)
    near = world.split_by_node()
    assert near.size == sum(world.is_near(rank) for rank in range(world.size))
    assert world.nodes == (1 if fabric == "shm" else 2)
    assert world.node_of(world.size - 1) == world.nodes - 1
    assert world.peer_state(0) == "alive" and world.lost == []
    world.barrier()


@every_fabric
def test_locks(world: farside.World, fabric: str) -> None:
    count, rounds = world.window(2, "i8"), 20
    for lock in [world.lock(0), world.new_lock(1, "ticket"), world.new_semaphore(1)]:
        for _ in range(rounds):
            with lock:
                assert lock.is_held
                count[0, 0] = count[0, 0] + 1
        world.barrier()
    assert world.lock(0) is world.lock(0)
    assert count[0, 0] == 3 * rounds * world.size
    rw = world.new_rw_lock(0)
    for _ in range(rounds):
        with rw.writing():
            count[0, 1] = count[0, 1] + 1
        with rw.reading():
            assert count[0, 1] >= 1
    world.barrier()
    assert count[0, 1] == rounds * world.size
    lock = world.lock(0)
    if world.rank == 0:
        lock.acquire()
        with pytest.raises(farside.InvalidState, match="already"):
            lock.acquire()
    world.barrier()
    if world.rank == 1:
        with pytest.raises(farside.TimedOut):
            lock.acquire(timeout=0)
        with pytest.raises(TimeoutError):
            lock.acquire(timeout=0.02)
        with pytest.raises(farside.InvalidState, match="does not hold"):
            lock.release()
    world.barrier()
    if world.rank == 0:
        lock.release()
    with pytest.raises(farside.InvalidArgument, match="is not a kind of lock: there are"):
        world.new_lock(0, "none")
    rw.free()
    world.barrier()


@every_fabric
def test_epochs(world: farside.World, fabric: str) -> None:
    n, me = world.size, world.rank
    for design in ["direct", "two-sided"]:
        e = world.epoch_window(n, "i8", design=design)
        e.fence()
        e.put((me + 1) % n, me, me + 1)
        e.fence()
        e.accumulate(0, n - 1, 1)
        e.last_fence()
        assert e.own_view()[(me - 1) % n] >= (me - 1) % n + 1
        e.barrier()
        e.lock(0)
        before = e.fetch_op(0, 0, 1, "sum")
        assert e.compare_swap(0, 0, before + 1, before + 1) == before + 1
        e.unlock(0)
        e.barrier()
        e.lock(0, shared=True)
        total = e.get(0, 0)[0]
        e.unlock(0)
        assert total in (n, n + n), total
        e.barrier()
        if me == 0:
            e.post([1])
            e.wait()
        if me == 1:
            e.start([0])
            e.put(0, 0, [-7])
            e.complete()
        e.barrier()
        assert me != 0 or e.own_view()[0] == -7
        with pytest.raises(farside.EpochError):
            e.put(0, 0, 1)
        e.barrier()
        e.free()


@every_fabric
def test_hash_maps(world: farside.World, fabric: str) -> None:
    n, me = world.size, world.rank
    record = np.dtype([("x", "f4"), ("name", "S4")])
    kinds = [
        ("i8", "f8", lambda k: k - 50, lambda k: k / 4),
        ("S20", "i4", lambda k: b"key %d" % k, lambda k: -k),
        ("f8", record, lambda k: k / 8, lambda k: (k, b"v%d" % k)),
        ([("a", "i4"), ("b", "u1")], "S100", lambda k: (k, k % 7), lambda k: b"z" * (k % 99)),
    ]
    for key_type, value_type, key, value in kinds:
        for locked in (False, True):
            m = world.hash_map(key_type, value_type, locked=locked)
            dtype = np.dtype(value_type)
            for k in range(me, 40, n):
                m[key(k)] = value(k)
            world.barrier()
            assert len(m) == 40
            for k in range(40):
                assert m[key(k)] == np.array(value(k), dtype)[()], (key_type, k)
            assert m.get(key(41)) is None and m.get(key(41), 5) == 5 and key(41) not in m
            with pytest.raises(KeyError):
                m[key(41)]
            world.barrier()
            if me == 0:
                assert m.insert(key(1), value(2)) == np.array(value(1), dtype)[()]
                assert m.insert_new(key(1), value(3)) == np.array(value(2), dtype)[()]
                assert m.pop(key(1)) == np.array(value(2), dtype)[()] and m.pop(key(1)) is None
                del m[key(2)]
            world.barrier()
            assert world.all_reduce(len(m.own_items())) == 38
            world.barrier()
            m.free()
    votes = world.hash_map("S8", "i8")
    votes.fetch_add(b"yes", 2)
    world.barrier()
    assert votes[b"yes"] == 2 * n
    weights = world.hash_map("u8", "f8")
    weights.fetch_add(3, 0.5)
    world.barrier()
    assert weights[3] == 0.5 * n
    world.barrier()
    with pytest.raises(farside.Unsupported, match="a key of 80 bytes"):
        world.hash_map("S80", "i8")


@every_fabric
def test_global_arrays(world: farside.World, fabric: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    for name in ["i4", "i8", "u4", "u8", "f4", "f8", "c8", "c16"]:
        a = farside.GlobalArray(world, (7, 9), name)
        mirror = rng.integers(0, 50, (7, 9)).astype(name)
        if world.rank == 0:
            a[...] = mirror
        a.sync()
        for index in [
            (slice(1, 5), slice(None)), (3, 4), (slice(None), -1), (slice(None, None, 2), 3),
            (slice(5, 0, -2), slice(8, None, -3)), Ellipsis, (slice(4, 4), 2), 6,
            (np.array([1, 2, -1]), np.array([0, 3, 8])),
        ]:  # fmt: skip
            assert np.array_equal(a[index], mirror[index]), index
        a.sync()
        if world.rank == world.size - 1:
            a[::2, 1::3] = 1
            a[[0, 1], [2, 3]] = [4, 5]
            a[5] = np.arange(9)
            a.accumulate((slice(0, 2), slice(0, 2)), [[1, 2], [3, 4]], scale=2)
        mirror[::2, 1::3] = 1
        mirror[[0, 1], [2, 3]] = [4, 5]
        mirror[5] = np.arange(9)
        mirror[:2, :2] += 2 * np.array([[1, 2], [3, 4]], name)
        a.sync()
        assert np.array_equal(a[...], mirror), name
        assert a.sum() == mirror.sum()
        if np.dtype(name).kind != "c":
            assert a.min() == mirror.min() and a.max() == mirror.max()
        a.scale(2)
        assert np.array_equal(a[0], mirror[0] * 2)
        a.sync()
        a.free()
    a, b, c = (farside.GlobalArray(world, shape) for shape in [(5, 6), (6, 4), (5, 4)])
    if world.rank == 0:
        a[...], b[...] = np.arange(30).reshape(5, 6), np.arange(24).reshape(6, 4)
    c.multiply(a, b)
    product = np.arange(30.0).reshape(5, 6) @ np.arange(24.0).reshape(6, 4)
    assert np.array_equal(c[...], product)
    c.save(str(tmp_path / "c.npy"))
    assert np.array_equal(np.load(tmp_path / "c.npy"), product)
    c.fill(0)
    c.load(str(tmp_path / "c.npy"))
    assert np.array_equal(c[...], product)
    assert all(c.owner(block[0].start, block[1].start) == world.rank for block in c.own_blocks())
    ring = farside.GlobalArray(world, 4 * world.size, "i4", ghosts=[1])
    for (own,) in ring.own_blocks():
        ring[own] = np.arange(own.start, own.stop)
    ring.update_ghosts()
    border = ring.own_with_ghosts()
    assert border is not None and border[0] == (4 * world.rank - 1) % (4 * world.size)
    with pytest.raises(farside.Unsupported):
        farside.GlobalArray(world, 3, "i2")
    with pytest.raises(IndexError):
        ring[100]
    world.barrier()


@every_fabric
def test_what_a_team_made_outlives_it(world: farside.World, fabric: str) -> None:
    team = world.split(world.rank % 2)
    assert team is not None
    right = team.members[(team.index + 1) % team.size]
    window, counts = team.window(4, "i8"), team.epoch_window(4, "i8")
    array, table = farside.GlobalArray(team, 2 * team.size, "i8"), team.hash_map("i8", "i8")
    lock, rw_lock = team.new_lock(team.members[0]), team.new_rw_lock(team.members[0])
    team.free()
    team.free()
    with pytest.raises(farside.InvalidState):
        team.barrier()
    with pytest.raises(farside.InvalidState):
        team.window(4, "i8")
    # What lay in the freed group's place before.
    clutter = [world.split(0) for _ in range(4)]
    window.put(right, slice(None), np.full(4, world.rank))
    array.fill(world.rank % 2)
    array.sync()
    assert array.sum() == 2 * team.size * (world.rank % 2)
    counts.fence()
    counts.put(right, 0, np.full(4, world.rank))
    counts.last_fence()
    left = team.members[team.index - 1]
    assert counts.own_view().tolist() == [left] * 4
    with lock:
        table[world.rank] = world.rank
    rw_lock.acquire_write()
    rw_lock.release()
    for part in clutter:
        assert part is not None
        part.free()
    for made in (table, lock, rw_lock, counts, array, window):
        made.free()
    with pytest.raises(farside.InvalidState):
        team.barrier()


@pytest.mark.farside(ranks=2)
def test_objects_do_not_travel(world: farside.World) -> None:
    things = np.array([{"a": 1}, None], object)
    for call in (
        lambda: world.all_gather(things),
        lambda: world.all_gather(None),
        lambda: world.all_to_all(things),
        lambda: world.broadcast(things),
        lambda: world.all_reduce(things),
        lambda: world.scan(things),
    ):
        with pytest.raises(farside.Unsupported):
            call()
    e = world.epoch_window(64, "u1", checking=False)
    e.lock_all()
    for call in (e.put_bytes, e.get_bytes):
        with pytest.raises(farside.Unsupported):
            call(1, 0, things)
    e.unlock_all()
    world.barrier()
    e.free()
    # Of a root, only the elements are wanted.
    fixed = np.broadcast_to(3.0, 2) if world.rank == 0 else np.zeros(2)
    assert world.broadcast(fixed).tolist() == [3, 3]


@pytest.mark.farside(ranks=2)
def test_keys_are_what_they_say(world: farside.World) -> None:
    numbers = world.hash_map("i4", "i8")
    numbers[5] = 1
    for key in (5.5, np.int64((1 << 32) + 5), 1 << 40, b"5x"):
        with pytest.raises((ValueError, OverflowError)):
            numbers[key]
        with pytest.raises((ValueError, OverflowError)):
            numbers[key] = 2
        with pytest.raises((ValueError, OverflowError)):
            key in numbers
    for key in (5, 5.0, np.int8(5), np.array(5)):
        assert numbers[key] == 1
    with pytest.raises(ValueError, match="cannot combine"):
        numbers.fetch_add(5, 0.5)
    words = world.hash_map("S4", "f4")
    words[b"abcd"] = 1
    for key in (b"abcde", "abcde", b"abc\0", np.bytes_(b"abcdefgh")):
        with pytest.raises(ValueError, match="is not a key"):
            words[key]
    assert words[b"abcd"] == words["abcd"] == words[np.bytes_(b"abcd")] == 1
    texts = world.hash_map("U3", "i8")
    texts["äöü"] = 7
    assert texts["äöü"] == 7
    with pytest.raises(ValueError, match="is not a key"):
        texts["äöüß"]
    fractions = world.hash_map("f4", "i8")
    fractions[0.1] = 3
    assert fractions[0.1] == fractions[np.float32(0.1)] == 3
    world.barrier()


@pytest.mark.farside(ranks=2)
def test_indices_are_what_they_say(world: farside.World) -> None:
    a = farside.GlobalArray(world, (4, 3), "i8")
    if world.rank == 0:
        a[...] = np.arange(12).reshape(4, 3)
    a.sync()
    mask = np.array([True, False, True, False])
    for key in (
        True, (0, False), None, 1.0, (np.array([0.5, 1.5]), np.array([0, 1])),
        (mask, [0, 1, 2, 0]), ([True, False], [0, 1]), "x", (..., ...),
    ):  # fmt: skip
        with pytest.raises((IndexError, TypeError)):
            a[key]
        with pytest.raises((IndexError, TypeError)):
            a[key] = 1
    assert a[np.int8(1), np.uint64(2)] == 5
    assert a[[], []].shape == (0,)
    assert a[[1, -1], [0, 2]].tolist() == [3, 11]
    for call in (
        lambda: a.scale(0.5),
        lambda: a.shift(0.5),
        lambda: a.accumulate((0, 0), 0.5),
        lambda: a.accumulate((0, 0), 1, scale=0.5),
    ):
        with pytest.raises(ValueError, match="cannot combine"):
            call()
    a.sync()
    assert a.sum() == 66
    a.free()
