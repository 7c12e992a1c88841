//! A collective of a team that has lost a member fails, however often it is tried: what a failed
//! one has left behind does not make up for the member.

use std::sync::Barrier;

use farside::{BarrierKind, Error, ExitCause, Local, PeerState, Rank, Result, World};

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

/// Rank 0 alone has put something to the rank that is lost, which is no member.
#[test]
fn a_put_to_a_lost_rank_keeps_no_member_from_meeting_the_others() {
    for local in [|local: Local| local.nodes(RANKS), |local: Local| local.topology("node:4")] {
        let ready = Barrier::new(RANKS as usize);
        let local = local(Local::new(RANKS).expect("a job of few ranks can be made"));
        let ended = local.run(|world| {
            let (me, words) = (world.rank(), world.words(1)?);
            let team = world.split((me != LOST).then_some(0), 0)?;
            world.flush_all()?;
            if me == Rank(0) {
                world.signal(words.at(LOST, 0), 1)?;
            }
            ready.wait();
            let Some(team) = team else { return Err(Error::Program("it fails".into())) };
            let (memory, own) = (team.window::<u64>(1)?, team.words(1)?);
            // Across nodes, room for this is kept, and is too short for the next.
            team.all_sum(&mut vec![1u64; 50_000])?;
            while !matches!(world.peer_state(LOST), PeerState::Lost(_)) {
                std::thread::yield_now();
            }
            team.all_sum(&mut vec![1u64; 100_000])?;
            let told = [team.sync(), own.free(&team), memory.free(&team), team.free()];
            let loss = Error::RankLost { rank: LOST, how: ExitCause::Failed };
            let first = if me == Rank(0) { Err(loss) } else { Ok(()) };
            assert_eq!(told, [first, Ok(()), Ok(()), Ok(())], "{me}");
            Ok(())
        });
        assert_eq!(ended.map(drop), Err(Error::Program("it fails".into())));
    }
}
