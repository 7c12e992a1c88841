//! Departures: which ranks have ended, in which order, and by which cause, so that an error names
//! the first cause.
//!
//! A loss has consequences: a rank that needed the lost one gets an error, and mostly ends with it.
//! Those ends are departures, too, and often failures by their exit status. So every node numbers
//! the departures that it hears of, a rank that ends because of a loss leaves that loss behind as
//! its *cause*, and news of a departure never goes anywhere without its cause. An error
//! that reports a missing rank follows the causes, and names the loss at which they end.

use crate::error::{Error, ExitCause};
use crate::names::Rank;

/// The state of a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerState {
    /// It has not joined yet.
    Starting,
    /// It is a member of the job.
    Alive,
    /// It has left in order.
    Left,
    /// It ended without leaving, or failed.
    Lost(ExitCause),
}

/// A rank that was lost, and how it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loss {
    /// The lost rank.
    pub rank: Rank,
    /// How it ended. [`ExitCause::Left`] if it left in order, while others still needed it.
    pub how: ExitCause,
}

/// The end of a rank, as far as this node has heard of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Departure {
    /// The state of the rank.
    pub peer_state: PeerState,
    /// Which of the departures that this node has heard of it was, from 1 on; 0 if it was none.
    pub order: u32,
    /// The loss because of which it ended, if it did not end by itself.
    pub cause: Option<Loss>,
}

/// In a word: 2 bits that are set, 3 bits of how a rank was lost, 27 bits of a rank, 32 bits of a
/// signal or a status.
const MARK: u64 = 3 << 62;
const HOW_SHIFT: u32 = 59;
const RANK_SHIFT: u32 = 32;
const RANK_MASK: u64 = (1 << (HOW_SHIFT - RANK_SHIFT)) - 1;

impl Loss {
    /// Returns the error that reports the loss.
    pub fn error(self) -> Error {
        Error::RankLost { rank: self.rank, how: self.how }
    }

    /// Returns the loss that an error reports.
    pub fn of(error: &Error) -> Option<Loss> {
        match *error {
            Error::RankLost { rank, how } | Error::Poisoned { rank, how } => {
                Some(Loss { rank, how })
            }
            _ => None,
        }
    }

    /// A loss as a word that others can read. Its two highest bits are set.
    pub fn to_bits(self) -> u64 {
        let (how, number) = match self.how {
            ExitCause::Signal(signal) => (0, signal as u32),
            ExitCause::Status(status) => (1, status as u32),
            ExitCause::Panicked => (2, 0),
            ExitCause::Failed => (3, 0),
            ExitCause::Left => (4, 0),
            ExitCause::Silent => (5, 0),
            ExitCause::Vanished => (6, 0),
        };
        MARK | (how << HOW_SHIFT)
            | (u64::from(self.rank.0) & RANK_MASK) << RANK_SHIFT
            | u64::from(number)
    }

    /// Returns the loss that a word means, if it means one.
    pub fn from_bits(bits: u64) -> Option<Loss> {
        let number = bits as u32;
        let how = match bits >> HOW_SHIFT & 7 {
            0 => ExitCause::Signal(number as i32),
            1 => ExitCause::Status(number as i32),
            2 => ExitCause::Panicked,
            3 => ExitCause::Failed,
            4 => ExitCause::Left,
            5 => ExitCause::Silent,
            _ => ExitCause::Vanished,
        };
        let rank = Rank((bits >> RANK_SHIFT & RANK_MASK) as u32);
        (bits & MARK == MARK).then_some(Loss { rank, how })
    }
}

impl Departure {
    /// Of a rank of which no more is known than its fate.
    pub fn of(peer_state: PeerState) -> Departure {
        Departure { peer_state, order: 0, cause: None }
    }

    /// Returns how the rank was lost, if it was.
    pub fn lost(&self) -> Option<ExitCause> {
        match self.peer_state {
            PeerState::Lost(how) => Some(how),
            _ => None,
        }
    }
}

/// Returns the loss at which the causes of `loss` end, as `me` sees it, which is never told that it
/// is lost itself.
pub fn first_cause(me: Rank, loss: Loss, departure: impl Fn(Rank) -> Departure) -> Loss {
    let mut first = loss;
    let mut passed = vec![loss.rank];
    while let Some(cause) = departure(first.rank).cause {
        // Two sides that do not hear each other are each other's cause.
        if cause.rank == me || passed.contains(&cause.rank) {
            break;
        }
        passed.push(cause.rank);
        first = Loss { rank: cause.rank, how: departure(cause.rank).lost().unwrap_or(cause.how) };
    }
    first
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn all() -> Vec<Loss> {
        let ends = [
            ExitCause::Panicked,
            ExitCause::Failed,
            ExitCause::Left,
            ExitCause::Silent,
            ExitCause::Vanished,
        ];
        let numbered = [-1, 0, 9, i32::MIN, i32::MAX]
            .into_iter()
            .flat_map(|it| [ExitCause::Signal(it), ExitCause::Status(it)]);
        let ends: Vec<ExitCause> = ends.into_iter().chain(numbered).collect();
        let ranks = [0, 1, 77, (1 << 24) - 1].map(Rank);
        ranks.into_iter().flat_map(|rank| ends.iter().map(move |&how| Loss { rank, how })).collect()
    }

    #[test]
    fn losses_survive_packing() {
        assert_eq!(Loss::from_bits(0), None);
        for loss in all() {
            assert_eq!(Loss::from_bits(loss.to_bits()), Some(loss));
        }
        let words: BTreeSet<u64> = all().into_iter().map(Loss::to_bits).collect();
        assert_eq!(words.len(), all().len(), "no two share a word");
    }

    /// Ranks with these causes, all of which exited with status 1.
    fn followed(me: u32, from: u32, causes: &[(u32, u32)]) -> u32 {
        let how = ExitCause::Status(1);
        let departure = |rank: Rank| {
            let cause = causes
                .iter()
                .find(|(of, _)| *of == rank.0)
                .map(|&(_, cause)| Loss { rank: Rank(cause), how });
            Departure { peer_state: PeerState::Lost(how), order: 1, cause }
        };
        first_cause(Rank(me), Loss { rank: Rank(from), how }, departure).rank.0
    }

    #[test]
    fn causes_are_followed_to_their_end() {
        assert_eq!(followed(9, 3, &[]), 3);
        assert_eq!(followed(9, 3, &[(3, 1)]), 1);
        assert_eq!(followed(9, 3, &[(3, 1), (1, 4), (4, 0)]), 0);
    }

    #[test]
    fn causes_in_a_circle_have_an_end_and_nobody_is_told_of_its_own_loss() {
        assert_eq!(followed(9, 3, &[(3, 1), (1, 3)]), 1);
        assert_eq!(followed(1, 3, &[(3, 1), (1, 0)]), 3);
    }

    #[test]
    fn what_is_known_here_of_an_end_is_better_than_what_another_knew() {
        let left = Loss { rank: Rank(2), how: ExitCause::Left };
        let departure = |rank: Rank| match rank.0 {
            1 => Departure { peer_state: PeerState::Left, order: 2, cause: Some(left) },
            _ => Departure {
                peer_state: PeerState::Lost(ExitCause::Status(7)),
                order: 1,
                cause: None,
            },
        };
        let first = first_cause(Rank(0), Loss { rank: Rank(1), how: ExitCause::Left }, departure);
        assert_eq!(first, Loss { rank: Rank(2), how: ExitCause::Status(7) });
    }
}
