//! Many small items for other ranks, sent in packets and handled where they arrive.
//!
//! One update of a word somewhere costs a message; a thousand of them for the same rank, sent
//! together, cost hardly more. An [`Aggregator`] collects items of one type for every rank, sends
//! them in packets, and calls a handler with those that arrive, until everything that anybody has
//! pushed is handled: a histogram over all ranks, for example.
//!
//! ```
//! use farside::{Aggregator, Rank};
//!
//! farside::local(4, |world| {
//!     // Rank r counts the numbers from 16 r to 16 r + 15.
//!     let mut counts = [0u64; 16];
//!     let mut numbers = Aggregator::<u32>::new(world)?;
//!     numbers.run(
//!         |out| (0..1000).try_for_each(|number| out.push(Rank(number % 64 / 16), number % 64)),
//!         |_, _, arrived| {
//!             arrived.iter().for_each(|number| counts[*number as usize % 16] += 1);
//!             Ok(())
//!         },
//!     )?;
//!     let mut total = [counts.iter().sum::<u64>()];
//!     world.all_sum(&mut total)?;
//!     assert_eq!(total, [4000]);
//!     numbers.free()
//! })
//! .unwrap();
//! ```
//!
//! A handler may push items itself, such as the answer to a question: an item that arrives is
//! handled in the same run.
//!
//! ```
//! use farside::{Aggregator, Rank};
//!
//! farside::local(3, |world| {
//!     let (me, squares) = (world.rank(), [0, 1, 4, 9, 16, 25]);
//!     // A question is the number of an element; the answer has what it holds, too.
//!     let mut elements = Aggregator::<[u32; 3]>::new(world)?;
//!     let mut found = [0; 6];
//!     elements.run(
//!         |out| (0..6).try_for_each(|at| out.push(Rank(at / 2), [0, at, 0])),
//!         |out, from, arrived| {
//!             for &[is_answer, at, value] in arrived {
//!                 match is_answer {
//!                     0 => out.push(from, [1, at, squares[at as usize]])?,
//!                     _ => found[at as usize] = value,
//!                 }
//!             }
//!             Ok(())
//!         },
//!     )?;
//!     assert_eq!(found, squares, "{me}");
//!     elements.free()
//! })
//! .unwrap();
//! ```
//!
//! **Order.** Items of one rank for another arrive in the order in which they were pushed. Nothing
//! else is ordered.
//!
//! **Memory.** A rank has room for some packets of each member, and each member waits, handling
//! what arrives meanwhile, before it sends more. What a *handler* pushes for a rank without room
//! waits in memory of the rank that pushed it, since a handler cannot be interrupted by another.
//!
//! **Threads.** A thread other than the one that joined uses a context and a team of its own, and
//! an aggregator over that.
//!
//! **Failures.** If a member is lost, panics, or cannot send or receive, [`Aggregator::run`] fails
//! on all others, and the aggregator can only be freed. An error of a closure ends the part of its
//! rank: what arrives there is dropped from then on, the run ends on all ranks as usual, and that
//! rank's call returns the error.

mod packets;
#[doc(hidden)]
pub mod steps;
mod termination;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use farside_fabric::{Error, Rank, Result};
use farside_rma::{Plain, Team};

use packets::Packets;

/// The largest packet, and what the packets that a rank has room for take together, in bytes.
const PACKET_BYTES: usize = 32 << 10;
const ROOM_BYTES: usize = 32 << 20;
/// How many packets of each member a rank has room for.
const PACKETS: usize = 4;

/// How items are packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packing {
    /// How many items a packet has.
    pub items: usize,
    /// How many packets of each member a rank has room for.
    pub packets: usize,
}

impl Packing {
    /// What suits items of `bytes` bytes and so many members.
    pub fn of(bytes: usize, members: usize) -> Packing {
        let fair = ROOM_BYTES / (members.max(1) * PACKETS);
        Packing { items: (PACKET_BYTES.min(fair) / bytes.max(1)).max(1), packets: PACKETS }
    }
}

/// Sends many small items in packets; see the [module](self).
#[must_use = "an aggregator that is dropped without `free` keeps its memory until the job ends"]
pub struct Aggregator<'w, T> {
    packets: Packets<'w, T>,
}

impl<'w, T: Plain> Aggregator<'w, T> {
    /// Makes an aggregator over a team. Collective.
    #[track_caller]
    pub fn new(team: impl Into<Team<'w>>) -> Result<Aggregator<'w, T>> {
        let team = team.into();
        let packing = Packing::of(size_of::<T>(), team.size());
        Aggregator::packed(team, packing)
    }

    /// Makes an aggregator with packets of another size or number. Collective, and the same for
    /// all.
    #[track_caller]
    pub fn packed(team: impl Into<Team<'w>>, packing: Packing) -> Result<Aggregator<'w, T>> {
        if packing.items == 0 || packing.packets == 0 || u32::try_from(packing.items).is_err() {
            return Err(Error::InvalidArgument(format!(
                "an aggregator needs packets of 1 to {} items, and room for at least 1 packet of \
                 each member, not {packing:?}",
                u32::MAX
            )));
        }
        Ok(Aggregator { packets: Packets::new(team.into(), packing)? })
    }

    /// Returns how items are packed.
    pub fn packing(&self) -> Packing {
        self.packets.packing()
    }

    /// Calls `produce`, which pushes items for any members, and `handle` with the items that arrive
    /// here, and with the rank that pushed them. Returns when all items of all members are handled,
    /// those included that handlers have pushed. Collective.
    #[track_caller]
    pub fn run(
        &mut self,
        produce: impl FnOnce(&mut Producer<'_, 'w, T>) -> Result<()>,
        mut handle: impl FnMut(&mut Replies<'_, 'w, T>, Rank, &[T]) -> Result<()>,
    ) -> Result<()> {
        self.packets.begin()?;
        let mut failed = None;
        let mut handle = |replies: &mut Replies<'_, 'w, T>, from: Rank, items: &[T]| {
            if failed.is_none() {
                failed = handle(replies, from, items).err();
            }
        };
        let ran = catch_unwind(AssertUnwindSafe(|| {
            let mut producer = Producer { packets: &mut self.packets, handle: &mut handle };
            let produced = produce(&mut producer);
            if !self.packets.is_broken() {
                let finished = self.packets.finish(&mut handle);
                self.packets.or_break(finished)?;
            }
            produced
        }));
        match ran {
            Ok(ran) => ran?,
            // The program may catch it and go on, while the others wait for items of this rank.
            Err(panic) => {
                let panicked = Error::InvalidState("a run of an aggregator has panicked".into());
                let _ = self.packets.or_break::<()>(Err(panicked));
                resume_unwind(panic);
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Goes on as if so many packets had been sent to everybody, for tests of what happens at the
    /// end of their numbers. Collective.
    #[doc(hidden)]
    pub fn renumber(&mut self, packets: u64) -> Result<()> {
        self.packets.renumber(packets)
    }

    /// Gives its memory back. Collective.
    #[track_caller]
    pub fn free(self) -> Result<()> {
        self.packets.free()
    }
}

type Handle<'a, 'w, T> = dyn FnMut(&mut Replies<'_, 'w, T>, Rank, &[T]) + 'a;

/// Takes the items that a rank produces.
pub struct Producer<'a, 'w, T> {
    packets: &'a mut Packets<'w, T>,
    handle: &'a mut Handle<'a, 'w, T>,
}

impl<T: Plain> Producer<'_, '_, T> {
    /// Pushes an item for a member. If it has no room for more, what arrives here is handled until
    /// it has.
    #[inline]
    #[track_caller]
    pub fn push(&mut self, to: Rank, item: T) -> Result<()> {
        let member = self.packets.member(to)?;
        if self.packets.add(member, item) {
            self.packets.send_full(member, self.handle)?;
        }
        Ok(())
    }

    /// Handles what has arrived, without waiting for more: for producers that compute for long
    /// between two items.
    #[track_caller]
    pub fn progress(&mut self) -> Result<()> {
        self.packets.receive(self.handle).map(drop)
    }
}

/// Takes the items that a handler pushes.
pub struct Replies<'a, 'w, T> {
    packets: &'a mut Packets<'w, T>,
}

impl<T: Plain> Replies<'_, '_, T> {
    /// Pushes an item for a member. It never waits.
    #[inline]
    #[track_caller]
    pub fn push(&mut self, to: Rank, item: T) -> Result<()> {
        let member = self.packets.member(to)?;
        if self.packets.add(member, item) {
            self.packets.queue(member)?;
        }
        Ok(())
    }
}
