//! The server's end of a connection.

#[cfg(test)]
mod state;

use std::marker::PhantomData;

use crate::link::variant::{Right, Variant};

/// What is to be done with a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is its turn: execute it, then [`Receiver::executed`].
    Now,
    /// It was executed: answer it from what was remembered.
    Again,
    /// Earlier ones are missing; it is kept, or was already.
    Later,
    /// It is no honest request: too old to be repeated by anybody, or too far ahead to be sent.
    Never,
}

/// Says what is to be done with requests, and remembers the answers of those that may come again.
#[cfg_attr(test, derive(Clone))]
pub(crate) struct Receiver<V = Right> {
    executed: u64,
    /// Requests that have arrived ahead of their turn, each at its number modulo the window.
    held: Vec<Option<Vec<u8>>>,
    held_count: usize,
    /// What executed requests were answered, likewise.
    remembered: Vec<(u64, Box<[u8]>)>,
    variant: PhantomData<V>,
}

impl<V: Variant> Receiver<V> {
    const TABLE: u64 = if V::KEEPS_ENOUGH { V::WINDOW } else { V::WINDOW - 1 };

    pub(crate) fn new() -> Receiver<V> {
        let remembered = (0..Self::TABLE).map(|_| (0, Box::default())).collect();
        let held = vec![None; V::WINDOW as usize];
        Receiver { executed: 0, held, held_count: 0, remembered, variant: PhantomData }
    }

    /// A request has arrived. If it must wait for its turn, `body` is copied.
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

    /// The next request was executed; `answers` is what a repetition of it must be answered with.
    pub(crate) fn executed(&mut self, answers: &[u8]) {
        self.executed += 1;
        if !V::KEEPS_LONG_ENOUGH {
            self.remembered.fill((0, Box::default()));
        }
        let entry = &mut self.remembered[(self.executed % Self::TABLE) as usize];
        entry.0 = self.executed;
        if !(answers.is_empty() && entry.1.is_empty()) {
            entry.1 = answers.into();
        }
        if self.held_count > 0 && self.held[slot::<V>(self.executed)].take().is_some() {
            // It had also arrived ahead of its turn.
            self.held_count -= 1;
        }
    }

    /// The body of the request whose turn it is, if it has arrived already.
    pub(crate) fn next_held(&mut self) -> Option<Vec<u8>> {
        if self.held_count == 0 {
            return None;
        }
        let body = self.held[slot::<V>(self.executed + 1)].take()?;
        self.held_count -= 1;
        Some(body)
    }

    /// What a repetition of `number` is answered with.
    pub(crate) fn remembered(&self, number: u64) -> Option<&[u8]> {
        let (kept, answers) = &self.remembered[(number % Self::TABLE) as usize];
        (*kept == number).then_some(answers)
    }

    /// Up to which number everything was executed.
    pub(crate) fn executed_up_to(&self) -> u64 {
        self.executed
    }

    /// Which of the later ones have arrived: bit `i` for `executed + 2 + i`.
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
        // This one may be sent only when the first is closed: from here on nobody repeats the
        // first.
        run(&mut receiver, WINDOW + 1, &[1]);
        assert_eq!(receiver.judge(1, &[]), Verdict::Never);
        assert_eq!(receiver.remembered(1), None);
        assert_eq!(receiver.judge(2, &[]), Verdict::Again);
        assert_eq!(receiver.remembered(2), Some(&[2][..]));
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
