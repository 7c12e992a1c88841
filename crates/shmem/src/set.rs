//! Active sets: the groups of the collectives of before 1.5, as teams that are made when a set is
//! first used with its `pSync` and kept.

use std::collections::HashMap;
use std::ffi::{c_int, c_long};
use std::time::Duration;

use farside::raw::{self, Rendezvous};
use farside::{Context, Place, Rank, Result};

use crate::exit::{self, Call, OrExit};
use crate::runtime::Runtime;
use crate::team::TeamState;

/// What tells sets apart. Collectives of one set with two arrays may be under way at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    start: usize,
    stride: usize,
    size: usize,
    psync: usize,
}

/// The teams of the sets that were used. They stay until the job is over.
#[derive(Default)]
pub(crate) struct Sets {
    teams: HashMap<Key, Box<TeamState>>,
}

impl Sets {
    fn get(&self, key: &Key) -> Option<&'static TeamState> {
        let team: *const TeamState = &**self.teams.get(key)?;
        // SAFETY: it is taken out by nothing but `shmem_finalize`, during which no collective is
        // under way.
        Some(unsafe { &*team })
    }
}

/// An active set as programs give it: PEs `start`, `start` + 2^`log_stride` and so on.
#[derive(Clone, Copy)]
pub(crate) struct ActiveSet {
    pub(crate) start: c_int,
    pub(crate) log_stride: c_int,
    pub(crate) size: c_int,
    pub(crate) psync: *mut c_long,
}

/// SHMEM_SYNC_VALUE, which all elements of a `pSync` hold between calls.
const REST: u64 = -1i64 as u64;

/// Returns the team of an active set, of which this PE must be a member.
pub(crate) fn team_of(runtime: &'static Runtime, set: ActiveSet, call: Call) -> &'static TeamState {
    let key = key(runtime, set, call);
    let sets = || runtime.sets.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if let Some(team) = sets().get(&key) {
        return team;
    }
    let members: Vec<Rank> =
        (0..key.size).map(|at| Rank((key.start + at * key.stride) as u32)).collect();
    let me = runtime.world.rank();
    let Some(index) = members.iter().position(|&member| member == me) else {
        exit::end(
            call,
            &format!(
                "this PE is not in the active set of {} PEs from {} on, {} apart",
                key.size, key.start, key.stride
            ),
        );
    };
    let own = runtime.another_context();
    let make = |context: &Context| {
        let mut rendezvous = AtPsync { runtime, context, members: &members, index, set, call };
        raw::team_among(context, &members, &mut rendezvous).or_exit(call)
    };
    let team = match &own {
        Some(own) => make(own),
        None => runtime.default.with(runtime, make),
    };
    let team = Box::new(TeamState::new(&members, me, Some(team), own));
    let mut sets = sets();
    sets.teams.insert(key, team);
    match sets.get(&key) {
        Some(team) => team,
        None => exit::end(call, &"the team of an active set is gone"),
    }
}

fn key(runtime: &Runtime, set: ActiveSet, call: Call) -> Key {
    let pes = runtime.world.size() as usize;
    let ActiveSet { start, log_stride, size, psync } = set;
    let stride = match size {
        // With one PE it does not matter, and programs write anything there.
        1 => Some(1),
        _ => u32::try_from(log_stride).ok().and_then(|log| 1usize.checked_shl(log)),
    };
    let fits = |start: usize, size: usize| {
        let last = stride?.checked_mul(size.checked_sub(1)?)?.checked_add(start)?;
        (last < pes).then_some(Key { start, stride: stride?, size, psync: psync.addr() })
    };
    let sizes = usize::try_from(start).ok().zip(usize::try_from(size).ok());
    match sizes.and_then(|(start, size)| fits(start, size)) {
        Some(key) => key,
        None => exit::end(
            call,
            &format!(
                "the active set of {size} PEs from {start} on, 2^{log_stride} apart, does not fit \
                 into {pes} PEs"
            ),
        ),
    }
}

/// The members of a set meet at the first element of their `pSync`: they count themselves in at
/// the first member's, which then writes to theirs.
struct AtPsync<'a> {
    runtime: &'static Runtime,
    context: &'a Context,
    members: &'a [Rank],
    index: usize,
    set: ActiveSet,
    call: Call,
}

impl AtPsync<'_> {
    fn word(&self, rank: Rank) -> Place<'static, u64> {
        let (address, bytes) = (self.set.psync.addr(), size_of::<c_long>());
        match self.runtime.regions.find(address, bytes) {
            Some((region, offset)) => region.memory.at(rank, offset).cast(),
            None => exit::not_symmetric(self.call, address, bytes),
        }
    }

    /// Waits until the own word satisfies `until`; then it rests again.
    fn wait(&self, until: impl Fn(u64) -> bool) -> Result<u64> {
        let own = self.word(self.members[self.index]);
        loop {
            let slice = Duration::from_millis(10);
            match self.context.wait_timeout(own, &until, slice) {
                Err(farside::Error::TimedOut { .. }) => {}
                waited => {
                    let value = waited?;
                    self.context.store(own, REST)?;
                    return Ok(value);
                }
            }
        }
    }

    /// Counts all members in at the first one, which then gives each of them a word.
    fn gather_and_give(&self, word: u64) -> Result<u64> {
        let others = self.members.len() as u64 - 1;
        if self.index > 0 {
            self.context.fetch_add(self.word(self.members[0]), 1)?;
            return self.wait(|held| held != REST);
        }
        if others > 0 {
            self.wait(|held| held == REST.wrapping_add(others))?;
        }
        for &member in &self.members[1..] {
            self.context.signal(self.word(member), word)?;
        }
        self.context.flush_all()?;
        Ok(word)
    }
}

impl Rendezvous for AtPsync<'_> {
    fn share(&mut self, word: u64) -> Result<u64> {
        self.gather_and_give(word)
    }

    fn meet(&mut self) -> Result<()> {
        self.gather_and_give(0).map(drop)
    }
}
