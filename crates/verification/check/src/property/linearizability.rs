//! Linearizability: operations that overlap look as if they had come one after the other, each at
//!                  some moment between its call and its return.
//!
//! Paper:   Wing, Gong: *Testing and verifying concurrent objects*, 1993; the memory of what was
//!          tried before is Lowe's (*Testing for linearizability*, 2017).
//! Differs: an operation that has not returned, because its rank died, may have taken effect or
//!          not.

use std::cell::RefCell;
use std::collections::HashSet;
use std::fmt::Debug;
use std::hash::Hash;
use std::rc::Rc;

/// The sequential behaviour of an object.
pub trait Specification {
    /// Its state.
    type State: Clone + Eq + Hash;
    /// The operations on it.
    type Operation: Clone + Debug;
    /// Its answers.
    type Answer: PartialEq + Clone + Debug;

    /// Returns its initial state.
    fn initial(&self) -> Self::State;
    /// Does an operation.
    fn apply(&self, state: &mut Self::State, operation: &Self::Operation) -> Self::Answer;
}

/// The operations on an object, their ranks, and their answers. All ranks of a run share it.
///
/// ```
/// use farside_check::property::{History, Specification};
///
/// struct Counter;
/// impl Specification for Counter {
///     type State = u64;
///     type Operation = u64;
///     type Answer = u64;
///     fn initial(&self) -> u64 { 0 }
///     fn apply(&self, count: &mut u64, add: &u64) -> u64 {
///         let before = *count;
///         *count += add;
///         before
///     }
/// }
///
/// let history = History::new();
/// let (one, two) = (history.call(1), history.call(1));
/// history.answer(two, 0);
/// history.answer(one, 1); // They overlapped: the second came first.
/// let three = history.call(1);
/// history.answer(three, 2);
/// assert_eq!(history.check(&Counter), Ok(()));
/// let four = history.call(1);
/// history.answer(four, 2); // Lost an update.
/// assert!(history.check(&Counter).is_err());
/// ```
pub struct History<O, A> {
    entries: Rc<RefCell<Vec<Entry<O, A>>>>,
    time: Rc<RefCell<u64>>,
}

struct Entry<O, A> {
    operation: O,
    called: u64,
    /// The answer, and its time.
    answered: Option<(u64, A)>,
}

impl<O, A> Clone for History<O, A> {
    fn clone(&self) -> Self {
        History { entries: self.entries.clone(), time: self.time.clone() }
    }
}

impl<O, A> Default for History<O, A> {
    fn default() -> Self {
        History { entries: Rc::default(), time: Rc::default() }
    }
}

impl<O: Clone + Debug, A: PartialEq + Clone + Debug> History<O, A> {
    /// Nothing was asked yet.
    pub fn new() -> History<O, A> {
        History::default()
    }

    /// Forgets everything, for a run.
    pub fn clear(&self) {
        self.entries.borrow_mut().clear();
    }

    /// Something is asked; give the number to [`History::answer`].
    pub fn call(&self, operation: O) -> usize {
        let called = self.tick();
        let mut entries = self.entries.borrow_mut();
        entries.push(Entry { operation, called, answered: None });
        entries.len() - 1
    }

    /// The answer has come.
    pub fn answer(&self, call: usize, answer: A) {
        let time = self.tick();
        self.entries.borrow_mut()[call].answered = Some((time, answer));
    }

    /// Something was asked and answered, between two times of a clock that all ranks share: for
    /// what was written down in a real run.
    pub fn record(&self, operation: O, answer: A, time: std::ops::Range<u64>) {
        // Operations of which one ends and one begins at the same reading of the clock may have
        // overlapped.
        let answered = Some((time.end.saturating_add(1), answer));
        self.entries.borrow_mut().push(Entry { operation, called: time.start, answered });
    }

    fn tick(&self) -> u64 {
        let mut time = self.time.borrow_mut();
        *time += 1;
        *time
    }

    /// Checks that some order of the operations explains all answers; otherwise returns all of
    /// them, in the order of their calls.
    pub fn check<S: Specification<Operation = O, Answer = A>>(
        &self,
        specification: &S,
    ) -> Result<(), String> {
        let entries = self.entries.borrow();
        assert!(entries.len() <= 64, "a history of more than 64 operations takes too long");
        let mut tried = HashSet::new();
        if explains(&entries, specification, 0, specification.initial(), &mut tried) {
            return Ok(());
        }
        let line = |entry: &Entry<O, A>| match &entry.answered {
            Some((_, answer)) => format!("{:?} gave {answer:?}", entry.operation),
            None => format!("{:?} gave nothing", entry.operation),
        };
        Err(format!(
            "no order explains: {}",
            entries.iter().map(line).collect::<Vec<_>>().join("; ")
        ))
    }
}

/// Returns whether the operations that are not in `done` can come after those, which have led to
/// `state`.
fn explains<S: Specification>(
    entries: &[Entry<S::Operation, S::Answer>],
    specification: &S,
    done: u64,
    state: S::State,
    tried: &mut HashSet<(u64, S::State)>,
) -> bool {
    let open = || entries.iter().enumerate().filter(|(at, _)| done & (1 << at) == 0);
    if open().all(|(_, entry)| entry.answered.is_none()) {
        return true;
    }
    if !tried.insert((done, state.clone())) {
        return false;
    }
    // The next operation was called before any of the rest had answered.
    let first_answer =
        open().filter_map(|(_, entry)| entry.answered.as_ref()).map(|(time, _)| *time).min();
    open().filter(|(_, entry)| first_answer.is_none_or(|first| entry.called < first)).any(
        |(at, entry)| {
            let mut after = state.clone();
            let answer = specification.apply(&mut after, &entry.operation);
            let fits = entry.answered.as_ref().is_none_or(|(_, given)| *given == answer);
            fits && explains(entries, specification, done | (1 << at), after, tried)
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A word: `Some` writes, `None` reads.
    struct Register;

    impl Specification for Register {
        type State = u64;
        type Operation = Option<u64>;
        type Answer = u64;

        fn initial(&self) -> u64 {
            0
        }

        fn apply(&self, state: &mut u64, write: &Option<u64>) -> u64 {
            *state = write.unwrap_or(*state);
            *state
        }
    }

    #[test]
    fn a_read_may_not_go_back() {
        let history = History::new();
        let write = history.call(Some(1));
        for value in [1, 0] {
            let read = history.call(None);
            history.answer(read, value);
        }
        history.answer(write, 1);
        assert!(history.check(&Register).unwrap_err().contains("None gave 0"));
    }

    #[test]
    fn overlapping_operations_come_in_any_order() {
        let history = History::new();
        let write = history.call(Some(1));
        for value in [0, 1, 1] {
            let read = history.call(None);
            history.answer(read, value);
        }
        history.answer(write, 1);
        assert_eq!(history.check(&Register), Ok(()));
    }

    #[test]
    fn what_never_answered_may_have_happened_or_not() {
        for values in [[0, 0], [0, 1], [1, 1]] {
            let history = History::new();
            history.call(Some(1));
            for value in values {
                let read = history.call(None);
                history.answer(read, value);
            }
            assert_eq!(history.check(&Register), Ok(()), "{values:?}");
        }
    }

    #[test]
    fn an_answer_before_a_call_orders() {
        let history = History::new();
        let write = history.call(Some(1));
        history.answer(write, 1);
        let read = history.call(None);
        history.answer(read, 0);
        assert!(history.check(&Register).is_err());
    }
}
