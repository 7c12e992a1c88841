//! One rank's view of its job: what is constant, the counters of failures, the state of its peers.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::caps::Caps;
use crate::departure::{Departure, Loss, PeerState, first_cause};
use crate::error::{Error, ExitCause, Result};
use crate::memory::Held;
use crate::names::{Node, Rank};
use crate::record::{Effort, Records};
use crate::topology::Topology;

/// One rank's view of its job.
///
/// It borrows from the connection that gave it, so a decorator can replace any part of it (the
/// capabilities, the state of peers) without owning the rest.
#[derive(Clone, Copy)]
pub struct JobView<'a> {
    /// The rank whose view this is.
    pub rank: Rank,
    /// Which node, socket, … each rank is on.
    pub topology: &'a Topology,
    /// Numbers and orderings of the fabric.
    pub caps: &'a Caps,
    /// Counters of ranks that were lost or have left. Clones of the handle outlive the connection.
    pub failures: &'a Failures,
    /// What changes while the job runs.
    pub state: &'a dyn JobState,
}

/// What of a job changes while it runs, as one connection sees it.
///
/// Every method is required, so that a decorator cannot forget one. [`Roster`] is an
/// implementation for fabrics that live in one process.
pub trait JobState {
    /// Returns the state of `peer`, which must be a rank of the job.
    fn peer_state(&self, peer: Rank) -> PeerState;
    /// Returns what is known of the departure of `peer`, which must be a rank of the job.
    fn departure(&self, peer: Rank) -> Departure;
    /// Notes a loss as the cause of this rank's end, should it end now; `None` states that this
    /// rank has recovered from all losses so far.
    fn note_cause(&self, cause: Option<Loss>);
    /// Declares that this rank has left in order, whatever its threads still do: for a process
    /// that is about to exit. Touches nothing but what all threads share.
    fn leave(&self);
    /// Returns how much waiting this connection has done.
    fn effort(&self) -> Effort;
    /// Returns this connection's records that viewers read, if the fabric has memory for them.
    fn records(&self) -> Option<Records>;
}

/// A handle on a job's failure counters that is cheap to read before every operation.
pub type Failures = Held<FailureCounters>;

/// Counters of ranks that have departed.
#[derive(Debug, Default)]
#[repr(C)]
pub struct FailureCounters {
    /// How many ranks were lost.
    pub losses: AtomicU32,
    /// How many ranks were lost or have left in order.
    pub departures: AtomicU32,
}

impl FailureCounters {
    /// Returns whether any rank was lost. Relaxed: for a look before an operation.
    #[inline]
    pub fn any_lost(&self) -> bool {
        self.losses.load(Ordering::Relaxed) != 0
    }

    /// Returns how many ranks have departed.
    #[inline]
    pub fn departures(&self) -> u32 {
        self.departures.load(Ordering::SeqCst)
    }
}

impl<'a> JobView<'a> {
    /// Returns the state of `peer`, which must be a rank of the job.
    pub fn peer_state(&self, peer: Rank) -> PeerState {
        self.state.peer_state(peer)
    }

    /// Returns whether `peer` was lost; a rank that is not of the job was not.
    pub fn is_lost(&self, peer: Rank) -> bool {
        self.topology.check(peer).is_ok() && matches!(self.peer_state(peer), PeerState::Lost(_))
    }

    /// Returns whether the ranks among `members` that are on this node outnumber its processors.
    pub fn is_crowded(&self, members: impl IntoIterator<Item = Rank>) -> bool {
        let near = |&rank: &Rank| self.topology.same_node(rank, self.rank);
        members.into_iter().filter(near).count() > self.caps.processors as usize
    }

    /// Returns the first cause of all losses among `ranks`, as far as this rank's node has heard
    /// of any.
    pub fn first_loss(&self, ranks: impl IntoIterator<Item = Rank>) -> Option<Loss> {
        let lost = |rank: Rank| {
            let departure = self.state.departure(rank);
            Some((departure.order, Loss { rank, how: departure.lost()? }))
        };
        let (_, loss) =
            ranks.into_iter().filter_map(lost).min_by_key(|&(order, loss)| (order, loss.rank))?;
        Some(self.first_cause(loss))
    }

    /// Returns the loss at which the causes of `loss` end, as far as this rank's node has heard of
    /// them.
    pub fn first_cause(&self, loss: Loss) -> Loss {
        first_cause(self.rank, loss, |rank| self.state.departure(rank))
    }

    /// Fails with the first cause if `peer` was lost, and leaves it behind as the cause of this
    /// rank's end. A rank that left in order is no error: its memory is still there.
    pub fn check_alive(&self, peer: Rank) -> Result<()> {
        self.topology.check(peer)?;
        match self.first_loss(self.failures.any_lost().then_some(peer)) {
            Some(loss) => Err(self.told(loss)),
            None => Ok(()),
        }
    }

    /// Fails if no rank of a node is left to run its handlers; the error names the first cause of
    /// that, which stays behind as the cause of this rank's end.
    pub fn check_agent(&self, node: Node) -> Result<()> {
        let Err(error) = self.topology.first_left(node, |rank| self.peer_state(rank)) else {
            return Ok(());
        };
        let lost = self.first_loss(self.topology.ranks_of(node).iter().copied());
        let loss = lost.or_else(|| Loss::of(&error).map(|left| self.first_cause(left)));
        Err(loss.map_or(error, |loss| self.told(loss)))
    }

    /// This rank hears of a loss in an error. Should it end now, it ends because of that.
    fn told(&self, loss: Loss) -> Error {
        self.state.note_cause(Some(loss));
        loss.error()
    }
}

/// The states of a job's ranks in one process: numbers departures and settles their causes. A
/// fabric that lives in one process keeps one, behind whatever lock protects the rest of its state.
#[derive(Debug)]
pub struct Roster {
    failures: std::sync::Arc<FailureCounters>,
    departures: Vec<Departure>,
    /// How many departures each rank has recovered from.
    recovered: Vec<u32>,
}

impl Roster {
    /// A roster of `ranks` ranks that have not joined yet.
    pub fn new(ranks: u32) -> Roster {
        Roster {
            failures: Default::default(),
            departures: vec![Departure::of(PeerState::Starting); ranks as usize],
            recovered: vec![0; ranks as usize],
        }
    }

    /// Returns the counters of failures.
    pub fn failures(&self) -> &std::sync::Arc<FailureCounters> {
        &self.failures
    }

    /// A rank joins; false if it has joined before.
    pub fn join(&mut self, rank: Rank) -> bool {
        let state = &mut self.departures[rank.index()].peer_state;
        let is_first = *state == PeerState::Starting;
        if is_first {
            *state = PeerState::Alive;
        }
        is_first
    }

    /// A rank departs: in order, or lost. The first report of a departure settles its number and
    /// its cause; a rank that has left may be reported lost later.
    pub fn depart(&mut self, rank: Rank, lost: Option<ExitCause>) {
        let known = self.departures[rank.index()];
        if matches!(known.peer_state, PeerState::Lost(_)) || (known.order > 0 && lost.is_none()) {
            return;
        }
        let cause = match lost {
            _ if known.order > 0 => known.cause,
            Some(how) if how.is_from_outside() => None,
            _ => known.cause.or_else(|| self.loss_known_to(rank)),
        };
        let order = if known.order > 0 { known.order } else { self.count() + 1 };
        self.departures[rank.index()] =
            Departure { peer_state: lost.map_or(PeerState::Left, PeerState::Lost), order, cause };
        if lost.is_some() {
            self.failures.losses.fetch_add(1, Ordering::SeqCst);
        }
        self.failures.departures.fetch_add(1, Ordering::SeqCst);
    }

    /// Returns the state of a rank of the job.
    pub fn peer_state(&self, rank: Rank) -> PeerState {
        self.departures[rank.index()].peer_state
    }

    /// Returns what is known of the departure of a rank of the job.
    pub fn departure(&self, rank: Rank) -> Departure {
        let known = self.departures[rank.index()];
        // What a rank has noted is the cause of its end once it has ended.
        if known.order == 0 { Departure::of(known.peer_state) } else { known }
    }

    /// Notes a loss as the cause of a rank's end, or with `None` that it has recovered from all.
    pub fn note_cause(&mut self, rank: Rank, cause: Option<Loss>) {
        let count = self.count();
        let noted = &mut self.departures[rank.index()].cause;
        match cause {
            None => {
                *noted = None;
                self.recovered[rank.index()] = count;
            }
            // A rank that left, or failed, may have done so because of a loss noted before.
            Some(loss) if noted.is_some() && (loss.rank == rank || loss.how == ExitCause::Left) => {
            }
            Some(_) => *noted = cause,
        }
    }

    /// Returns how many departures there were.
    pub fn count(&self) -> u32 {
        self.failures.departures()
    }

    /// Returns the first loss that a rank has not recovered from.
    fn loss_known_to(&self, rank: Rank) -> Option<Loss> {
        let lost = |other: Rank| {
            let departure = self.departure(other);
            (departure.order > self.recovered[rank.index()])
                .then_some((departure.order, Loss { rank: other, how: departure.lost()? }))
        };
        let all = (0..self.departures.len() as u32).map(Rank).filter_map(lost);
        let (_, loss) = all.min_by_key(|&(order, _)| order)?;
        Some(first_cause(rank, loss, |rank| self.departure(rank)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_report_of_a_loss_counts() {
        let mut roster = Roster::new(2);
        assert!(roster.join(Rank(1)) && !roster.join(Rank(1)));
        roster.depart(Rank(1), None);
        assert_eq!(roster.peer_state(Rank(1)), PeerState::Left);
        roster.depart(Rank(1), Some(ExitCause::Failed));
        roster.depart(Rank(1), Some(ExitCause::Panicked));
        roster.depart(Rank(1), None);
        assert_eq!(roster.peer_state(Rank(1)), PeerState::Lost(ExitCause::Failed));
        let failures = roster.failures();
        assert_eq!((failures.losses.load(Ordering::SeqCst), failures.departures()), (1, 2));
    }

    #[test]
    fn a_rank_that_ends_after_a_loss_is_its_consequence_unless_it_has_recovered() {
        let loss = Loss { rank: Rank(2), how: ExitCause::Signal(9) };
        for recovers in [false, true] {
            let mut roster = Roster::new(3);
            roster.depart(loss.rank, Some(loss.how));
            if recovers {
                roster.note_cause(Rank(1), None);
            }
            roster.depart(Rank(1), Some(ExitCause::Failed));
            assert_eq!(roster.departure(Rank(1)).cause, (!recovers).then_some(loss));
        }
    }

    /// Rank 2 as the connections of one process see it, with what it has noted.
    struct Seen(std::cell::RefCell<Roster>);

    impl JobState for Seen {
        fn peer_state(&self, peer: Rank) -> PeerState {
            self.0.borrow().peer_state(peer)
        }
        fn departure(&self, peer: Rank) -> Departure {
            self.0.borrow().departure(peer)
        }
        fn note_cause(&self, cause: Option<Loss>) {
            self.0.borrow_mut().note_cause(Rank(2), cause);
        }
        fn leave(&self) {}
        fn effort(&self) -> Effort {
            Effort::default()
        }
        fn records(&self) -> Option<Records> {
            None
        }
    }

    #[test]
    fn a_node_that_is_gone_is_blamed_on_the_first_cause_which_stays_behind() {
        let loss = Loss { rank: Rank(1), how: ExitCause::Signal(9) };
        let mut roster = Roster::new(4);
        (0..4).map(Rank).for_each(|rank| assert!(roster.join(rank)));
        // News of the consequence come first, with their cause.
        roster.note_cause(Rank(0), Some(loss));
        roster.depart(Rank(0), Some(ExitCause::Status(1)));
        roster.depart(Rank(1), Some(loss.how));
        let topology = Topology::parse("node:2", 4).unwrap();
        let failures = Failures::from(roster.failures().clone());
        let seen = Seen(roster.into());
        let caps = Caps {
            name: "test",
            ordering: crate::caps::Ordering::Unordered,
            direct: false,
            cpu_coherent: true,
            call_bytes_max: 0,
            outstanding_max: 1,
            processors: 1,
            root_bytes: 0,
        };
        let (topology, caps, failures) = (&topology, &caps, &failures);
        let view = JobView { rank: Rank(2), topology, caps, failures, state: &seen };
        assert_eq!(view.check_agent(Node(1)), Ok(()));
        assert_eq!(view.check_alive(Rank(3)), Ok(()));
        for told in [view.check_agent(Node(0)), view.check_alive(Rank(0))] {
            assert_eq!(told, Err(loss.error()));
        }
        seen.0.borrow_mut().depart(Rank(2), Some(ExitCause::Signal(6)));
        assert_eq!(seen.departure(Rank(2)).cause, Some(loss), "also if it aborts");
    }
}
