//! The job's memory as others see it, who may mean harm.

use farside_fabric::SegmentId;

use super::*;

pub(crate) fn job(ranks: u32) -> Arc<Job> {
    Job::create(&Config {
        cores: 2,
        arena_bytes: 1 << 20,
        beside_bytes: 8,
        ..Config::new(Topology::flat(ranks), 100)
    })
    .unwrap()
}

#[test]
fn two_mappings_of_one_job_see_the_same_memory() {
    let made = job(2);
    let attached = Job::attach(made.file().try_clone_to_owned().unwrap()).unwrap();
    assert!(made.segment(Rank(1), SegmentId::ROOT).unwrap().put(8, b"hello"));
    let mut text = [0; 5];
    assert!(attached.segment(Rank(1), SegmentId::ROOT).unwrap().get(8, &mut text));
    assert_eq!(&text, b"hello");
    assert_eq!(attached.topology(), made.topology());
    assert_eq!(attached.root_bytes(), made.page());
}

#[test]
fn nothing_that_ranks_can_write_moves_the_bounds() {
    let job = job(2);
    let (ranks, root, arena) = (job.ranks(), job.root_bytes(), job.arena_bytes());
    let header = job.header();
    header.ranks.store(u32::MAX, Ordering::Relaxed);
    for word in [&header.arena_bytes, &header.root_bytes, &header.beside_bytes] {
        word.store(u64::MAX / 2, Ordering::Relaxed);
    }
    assert_eq!((job.ranks(), job.root_bytes(), job.arena_bytes()), (ranks, root, arena));
    assert!(job.piece(Rank(1), arena, 1).is_none());
    assert_eq!(job.beside().bytes(), 8);
}

#[test]
fn the_size_of_a_job_is_sealed() {
    let job = job(1);
    for bytes in [0, 4096, 1 << 40] {
        assert!(rustix::fs::ftruncate(job.file(), bytes).is_err(), "{bytes}");
    }
    // The same bytes in a file that anybody may shrink are no job.
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let copy = rustix::fs::memfd_create("farside", flags).unwrap();
    rustix::fs::ftruncate(&copy, job.layout.total).unwrap();
    let mut first = vec![0; job.layout.roots as usize];
    rustix::io::pread(job.file(), &mut first, 0).unwrap();
    rustix::io::pwrite(&copy, &first, 0).unwrap();
    assert!(matches!(Job::watch(copy.try_clone().unwrap()).err(), Some(Error::Join(_))));
    rustix::fs::fcntl_add_seals(&copy, SIZE_SEALS).unwrap();
    assert!(Job::watch(copy).is_ok(), "nothing else was wrong with it");
}

#[test]
fn a_stranger_file_is_no_job() {
    let file = rustix::fs::memfd_create("stranger", MemfdFlags::CLOEXEC).unwrap();
    assert!(matches!(Job::attach(file.try_clone().unwrap()).err(), Some(Error::Join(_))));
    rustix::fs::ftruncate(&file, 1 << 20).unwrap();
    assert!(matches!(Job::attach(file).err(), Some(Error::Join(_))));
}
