//! Active synchronization: a fence of all members, or post / start / complete / wait among groups
//! of them.
//!
//! Paper:     [PASSIVE08] section 2.2, the active mode of MPI-2.
//! Differs:   an origin does not wait for its puts to land: the word that ends its access epoch
//!            comes after them, and the target waits for it. A fence is a flush and a barrier.
//! State:     for each pair of members 2 words at the target and 1 at the origin: posts,
//!            completions, starts; 1 word on every rank that counts fences. All only grow.
//! Invariant: an access epoch to a target lies within an exposure epoch of that target for this
//!            origin; the k-th of one belongs to the k-th of the other.
//! Ordering:  `an_access_without_order_is_caught`, `an_access_without_posts_is_caught`,
//!            `an_exposure_without_origins_is_caught`, `a_fence_without_flush_is_caught`,
//!            `a_fence_without_meeting_is_caught`.
//! Cost:      post 1 signal for each origin, start none (1 signal for each target if checked),
//!            complete 1 signal for each target, wait none. Fence: a flush and a barrier.
//! Checked:   `farside check 'epoch/fence*' 'epoch/post*'`: 3 ranks x 2 rounds exhaustively, near
//!            and far; groups that overlap; a death.

use std::cell::Cell;

use farside_fabric::{Rank, Result};
use farside_rma::{Context, Place, Team, Window};

use crate::fault::Fault;
use crate::steps;

/// Words for each pair.
const POSTS: usize = 0;
const COMPLETIONS: usize = 1;
const STARTS: usize = 2;
const WORDS: usize = 3;

/// The words of all pairs, as one rank uses them.
pub(crate) struct Active {
    words: Window<u64>,
    members: Box<[Rank]>,
    me: usize,
    /// The number of exposure epochs that this rank has posted for each member, and of access
    /// epochs that it has started to each.
    posted: Box<[Cell<u64>]>,
    started: Box<[Cell<u64>]>,
    fences: Cell<u64>,
}

impl Active {
    pub(crate) fn new(team: &Team<'_>) -> Result<Active> {
        let count = team.size();
        Ok(Active {
            words: team.uncounted_window(WORDS * count + 1)?,
            members: team.members().into(),
            me: team.index(),
            posted: (0..count).map(|_| Cell::new(0)).collect(),
            started: (0..count).map(|_| Cell::new(0)).collect(),
            fences: Cell::new(0),
        })
    }

    pub(crate) fn free(self, team: &Team<'_>) -> Result<()> {
        self.words.free(team)
    }

    /// Tells the origins that this rank's part is open to them.
    pub(crate) fn post(&self, context: &Context, origins: &[usize]) -> Result<()> {
        // The origins must see what this rank has written.
        if !context.omits(steps::ORDER) {
            context.flush(context.rank())?;
        }
        for &origin in origins {
            self.posted[origin].set(self.posted[origin].get() + 1);
            context.signal(
                self.word(self.members[origin], self.me, POSTS),
                self.posted[origin].get(),
            )?;
        }
        Ok(())
    }

    /// Counts a new access epoch to each target; the words that say whether they have posted, and
    /// what they must say.
    pub(crate) fn start(
        &self,
        context: &Context,
        targets: &[usize],
        announce: bool,
    ) -> Result<Vec<(Place<'_, u64>, u64)>> {
        let mut awaited = Vec::with_capacity(targets.len());
        for &target in targets {
            let number = self.started[target].get() + 1;
            self.started[target].set(number);
            if announce {
                context.signal(self.word(self.members[target], self.me, STARTS), number)?;
            }
            awaited.push((self.word(context.rank(), target, POSTS), number));
        }
        Ok(awaited)
    }

    /// Tells the targets that this rank is done with them, after all that it has posted to them.
    pub(crate) fn complete(&self, context: &Context, targets: &[usize]) -> Result<()> {
        if !context.omits(steps::ORDER) {
            context.fence()?;
        }
        for &target in targets {
            let number = self.started[target].get();
            context.signal(self.word(self.members[target], self.me, COMPLETIONS), number)?;
        }
        Ok(())
    }

    /// The words that say whether the origins have completed, and what they must say.
    pub(crate) fn completions(
        &self,
        context: &Context,
        origins: &[usize],
    ) -> Vec<(Place<'_, u64>, u64)> {
        let word = |&origin: &usize| {
            (self.word(context.rank(), origin, COMPLETIONS), self.posted[origin].get())
        };
        origins.iter().map(word).collect()
    }

    /// Announces, to ranks that wait for this one, that it has come to another fence, or to the end
    /// of the window.
    pub(crate) fn announce_fence(&self, context: &Context) -> Result<()> {
        self.fences.set(self.fences.get() + 1);
        context.store(self.fences_of(context.rank()), self.fences.get())
    }

    /// Returns whether an awaited member has come to a fence at which this rank is not: then it
    /// will never do what it is awaited for.
    pub(crate) fn has_passed(&self, context: &Context, member: usize) -> Result<bool> {
        Ok(context.load(self.fences_of(self.members[member]))? > self.fences.get())
    }

    fn fences_of(&self, rank: Rank) -> Place<'_, u64> {
        self.words.at(rank, WORDS * self.members.len())
    }

    /// Checks that every post for this rank was started, and every start to it was posted. All
    /// epochs must be over.
    pub(crate) fn check_groups(&self, context: &Context) -> Result<()> {
        for (member, &rank) in self.members.iter().enumerate() {
            let posts = context.load(self.word(context.rank(), member, POSTS))?;
            let me = context.rank();
            let (post, start) = ("posted an exposure epoch for", "started an access epoch to");
            if posts > self.started[member].get() {
                return Err(Fault::Unanswered { rank, did: post, me, missing: start }.into());
            }
            let starts = context.load(self.word(me, member, STARTS))?;
            if starts > self.posted[member].get() {
                return Err(Fault::Unanswered { rank, did: start, me, missing: post }.into());
            }
        }
        Ok(())
    }

    fn word(&self, rank: Rank, member: usize, which: usize) -> Place<'_, u64> {
        self.words.at(rank, WORDS * member + which)
    }
}
