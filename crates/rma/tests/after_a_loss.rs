//! A collective of a team that has lost a member fails, however often it is tried: what a failed
//! one has left behind does not make up for the member.

use std::sync::Barrier;

use farside::{BarrierKind, Error, Local, Rank, Result, World};

const RANKS: u32 = 4;
const LOST: Rank = Rank(RANKS - 1);

/// Returns the outcomes that said that all had come, of ranks that try again and again.
fn succeeded(meet: impl Fn(&World) -> Result<()> + Sync) -> u32 {
    let (ready, count) = (Barrier::new(RANKS as usize), std::sync::atomic::AtomicU32::new(0));
    let local = Local::new(RANKS).expect("a job of few ranks can be made");
    let ended = local.run(|world| {
        world.barrier()?;
        ready.wait();
        if world.rank() == LOST {
            return Err(Error::Program("it fails".into()));
        }
        for _ in 0..3 * RANKS {
            match meet(world) {
                Ok(()) => drop(count.fetch_add(1, std::sync::atomic::Ordering::SeqCst)),
                Err(Error::RankLost { rank: LOST, .. }) => {}
                Err(other) => return Err(other),
            }
        }
        Ok(())
    });
    assert_eq!(ended.map(drop), Err(Error::Program("it fails".into())));
    count.into_inner()
}

#[test]
fn barriers_after_a_loss_fail_however_often_they_are_tried() {
    assert_eq!(succeeded(|world| world.barrier()), 0, "the default");
    for kind in BarrierKind::ALL {
        assert_eq!(succeeded(|world| world.barrier_by(kind)), 0, "{}", kind.name());
    }
    assert_eq!(succeeded(|world| world.sync()), 0, "sync");
    assert_eq!(succeeded(|world| world.barrier_nb()?.wait()), 0, "non-blocking");
}
