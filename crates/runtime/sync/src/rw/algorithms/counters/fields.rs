//! The fields of a counter of readers.
//!
//! From the lowest bit on: readers present; one more than the rank that has closed the counter;
//! whether a writer with a time limit asks readers to hold back; the turn; arrivals since the turn
//! began. Nothing carries from one field into the next: as many are present as ranks share the
//! counter at most, the turn is changed by ranks that know it, arrivals run over the word's end.

use farside_fabric::Rank;

pub(super) const PRESENT_BITS: u32 = 20;
pub(super) const CLOSER_BITS: u32 = 20;

/// The lowest bits.
pub(super) const fn mask(bits: u32) -> u64 {
    (1 << bits) - 1
}

/// The widths of the fields, and what they say.
pub(in crate::rw::algorithms) trait Fields: Send + 'static {
    /// Bits of a counter's turn. Correctness needs one; each further one halves how often a reader
    /// that sleeps may miss openings that pass it.
    const TURN_BITS: u32;
    /// Bits of a counter's arrivals: a T_R must fit, nothing else.
    const ARRIVAL_BITS: u32;

    /// The lowest bit of the arrivals: in the topmost field they run over into nothing.
    const ARRIVALS: u32 = 64 - Self::ARRIVAL_BITS;
    /// The lowest bit of who has closed the counter.
    const CLOSER: u32 = PRESENT_BITS;
    const CLOSER_MASK: u64 = mask(CLOSER_BITS) << Self::CLOSER;
    const TURN: u32 = Self::CLOSER + CLOSER_BITS + 1;
    const FITS: () =
        assert!(PRESENT_BITS + CLOSER_BITS + 1 + Self::TURN_BITS + Self::ARRIVAL_BITS <= 64);

    /// One reader more.
    const PRESENT: u64 = 1;
    /// One reader more, and one arrival.
    const ARRIVAL: u64 = Self::PRESENT + (1 << Self::ARRIVALS);
    /// Readers are asked to hold back.
    const ASKED: u64 = 1 << (Self::CLOSER + CLOSER_BITS);

    #[inline]
    fn present(word: u64) -> u64 {
        word & mask(PRESENT_BITS)
    }

    #[inline]
    fn is_empty(word: u64) -> bool {
        Self::present(word) == 0
    }

    #[inline]
    fn is_open(word: u64) -> bool {
        word & Self::CLOSER_MASK == 0
    }

    /// Whether it is open, and no writer asks readers to hold back.
    #[inline]
    fn is_free(word: u64) -> bool {
        word & (Self::CLOSER_MASK | Self::ASKED) == 0
    }

    #[inline]
    fn is_asked(word: u64) -> bool {
        word & Self::ASKED != 0
    }

    /// Whether a counter that was closed in `turn` has not been opened since, as a reader sees it
    /// that has arrived in it and not departed: until then its turn changes at most once.
    #[inline]
    fn is_closed_still(word: u64, turn: u64) -> bool {
        (Self::turn(word) ^ turn) & 1 == 0
    }

    fn unasked(word: u64) -> u64 {
        word & !Self::ASKED
    }

    #[inline]
    fn closer(word: u64) -> Option<Rank> {
        let closer = (word & Self::CLOSER_MASK) >> Self::CLOSER;
        (closer as u32).checked_sub(1).map(Rank)
    }

    fn closed_by(rank: Rank) -> u64 {
        (u64::from(rank.0) + 1) << Self::CLOSER
    }

    #[inline]
    fn turn(word: u64) -> u64 {
        (word >> Self::TURN) & mask(Self::TURN_BITS)
    }

    #[inline]
    fn arrivals(word: u64) -> u64 {
        let () = Self::FITS;
        (word >> Self::ARRIVALS) & mask(Self::ARRIVAL_BITS)
    }

    /// What to add so that the turn of `word` is `steps` further on. An even number of steps is no
    /// opening.
    fn turn_on(word: u64, steps: u64) -> u64 {
        let now = Self::turn(word);
        let then = (now + steps) & mask(Self::TURN_BITS);
        then.wrapping_sub(now) << Self::TURN
    }

    /// An open counter whose arrivals are counted from zero.
    fn counted_anew(word: u64) -> u64 {
        let arrivals = mask(Self::ARRIVAL_BITS) << Self::ARRIVALS;
        (word & !arrivals).wrapping_add(Self::turn_on(word, 2))
    }

    /// What to add to a counter to open it, if `word` is what it was when it was closed, and
    /// all readers inside have departed. Those that have arrived since are the first of the next
    /// turn.
    fn opening(word: u64) -> u64 {
        let arrivals = Self::arrivals(word) << Self::ARRIVALS;
        Self::turn_on(word, 1).wrapping_sub((word & Self::CLOSER_MASK).wrapping_add(arrivals))
    }

    /// What a closed counter was when it was closed, once all readers inside have departed: those
    /// that are present have arrived since, and each has been counted in both fields.
    fn when_closed(word: u64) -> u64 {
        word.wrapping_sub(Self::present(word).wrapping_mul(Self::ARRIVAL))
    }

    /// What a reset that takes several steps takes away.
    fn with_closer_and_arrivals(word: u64) -> u64 {
        (Self::arrivals(word) << Self::ARRIVALS).wrapping_add(word & Self::CLOSER_MASK)
    }
}

#[cfg(test)]
mod tests {
    use super::super::widths::{Narrow, Wide};
    use super::*;

    /// Everything that is done to a word, again and again, past the end of every field.
    fn past_every_end<F: Fields>(rounds: u64) {
        let mut word: u64 = 0;
        for round in 0..rounds {
            let arrived = word.wrapping_add(F::ARRIVAL);
            assert_eq!(F::present(arrived), 1, "round {round}");
            assert!(F::is_free(arrived), "round {round}");
            assert_eq!(F::turn(arrived), F::turn(word), "round {round}");
            word = arrived.wrapping_sub(F::PRESENT);
            if round % 7 == 0 {
                let closed = word | F::closed_by(Rank(5));
                assert_eq!(F::closer(closed), Some(Rank(5)));
                let late = closed.wrapping_add(F::ARRIVAL.wrapping_mul(2));
                assert_eq!(F::when_closed(late), closed);
                let open = late.wrapping_add(F::opening(closed));
                assert!(F::is_free(open) && F::present(open) == 2);
                assert_eq!(F::arrivals(open), 2, "round {round}");
                assert!(!F::is_closed_still(open, F::turn(closed)));
                word = open.wrapping_sub(2 * F::PRESENT);
            }
            if round % 11 == 0 {
                let turn = F::turn(word);
                word = F::counted_anew(word);
                assert_eq!(F::arrivals(word), 0);
                assert!(F::is_closed_still(word, turn), "no opening");
                assert!(F::is_free(word) && F::is_empty(word));
            }
        }
    }

    #[test]
    fn no_field_of_a_counter_runs_into_another() {
        past_every_end::<Wide>(1000);
        past_every_end::<Narrow>(1000);
        // Arrivals alone, past their real end.
        let mut word = Wide::closed_by(Rank(0));
        for _ in 0..(1u64 << Wide::ARRIVAL_BITS) + 3 {
            word = word.wrapping_add(Wide::ARRIVAL).wrapping_sub(Wide::PRESENT);
        }
        assert_eq!(Wide::arrivals(word), 3);
        assert_eq!(Wide::closer(word), Some(Rank(0)));
        assert_eq!((Wide::present(word), Wide::turn(word)), (0, 0));
    }
}
