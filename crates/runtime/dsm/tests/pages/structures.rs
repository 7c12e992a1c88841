//! What one rank allocates is used by all: lists on a heap, vectors that grow; and what is lent to
//! threads.

use farside::dsm::{Access, Config, Copies, Diffs, Dsm, Placement, Shared, SharedHeap, SharedVec};
use farside::{Local, Result, World};
use zerocopy::{FromBytes, Immutable, IntoBytes};

const HEAP: u32 = 0;
const LIST: u32 = 1;

/// A program on one node, on pretended ones, with either kind of coherence, and over UDP.
fn everywhere(program: impl Fn(&World, Config) -> Result<()> + Sync) {
    let kinds = [(Copies::Node, Diffs::OnDemand), (Copies::Rank, Diffs::Eager)];
    for (copies, diffs) in kinds {
        for access in [Access::Pager, Access::Protect, Access::Explicit] {
            let config = Config { copies, diffs, access, ..Config::new(1 << 20) };
            let job = || Local::new(4).unwrap();
            for job in [job(), job().topology("node:2"), job().nodes(3)] {
                job.run(|world| program(world, config)).unwrap_or_else(|error| {
                    panic!("{error}: {config:?}");
                });
            }
        }
    }
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Node {
    next: Shared<Node>,
    value: u64,
}

#[test]
fn ranks_build_one_list() {
    const EACH: u64 = 40;
    everywhere(|world, config| {
        let mut dsm = Dsm::new(world, config)?;
        let heap = SharedHeap::new(&mut dsm, 1 << 16, HEAP)?;
        let first = dsm.alloc::<Shared<Node>>(1)?;
        let me = u64::from(world.rank().0);
        for value in 0..EACH {
            let node = heap.alloc::<Node>(&mut dsm, 1)?;
            dsm.locked(LIST, |dsm| {
                let value = me * EACH + value;
                dsm.set(node, 0, Node { next: dsm.get(first, 0)?, value })?;
                dsm.set(first, 0, node)
            })?;
        }
        dsm.barrier()?;
        let mut values = Vec::new();
        let mut node = dsm.get(first, 0)?;
        while !node.is_empty() {
            let Node { next, value } = dsm.get(node, 0)?;
            values.push(value);
            node = next;
        }
        values.sort_unstable();
        assert!(values.into_iter().eq(0..4 * EACH), "{config:?}");
        dsm.barrier()?;
        dsm.close()
    });
}

#[test]
fn vectors_grow_and_blocks_are_used_again() {
    const EACH: u32 = 90;
    everywhere(|world, config| {
        let mut dsm = Dsm::new(world, config)?;
        let heap = SharedHeap::new(&mut dsm, 1 << 16, HEAP)?;
        let words = SharedVec::<u32>::growing(&mut dsm, heap, LIST)?;
        let me = world.rank().0;
        for round in 0..EACH {
            words.push(&mut dsm, me * EACH + round)?;
            if round % 3 == 2 {
                // Other ranks append as well: what is taken may be theirs.
                words.locked(&mut dsm, |words| {
                    let word = words.pop()?.expect("there is one");
                    words.push(word).map(drop)
                })?;
            }
        }
        dsm.barrier()?;
        let mut seen = words.to_vec(&mut dsm)?;
        seen.sort_unstable();
        assert!(seen.into_iter().eq(0..4 * EACH), "{config:?}");
        assert_eq!(words.capacity(), None);
        dsm.barrier()?;
        // More than the heap has room for, if nothing is given back.
        for round in 0..15 {
            let block = heap.alloc::<u64>(&mut dsm, 200)?;
            dsm.view_mut(block, 0..200)?.copy_from(0, &[u64::from(me + round); 200]);
            assert!(dsm.view(block, 0..200)?.iter().all(|word| word == u64::from(me + round)));
            heap.free(&mut dsm, block)?;
        }
        dsm.barrier()?;
        dsm.close()
    });
}

#[test]
fn a_heap_and_a_vector_say_what_they_cannot_do() {
    farside::local(1, |world| {
        let mut dsm = Dsm::new(world, Config::new(1 << 16))?;
        let heap = SharedHeap::new(&mut dsm, 8192, HEAP)?;
        let words = dsm.alloc::<u32>(10)?;
        let fixed = SharedVec::<u32>::new(&mut dsm, 1, LIST)?;
        assert_eq!((fixed.push(&mut dsm, 7)?, fixed.capacity()), (0, Some(1)));
        let block = heap.alloc::<u64>(&mut dsm, 2)?;
        heap.free(&mut dsm, block)?;
        dsm.set(block, 0, 12_345)?;
        for (error, problem) in [
            (heap.alloc::<u64>(&mut dsm, 2).err(), "damaged"),
            (heap.alloc::<u8>(&mut dsm, 8192).err(), "make it larger"),
            (heap.alloc::<u64>(&mut dsm, usize::MAX).err(), "make it larger"),
            (heap.free(&mut dsm, words).err(), "do not belong to this heap"),
            (SharedVec::<u32>::growing(&mut dsm, heap, HEAP).err(), "pass another"),
            (fixed.push(&mut dsm, 8).err(), "let it grow"),
            // A name that is made of any bytes.
            (dsm.get(Shared::<u64>::read_from_bytes(&[0xFF; 16]).unwrap(), 5).err(), "another"),
        ] {
            let error = error.expect(problem).to_string();
            assert!(error.contains(problem), "{error}");
        }
        assert_eq!(heap.alloc::<u64>(&mut dsm, 3)?.len(), 3);
        dsm.close()
    })
    .unwrap();
}

#[test]
fn what_is_lent_to_threads_is_lent_once() {
    everywhere(|world, config| {
        const LEN: usize = 4000;
        let mut dsm = Dsm::new(world, config)?;
        let (from, to) = (dsm.alloc::<u32>(LEN)?, dsm.alloc::<u32>(LEN)?);
        let mine = dsm.part_of(0..LEN);
        for round in 1..4 {
            let mut part = dsm.lend().write(from, mine.clone())?;
            std::thread::scope(|scope| {
                scope.spawn(move || part.fill(round));
            });
            dsm.barrier()?;
            let lent = dsm.lend();
            let all = lent.read(from, 0..LEN)?;
            let parts = lent.write(to, mine.clone())?.chunks(LEN / 11);
            std::thread::scope(|scope| {
                for mut part in parts {
                    scope.spawn(move || {
                        let sum = all.iter().sum::<u32>();
                        part.copy_from(0, &vec![sum; part.len()]);
                    });
                }
            });
            for error in [
                lent.write(to, mine.start..mine.start + 1).err(),
                lent.write(from, LEN - 1..LEN).err(),
                lent.read(to, 0..LEN).err(),
            ] {
                assert!(error.expect("it is lent").to_string().contains("lent already"));
            }
            dsm.barrier()?;
            let sum = round * LEN as u32;
            assert!(dsm.view(to, 0..LEN)?.iter().all(|seen| seen == sum), "{config:?}");
            dsm.barrier()?;
        }
        dsm.close()
    });
}

#[test]
fn what_cannot_be_had_whole_takes_no_room() {
    Local::new(2)
        .unwrap()
        .run(|world| {
            let bytes = 1 << 16;
            let mut dsm = Dsm::new(world, Config::new(bytes))?;
            let words = bytes as usize / 8;
            assert!(SharedVec::<u64>::new(&mut dsm, words, 0).is_err());
            assert!(SharedHeap::new(&mut dsm, bytes, 0).is_err());
            let all = dsm.alloc::<u64>(words)?;
            dsm.free(all)?;
            let heap = SharedHeap::new(&mut dsm, bytes / 4, 0)?;
            // Of what is left, all but the length of a vector.
            dsm.alloc::<u64>(words - (bytes / 4) as usize / 8 - 512 - 8)?;
            dsm.alloc_at::<u64>(7, Placement::At(bytes - 56))?;
            assert!(SharedVec::<u64>::growing(&mut dsm, heap, 1).is_err());
            dsm.alloc::<u64>(1)?;
            dsm.close()
        })
        .unwrap();
}

/// A slice of another shared memory, which is larger, lends nothing of this one.
#[test]
fn what_cannot_be_lent_is_not_lent() {
    Local::new(2)
        .unwrap()
        .run(|world| {
            let mut dsm = Dsm::new(world, Config::new(1 << 12))?;
            let mut larger = Dsm::new(world, Config::new(1 << 16))?;
            let (own, others) = (dsm.alloc::<u64>(8)?, larger.alloc::<u64>(1 << 13)?);
            let lent = dsm.lend();
            assert!(lent.read(others, 0..1 << 13).is_err());
            assert!(lent.write(others, 0..1 << 13).is_err());
            lent.write(own, 0..8)?.set(0, 1);
            larger.close()?;
            dsm.close()
        })
        .unwrap();
}
