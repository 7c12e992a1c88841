//! A rank leaves because of a loss that others have not heard of: whoever misses it must be told of
//! the loss.

use std::sync::{Barrier, Mutex};

use farside::{
    BarrierKind, Error, ExitCause, Local, Node, PeerState, Rank, Result, SyncKind, WaitOptions,
    World,
};
use farside_fabric::record::Records;
use farside_fabric::{Connection, Departure, Effort, JobState, JobView, Loss, forward};

/// Leaves because of the loss.
const LEAVER: Rank = Rank(0);
/// Rank 1, whose first message of a barrier comes from the leaver, sends it none.
const LOST: Rank = Rank(4);
const RANKS: u32 = 5;

/// A connection over which only the leaver hears of the loss.
struct Discreet(Box<dyn Connection>);

impl JobState for Discreet {
    fn peer_state(&self, peer: Rank) -> PeerState {
        let job = self.0.job();
        match job.peer_state(peer) {
            // Whose program fails leaves first, and is lost then.
            PeerState::Starting => PeerState::Starting,
            _ if peer == LOST && job.rank != LEAVER => PeerState::Alive,
            peer_state => peer_state,
        }
    }
    fn departure(&self, peer: Rank) -> Departure {
        Departure { peer_state: self.peer_state(peer), ..self.0.job().state.departure(peer) }
    }
    fn note_cause(&self, cause: Option<Loss>) {
        self.0.job().state.note_cause(cause);
    }
    fn leave(&self) {
        self.0.job().state.leave();
    }
    fn effort(&self) -> Effort {
        self.0.job().state.effort()
    }
    fn records(&self) -> Option<Records> {
        self.0.job().state.records()
    }
}

impl Connection for Discreet {
    forward! {
        to .0: register deregister map put put_nb put_signal get accumulate atomic fence flush call
        serve poll cancel block relax wake landings clock probe
    }
    fn job(&self) -> JobView<'_> {
        JobView { state: self, ..self.0.job() }
    }
    fn context(&self) -> Result<Box<dyn Connection>> {
        Ok(Box::new(Discreet(self.0.context()?)))
    }
}

/// What all but the lost rank get from `program`, in which `turn` is the moment when one is lost
/// and another leaves because of that.
fn told(
    local: Local,
    program: impl Fn(&World, &dyn Fn() -> Result<()>) -> Result<()> + Sync,
) -> Vec<(Rank, Error)> {
    let (ready, outcomes) = (Barrier::new(RANKS as usize), Mutex::new(Vec::new()));
    let local = local.decorate(|fabric| Box::new(Discreet(fabric)));
    let ended = local.run(|world| {
        let (me, word) = (world.rank(), world.words(1)?);
        let turn = || {
            ready.wait();
            match me {
                LOST => Err(Error::Program("it fails".into())),
                // Whose program fails has left for a moment, before it is known to have failed.
                LEAVER => loop {
                    let told = world.wait_among(
                        &[LEAVER, LOST],
                        word.at(me, 0),
                        |word| word == 1,
                        WaitOptions::default(),
                    );
                    match told.map(drop) {
                        Err(Error::RankLost { rank: LOST, how: ExitCause::Left }) => {
                            std::thread::yield_now()
                        }
                        other => return other,
                    }
                },
                _ => Ok(()),
            }
        };
        let error = program(world, &turn).expect_err("somebody does not come");
        if me == LOST {
            return Err(error);
        }
        outcomes.lock().expect("nobody panics with it").push((me, error));
        Ok(())
    });
    assert_eq!(ended.map(drop), Err(Error::Program("it fails".into())));
    let mut outcomes = outcomes.into_inner().expect("nobody panics with it");
    outcomes.sort_by_key(|&(rank, _)| rank);
    outcomes
}

fn local() -> Local {
    Local::new(RANKS).expect("the environment is in order").cores(64)
}

/// All know the loss, whether they have heard of it or missed the one who left.
fn assert_all_know(
    what: &str,
    local: Local,
    program: impl Fn(&World, &dyn Fn() -> Result<()>) -> Result<()> + Sync,
) {
    let loss = Error::RankLost { rank: LOST, how: ExitCause::Failed };
    let all = [LEAVER, Rank(1), Rank(2), Rank(3)].map(|rank| (rank, loss.clone()));
    assert_eq!(told(local, program), all, "{what}");
}

#[test]
fn a_collective_names_the_loss_because_of_which_a_member_left() {
    for local in
        [|| local(), || local().cores(1), || local().topology("node:5"), || local().nodes(5)]
    {
        assert_all_know("barrier", local(), |world, turn| {
            turn()?;
            world.barrier()
        });
        assert_all_know("broadcast", local(), |world, turn| {
            turn()?;
            world.broadcast(LEAVER, &mut [1])
        });
    }
}

#[test]
fn a_barrier_names_the_loss_because_of_which_a_rank_left() {
    for (kind, nodes) in BarrierKind::ALL.into_iter().flat_map(|kind| [(kind, 1), (kind, RANKS)]) {
        let local = if nodes == 1 { local() } else { local().nodes(nodes) };
        assert_all_know(kind.name(), local, |world, turn| {
            turn()?;
            world.barrier_by(kind)
        });
    }
    assert_all_know("combined", local().nodes(RANKS), |world, turn| {
        // The first one allocates.
        world.sync()?;
        turn()?;
        world.sync_by(SyncKind::Counted)
    });
}

#[test]
fn a_call_names_the_loss_because_of_which_the_agent_is_gone() {
    // On a node of its own: else the next rank of the node would answer.
    assert_all_know("call", local().nodes(RANKS), |world, turn| {
        let handler = world.serve(|_, _, bytes| bytes.to_vec())?;
        turn()?;
        loop {
            world.call(Node(0), handler, b"echo")?;
        }
    });
}

#[test]
fn a_call_names_the_first_loss_of_a_node_that_is_gone() {
    const CAUSE: Rank = Rank(1);
    for nodes in
        [|| Local::new(4).map(|it| it.nodes(2)), || Local::new(4).map(|it| it.topology("node:2"))]
    {
        let (ready, named) = (Barrier::new(4), Mutex::new(Vec::new()));
        let ended = nodes().expect("the environment is in order").run(|world| {
            let (me, word) = (world.rank(), world.words(1)?);
            let handler = world.serve(|_, _, bytes| bytes.to_vec())?;
            world.barrier()?;
            ready.wait();
            match me {
                CAUSE => return Err(Error::Program("it fails".into())),
                // It ends because of the loss, and is lost as well.
                Rank(0) => return world.wait(word.at(me, 0), |word| word == 1).map(drop),
                _ => {}
            }
            // Whoever asks now finds two lost ranks, the first of which is a consequence.
            while !matches!(world.peer_state(Rank(0)), PeerState::Lost(_)) {
                std::thread::yield_now();
            }
            let asked = world.call(Node(0), handler, b"echo").expect_err("nobody is there");
            named.lock().expect("nobody panics with it").push(asked);
            Ok(())
        });
        assert_eq!(ended.map(drop), Err(Error::Program("it fails".into())));
        let loss = Error::RankLost { rank: CAUSE, how: ExitCause::Failed };
        let named = named.into_inner().expect("nobody panics with it");
        assert_eq!(named, [loss.clone(), loss]);
    }
}

#[test]
fn a_team_without_the_lost_rank_names_the_loss_because_of_which_a_member_left() {
    let outcomes = told(local(), |world, turn| {
        let team = world.split((world.rank() != LOST).then_some(1), 0)?;
        turn()?;
        team.map_or(Ok(()), |team| team.barrier())
    });
    let loss = Error::RankLost { rank: LOST, how: ExitCause::Failed };
    assert_eq!(outcomes[1..], [Rank(1), Rank(2), Rank(3)].map(|rank| (rank, loss.clone())));
}

#[test]
fn a_team_misses_who_had_gone_on_after_the_loss_and_left_later() {
    let outcomes = told(local(), |world, turn| {
        let team = world.split((world.rank() != LOST).then_some(1), 0)?;
        match turn() {
            Err(error) if world.rank() == LEAVER => {
                world.go_on();
                Err(error)
            }
            other => other.and_then(|()| team.map_or(Ok(()), |team| team.barrier())),
        }
    });
    let left = Error::RankLost { rank: LEAVER, how: ExitCause::Left };
    assert_eq!(outcomes[1..], [Rank(1), Rank(2), Rank(3)].map(|rank| (rank, left.clone())));
}
