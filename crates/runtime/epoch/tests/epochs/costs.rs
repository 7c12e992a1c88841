//! The costs of an epoch, as the headers of the protocols state them.

use farside::epoch::{Design, Mode, Options, Window};
use farside::fabric::counting::Counts;
use farside::fabric::observed::Kind;
use farside::{Local, Rank, Result};

/// Counts the operations of rank 0 on rank 1 in one epoch with one put, of a window that no other
/// rank uses.
fn counted(design: Design, mode: Mode, bytes: usize) -> [u64; 4] {
    let counts = Counts::new(2);
    let seen = counts.clone();
    let job = Local::new(2).unwrap().decorate(move |fabric| counts.over(fabric));
    let results = job.run(|world| -> Result<[u64; 4]> {
        let window = Window::allocate(world, 1 << 20, Options::new().design(design))?;
        window.barrier()?;
        let count = || {
            [Kind::Atomic, Kind::PutSignal, Kind::Put, Kind::Flush]
                .map(|kind| seen.operations(Rank(0), kind, Rank(1)))
        };
        let mut difference = [0; 4];
        if world.rank() == Rank(0) {
            let before = count();
            window.lock(Rank(1), mode)?;
            window.put(&vec![1u8; bytes], Rank(1), 0)?;
            window.unlock(Rank(1))?;
            let after = count();
            difference = std::array::from_fn(|at| after[at] - before[at]);
        }
        window.barrier()?;
        window.free()?;
        Ok(difference)
    });
    results.unwrap()[0]
}

#[test]
fn a_direct_epoch_takes_two_atomics_and_a_flush() {
    for mode in [Mode::Exclusive, Mode::Shared] {
        let [atomics, messages, puts, flushes] = counted(Design::Direct, mode, 8);
        assert_eq!((atomics, messages, puts, flushes), (2, 0, 1, 1), "{mode:?}");
    }
}

#[test]
fn a_two_sided_epoch_takes_one_message() {
    let [atomics, messages, puts, flushes] = counted(Design::TWO_SIDED, Mode::Exclusive, 8);
    assert_eq!((atomics, messages, puts, flushes), (0, 1, 0, 0));
    let [atomics, messages, puts, _] = counted(Design::TWO_SIDED, Mode::Exclusive, 1 << 19);
    assert_eq!(
        (atomics, messages, puts),
        (0, 2, 1),
        "a message for the lock, the put itself, a message for the unlock"
    );
}
