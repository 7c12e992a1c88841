//! What has become of each rank, in words that others can read: its fate, which departure it was,
//! and because of whom.
//!
//! The first departure of a rank settles its number and its cause, and both are there before its
//! fate is: whoever sees that a rank has departed sees why. What it has noted as its cause is that,
//! and otherwise the first loss that its node knew of: who ends after a loss, and not by a signal
//! from outside, ends because of it.

use std::sync::atomic::Ordering::SeqCst;

use farside_fabric::{Departure, ExitCause, Loss, Node, PeerState, Rank, first_cause};

use crate::memory::Job;

/// The end of a rank that has not left in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RankLoss {
    /// The rank.
    pub rank: Rank,
    /// The cause of its end.
    pub how: ExitCause,
    /// Whether the launcher has ended it, which it does because of the first loss.
    pub is_stopped: bool,
}

/// The loss of a rank of another node.
#[derive(Debug, Clone, Copy)]
pub struct FarLoss {
    /// The rank.
    pub rank: Rank,
    /// How it ended.
    pub how: ExitCause,
    /// The loss that caused it, if one did.
    pub cause: Option<Loss>,
}

impl Job {
    /// What has become of a rank.
    pub fn peer_state(&self, rank: Rank) -> PeerState {
        fate_from_bits(self.member(rank).peer_state.load(SeqCst))
    }

    /// What is known here of the end of a rank.
    pub fn departure(&self, rank: Rank) -> Departure {
        let (member, peer_state) = (self.member(rank), self.peer_state(rank));
        if !matches!(peer_state, PeerState::Left | PeerState::Lost(_)) {
            return Departure::of(peer_state);
        }
        Departure {
            peer_state,
            order: member.order.load(SeqCst),
            cause: Loss::from_bits(member.cause.load(SeqCst)),
        }
    }

    /// A rank of this node leaves a loss behind as the cause of its end, should it end now: its own
    /// if its program has failed. With `None`, it has got over all losses so far.
    pub fn note_cause(&self, rank: Rank, cause: Option<Loss>) {
        let member = self.member(rank);
        match cause {
            None => {
                member.got_over.store(self.departures_numbered().load(SeqCst), SeqCst);
                member.cause.store(0, SeqCst);
            }
            // What was noted before stays the cause: the failure may be due to that.
            Some(loss) if loss.rank == rank => member.failed.store(1, SeqCst),
            // A rank that left in order may have done so because of a loss that was noted before.
            Some(Loss { how: ExitCause::Left, .. }) if member.cause.load(SeqCst) != 0 => {}
            Some(loss) => member.cause.store(loss.to_bits(), SeqCst),
        }
    }

    /// Returns the state in which a rank of this node ends that gives up its last connection now.
    pub fn end_of(&self, rank: Rank) -> PeerState {
        // A rank that unwinds has not left in order, even if the program goes on without it.
        if std::thread::panicking() {
            return PeerState::Lost(ExitCause::Panicked);
        }
        match self.member(rank).failed.load(SeqCst) {
            0 => PeerState::Left,
            _ => PeerState::Lost(ExitCause::Failed),
        }
    }

    /// Tells everybody that a rank of this node has ended without leaving, or has failed. Only the
    /// first report counts.
    pub fn declare_lost(&self, rank: Rank, how: ExitCause) {
        self.declare_losses(&[RankLoss { rank, how, is_stopped: false }]);
    }

    /// Tells everybody that the launcher has ended a rank of this node, which it does because of
    /// the first loss, if there was one.
    pub fn declare_stopped(&self, rank: Rank, how: ExitCause) {
        self.declare_losses(&[RankLoss { rank, how, is_stopped: true }]);
    }

    /// Tells everybody of several such ends at once: to wake all ranks for each of them takes
    /// seconds where thousands end together.
    pub fn declare_losses(&self, losses: &[RankLoss]) {
        let mut is_news = false;
        for &RankLoss { rank, how, is_stopped } in losses {
            let end = if is_stopped { PeerState::Left } else { PeerState::Lost(how) };
            self.settle_cause(rank, end);
            is_news |= self.lose(rank, how);
        }
        if is_news {
            self.alert();
        }
    }

    /// Decides because of which loss a rank of this node ends, which cannot change any more when it
    /// has departed.
    pub fn settle_cause(&self, rank: Rank, end: PeerState) -> Option<Loss> {
        let cause = &self.member(rank).cause;
        let noted = Loss::from_bits(cause.load(SeqCst));
        if self.is_gone(rank) {
            return noted;
        }
        let settled = match end {
            PeerState::Lost(how) if how.is_from_outside() => None,
            // That may have been a signal, and the rank may have known nothing.
            PeerState::Lost(ExitCause::Vanished) => noted,
            _ => noted.or_else(|| self.loss_known_to(rank)),
        };
        cause.store(settled.map_or(0, Loss::to_bits), SeqCst);
        settled
    }

    /// Notes what has become of a rank of another node, and because of whom.
    pub fn note_departure(&self, rank: Rank, peer_state: PeerState, cause: Option<Loss>) {
        match peer_state {
            PeerState::Starting => {}
            PeerState::Alive => drop(self.join(rank)),
            PeerState::Left => {
                self.keep_cause(rank, cause);
                self.go(rank);
            }
            PeerState::Lost(how) => self.note_losses(&[FarLoss { rank, how, cause }]),
        }
    }

    /// Notes losses of ranks of other nodes, and tells everybody of all at once.
    pub fn note_losses(&self, losses: &[FarLoss]) {
        let mut is_news = false;
        for &FarLoss { rank, how, cause } in losses {
            self.keep_cause(rank, cause);
            is_news |= self.lose(rank, how);
        }
        if is_news {
            self.alert();
        }
    }

    /// Keeps because of whom a rank of another node departs.
    fn keep_cause(&self, rank: Rank, cause: Option<Loss>) {
        let is_known = |cause: &Loss| cause.rank.0 < self.ranks() && !self.is_gone(rank);
        if let Some(cause) = cause.filter(is_known) {
            self.member(rank).cause.store(cause.to_bits(), SeqCst);
        }
    }

    /// A rank joins; false if somebody has joined as that rank before.
    pub(crate) fn join(&self, rank: Rank) -> bool {
        let (starting, alive) = (fate_bits(PeerState::Starting), fate_bits(PeerState::Alive));
        self.member(rank).peer_state.compare_exchange(starting, alive, SeqCst, SeqCst).is_ok()
    }

    /// A rank of this node leaves in order.
    pub(crate) fn leave(&self, rank: Rank) {
        self.settle_cause(rank, PeerState::Left);
        self.go(rank);
    }

    fn go(&self, rank: Rank) {
        self.number(rank);
        let (alive, left) = (fate_bits(PeerState::Alive), fate_bits(PeerState::Left));
        if self.member(rank).peer_state.compare_exchange(alive, left, SeqCst, SeqCst).is_ok() {
            self.alert();
        }
    }

    /// Returns whether that is news, of which everybody is to be alerted.
    #[must_use]
    fn lose(&self, rank: Rank, how: ExitCause) -> bool {
        self.number(rank);
        let lost = fate_bits(PeerState::Lost(how));
        let before = self.member(rank).peer_state.fetch_update(SeqCst, SeqCst, |bits| {
            (!matches!(fate_from_bits(bits), PeerState::Lost(_))).then_some(lost)
        });
        if before.is_ok() {
            self.failures().losses.fetch_add(1, SeqCst);
        }
        before.is_ok()
    }

    /// Gives the first departure of a rank its number.
    fn number(&self, rank: Rank) {
        let order = &self.member(rank).order;
        if order.load(SeqCst) == 0 {
            let next = self.departures_numbered().fetch_add(1, SeqCst) + 1;
            // Several may report the same end at a time; one number is as good as the other.
            let _ = order.compare_exchange(0, next, SeqCst, SeqCst);
        }
    }

    /// The first loss that was known here and that a rank has not got over.
    fn loss_known_to(&self, rank: Rank) -> Option<Loss> {
        if self.failures().losses.load(SeqCst) == 0 {
            return None;
        }
        let got_over = self.member(rank).got_over.load(SeqCst);
        let lost = |other: Rank| {
            let departure = self.departure(other);
            (other != rank && departure.order > got_over)
                .then_some((departure.order, Loss { rank: other, how: departure.lost()? }))
        };
        let (_, loss) =
            (0..self.ranks()).map(Rank).filter_map(lost).min_by_key(|&(order, _)| order)?;
        Some(first_cause(rank, loss, |rank| self.departure(rank)))
    }

    fn alert(&self) {
        self.failures().departures.fetch_add(1, SeqCst);
        for rank in 0..self.ranks() {
            // Unasked: whoever died may have been about to wake this one, and have taken its
            // announcement away already.
            self.bell(Rank(rank)).ring();
        }
        for node in 0..self.topology().nodes() {
            self.agent_bell(Node(node)).ring();
            self.standby_bell(Node(node)).ring();
        }
    }
}

/// A fate as a word.
pub fn fate_bits(peer_state: PeerState) -> u64 {
    let with = |kind: u64, code: i32| kind | (u64::from(code as u32) << 32);
    match peer_state {
        PeerState::Starting => 0,
        PeerState::Alive => 1,
        PeerState::Left => 2,
        PeerState::Lost(ExitCause::Signal(signal)) => with(3, signal),
        PeerState::Lost(ExitCause::Status(status)) => with(4, status),
        PeerState::Lost(ExitCause::Panicked) => 5,
        PeerState::Lost(ExitCause::Failed) => 6,
        PeerState::Lost(ExitCause::Left) => 7,
        PeerState::Lost(ExitCause::Silent) => 8,
        PeerState::Lost(ExitCause::Vanished) => 9,
    }
}

/// The fate that a word means.
pub fn fate_from_bits(bits: u64) -> PeerState {
    let code = (bits >> 32) as u32 as i32;
    match bits as u32 {
        0 => PeerState::Starting,
        1 => PeerState::Alive,
        2 => PeerState::Left,
        3 => PeerState::Lost(ExitCause::Signal(code)),
        4 => PeerState::Lost(ExitCause::Status(code)),
        5 => PeerState::Lost(ExitCause::Panicked),
        6 => PeerState::Lost(ExitCause::Failed),
        7 => PeerState::Lost(ExitCause::Left),
        9 => PeerState::Lost(ExitCause::Vanished),
        _ => PeerState::Lost(ExitCause::Silent),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    use farside_fabric::{Connection as _, Topology};

    use super::*;
    use crate::{Config, Endpoint};

    const KILLED: ExitCause = ExitCause::Signal(9);
    const EXITED: ExitCause = ExitCause::Status(1);

    fn job(ranks: u32) -> Arc<Job> {
        let mut config = Config::new(Topology::flat(ranks), 4096);
        config.arena_bytes = 1 << 20;
        let job = Job::create(&config).unwrap();
        assert!((1..ranks).all(|rank| job.join(Rank(rank))));
        job
    }

    fn loss(rank: u32, how: ExitCause) -> Option<Loss> {
        Some(Loss { rank: Rank(rank), how })
    }

    /// Whom rank 0 has to name.
    fn first(job: &Arc<Job>) -> Option<Loss> {
        let endpoint = Endpoint::join(job.clone(), Rank(0)).unwrap();
        endpoint.job().first_loss((0..job.ranks()).map(Rank))
    }

    #[test]
    fn fates_survive_packing() {
        let ends = [
            ExitCause::Panicked,
            ExitCause::Failed,
            ExitCause::Left,
            ExitCause::Silent,
            ExitCause::Vanished,
        ];
        for how in ends.into_iter().chain([ExitCause::Signal(9), ExitCause::Status(-1)]) {
            assert_eq!(fate_from_bits(fate_bits(PeerState::Lost(how))), PeerState::Lost(how));
        }
    }

    #[test]
    fn the_first_report_of_a_loss_counts() {
        let job = job(2);
        assert!(!job.join(Rank(1)), "nobody joins twice");
        job.leave(Rank(1));
        assert_eq!(job.peer_state(Rank(1)), PeerState::Left);
        job.declare_lost(Rank(1), KILLED);
        job.declare_lost(Rank(1), EXITED);
        assert_eq!(job.peer_state(Rank(1)), PeerState::Lost(KILLED));
        assert_eq!(job.failures().losses.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn the_first_loss_in_time_is_named_and_not_the_lowest_rank() {
        let job = job(4);
        job.declare_lost(Rank(3), KILLED);
        job.declare_lost(Rank(1), KILLED);
        assert_eq!(first(&job), loss(3, KILLED));
    }

    #[test]
    fn who_exits_after_a_loss_is_its_consequence() {
        let job = job(4);
        job.declare_lost(Rank(3), KILLED);
        job.declare_lost(Rank(1), EXITED);
        assert_eq!(job.departure(Rank(1)).cause, loss(3, KILLED));
        let endpoint = Endpoint::join(job.clone(), Rank(0)).unwrap();
        assert_eq!(
            endpoint.job().first_loss([Rank(1)]),
            loss(3, KILLED),
            "also for who needs only the other one"
        );
    }

    #[test]
    fn who_is_killed_after_a_loss_is_none() {
        let job = job(4);
        job.declare_lost(Rank(3), KILLED);
        job.note_cause(Rank(1), loss(3, KILLED));
        job.declare_lost(Rank(1), KILLED);
        assert_eq!(job.departure(Rank(1)).cause, None);
    }

    #[test]
    fn who_is_killed_by_the_launcher_after_a_loss_is_its_consequence() {
        let job = job(4);
        job.declare_lost(Rank(3), KILLED);
        job.declare_stopped(Rank(1), ExitCause::Signal(15));
        assert_eq!(job.departure(Rank(1)).cause, loss(3, KILLED));
    }

    #[test]
    fn ends_that_are_seen_together_are_one_alert() {
        let job = job(4);
        let departures = || job.failures().departures.load(Ordering::SeqCst);
        let before = departures();
        let lost = |rank, how, is_stopped| RankLoss { rank: Rank(rank), how, is_stopped };
        job.declare_losses(&[
            lost(3, KILLED, false),
            lost(1, EXITED, false),
            lost(2, ExitCause::Signal(15), true),
        ]);
        assert_eq!(departures(), before + 1);
        assert_eq!(job.failures().losses.load(Ordering::SeqCst), 3);
        for consequence in [1, 2] {
            assert_eq!(job.departure(Rank(consequence)).cause, loss(3, KILLED));
        }
        job.declare_losses(&[lost(3, EXITED, false)]);
        assert_eq!(departures(), before + 1, "what is known wakes nobody");
    }

    #[test]
    fn losses_of_other_nodes_that_come_together_are_one_alert() {
        let job = job(4);
        let departures = || job.failures().departures.load(Ordering::SeqCst);
        let before = departures();
        let lost = |rank, cause| FarLoss { rank: Rank(rank), how: EXITED, cause };
        job.note_losses(&[lost(2, None), lost(3, loss(2, EXITED))]);
        assert_eq!(departures(), before + 1);
        assert_eq!(job.departure(Rank(3)).cause, loss(2, EXITED));
    }

    #[test]
    fn who_aborts_after_a_loss_is_its_consequence() {
        let abort = ExitCause::Signal(6);
        let known = job(4);
        known.declare_lost(Rank(3), KILLED);
        known.declare_lost(Rank(1), abort);
        assert_eq!(known.departure(Rank(1)).cause, loss(3, KILLED));
        // The rank has read of a loss that its node has not heard of.
        let noted = job(4);
        noted.note_cause(Rank(1), loss(3, KILLED));
        noted.declare_lost(Rank(1), abort);
        assert_eq!(noted.departure(Rank(1)).cause, loss(3, KILLED));
        let alone = job(4);
        alone.declare_lost(Rank(1), abort);
        assert_eq!(alone.departure(Rank(1)).cause, None);
    }

    #[test]
    fn who_fails_after_it_has_noted_a_loss_ends_because_of_that() {
        let job = job(4);
        job.note_cause(Rank(1), loss(3, KILLED));
        job.note_cause(Rank(1), loss(1, ExitCause::Failed));
        assert_eq!(job.end_of(Rank(1)), PeerState::Lost(ExitCause::Failed));
        job.declare_lost(Rank(1), ExitCause::Failed);
        assert_eq!(first(&job), loss(3, KILLED));
    }

    #[test]
    fn who_has_failed_by_itself_is_a_cause_in_whichever_order_the_ends_are_seen() {
        let job = job(3);
        // Rank 2 fails, and leaves; rank 1 misses it, and both processes end before anybody looks.
        job.leave(Rank(2));
        job.note_cause(Rank(1), loss(2, ExitCause::Left));
        job.leave(Rank(1));
        job.declare_lost(Rank(1), EXITED);
        job.declare_lost(Rank(2), ExitCause::Status(7));
        assert_eq!(first(&job), loss(2, ExitCause::Status(7)));
        assert_eq!(job.departure(Rank(2)).cause, None);
        assert_eq!(job.departure(Rank(1)).cause, loss(2, ExitCause::Left));
    }

    #[test]
    fn who_has_got_over_a_loss_ends_for_another_reason() {
        let job = job(4);
        job.declare_lost(Rank(3), KILLED);
        job.note_cause(Rank(1), loss(3, KILLED));
        job.note_cause(Rank(1), None);
        job.declare_lost(Rank(1), EXITED);
        assert_eq!(job.departure(Rank(1)).cause, None);
    }

    #[test]
    fn news_of_a_consequence_that_come_before_those_of_its_cause_name_the_cause() {
        let job = job(4);
        job.note_departure(Rank(2), PeerState::Lost(EXITED), loss(3, KILLED));
        assert_eq!(first(&job), loss(3, KILLED));
        // What comes later changes nothing.
        job.note_departure(Rank(2), PeerState::Lost(EXITED), None);
        assert_eq!(job.departure(Rank(2)).cause, loss(3, KILLED));
    }
}
