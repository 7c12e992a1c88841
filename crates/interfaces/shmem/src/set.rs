//! Active sets: the groups of the collectives of before 1.5, as teams that are made when a set is
//! first used with its `pSync` and kept.
//!
//! To make the team its members must meet. One thread of a PE at a time is in the library, or else
//! several: in the first case they meet in words of the library's own, so that it does not matter
//! what `pSync` holds, or where it is. Threads may make several sets at once, which are told apart
//! by their `pSync` alone: then they meet there.

use std::ffi::{c_int, c_long};
use std::ptr;
use std::time::Duration;

use farside::raw::{self, Rendezvous};
use farside::{Context, Error, Place, Rank, Result};

use crate::exit::{self, Call, OrExit};
use crate::runtime::{Runtime, SetKey, TeamState};

/// An active set as programs give it: PEs `start`, `start` + 2^`log_stride` and so on.
#[derive(Clone, Copy)]
pub(crate) struct ActiveSet {
    pub(crate) start: c_int,
    pub(crate) log_stride: c_int,
    pub(crate) size: c_int,
    pub(crate) psync: *mut c_long,
}

/// Returns the team of an active set, of which this PE must be a member.
pub(crate) fn team_of(runtime: &'static Runtime, set: ActiveSet, call: Call) -> &'static TeamState {
    let key = key(runtime, set, call);
    let sets = || runtime.sets.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if let Some(team) = sets().get(&key).map(|team| kept(team)) {
        return team;
    }
    let members: Vec<Rank> =
        (0..key.size).map(|at| Rank((key.start + at * key.stride) as u32)).collect();
    let me = runtime.world.rank();
    let Some(index) = members.iter().position(|&member| member == me) else {
        exit::end(
            call,
            &format!(
                "this PE is not in the active set of {} PEs with start {} and stride {}",
                key.size, key.start, key.stride
            ),
        );
    };
    let own = runtime.another_context();
    let make = |context: &Context| {
        let meeting = Meeting { runtime, context, members: &members, index, call };
        let made = if runtime.has_threads() {
            raw::team_among(context, &members, &mut AtPsync::new(meeting, set))
        } else {
            raw::team_among(context, &members, &mut ByMail { meeting, mark: mark(&key) })
        };
        made.or_exit(call)
    };
    let team = match &own {
        Some(own) => make(own),
        None => runtime.default.with(runtime, make),
    };
    let team = Box::new(TeamState::new(&members, me, Some(team), own));
    kept(sets().entry(key).insert_entry(team).get())
}

/// A team stays while the library runs.
fn kept(team: &TeamState) -> &'static TeamState {
    // SAFETY: it is taken out by nothing but `shmem_finalize`, during which no collective is under
    // way.
    unsafe { &*ptr::from_ref(team) }
}

fn key(runtime: &Runtime, set: ActiveSet, call: Call) -> SetKey {
    let pes = runtime.world.size() as usize;
    let ActiveSet { start, log_stride, size, psync } = set;
    let is_symmetric = runtime.regions.find(psync.addr(), size_of::<c_long>()).is_some();
    // One on the stack is at an address that means nothing to the other members.
    let psync = if is_symmetric { psync.addr() } else { 0 };
    let stride = match size {
        // With one PE it does not matter, and programs write anything there.
        1 => Some(1),
        _ => u32::try_from(log_stride).ok().and_then(|log| 1usize.checked_shl(log)),
    };
    let fits = |start: usize, size: usize| {
        let last = stride?.checked_mul(size.checked_sub(1)?)?.checked_add(start)?;
        (last < pes).then_some(SetKey { start, stride: stride?, size, psync })
    };
    let sizes = usize::try_from(start).ok().zip(usize::try_from(size).ok());
    match sizes.and_then(|(start, size)| fits(start, size)) {
        Some(key) => key,
        None => exit::end(
            call,
            &format!(
                "the active set of {size} PEs with start {start} and stride 2^{log_stride} does \
                 not fit into {pes} PEs"
            ),
        ),
    }
}

/// Returns a number other than 0 that tells most sets apart.
fn mark(key: &SetKey) -> u64 {
    (1 << 63) | ((key.start as u64) << 40) ^ ((key.stride as u64) << 20) ^ key.size as u64
}

/// The members of a set, one of which makes its team.
struct Meeting<'a> {
    runtime: &'static Runtime,
    context: &'a Context,
    members: &'a [Rank],
    index: usize,
    call: Call,
}

/// How long a wait lasts before it begins anew.
const SLICE: Duration = Duration::from_millis(10);
/// What the first member gives the others, less the word that it means: no word becomes one that a
/// waiter does not take for an answer.
const GIVEN: u64 = 2;

impl Meeting<'_> {
    fn first(&self) -> Rank {
        self.members[0]
    }

    fn me(&self) -> Rank {
        self.members[self.index]
    }

    /// Waits until a word of this PE satisfies `until`, and writes `rest` to it.
    fn take(&self, own: Place<'_, u64>, rest: u64, until: impl Fn(u64) -> bool) -> Result<u64> {
        loop {
            match self.context.wait_timeout(own, &until, SLICE) {
                Err(Error::TimedOut { .. }) => {}
                waited => {
                    let value = waited?;
                    self.context.store(own, rest)?;
                    return Ok(value);
                }
            }
        }
    }

    /// Ends the job if this member has failed: without the team no member can go on, and none but
    /// this one can say why.
    fn check(&self, failed: Option<&Error>) {
        if let Some(error) = failed {
            exit::failed(self.call, error);
        }
    }

    fn give(&self, word: u64, at: impl Fn(Rank) -> Place<'static, u64>) -> Result<()> {
        for &member in &self.members[1..] {
            self.context.signal(at(member), word.wrapping_add(GIVEN))?;
        }
        self.context.flush_all()
    }
}

/// Members meet in words of the library's own. Each PE has two for every PE: that one's arrival at
/// this PE, and that one's answer to this PE's arrival.
struct ByMail<'a> {
    meeting: Meeting<'a>,
    mark: u64,
}

/// Where the words begin in the memory that the library has of its own.
const MAIL: u64 = 64;

/// Returns how much memory the library needs of its own on each of so many PEs.
pub(crate) fn control_bytes(pes: u32) -> u64 {
    MAIL + 2 * u64::from(pes) * size_of::<u64>() as u64
}

impl ByMail<'_> {
    fn word(&self, owner: Rank, number: u64) -> Place<'static, u64> {
        let offset = MAIL + number * size_of::<u64>() as u64;
        self.meeting.runtime.control.at(owner, offset).cast()
    }

    fn arrival(&self, owner: Rank, from: Rank) -> Place<'static, u64> {
        self.word(owner, 2 * u64::from(from.0))
    }

    fn answer(&self, owner: Rank, from: Rank) -> Place<'static, u64> {
        self.word(owner, 2 * u64::from(from.0) + 1)
    }

    /// Gives all members the first one's word.
    fn exchange(&self, word: u64) -> Result<u64> {
        let Meeting { context, members, call, .. } = self.meeting;
        let (first, me) = (self.meeting.first(), self.meeting.me());
        if me != first {
            context.store(self.arrival(first, me), self.mark)?;
            let given = self.meeting.take(self.answer(me, first), 0, |held| held != 0)?;
            return Ok(given.wrapping_sub(GIVEN));
        }
        for &member in &members[1..] {
            let arrived = self.meeting.take(self.arrival(me, member), 0, |held| held != 0)?;
            if arrived != self.mark {
                let text = format!("PE {} is in a collective of another active set", member.0);
                exit::end(call, &text);
            }
        }
        self.meeting.give(word, |member| self.answer(member, first))?;
        Ok(word)
    }
}

impl Rendezvous for ByMail<'_> {
    fn share(&mut self, word: u64) -> Result<u64> {
        self.exchange(word)
    }

    fn agree(&mut self, failed: Option<&Error>) -> Result<bool> {
        self.meeting.check(failed);
        self.exchange(0).map(|_| true)
    }
}

/// Members meet at the first element of their `pSync`: they count themselves in at the first
/// member's, which then writes to theirs.
struct AtPsync<'a> {
    meeting: Meeting<'a>,
    set: ActiveSet,
    /// What the element holds between calls: SHMEM_SYNC_VALUE, or 0 where a program never wrote it.
    rest: u64,
}

/// What a member that counts itself in adds: the lower half still tells what was there at rest.
const ARRIVAL: u64 = 1 << 32;

impl<'a> AtPsync<'a> {
    fn new(meeting: Meeting<'a>, set: ActiveSet) -> AtPsync<'a> {
        let mut it = AtPsync { meeting, set, rest: 0 };
        let held = it.meeting.context.load(it.word(it.meeting.me())).or_exit(it.meeting.call);
        it.rest = held as u32 as i32 as i64 as u64;
        it
    }

    fn word(&self, rank: Rank) -> Place<'static, u64> {
        let (address, bytes) = (self.set.psync.addr(), size_of::<c_long>());
        match self.meeting.runtime.regions.find(address, bytes) {
            Some((region, offset)) => region.memory.at(rank, offset).cast(),
            None => exit::not_symmetric(
                &self.meeting.runtime.regions,
                self.meeting.call,
                address,
                bytes,
            ),
        }
    }

    /// Gives all members the first one's word.
    fn exchange(&self, word: u64) -> Result<u64> {
        let (it, rest) = (&self.meeting, self.rest);
        let own = self.word(it.me());
        if it.me() != it.first() {
            it.context.fetch_add(self.word(it.first()), ARRIVAL)?;
            return Ok(it.take(own, rest, |held| held != rest)?.wrapping_sub(GIVEN));
        }
        let others = (it.members.len() as u64 - 1) * ARRIVAL;
        it.take(own, rest, |held| held.wrapping_sub(rest) == others)?;
        it.give(word, |member| self.word(member))?;
        Ok(word)
    }
}

impl Rendezvous for AtPsync<'_> {
    fn share(&mut self, word: u64) -> Result<u64> {
        self.exchange(word)
    }

    fn agree(&mut self, failed: Option<&Error>) -> Result<bool> {
        self.meeting.check(failed);
        self.exchange(0).map(|_| true)
    }
}
