//! Queuing lock that is released without a message: the last holder's node stays at the tail and
//! says that the lock is free.
//!
//! Paper:     [ARMCI03] section 4.2 and section 5 ask for a queuing lock whose uncontended release
//!            needs no compare-swap, and leave it open.
//! Differs:   from their lock: a release swaps a mark into its own node's next, in its own memory.
//!            Who comes later gets that node from the tail, swaps its own link in, and finds the
//!            mark: the lock is free. A rank uses two nodes in turn, because the one it released
//!            may still be at the tail; by the time it has the lock with the other one, nobody
//!            looks at the first any more. A request with a time limit takes no place until the
//!            lock is free, since a place cannot be given up.
//! State:     1 word at the home rank, 3 words (next of either node, status) on every rank, and 1
//!            that nobody writes.
//! Invariant: at most one rank between acquire and release; entry in the order of the swaps on the
//!            tail; a node's next holds the mark only if its owner has released with it and nobody
//!            has taken the lock after it.
//! Ordering:  release flushes first (`a_token_without_flush_is_caught`); nodes alternate
//!            (`a_token_with_one_node_is_caught`); an attempt compares the tail with a link that
//!            never comes back (`a_token_without_numbers_is_caught`).
//! Cost:      acquire 1 store to itself and 1 atomic, +1 atomic at the last holder unless that is
//!            this rank, +1 store to itself if queued; release 1 atomic on itself, +1 signal if
//!            somebody waits.
//! Checked:   `farside check 'lock/d-mcs-token*'`: 3 ranks x 2 rounds exhaustively on one node, 3 x
//!            1 on three; 2 x 3 with time limits; 3 x 1 with a death; 8 and 16 ranks on three
//!            levels, some with time limits, PCT depth 3.

use std::cell::Cell;
use std::marker::PhantomData;

use farside_fabric::{Link, Rank, Result};
use farside_rma::{Context, Words};

use super::frame::{Algorithm, Patience, Site, Standing, Variant};

pub(super) const WORDS: usize = 5;
const TAIL: usize = 0;
/// The next of the first node; that of the second follows.
const NEXT: usize = 1;
const STATUS: usize = 3;
/// Nobody writes it: a wait for it is a pause.
const PAUSE: usize = 4;

/// In a node's next: its owner has released the lock. No link has this value.
const RELEASED: u64 = u64::MAX;
const GRANTED: u64 = 1;

pub(super) struct Token<V> {
    site: Site,
    /// How many places this rank has taken. They differ in their links, so that a tail that is as
    /// it was is one that did not change; the last bit says which node is used.
    places: Cell<u64>,
    variant: PhantomData<V>,
}

impl<V: Variant> Token<V> {
    pub(super) fn new(site: Site) -> Token<V> {
        Token { site, places: Cell::new(0), variant: PhantomData }
    }

    /// The next of the node that a link names.
    fn next_of(&self, link: Link) -> Option<farside_rma::Place<'_, u64>> {
        link.target().map(|(rank, place)| self.site.at(rank, NEXT + node_of::<V>(place)))
    }

    /// Takes the lock after a node that was at the tail; false if its owner still has it.
    fn follow(&self, context: &Context, before: Link, mine: Link) -> Result<bool> {
        match (before.target(), self.next_of(before)) {
            // Nobody ever had it, or this rank had it last: then it has released it.
            (None, _) | (_, None) => Ok(true),
            (Some((rank, _)), _) if rank == context.rank() => Ok(true),
            (_, Some(next)) => Ok(context.swap(next, mine.bits())? == RELEASED),
        }
    }

    /// Takes a place only if the lock is free.
    fn attempt(&self, context: &Context, mine: Link) -> Result<bool> {
        let tail = self.site.shared(TAIL);
        let before = Link::from_bits(context.load(tail)?);
        let is_free = match self.next_of(before) {
            None => true,
            Some(next) => context.load(next)? == RELEASED,
        };
        if !is_free || context.compare_swap(tail, before.bits(), mine.bits())? != before.bits() {
            return Ok(false);
        }
        // Nobody else can have taken the mark away: it is for the one who follows the node at the
        // tail, and that has not changed.
        self.follow(context, before, mine)
    }
}

impl<V: Variant> Algorithm for Token<V> {
    fn name(&self) -> &'static str {
        "d-mcs-token"
    }

    fn site(&self) -> &Site {
        &self.site
    }

    fn acquire(&self, context: &Context, patience: Patience) -> Result<bool> {
        let me = context.rank();
        let place =
            (self.places.get() + 1) % if V::NUMBERS_PLACES { 1 << V::PLACE_BITS } else { 2 };
        let mine = Link::new(me, place)?;
        context.store(self.site.at(me, NEXT + node_of::<V>(place)), 0)?;
        if patience != Patience::Forever {
            let is_taken =
                self.site.poll(context, PAUSE, patience, || self.attempt(context, mine))?;
            if is_taken {
                self.places.set(place);
            }
            return Ok(is_taken);
        }
        self.places.set(place);
        let before = Link::from_bits(context.swap(self.site.shared(TAIL), mine.bits())?);
        V::waits(context, Standing::Queued(0))?;
        if !self.follow(context, before, mine)? {
            self.site.tally.queued(1);
            self.site.wait(context, STATUS, |status| status == GRANTED)?;
            context.store(self.site.at(me, STATUS), 0)?;
        }
        Ok(true)
    }

    fn release(&self, context: &Context) -> Result<()> {
        let published = self.site.publish::<V>(context);
        let next = context
            .swap(self.site.at(context.rank(), NEXT + node_of::<V>(self.places.get())), RELEASED)?;
        if let Some((rank, _)) = Link::from_bits(next).target() {
            context.signal(self.site.at(rank, STATUS), GRANTED)?;
            self.site.tally.passed(context, rank);
        }
        published
    }

    fn reset(&mut self, _context: &Context, home: Rank, members: &[Rank]) -> Result<()> {
        self.site.change(home, members);
        self.places.set(0);
        Ok(())
    }

    fn into_words(self: Box<Self>) -> Words {
        self.site.into_words()
    }
}

/// Which of a rank's nodes a place uses.
fn node_of<V: Variant>(place: u64) -> usize {
    if V::ALTERNATES { (place % 2) as usize } else { 0 }
}
