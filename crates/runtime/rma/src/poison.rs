//! Why there is no use in waiting, as a word that others can write and read.

use farside_fabric::{ErrorClass, Loss, Rank};

/// Why a team's collectives come to no end any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Poison {
    /// The members make different calls, as this one has noticed in the collective with the number
    /// `since`. Those before it may still be going on elsewhere, and will come to their end.
    Disagreement { noticed_by: Rank, since: u32 },
    /// This one has left, and did not come to the collective with the number `since`. Those before
    /// it likewise.
    HasLeft { rank: Rank, since: u32 },
    /// This one could not do its part of the collective with the number `since`. Those before it
    /// likewise.
    Failed { rank: Rank, class: ErrorClass, since: u32 },
    /// This one was lost, and comes to none any more.
    Lost(Loss),
}

/// In a word: 2 bits of kind, 30 bits of a rank, 32 bits of a number; or a loss as it is, whose two
/// highest bits are set. Zero says nothing. Ranks have 24 bits: a member that failed is told from
/// one that noticed a disagreement by the next ones.
const KIND_SHIFT: u32 = 62;
const RANK_SHIFT: u32 = 32;
const RANK_MASK: u64 = (1 << (KIND_SHIFT - RANK_SHIFT)) - 1;
const FAILED: u32 = 1 << 29;
const CLASS_SHIFT: u32 = 24;

impl Poison {
    pub(crate) fn to_bits(self) -> u64 {
        let word = |kind: u64, rank: Rank, number: u32| {
            (kind << KIND_SHIFT) | (u64::from(rank.0) & RANK_MASK) << RANK_SHIFT | u64::from(number)
        };
        match self {
            Poison::Disagreement { noticed_by, since } => word(1, noticed_by, since),
            Poison::Failed { rank, class, since } => {
                let class = (class.code() as u32) << CLASS_SHIFT;
                word(1, Rank(rank.0 | FAILED | class), since)
            }
            Poison::HasLeft { rank, since } => word(2, rank, since),
            Poison::Lost(loss) => loss.to_bits(),
        }
    }

    pub(crate) fn from_bits(bits: u64) -> Option<Poison> {
        let (rank, since) = (Rank((bits >> RANK_SHIFT & RANK_MASK) as u32), bits as u32);
        match bits >> KIND_SHIFT {
            0 => None,
            1 if rank.0 & FAILED != 0 => {
                let code = (rank.0 & !FAILED) >> CLASS_SHIFT;
                let class = ErrorClass::from_code(code as i32).unwrap_or(ErrorClass::Internal);
                let rank = Rank(rank.0 & ((1 << CLASS_SHIFT) - 1));
                Some(Poison::Failed { rank, class, since })
            }
            1 => Some(Poison::Disagreement { noticed_by: rank, since }),
            2 => Some(Poison::HasLeft { rank, since }),
            _ => Loss::from_bits(bits).map(Poison::Lost),
        }
    }

    /// Whether it concerns collectives that another does not.
    pub(crate) fn is_before(self, other: Poison) -> bool {
        match (self.since(), other.since()) {
            (_, None) => false,
            (None, Some(_)) => true,
            (Some(since), Some(_)) => !other.concerns(since),
        }
    }

    /// The first collective that it concerns; `None` if it concerns all.
    fn since(self) -> Option<u32> {
        match self {
            Poison::Disagreement { since, .. }
            | Poison::HasLeft { since, .. }
            | Poison::Failed { since, .. } => Some(since),
            Poison::Lost(_) => None,
        }
    }

    /// Whether it is about the collective with this number. No member is ever half of all numbers
    /// ahead of another.
    pub(crate) fn concerns(self, sequence: u32) -> bool {
        self.since().is_none_or(|since| sequence.wrapping_sub(since) as i32 >= 0)
    }
}

pub(crate) fn concerns(bits: u64, sequence: u32) -> bool {
    Poison::from_bits(bits).is_some_and(|poison| poison.concerns(sequence))
}

#[cfg(test)]
mod tests {
    use farside_fabric::ExitCause;

    use super::*;

    const RANKS: [Rank; 4] = [Rank(0), Rank(1), Rank(77), Rank((1 << 24) - 1)];

    fn all() -> Vec<Poison> {
        let of = |rank| {
            let losses =
                [ExitCause::Left, ExitCause::Signal(9)].map(|how| Poison::Lost(Loss { rank, how }));
            let since = [0, 1, u32::MAX].into_iter();
            let leaves = since.clone().map(move |since| Poison::HasLeft { rank, since });
            let others =
                since.clone().map(move |since| Poison::Disagreement { noticed_by: rank, since });
            let failures = since.flat_map(move |since| {
                ErrorClass::ALL.iter().map(move |&class| Poison::Failed { rank, class, since })
            });
            losses.into_iter().chain(leaves).chain(others).chain(failures)
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
        let words: std::collections::BTreeSet<u64> =
            all().into_iter().map(Poison::to_bits).collect();
        assert_eq!(words.len(), all().len(), "no two share a word");
    }

    #[test]
    fn the_earlier_of_two_poisons_stands() {
        let left = |since| Poison::HasLeft { rank: Rank(3), since };
        let failed = |since| Poison::Failed { rank: Rank(1), class: ErrorClass::Memory, since };
        let lost = Poison::Lost(Loss { rank: Rank(3), how: ExitCause::Silent });
        for since in [0, 1, 1000, u32::MAX] {
            let next = since.wrapping_add(1);
            assert!(left(since).is_before(failed(next)) && !failed(next).is_before(left(since)));
            assert!(!left(since).is_before(failed(since)));
            assert!(lost.is_before(left(since)) && !left(since).is_before(lost));
        }
        assert!(!lost.is_before(lost));
    }

    #[test]
    fn what_was_before_a_poison_is_not_spoiled_by_it() {
        for since in [1, 1000, u32::MAX] {
            let (rank, noticed_by) = (Rank(3), Rank(3));
            for poison in [
                Poison::HasLeft { rank, since },
                Poison::Disagreement { noticed_by, since },
                Poison::Failed { rank, class: ErrorClass::Memory, since },
            ] {
                let word = poison.to_bits();
                assert!(!concerns(word, since.wrapping_sub(1)), "{poison:?}");
                assert!(
                    concerns(word, since) && concerns(word, since.wrapping_add(1)),
                    "{poison:?}"
                );
            }
        }
        for sequence in [0, 1, u32::MAX] {
            assert!(!concerns(0, sequence));
            assert!(concerns(
                Poison::Lost(Loss { rank: Rank(3), how: ExitCause::Silent }).to_bits(),
                sequence
            ));
        }
    }
}
