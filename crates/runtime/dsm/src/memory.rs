//! The memory that ranks reach of each other: copies, diffs, notices, mail, and the words of locks.

use farside_fabric::{Error, Rank, Result, SegmentId};
use farside_rma::{Place, Plain, Team, Window, World};

use crate::config::Config;

/// The least and largest size of a message that comes with its signal.
const SLOT_BYTES: (usize, usize) = (64, 32 << 10);
/// The room that a rank has for such messages at most, if there are many ranks.
const SLOTS_BYTES_MAX: usize = 64 << 20;
/// The number of bytes of notices that come with a lock.
pub(crate) const GRANT_BYTES: usize = 8 << 10;
/// The size of a request for a lock, which says what its rank knows.
pub(crate) const REQUEST_BYTES: usize = 128;
/// The least and largest number of bytes of longer messages that a rank can have under way.
const OUTBOX_BYTES: (usize, usize) = (1 << 10, 8 << 20);
/// The least and largest number of bytes of notices that a rank keeps for ranks that ask for a
/// lock, between two barriers of all ranks.
const LOG_BYTES: (usize, usize) = (1 << 10, 4 << 20);

/// The words of a lock: the rank that asked last, at the manager; and the states of two requests in
/// turn, at every rank.
pub(crate) const TAIL: usize = 0;
pub(crate) const STATES: usize = 1;
const LOCK_WORDS: usize = 3;

/// The direction of a message in a barrier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Up,
    Down,
}

pub(crate) struct Memory {
    ranks: usize,
    slot_bytes: usize,
    pub(crate) outbox_bytes: usize,
    pub(crate) log_bytes: usize,
    /// The rank's copy of the shared memory.
    pub(crate) copy: Window<u32>,
    pub(crate) diffs: Window<u32>,
    /// The intervals that the rank knows, in the order in which it learned of them.
    pub(crate) log: Window<u8>,
    pub(crate) outbox: Window<u8>,
    /// Messages of barriers.
    mail: Window<u8>,
    /// Messages of locks.
    requests: Window<u8>,
    words: Window<u64>,
    /// What is known of pages, unless all ranks share one copy.
    pub(crate) pages: Option<PageWindows>,
}

impl Memory {
    /// Allocates it, and `table_words` for what is known of pages, unless all ranks share one copy.
    pub(crate) fn new(
        world: &World,
        config: &Config,
        table_words: Option<usize>,
    ) -> Result<Memory> {
        let ranks = world.size() as usize;
        // Less storage needs shorter messages.
        let part = |of: usize, (least, most): (usize, usize)| {
            (config.storage_max as usize / of).clamp(least, most)
        };
        let slot_bytes =
            part(1024, SLOT_BYTES).min(SLOTS_BYTES_MAX / (2 * ranks)).max(SLOT_BYTES.0) & !7;
        let (outbox_bytes, log_bytes) = (part(8, OUTBOX_BYTES), part(16, LOG_BYTES));
        let requests = GRANT_BYTES + 2 * config.locks as usize * REQUEST_BYTES;
        let words = 3 * ranks + 1 + config.locks as usize * LOCK_WORDS;
        let team = world.team();
        let known = || match table_words {
            Some(words) => PageWindows::new(&team, config, words).map(Some),
            None => Ok(None),
        };
        let pages = [config.bytes as usize / 4, config.storage_max as usize / 4];
        let bytes = [log_bytes, outbox_bytes, 2 * ranks * slot_bytes, requests];
        let rest = || windows(&team, bytes, || windows(&team, [words], known));
        let ([copy, diffs], ([log, outbox, mail, requests], ([words], pages))) =
            windows(&team, pages, rest)?;
        Ok(Memory {
            ranks,
            slot_bytes,
            outbox_bytes,
            log_bytes,
            copy,
            diffs,
            log,
            outbox,
            mail,
            requests,
            words,
            pages,
        })
    }

    pub(crate) fn slot_bytes(&self) -> usize {
        self.slot_bytes
    }

    fn slot_offset(&self, way: Way, from: Rank) -> usize {
        (way as usize * self.ranks + from.index()) * self.slot_bytes
    }

    fn request_offset(lock: u32, state: usize) -> usize {
        GRANT_BYTES + (2 * lock as usize + state) * REQUEST_BYTES
    }

    pub(crate) fn mail_segment(&self) -> SegmentId {
        self.mail.segment()
    }

    /// Returns the slot in which `to` keeps the messages of `from`.
    pub(crate) fn slot(&self, way: Way, from: Rank, to: Rank) -> Place<'_, u8> {
        self.mail.at(to, self.slot_offset(way, from))
    }

    /// The word that counts them.
    pub(crate) fn bell(&self, way: Way, from: Rank, to: Rank) -> Place<'_, u64> {
        self.words.at(to, way as usize * self.ranks + from.index())
    }

    /// The word in which `at` hears that `by` has got its longer messages.
    pub(crate) fn taken(&self, at: Rank, by: Rank) -> Place<'_, u64> {
        self.words.at(at, 2 * self.ranks + by.index())
    }

    /// The word in which a rank hears that it has a lock.
    pub(crate) fn granted(&self, at: Rank) -> Place<'_, u64> {
        self.words.at(at, 3 * self.ranks)
    }

    /// Returns the slot of the notices that come with a lock.
    pub(crate) fn grant(&self, at: Rank) -> Place<'_, u8> {
        self.requests.at(at, 0)
    }

    /// Returns the slot of the request of the next rank in the queue; `state` is 0 or 1.
    pub(crate) fn request(&self, at: Rank, lock: u32, state: usize) -> Place<'_, u8> {
        self.requests.at(at, Self::request_offset(lock, state))
    }

    pub(crate) fn lock(&self, at: Rank, lock: u32, word: usize) -> Place<'_, u64> {
        self.words.at(at, 3 * self.ranks + 1 + lock as usize * LOCK_WORDS + word)
    }

    pub(crate) fn free(self, world: &World) -> Result<()> {
        // All come to every one of them, also a rank for which one has failed.
        self.copy
            .free(world)
            .and(self.diffs.free(world))
            .and(self.log.free(world))
            .and(self.outbox.free(world))
            .and(self.mail.free(world))
            .and(self.requests.free(world))
            .and(self.words.free(world))
            .and(self.pages.map_or(Ok(()), |pages| pages.free(world)))
    }
}

/// What is known of pages, and their twins: the state of a domain, in the memory of its first rank.
/// With a copy for each rank, and diffs that are made eagerly, the pages as others fetch them from
/// here, and no table.
pub(crate) struct PageWindows {
    pub(crate) table: Window<u64>,
    pub(crate) twins: Window<u32>,
}

impl PageWindows {
    fn new(team: &Team<'_>, config: &Config, table_words: usize) -> Result<PageWindows> {
        let twins = [config.bytes as usize / 4];
        let ([table], ([twins], ())) =
            windows(team, [table_words], || windows(team, twins, || Ok(())))?;
        Ok(PageWindows { table, twins })
    }

    fn free(self, world: &World) -> Result<()> {
        self.table.free(world).and(self.twins.free(world))
    }
}

/// Allocates windows of these lengths, and what else is needed: all of it, or nothing.
fn windows<T: Plain, R, const COUNT: usize>(
    team: &Team<'_>,
    lengths: [usize; COUNT],
    rest: impl FnOnce() -> Result<R>,
) -> Result<([Window<T>; COUNT], R)> {
    let mut made = Vec::new();
    let each = lengths.into_iter().try_for_each(|length| {
        made.push(team.uncounted_window::<T>(length)?);
        Ok(())
    });
    match each.and_then(|()| rest()) {
        Ok(rest) => {
            let made = made.try_into();
            Ok((made.map_err(|_| Error::Internal("a window is missing".into()))?, rest))
        }
        Err(error) => {
            // Why there is no memory says more than why this cannot be freed.
            let _ = made.into_iter().try_for_each(|window| window.free(team));
            Err(error)
        }
    }
}

pub(crate) fn check_room(what: &str, wanted: usize, limit: usize) -> Result<()> {
    if wanted <= limit {
        return Ok(());
    }
    Err(Error::Exhausted(format!(
        "{wanted} bytes of {what} do not fit into the {limit} bytes of storage between two \
         barriers of all ranks: call barriers more often, or raise `storage_max`"
    )))
}
