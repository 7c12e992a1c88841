//! Why there is no use in waiting, as a word that others can write and read.

use farside_fabric::{Ended, Rank};

/// Why a team's collectives come to no end any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Poison {
    /// The members make different calls, as this one has noticed in the collective with the number `since`. Those before it may still be going on
    /// elsewhere, and will come to their end.
    Disagreement { noticed_by: Rank, since: u32 },
    /// This one has left, and did not come to the collective with the number `since`. Those before it likewise.
    HasLeft { rank: Rank, since: u32 },
    /// This one was lost, and comes to none any more.
    Lost { rank: Rank, how: Ended },
}

/// In a word: 2 bits of kind, 3 bits of how a rank was lost, 27 bits of a rank, 32 bits of a number, a signal or a status. Zero says nothing.
const KIND_SHIFT: u32 = 62;
const HOW_SHIFT: u32 = 59;
const RANK_SHIFT: u32 = 32;
const RANK_MASK: u64 = (1 << (HOW_SHIFT - RANK_SHIFT)) - 1;

impl Poison {
    pub(crate) fn to_bits(self) -> u64 {
        let (kind, how, rank, number) = match self {
            Poison::Disagreement { noticed_by, since } => (1, 0, noticed_by, since),
            Poison::HasLeft { rank, since } => (2, 0, rank, since),
            Poison::Lost { rank, how } => {
                let (how, number) = match how {
                    Ended::Signal(signal) => (0, signal as u32),
                    Ended::Status(status) => (1, status as u32),
                    Ended::Panicked => (2, 0),
                    Ended::Failed => (3, 0),
                    Ended::Left => (4, 0),
                    Ended::Silent => (5, 0),
                    Ended::Vanished => (6, 0),
                };
                (3, how, rank, number)
            }
        };
        (kind << KIND_SHIFT) | (how << HOW_SHIFT) | (u64::from(rank.0) & RANK_MASK) << RANK_SHIFT | u64::from(number)
    }

    pub(crate) fn from_bits(bits: u64) -> Option<Poison> {
        let rank = Rank((bits >> RANK_SHIFT & RANK_MASK) as u32);
        let number = bits as u32;
        let how = match bits >> HOW_SHIFT & 7 {
            0 => Ended::Signal(number as i32),
            1 => Ended::Status(number as i32),
            2 => Ended::Panicked,
            3 => Ended::Failed,
            4 => Ended::Left,
            5 => Ended::Silent,
            _ => Ended::Vanished,
        };
        match bits >> KIND_SHIFT {
            0 => None,
            1 => Some(Poison::Disagreement { noticed_by: rank, since: number }),
            2 => Some(Poison::HasLeft { rank, since: number }),
            _ => Some(Poison::Lost { rank, how }),
        }
    }

    /// Whether it is about the collective with this number. No member is ever half of all numbers ahead of another.
    pub(crate) fn concerns(self, sequence: u32) -> bool {
        match self {
            Poison::Disagreement { since, .. } | Poison::HasLeft { since, .. } => {
                sequence.wrapping_sub(since) as i32 >= 0
            }
            Poison::Lost { .. } => true,
        }
    }
}

/// Whether a word poisons the collective with this number.
pub(crate) fn concerns(bits: u64, sequence: u32) -> bool {
    Poison::from_bits(bits).is_some_and(|poison| poison.concerns(sequence))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RANKS: [Rank; 4] = [Rank(0), Rank(1), Rank(77), Rank((1 << 24) - 1)];

    fn all() -> Vec<Poison> {
        let ends = [Ended::Panicked, Ended::Failed, Ended::Left, Ended::Silent, Ended::Vanished];
        let numbered = [-1, 0, 9, i32::MIN, i32::MAX].into_iter().flat_map(|it| [Ended::Signal(it), Ended::Status(it)]);
        let ends: Vec<Ended> = ends.into_iter().chain(numbered).collect();
        let of = |rank| {
            let losses = ends.iter().map(move |&how| Poison::Lost { rank, how });
            let since = [0, 1, u32::MAX].into_iter();
            let leaves = since.clone().map(move |since| Poison::HasLeft { rank, since });
            losses.chain(leaves).chain(since.map(move |since| Poison::Disagreement { noticed_by: rank, since }))
        };
        RANKS.into_iter().flat_map(of).collect()
    }

    #[test]
    fn poisons_survive_packing() {
        assert_eq!(Poison::from_bits(0), None);
        for poison in all() {
            assert_ne!(poison.to_bits(), 0, "{poison:?}");
            assert_eq!(Poison::from_bits(poison.to_bits()), Some(poison));
        }
        let words: std::collections::BTreeSet<u64> = all().into_iter().map(Poison::to_bits).collect();
        assert_eq!(words.len(), all().len(), "no two share a word");
    }

    #[test]
    fn what_was_before_a_poison_is_not_spoiled_by_it() {
        for since in [1, 1000, u32::MAX] {
            let (rank, noticed_by) = (Rank(3), Rank(3));
            for poison in [Poison::HasLeft { rank, since }, Poison::Disagreement { noticed_by, since }] {
                let word = poison.to_bits();
                assert!(!concerns(word, since.wrapping_sub(1)), "{poison:?}");
                assert!(concerns(word, since) && concerns(word, since.wrapping_add(1)), "{poison:?}");
            }
        }
        for sequence in [0, 1, u32::MAX] {
            assert!(!concerns(0, sequence));
            assert!(concerns(Poison::Lost { rank: Rank(3), how: Ended::Silent }.to_bits(), sequence));
        }
    }
}
