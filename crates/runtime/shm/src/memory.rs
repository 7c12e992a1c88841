//! The job's memory: one anonymous file, its layout, its mapping.
//!
//! ```text
//! header | a block per rank | a bell per agent | locks for sums | which calls wait | call slots
//! | tables of segments | topology | records | rings | what is beside | first segments | arenas
//! ```
//!
//! The first segments, which hold the words that the collectives meet on, lie together instead of
//! at the heads of the arenas: whoever signals all ranks in turn would otherwise walk the page
//! tables anew for each of them.
//!
//! Everything before the first segments consists of atomics, so that references to it are sound
//! whoever else maps it.

mod records;
#[cfg(test)]
pub(crate) mod tests;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use farside_fabric::memory::{SharedWords, Stripes};
use farside_fabric::{Error, FailureCounters, Failures, Mapped, Node, Rank, Result, Topology};
use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};

use crate::bell::Bell;
use crate::layout::{
    AgentLine, CALL_BYTES, CALL_SLOTS, CallSlot, Entry, Header, Layout, Member, SEGMENTS,
    SLOT_BYTES, Sizes,
};

/// "farside" and the version of the layout.
const MAGIC: u64 = u64::from_le_bytes(*b"farside\x07");
/// The largest number of ranks of one job: each machine has a place for all of them.
pub const RANKS_MAX: u32 = 4096;
const TOPOLOGY_BYTES_MAX: u64 = 16 << 20;
const SIZE_SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW);

/// What a job is made of.
#[derive(Debug, Clone)]
pub struct Config {
    /// Who is where.
    pub topology: Topology,
    /// How many processors the ranks may use together.
    pub cores: u32,
    /// How much memory each rank may share.
    pub arena_bytes: u64,
    /// How long the first segment of each rank is.
    pub root_bytes: u64,
    /// How much memory there is beside, for whoever builds on this one: see [`Job::beside`].
    pub beside_bytes: u64,
    /// Whether the latest operations of each rank are recorded, and those that threads serve: see
    /// [`Job::ring`] and [`Job::service_ring`].
    pub is_recorded: bool,
}

impl Config {
    /// The default for a topology: as much memory per rank as the machine has, as long as addresses
    /// last. Of a limited address space (`ulimit -v`) half, divided by the nodes: a launcher maps
    /// the memory of all of them.
    pub fn new(topology: Topology, root_bytes: u64) -> Config {
        let ranks = u64::from(topology.ranks());
        let machine = rustix::system::sysinfo();
        let ram = machine.totalram * u64::from(machine.mem_unit);
        let room = crate::machine::addresses_limit()
            .map_or(u64::MAX, |limit| room_for_each(limit, &topology));
        Config {
            topology,
            cores: crate::machine::cores(),
            arena_bytes: ram.min((16 << 40) / ranks).min(room),
            root_bytes,
            beside_bytes: 0,
            is_recorded: false,
        }
    }
}

/// The memory of a job, mapped into this process. The launcher makes it; ranks attach to it.
pub struct Job {
    base: NonNull<u8>,
    layout: Layout,
    /// What the layout was made of. The header says it, too, but every rank can write there, and
    /// this is what keeps accesses inside the mapping.
    ranks: u32,
    sizes: Sizes,
    file: OwnedFd,
    topology: Arc<Topology>,
    page: u64,
}

// SAFETY: the mapping is shared memory that is only touched through atomics or `Mapped`, from any
// thread.
unsafe impl Send for Job {}
// SAFETY: as above.
unsafe impl Sync for Job {}

impl Job {
    /// Makes a new job.
    pub fn create(config: &Config) -> Result<Arc<Job>> {
        let page = rustix::param::page_size() as u64;
        let ranks = config.topology.ranks();
        if ranks > RANKS_MAX {
            return Err(Error::TooMuch {
                what: "ranks of a job",
                value: ranks.into(),
                limit: RANKS_MAX.into(),
            });
        }
        let topology = config.topology.encode();
        if topology.len() as u64 > TOPOLOGY_BYTES_MAX {
            return Err(Error::TooMuch {
                what: "bytes of the topology's description",
                value: topology.len() as u64,
                limit: TOPOLOGY_BYTES_MAX,
            });
        }
        let arena_bytes = config.arena_bytes.checked_next_multiple_of(page).unwrap_or(u64::MAX);
        let root_bytes = config.root_bytes.next_multiple_of(page);
        let nodes = config.topology.nodes();
        let beside_bytes = config.beside_bytes;
        let rings = if config.is_recorded { records::rings(ranks, nodes) } else { 0 };
        let sizes = Sizes {
            rings,
            topology: topology.len() as u64,
            beside: beside_bytes,
            root: root_bytes,
            arena: arena_bytes,
        };
        let layout = Layout::new(ranks, nodes, sizes, page).ok_or(Error::TooMuch {
            what: "bytes of shared memory for each rank",
            value: arena_bytes,
            limit: (16 << 40) / u64::from(ranks),
        })?;
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = rustix::fs::memfd_create("farside", flags).map_err(system("memfd_create"))?;
        rustix::fs::ftruncate(&file, layout.total)
            .map_err(system("ftruncate of the job's memory"))?;
        // What others have mapped stays there.
        rustix::fs::fcntl_add_seals(&file, SIZE_SEALS | SealFlags::SEAL)
            .map_err(system("sealing the size of the job's memory"))?;
        let base = map(&file, layout.total, Access::Write)
            .map_err(|error| no_room(error, ranks, arena_bytes))?;
        let topology_copy = Arc::new(config.topology.clone());
        let job = Job { base, layout, ranks, sizes, file, topology: topology_copy, page };
        let header = job.header();
        header.ranks.store(ranks, Ordering::Relaxed);
        header.nodes.store(nodes, Ordering::Relaxed);
        header.cores.store(config.cores.max(1), Ordering::Relaxed);
        header.rings.store(rings, Ordering::Relaxed);
        header.arena_bytes.store(arena_bytes, Ordering::Relaxed);
        header.root_bytes.store(root_bytes, Ordering::Relaxed);
        header.topology_bytes.store(topology.len() as u64, Ordering::Relaxed);
        header.beside_bytes.store(beside_bytes, Ordering::Relaxed);
        let job = Arc::new(job);
        let written = job
            .mapped(job.layout.topology, topology.len() as u64, Rank(0))
            .put(0, topology.as_bytes());
        debug_assert!(written);
        job.header().magic.store(MAGIC, Ordering::SeqCst);
        Ok(job)
    }

    /// Maps a job that somebody else made.
    pub fn attach(file: OwnedFd) -> Result<Arc<Job>> {
        Job::open(file, Access::Write)
    }

    /// Maps a job that somebody else made, to be read only: for viewers.
    pub fn watch(file: OwnedFd) -> Result<Arc<Job>> {
        Job::open(file, Access::Read)
    }

    fn open(file: OwnedFd, access: Access) -> Result<Arc<Job>> {
        let page = rustix::param::page_size() as u64;
        let no_job =
            |why: &str| Error::Join(format!("{why}; was this program started by `farside run`?"));
        let size =
            rustix::fs::fstat(&file).map_err(system("fstat of the job's memory"))?.st_size as u64;
        // Whoever could shrink it could end this process.
        let is_sealed = rustix::fs::fcntl_get_seals(&file).is_ok_and(|it| it.contains(SIZE_SEALS));
        if size < size_of::<Header>() as u64 || !is_sealed {
            return Err(no_job("the file handed over is not a job's memory"));
        }
        let first = map(&file, page, access)?;
        // SAFETY: the first page was just mapped, is longer than a header and consists of atomics.
        let header = unsafe { first.cast::<Header>().as_ref() };
        let (magic, ranks) =
            (header.magic.load(Ordering::SeqCst), header.ranks.load(Ordering::Relaxed));
        let nodes = header.nodes.load(Ordering::Relaxed);
        let topology_bytes = header.topology_bytes.load(Ordering::Relaxed);
        let sizes = Sizes {
            rings: header.rings.load(Ordering::Relaxed),
            topology: topology_bytes,
            beside: header.beside_bytes.load(Ordering::Relaxed),
            root: header.root_bytes.load(Ordering::Relaxed),
            arena: header.arena_bytes.load(Ordering::Relaxed),
        };
        unmap(first, page);
        let are_counts_possible = (1..=RANKS_MAX).contains(&ranks) && (1..=ranks).contains(&nodes);
        if magic != MAGIC || !are_counts_possible || topology_bytes > TOPOLOGY_BYTES_MAX {
            return Err(no_job(
                "the file handed over is not a job's memory, or one of another version",
            ));
        }
        let layout = Layout::new(ranks, nodes, sizes, page)
            .filter(|layout| layout.total == size)
            .ok_or_else(|| no_job("the job's memory has the wrong size"))?;
        let base =
            map(&file, layout.total, access).map_err(|error| no_room(error, ranks, sizes.arena))?;
        let topology = Arc::new(Topology::flat(ranks));
        let mut job = Arc::new(Job { base, layout, ranks, sizes, file, topology, page });
        let mut text = vec![0; topology_bytes as usize];
        if !job.mapped(layout.topology, topology_bytes, Rank(0)).get(0, &mut text) {
            return Err(no_job("the topology is missing"));
        }
        let topology = Topology::decode(&String::from_utf8_lossy(&text), ranks)?;
        if topology.nodes() != nodes {
            return Err(no_job("the topology has the wrong number of nodes"));
        }
        Arc::get_mut(&mut job).expect("nobody else has it yet").topology = Arc::new(topology);
        Ok(job)
    }

    /// The file, to be handed to the processes of the job.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Who is where.
    pub fn topology(&self) -> &Arc<Topology> {
        &self.topology
    }

    /// Memory that belongs to no rank, and that nobody but whoever asked for it in
    /// [`Config::beside_bytes`] touches.
    pub fn beside(self: &Arc<Job>) -> Mapped {
        self.mapped(self.layout.beside, self.sizes.beside, Rank(0))
    }

    /// How many ranks there are.
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// How long the first segment of each rank is.
    pub fn root_bytes(&self) -> u64 {
        self.sizes.root
    }

    /// The counters of ranks that have departed.
    pub fn failures(&self) -> &FailureCounters {
        &self.header().failures.0
    }

    /// A handle on these counters that keeps the mapping alive.
    pub fn hold_failures(self: &Arc<Job>) -> Failures {
        // SAFETY: the counters are in the mapping, which lives as long as the job.
        unsafe { Failures::new(NonNull::from(self.failures()), self.clone()) }
    }

    pub(crate) fn departures_numbered(&self) -> &AtomicU32 {
        &self.header().departures
    }

    pub(crate) fn bell(&self, rank: Rank) -> &Bell {
        &self.member(rank).bell
    }

    pub(crate) fn agent_bell(&self, node: Node) -> &Bell {
        &self.agent(node).bell
    }

    pub(crate) fn standby_bell(&self, node: Node) -> &Bell {
        &self.agent(node).standby
    }

    /// The slot that a node's agent is at work on, one more than its index; zero if it is at none.
    pub(crate) fn executing(&self, node: Node) -> &AtomicU32 {
        &self.agent(node).executing
    }

    /// Whether a rank can run handlers: see `succession`.
    pub(crate) fn serving(&self, rank: Rank) -> &AtomicU32 {
        &self.member(rank).serving
    }

    fn agent(&self, node: Node) -> &AgentLine {
        assert!(node.0 < self.topology.nodes(), "{node} of {}", self.topology.nodes());
        let at = self.layout.agents + u64::from(node.0) * size_of::<AgentLine>() as u64;
        // SAFETY: the layout reserves a line for each node, which consists of atomics.
        unsafe { self.at(at).cast::<AgentLine>().as_ref() }
    }

    /// One more thread communicates here, for as long as the job lasts: an agent that needs a
    /// processor, too.
    pub fn add_agent(&self) {
        self.endpoints().fetch_add(1, Ordering::SeqCst);
    }

    /// How many threads of the job communicate.
    pub(crate) fn endpoints(&self) -> &AtomicU32 {
        &self.header().endpoints.0
    }

    /// Returns how many processors the ranks of this node may use.
    pub fn processors(&self) -> u32 {
        self.cores()
    }

    pub(crate) fn cores(&self) -> u32 {
        self.header().cores.load(Ordering::Relaxed)
    }

    pub(crate) fn page(&self) -> u64 {
        self.page
    }

    pub(crate) fn arena_bytes(&self) -> u64 {
        self.sizes.arena
    }

    /// Blames the limit of the address space for memory that has run out, if it is by that limit
    /// that there is no more, and not by the user's word.
    pub(crate) fn no_room_for(&self, error: Error) -> Error {
        let limit = crate::machine::addresses_limit();
        let (Error::OutOfMemory { asked, free, limit: arena }, Some(limit)) = (&error, limit)
        else {
            return error;
        };
        if room_for_each(limit, &self.topology).next_multiple_of(self.page) != *arena {
            return error;
        }
        let each = (arena - free).saturating_add(*asked);
        Error::AddressSpace { ranks: self.topology.ranks(), each, limit }
    }

    /// The words that say which calls wait for a node's agent: a bit for each slot of each rank.
    pub(crate) fn waiting_calls(&self, node: Node) -> &[AtomicU64] {
        assert!(node.0 < self.topology.nodes(), "{node} of {}", self.topology.nodes());
        let words = (self.ranks() * CALL_SLOTS).div_ceil(64) as usize;
        let at = self.layout.waiting_calls + u64::from(node.0) * words as u64 * 8;
        // SAFETY: the layout reserves that many words of atomics for each node at this page-aligned
        // place.
        unsafe { std::slice::from_raw_parts(self.at(at).cast().as_ptr(), words) }
    }

    /// The control words and the bytes of a call slot, counted over all ranks.
    pub(crate) fn call_slot(self: &Arc<Job>, index: u32) -> (&CallSlot, Mapped) {
        let index = index % (self.ranks() * CALL_SLOTS);
        let at = self.layout.slots + u64::from(index) * SLOT_BYTES;
        // SAFETY: the layout reserves a slot at this place, aligned to 64 bytes; it consists of
        // atomics.
        let slot = unsafe { self.at(at).cast::<CallSlot>().as_ref() };
        (slot, self.mapped(at + size_of::<CallSlot>() as u64, CALL_BYTES, Rank(index / CALL_SLOTS)))
    }

    pub(crate) fn segments_of(&self, rank: Rank) -> &[Entry] {
        assert!(rank.0 < self.ranks(), "{rank} of {}", self.ranks());
        let table = self.layout.tables + u64::from(rank.0) * SEGMENTS * size_of::<Entry>() as u64;
        // SAFETY: the layout reserves a table of that length for each rank; it consists of atomics.
        unsafe { std::slice::from_raw_parts(self.at(table).cast().as_ptr(), SEGMENTS as usize) }
    }

    /// A rank's first segment.
    pub(crate) fn root(self: &Arc<Job>, rank: Rank) -> Mapped {
        let bytes = self.root_bytes();
        self.mapped(self.layout.roots + u64::from(rank.0) * bytes, bytes, rank)
    }

    /// A piece of a rank's arena; `None` if it is not all inside.
    pub(crate) fn piece(self: &Arc<Job>, rank: Rank, offset: u64, bytes: u64) -> Option<Mapped> {
        let inside = offset.checked_add(bytes).is_some_and(|end| end <= self.arena_bytes());
        inside.then(|| self.mapped(self.arena(rank) + offset, bytes, rank))
    }

    /// Gives the pages of a piece of a rank's arena back to the system.
    pub(crate) fn release(&self, rank: Rank, offset: u64, bytes: u64) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let whole_pages = bytes.next_multiple_of(self.page);
        rustix::fs::fallocate(&self.file, hole, self.arena(rank) + offset, whole_pages)
            .map_err(system("fallocate, to free a segment"))
    }

    fn arena(&self, rank: Rank) -> u64 {
        self.layout.arenas + u64::from(rank.0) * self.arena_bytes()
    }

    fn header(&self) -> &Header {
        // SAFETY: the mapping starts with a header, which consists of atomics.
        unsafe { self.base.cast::<Header>().as_ref() }
    }

    pub(crate) fn member(&self, rank: Rank) -> &Member {
        assert!(rank.0 < self.ranks(), "{rank} of {}", self.ranks());
        let at = self.layout.members + u64::from(rank.0) * size_of::<Member>() as u64;
        // SAFETY: the layout reserves a block for each rank, which consists of atomics.
        unsafe { self.at(at).cast::<Member>().as_ref() }
    }

    fn mapped(self: &Arc<Job>, at: u64, bytes: u64, owner: Rank) -> Mapped {
        let watched = NonNull::from(self.bell(owner).watched()).cast::<AtomicU64>();
        let locks = self
            .at(self.layout.sums + u64::from(owner.0) * size_of::<Stripes>() as u64)
            .cast::<Stripes>();
        let words = SharedWords { salt: at, watched, locks };
        // SAFETY: the caller takes a range inside the mapping, at a multiple of 64 bytes; the
        // mapping, the bell and the locks live as long as the job, which is held.
        unsafe { Mapped::new(self.at(at), bytes, self.clone()).with_words(words) }
    }

    fn at(&self, offset: u64) -> NonNull<u8> {
        debug_assert!(offset < self.layout.total || self.layout.total == offset);
        // SAFETY: all offsets come from the layout, which ends where the mapping does.
        unsafe { self.base.add(offset as usize) }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        unmap(self.base, self.layout.total);
    }
}

/// What a mapping is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    Read,
    Write,
}

fn map(file: &OwnedFd, bytes: u64, access: Access) -> Result<NonNull<u8>> {
    let protection = match access {
        Access::Read => ProtFlags::READ,
        Access::Write => ProtFlags::READ | ProtFlags::WRITE,
    };
    let flags = MapFlags::SHARED | MapFlags::NORESERVE;
    // SAFETY: a new mapping at an address of the system's choice disturbs nobody.
    let base = unsafe {
        rustix::mm::mmap(std::ptr::null_mut(), bytes as usize, protection, flags, file, 0)
    }
    .map_err(system("mmap of the job's memory"))?;
    // Long windows then cost fewer misses of the address translation, where the system's owner lets
    // shared memory have huge pages; elsewhere nothing changes. SAFETY: advice for a mapping that
    // was just made; it changes no content.
    let _ = unsafe { rustix::mm::madvise(base, bytes as usize, rustix::mm::Advice::LinuxHugepage) };
    NonNull::new(base.cast()).ok_or(Error::System { call: "mmap of the job's memory", errno: 0 })
}

/// How much each rank may share where a process may map so much.
fn room_for_each(limit: u64, topology: &Topology) -> u64 {
    (limit / 2 / u64::from(topology.nodes()) / u64::from(topology.ranks())).max(1)
}

/// Why there was no room for a mapping, if that is what the system has said.
fn no_room(error: Error, ranks: u32, each: u64) -> Error {
    let fabric_limit = (16 << 40) / u64::from(ranks);
    match (error, crate::machine::addresses_limit()) {
        (Error::System { errno, .. }, Some(limit))
            if errno == rustix::io::Errno::NOMEM.raw_os_error() =>
        {
            Error::AddressSpace { ranks, each, limit }
        }
        (Error::System { errno, .. }, None)
            if errno == rustix::io::Errno::NOMEM.raw_os_error() && each > fabric_limit =>
        {
            Error::TooMuch {
                what: "bytes of shared memory for each rank",
                value: each,
                limit: fabric_limit,
            }
        }
        (other, _) => other,
    }
}

fn unmap(base: NonNull<u8>, bytes: u64) {
    // SAFETY: only called with what `map` returned, by the last user of the mapping.
    let _ = unsafe { rustix::mm::munmap(base.as_ptr().cast(), bytes as usize) };
}

/// Turns the system's answer into an error that says what was asked.
pub(crate) fn system(call: &'static str) -> impl Fn(rustix::io::Errno) -> Error {
    move |errno| Error::System { call, errno: errno.raw_os_error() }
}
