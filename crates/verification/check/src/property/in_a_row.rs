//! Thresholds: the number of entries of one group while a rank of another waits.

use std::cell::RefCell;
use std::rc::Rc;

use farside::{Error, Rank, Result};

/// The entries that a threshold counts together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    /// Entries of one group that follow each other, while a rank outside of the group waits.
    Row,
    /// All entries of one group, with any others between them.
    All,
}

/// Counts entries while others wait. All ranks of a run share it; [`InARow::reset`] it anew for
/// each.
///
/// ```
/// # use farside::Rank;
/// # use farside_check::property::{Counted, InARow};
/// // Ranks 0 and 1 are on one node, rank 2 is on another.
/// let watch = InARow::new("T_L", "of one node in a row", Counted::Row, 1);
/// watch.reset(vec![0, 0, 1]);
/// watch.goes_in(Rank(0))?;
/// watch.waits(Rank(2));
/// watch.goes_out(Rank(0));
/// let problem = watch.goes_in(Rank(1)).unwrap_err().to_string();
/// let expected = "rank 2 waits, and 2 of one node in a row have gone in: T_L allows 1";
/// assert!(problem.contains(expected));
/// # Ok::<(), farside::Error>(())
/// ```
#[derive(Clone)]
pub struct InARow {
    /// The threshold's name.
    name: &'static str,
    /// The counted ranks, for people to read.
    whom: &'static str,
    counted: Counted,
    bound: u32,
    state: Rc<RefCell<State>>,
}

#[derive(Default)]
struct State {
    /// The group of each rank.
    groups: Vec<u32>,
    /// For each rank that waits, how many of each group have gone in since.
    waiting: Vec<Option<Vec<u32>>>,
    inside: Vec<bool>,
}

impl InARow {
    /// Allows at most `bound` entries of one group while a rank waits. A rank that is inside when
    /// the wait begins is one of them.
    pub fn new(name: &'static str, whom: &'static str, counted: Counted, bound: u32) -> InARow {
        InARow { name, whom, counted, bound, state: Rc::default() }
    }

    /// Forgets everything, for a run of ranks that belong to these groups.
    pub fn reset(&self, groups: Vec<u32>) {
        let ranks = groups.len();
        *self.state.borrow_mut() =
            State { groups, waiting: vec![None; ranks], inside: vec![false; ranks] };
    }

    /// A rank waits from now on, unless it does already.
    pub fn waits(&self, rank: Rank) {
        let mut state = self.state.borrow_mut();
        if state.waiting[rank.index()].is_some() {
            return;
        }
        let mut counts = vec![0; state.groups.iter().max().map_or(0, |last| *last as usize + 1)];
        for other in (0..state.groups.len()).filter(|&other| state.inside[other]) {
            if self.counts(&state, rank.index(), other) {
                counts[state.groups[other] as usize] += 1;
            }
        }
        state.waiting[rank.index()] = Some(counts);
    }

    /// A rank waits no more, and its entry is not counted.
    pub fn is_served(&self, rank: Rank) {
        self.state.borrow_mut().waiting[rank.index()] = None;
    }

    /// A counted rank goes in.
    pub fn goes_in(&self, rank: Rank) -> Result<()> {
        self.is_served(rank);
        let mut state = self.state.borrow_mut();
        state.inside[rank.index()] = true;
        let group = state.groups[rank.index()] as usize;
        for waits in 0..state.groups.len() {
            let is_counted = self.counts(&state, waits, rank.index());
            let Some(counts) = &mut state.waiting[waits] else {
                continue;
            };
            if self.counted == Counted::Row {
                let before = counts[group];
                counts.fill(0);
                counts[group] = before;
            }
            counts[group] += u32::from(is_counted);
            if counts[group] > self.bound {
                let (count, whom, name, bound) = (counts[group], self.whom, self.name, self.bound);
                let problem = format!(
                    "rank {waits} waits, and {count} {whom} have gone in: {name} allows {bound}"
                );
                return Err(Error::Program(problem));
            }
        }
        Ok(())
    }

    /// It goes out again.
    pub fn goes_out(&self, rank: Rank) {
        self.state.borrow_mut().inside[rank.index()] = false;
    }

    fn counts(&self, state: &State, waits: usize, other: usize) -> bool {
        waits != other
            && (self.counted == Counted::All || state.groups[waits] != state.groups[other])
    }
}
