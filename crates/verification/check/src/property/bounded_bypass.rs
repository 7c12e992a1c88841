//! Bounded bypass: a rank that has asked is not overtaken more than so often, by one rank or by all
//! together.

use std::cell::RefCell;
use std::rc::Rc;

use farside::{Error, Rank, Result, World};

/// Counts overtaking. All ranks of a run share it; [`BoundedBypass::prepare`] it anew for each.
///
/// ```
/// # use farside::Rank;
/// # use farside_check::property::BoundedBypass;
/// let watch = BoundedBypass::new(1);
/// watch.reset(2);
/// watch.asks(Rank(1));
/// watch.enters(Rank(0))?;
/// assert!(watch.enters(Rank(0)).is_err(), "rank 1 has been overtaken twice");
/// # Ok::<(), farside::Error>(())
/// ```
#[derive(Clone)]
pub struct BoundedBypass {
    bound: u32,
    /// True if the bound is for all others together.
    in_all: bool,
    /// For each rank that has asked, how often each of the others has entered since.
    overtaken: Rc<RefCell<Vec<Option<Vec<u32>>>>>,
}

impl BoundedBypass {
    /// Allows at most `bound` overtakings of a rank by any one other rank.
    pub fn new(bound: u32) -> BoundedBypass {
        BoundedBypass { bound, in_all: false, overtaken: Rc::default() }
    }

    /// Allows at most `bound` overtakings of a rank by all others together.
    ///
    /// ```
    /// # use farside::Rank;
    /// # use farside_check::property::BoundedBypass;
    /// let watch = BoundedBypass::in_all(1);
    /// watch.reset(3);
    /// watch.asks(Rank(2));
    /// watch.enters(Rank(0))?;
    /// let broken = watch.enters(Rank(1)).unwrap_err().to_string();
    /// assert!(broken.contains("overtaken 2 times, where 1 is the bound"));
    /// # Ok::<(), farside::Error>(())
    /// ```
    pub fn in_all(bound: u32) -> BoundedBypass {
        BoundedBypass { in_all: true, ..BoundedBypass::new(bound) }
    }

    /// Forgets everything, for a run.
    pub fn prepare(&self, world: &World) {
        self.reset(world.size());
    }

    /// Forgets everything, for so many ranks.
    pub fn reset(&self, ranks: u32) {
        *self.overtaken.borrow_mut() = vec![None; ranks as usize];
    }

    /// A rank has asked to be let in, and has its place from now on, unless it had one.
    pub fn asks(&self, rank: Rank) {
        let mut overtaken = self.overtaken.borrow_mut();
        let ranks = overtaken.len();
        overtaken[rank.index()].get_or_insert_with(|| vec![0; ranks]);
    }

    /// A rank was let in.
    pub fn enters(&self, rank: Rank) -> Result<()> {
        let mut overtaken = self.overtaken.borrow_mut();
        overtaken[rank.index()] = None;
        for (waits, counts) in overtaken.iter_mut().enumerate() {
            let Some(counts) = counts else {
                continue;
            };
            counts[rank.index()] += 1;
            let times: u32 = counts.iter().sum();
            if self.in_all && times > self.bound {
                let bound = self.bound;
                let problem =
                    format!("rank {waits} was overtaken {times} times, where {bound} is the bound");
                return Err(Error::Program(problem));
            }
            if !self.in_all && counts[rank.index()] > self.bound {
                let times = counts[rank.index()];
                return Err(Error::Program(format!(
                    "rank {waits} was overtaken {times} times by {rank}"
                )));
            }
        }
        Ok(())
    }
}
