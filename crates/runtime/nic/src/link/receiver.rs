//! The server's end of a connection: execution in order, and the table of return values.
//!
//! Paper:   \[NIC02 section III-B\]: a duplicate of an executed operation is answered from a table
//!          of return values and sequence numbers, and never executed again.
//! Differs: an entry is the answers of a whole datagram; what arrives ahead of its turn is kept and
//!          not dropped; reads are not in the table, since they may be repeated.

#[cfg(test)]
mod state;

use std::marker::PhantomData;

use crate::link::variant::{Right, Variant};

/// What the server does with a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Executes it, as its turn has come, and calls [`Receiver::executed`].
    Now,
    /// Answers it from the table: it has been executed.
    Again,
    /// Waits: earlier requests are missing. It is kept.
    Later,
    /// Drops it: no correct sender repeats one as old, or sends one as far ahead.
    Never,
}

/// Decides on each request, and keeps the answers of those that may be repeated.
#[cfg_attr(test, derive(Clone))]
pub(crate) struct Receiver<V = Right> {
    executed: u64,
    /// Requests that arrived ahead of their turn, each at its number modulo the window.
    held: Vec<Option<Vec<u8>>>,
    held_count: usize,
    /// The answers of executed requests, likewise: the table of return values.
    remembered: Vec<(u64, Box<[u8]>)>,
    /// The answers up to this one have been given up.
    forgotten: u64,
    variant: PhantomData<V>,
}

impl<V: Variant> Receiver<V> {
    const TABLE: u64 = if V::KEEPS_ENOUGH { V::WINDOW } else { V::WINDOW - 1 };

    pub(crate) fn new() -> Receiver<V> {
        let remembered = (0..Self::TABLE).map(|_| (0, Box::default())).collect();
        let held = vec![None; V::WINDOW as usize];
        Receiver {
            executed: 0,
            held,
            held_count: 0,
            remembered,
            forgotten: 0,
            variant: PhantomData,
        }
    }

    /// Decides on a request that has arrived. If it must wait for its turn, `body` is copied.
    pub(crate) fn judge(&mut self, number: u64, body: &[u8]) -> Verdict {
        if number == self.executed + 1 {
            return Verdict::Now;
        }
        if number <= self.executed {
            let may_be_repeated = self.executed - number < V::WINDOW && number > 0;
            return match may_be_repeated {
                true if V::KNOWS_REPETITIONS => Verdict::Again,
                true => Verdict::Now,
                false => Verdict::Never,
            };
        }
        if number - self.executed > V::WINDOW {
            return Verdict::Never;
        }
        if !V::AWAITS_ITS_TURN {
            return Verdict::Now;
        }
        let held = &mut self.held[slot::<V>(number)];
        if held.is_none() {
            *held = Some(body.to_vec());
            self.held_count += 1;
        }
        Verdict::Later
    }

    /// Returns whether a request has been executed and may be repeated.
    pub(crate) fn has_executed(&self, number: u64) -> bool {
        number > 0 && number <= self.executed && self.executed - number < V::WINDOW
    }

    /// Records that the next request has been executed, with the answers for repetitions of it.
    pub(crate) fn executed(&mut self, answers: &[u8]) {
        self.executed += 1;
        let entry = &mut self.remembered[(self.executed % Self::TABLE) as usize];
        entry.0 = self.executed;
        if !(answers.is_empty() && entry.1.is_empty()) {
            entry.1 = answers.into();
        }
        if self.held_count > 0 && self.held[slot::<V>(self.executed)].take().is_some() {
            // A copy of it had also arrived ahead of its turn.
            self.held_count -= 1;
        }
    }

    /// Takes the body of the request whose turn has come, if it has already arrived.
    pub(crate) fn next_held(&mut self) -> Option<Vec<u8>> {
        if self.held_count == 0 {
            return None;
        }
        let body = self.held[slot::<V>(self.executed + 1)].take()?;
        self.held_count -= 1;
        Some(body)
    }

    /// Keeps the request whose turn has come, and that cannot be executed yet.
    pub(crate) fn put_back(&mut self, body: &[u8]) {
        let held = &mut self.held[slot::<V>(self.executed + 1)];
        if held.is_none() {
            *held = Some(body.to_vec());
            self.held_count += 1;
        }
    }

    /// Gives the answers up to `number` up: the sender has them. What it sent earlier, and arrives
    /// later, says less.
    pub(crate) fn forget(&mut self, number: u64) {
        let number = number.min(self.executed);
        let first = (self.forgotten + 1).max((number + 1).saturating_sub(Self::TABLE));
        for number in first..=number {
            let (kept, answers) = &mut self.remembered[(number % Self::TABLE) as usize];
            if *kept == number && !answers.is_empty() {
                *answers = Box::default();
            }
        }
        self.forgotten = self.forgotten.max(number);
    }

    pub(crate) fn remembered(&self, number: u64) -> Option<&[u8]> {
        let (kept, answers) = &self.remembered[(number % Self::TABLE) as usize];
        (*kept == number).then_some(answers)
    }

    pub(crate) fn executed_up_to(&self) -> u64 {
        self.executed
    }

    /// Returns which later requests have arrived: bit `i` for `executed + 2 + i`.
    pub(crate) fn held_bits(&self) -> u64 {
        if self.held_count == 0 {
            return 0;
        }
        let is_held = |bit: &u64| self.held[slot::<V>(self.executed + 2 + bit)].is_some();
        let bits = (0..V::WINDOW - 1).filter(is_held).fold(0, |bits, bit| bits | 1 << bit);
        if V::MARKS_ARRIVED { bits } else { bits << 1 }
    }
}

fn slot<V: Variant>(number: u64) -> usize {
    (number % V::WINDOW) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::WINDOW;

    fn run(receiver: &mut Receiver, number: u64, answers: &[u8]) {
        assert_eq!(receiver.judge(number, &[]), Verdict::Now);
        receiver.executed(answers);
    }

    #[test]
    fn requests_are_executed_once_and_in_turn() {
        let mut receiver = Receiver::<Right>::new();
        assert_eq!(receiver.judge(2, b"two"), Verdict::Later);
        assert_eq!(receiver.judge(4, b"four"), Verdict::Later);
        assert_eq!(receiver.judge(2, b"forged"), Verdict::Later);
        assert_eq!((receiver.executed_up_to(), receiver.held_bits()), (0, 0b101));
        run(&mut receiver, 1, &[]);
        assert_eq!(receiver.next_held().as_deref(), Some(&b"two"[..]));
        receiver.executed(&[]);
        assert_eq!(receiver.next_held(), None);
        assert_eq!((receiver.executed_up_to(), receiver.held_bits()), (2, 0b1));
        assert_eq!(receiver.judge(1, &[]), Verdict::Again);
    }

    #[test]
    fn the_table_holds_exactly_what_an_honest_sender_may_repeat() {
        let mut receiver = Receiver::<Right>::new();
        for number in 1..=WINDOW {
            run(&mut receiver, number, &[number as u8]);
        }
        // All of them may still be open at the sender.
        assert_eq!(receiver.remembered(1), Some(&[1][..]));
        assert_eq!(receiver.judge(1, &[]), Verdict::Again);
        // This one is sent only when the first is closed, which is never repeated from here on.
        run(&mut receiver, WINDOW + 1, &[1]);
        assert_eq!(receiver.judge(1, &[]), Verdict::Never);
        assert_eq!(receiver.remembered(1), None);
        assert_eq!(receiver.judge(2, &[]), Verdict::Again);
        assert_eq!(receiver.remembered(2), Some(&[2][..]));
    }

    #[test]
    fn answers_are_given_up_when_the_sender_has_them() {
        let mut receiver = Receiver::<Right>::new();
        for number in 1..=5 {
            run(&mut receiver, number, &[number as u8]);
        }
        receiver.forget(3);
        // An earlier request, or a false one.
        receiver.forget(1);
        let kept = |receiver: &Receiver, number| receiver.remembered(number).map(<[u8]>::len);
        assert_eq!([3, 4].map(|number| kept(&receiver, number)), [Some(0), Some(1)]);
        receiver.forget(u64::MAX);
        assert_eq!(kept(&receiver, 5), Some(0));
        for number in 6..=4 * WINDOW {
            run(&mut receiver, number, &[number as u8]);
        }
        receiver.forget(4 * WINDOW - 1);
        let bytes: usize = receiver.remembered.iter().map(|(_, answers)| answers.len()).sum();
        assert_eq!(bytes, 1, "the last answer alone may be missing");
    }

    #[test]
    fn a_request_beyond_the_window_is_dropped() {
        let mut receiver = Receiver::<Right>::new();
        assert_eq!(receiver.judge(WINDOW + 1, &[]), Verdict::Never);
        assert_eq!(receiver.judge(WINDOW, &[]), Verdict::Later);
        assert_eq!(receiver.judge(0, &[]), Verdict::Never);
        assert_eq!(receiver.held_bits(), 1 << (WINDOW - 2));
    }
}
