//! Tree of queues (RMA-MCS): a queue for each element of the topology, so that the lock stays close
//! for a while before it goes far.
//!
//! Paper:     [RMALOCK16] sections 3.2.2, 3.2.3 and 3.5, listings 4 and 5.
//! Differs:   in the printed listings a rank that was passed the lock inside its element later
//!            releases the level above with its own node, which never stood there. Here the one who
//!            passes also says whose node stands above, and what is known of that node is written
//!            beside it. Levels that divide nothing are left out. Waiters can give up at any level
//!            (see `queue`); once a place is passed over, the level above is released, since nobody
//!            may be left.
//! State:     for each level, 1 word (tail) at the first rank of the element (at the home for the
//!            widest), and 3 words on every rank.
//! Invariant: who has the queue of an element, and was not passed the lock in it, takes part in the
//!            queue of the element around it; the holder's elements all the way up are held by
//!            somebody's node. At most `t_l` ranks of an element have it in a row while another
//!            waits (`a_tree_that_ignores_t_l_is_caught`).
//! Ordering:  release flushes first (`a_tree_without_flush_is_caught`); the level above is released
//!            before the own element's next is told to go there, or before the own queue is empty
//!            (`a_tree_that_releases_the_leaf_first_is_caught`).
//! Cost:      for each level entered that of a queue, above the first +1 store to itself; release:
//!            inside the element that of a queue and 1 load; each level above 2 loads more.
//! Checked:   `farside check 'lock/rma-mcs*'`: 3 ranks x 2 rounds exhaustively on one node, 3 x 1
//!            on two with thresholds of 1, 2 and 32; 3 x 1 on two with time limits, and with a
//!            death; 8 and 16 ranks on three levels, some with time limits, PCT depth 3.

use std::cell::Cell;
use std::marker::PhantomData;

use farside_fabric::{Link, Rank, Result};
use farside_rma::{Context, Words};

use super::frame::{Algorithm, Patience, Site, Variant};
use super::queue::{self, Entry, Queue};

/// Words for each level: those of a queue, and what is known of the node.
const WORDS: usize = queue::WORDS + 1;
const KNOWN: usize = queue::WORDS;

/// The usual locality threshold.
pub(super) const T_L: u32 = 32;

/// Told to the next of an element when the level above was released.
const CLIMB: u64 = 0;

pub(crate) struct Tree<V> {
    site: Site,
    /// The narrowest first.
    levels: Vec<Level>,
    thresholds: Vec<u32>,
    /// How many may follow each other at the widest level, if what lies above it is given back
    /// then.
    widest: Option<u32>,
    /// What became of the last release.
    descent: Cell<Descent>,
    /// What is known of this rank's node in the first level.
    leaf: Cell<Known>,
    variant: PhantomData<V>,
}

struct Level {
    base: usize,
    queue: Queue,
    t_l: u64,
}

/// How far a request has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reached {
    /// It was passed the lock.
    All,
    /// It has the widest queue. If something lies above, that is its to get.
    Root,
    /// Not its turn within the time given.
    GaveUp,
}

/// What became of a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Descent {
    /// The level inside whose element the lock was passed, the narrowest being 0.
    pub(crate) passed_at: Option<usize>,
    /// Whether somebody waited in the widest queue when what lies above was given back.
    pub(crate) yielded: bool,
    /// Whether a queue was left that another rank had entered.
    pub(crate) for_another: bool,
    /// To whom the lock was passed.
    pub(crate) next: Option<Rank>,
}

/// Gives back what lies above the widest queue.
type GiveBack<'a> = &'a dyn Fn() -> Result<()>;

/// What the holder of a queue must know to release it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Known {
    /// How often in a row the lock was passed inside the element, from 1.
    count: u64,
    /// The node that stands for the element in the level above.
    above: Link,
}

impl Known {
    const NOTHING: Known = Known { count: 1, above: Link::NULL };

    fn pack(self) -> u64 {
        let above =
            self.above.target().map_or(0, |(rank, mood)| (u64::from(rank.0) << 2) | (mood + 1));
        (self.count << 26) | above
    }

    fn unpack(bits: u64) -> Result<Known> {
        let (rank, mood) = (Rank(((bits >> 2) & 0xff_ffff) as u32), bits & 3);
        let above = if mood == 0 { Link::NULL } else { Link::new(rank, mood - 1)? };
        Ok(Known { count: bits >> 26, above })
    }
}

/// How many words of every member the lock takes.
pub(crate) fn words(context: &Context, members: &[Rank]) -> usize {
    elements(context, members).len() * WORDS
}

/// For each level that divides the members, the narrowest first, the element of each rank of the
/// job. The last has one element.
fn elements(context: &Context, members: &[Rank]) -> Vec<Vec<u32>> {
    let mut kept: Vec<Vec<u32>> = Vec::new();
    let mut count = 0;
    for level in context.topology().levels() {
        let mut seen: Vec<u32> =
            members.iter().map(|rank| level.element_of[rank.index()]).collect();
        seen.sort_unstable();
        seen.dedup();
        // A level of single ranks would be a queue of one.
        let is_new = seen.len() > count && (seen.len() < members.len() || count == 0);
        if is_new {
            count = seen.len();
            kept.push(level.element_of.clone());
        }
    }
    kept.reverse();
    kept
}

impl<V: Variant> Tree<V> {
    /// `thresholds` are for the levels below the widest, the widest first; the last of them also
    /// for all that follow.
    pub(super) fn new(site: Site, context: &Context, thresholds: &[u32]) -> Tree<V> {
        Tree::below(site, context, None, thresholds)
    }

    /// A tree with something above it, which is given back after so many at the widest level.
    pub(crate) fn below(
        site: Site,
        context: &Context,
        widest: Option<u32>,
        thresholds: &[u32],
    ) -> Tree<V> {
        let mut tree = Tree {
            site,
            levels: Vec::new(),
            thresholds: thresholds.to_vec(),
            widest,
            descent: Cell::default(),
            leaf: Cell::new(Known::NOTHING),
            variant: PhantomData,
        };
        tree.arrange(context);
        tree
    }

    fn arrange(&mut self, context: &Context) {
        let elements = elements(context, self.site.members());
        let depth = elements.len();
        let level = |(number, element_of): (usize, Vec<u32>)| {
            let mine = element_of[context.rank().index()];
            let first = self.site.members().iter().find(|rank| element_of[rank.index()] == mine);
            let is_widest = number + 1 == depth;
            let tail = first.copied().filter(|_| !is_widest).unwrap_or(self.site.home());
            let limit = self.widest.filter(|_| is_widest);
            let named =
                self.thresholds.get((depth - number).saturating_sub(2)).or(self.thresholds.last());
            let base = number * WORDS;
            Level {
                base,
                queue: Queue::new(base, tail).of_level(number),
                t_l: limit.or(named.copied()).unwrap_or(T_L).into(),
            }
        };
        let levels = elements.into_iter().enumerate().map(level).collect();
        self.levels = levels;
    }

    fn note(&self, context: &Context, level: usize, known: Known) -> Result<()> {
        if level == 0 {
            self.leaf.set(known);
            return Ok(());
        }
        context.store(self.site.at(context.rank(), self.levels[level].base + KNOWN), known.pack())
    }

    /// Enters the queues from the narrowest on, until the lock is passed or the widest is entered.
    /// [RMALOCK16 listing 4]
    pub(crate) fn climb(&self, context: &Context, patience: Patience) -> Result<Reached> {
        for (number, level) in self.levels.iter().enumerate() {
            let entry = level.queue.enter::<V>(&self.site, context, patience)?;
            if entry == Entry::GaveUp {
                self.step_back(context, number)?;
                return Ok(Reached::GaveUp);
            }
            if let (Some(below), Some(_)) = (number.checked_sub(1), level.queue.link().target()) {
                self.note(context, below, Known { count: 1, above: level.queue.link() })?;
            }
            if entry != Entry::First {
                self.site.tally.queued(1);
            }
            match entry {
                Entry::Passed(passed) if passed != CLIMB => {
                    self.note(context, number, Known::unpack(passed)?)?;
                    return Ok(Reached::All);
                }
                _ => {}
            }
        }
        let widest = self.levels.len() - 1;
        self.note(context, widest, Known::NOTHING)?;
        Ok(Reached::Root)
    }

    /// Leaves all queues without having got what lies above.
    pub(crate) fn turn_back(&self, context: &Context) -> Result<()> {
        self.step_back(context, self.levels.len())
    }

    /// Passes the lock on; gives back what lies above if it goes no further in the tree.
    pub(crate) fn descend(&self, context: &Context, give_back: GiveBack<'_>) -> Result<Descent> {
        self.descent.set(Descent::default());
        self.release_level(context, 0, self.levels[0].queue.link(), give_back)?;
        Ok(self.descent.get())
    }

    /// Whether a level is the widest.
    pub(crate) fn is_widest(&self, number: usize) -> bool {
        number + 1 == self.levels.len()
    }

    /// Whether nobody is in the widest queue, or inside.
    pub(crate) fn is_idle(&self, context: &Context) -> Result<bool> {
        match self.levels.last() {
            Some(widest) => widest.queue.is_empty(&self.site, context),
            None => Ok(true),
        }
    }

    /// Gives up the queues below a level that was not entered.
    fn step_back(&self, context: &Context, entered: usize) -> Result<()> {
        for level in self.levels[..entered].iter().rev() {
            level.queue.leave::<V>(&self.site, context, CLIMB)?;
        }
        Ok(())
    }

    /// Releases a level with the node that stands there, and those above if the lock leaves the
    /// element. [RMALOCK16 listing 5]
    fn release_level(
        &self,
        context: &Context,
        number: usize,
        node: Link,
        give_back: GiveBack<'_>,
    ) -> Result<()> {
        let level = &self.levels[number];
        let Some((owner, _)) = node.target() else {
            return Ok(());
        };
        let known = if number == 0 {
            self.leaf.get()
        } else {
            Known::unpack(context.load(self.site.at(owner, level.base + KNOWN))?)?
        };
        let is_widest = self.is_widest(number);
        let has_above = !is_widest || self.widest.is_some();
        // At the widest level the threshold is about readers: the product of all is T_W.
        let is_kept = if is_widest { V::KEEPS_T_W } else { V::KEEPS_T_L };
        let may_stay = known.count < level.t_l || !is_kept;
        let stays = !has_above || (may_stay && level.queue.has_next(&self.site, context, owner)?);
        let has_left = Cell::new(!stays);
        let release_above = || {
            if is_widest {
                give_back()
            } else {
                self.release_level(context, number + 1, known.above, give_back)
            }
        };
        if !stays && V::CLIMBS_LAST {
            release_above()?;
        }
        let next = level.queue.leave_as::<V>(&self.site, context, node, |candidate| {
            if candidate.is_none() && has_above && !has_left.replace(true) {
                release_above()?;
            }
            let passed = Known { count: known.count + 1, above: known.above };
            Ok(if has_left.get() { CLIMB } else { passed.pack() })
        })?;
        if !stays && !V::CLIMBS_LAST {
            release_above()?;
        }
        self.note_descent(context, (number, owner), next, has_left.get());
        Ok(())
    }

    fn note_descent(
        &self,
        context: &Context,
        (number, owner): (usize, Rank),
        next: Option<Rank>,
        has_left: bool,
    ) {
        let mut descent = self.descent.get();
        descent.for_another |= owner != context.rank();
        match next {
            Some(next) if !has_left => {
                self.site.tally.passed(context, next);
                (descent.passed_at, descent.next) = (Some(number), Some(next));
            }
            Some(_) => descent.yielded |= self.is_widest(number),
            None => {}
        }
        self.descent.set(descent);
    }
}

impl<V: Variant> Algorithm for Tree<V> {
    fn name(&self) -> &'static str {
        "rma-mcs"
    }

    fn site(&self) -> &Site {
        &self.site
    }

    fn acquire(&self, context: &Context, patience: Patience) -> Result<bool> {
        Ok(self.climb(context, patience)? != Reached::GaveUp)
    }

    fn release(&self, context: &Context) -> Result<()> {
        let published = self.site.publish::<V>(context);
        self.descend(context, &|| Ok(()))?;
        published
    }

    fn reset(&mut self, context: &Context, home: Rank, members: &[Rank]) -> Result<()> {
        self.site.change(home, members);
        self.arrange(context);
        Ok(())
    }

    fn into_words(self: Box<Self>) -> Words {
        self.site.into_words()
    }
}
