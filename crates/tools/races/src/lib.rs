//! A checker of data races for one-sided programs.
//!
//! Two accesses to the same bytes, one of them a write and not both atomic, with nothing between
//! them that `docs/memory-model.md` promises an order by, are a race, whether or not it went wrong
//! in this run. A [`Checker`] stands over the waist of every rank, sees each operation, and
//! remembers the last accesses to each 8 bytes. `docs/races.md` says how to use it.
//!
//! ```
//! use farside::{Local, Rank};
//! use farside_races::Checker;
//!
//! let checker = Checker::new(2)?;
//! let over = checker.clone();
//! Local::new(2)?.decorate(move |fabric| over.over(fabric).unwrap()).run(|world| {
//!     let window = world.window::<u64>(1)?;
//!     if world.rank() == Rank(0) {
//!         world.put_value(7, window.at(Rank(1), 0))?;
//!     } else {
//!         window.own().get(0)?; // Nothing says that the put has landed.
//!     }
//!     window.free(world)
//! })?;
//! assert_eq!(checker.report().races.len(), 1);
//! # Ok::<(), farside::Error>(())
//! ```

mod access;
mod adds;
mod agent;
mod arena;
mod calls;
mod checked;
mod clocks;
mod cure;
mod explored;
mod hand;
mod inside;
mod layout;
mod remote;
mod report;
mod rules;
mod seen;
mod shadow;
mod state;
mod strands;
mod tables;
mod told;
mod trial;
mod wire;

pub use cure::{Cure, Means};
#[doc(hidden)]
pub use report::quoted;
pub use report::{BlindSpot, Race, Report, Side, Suppressions};

use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use farside_fabric::{Connection, Result, SegmentId};

use crate::arena::Arena;
use crate::calls::Call;
use crate::explored::UnderWay;
use crate::layout::{Layout, count};
use crate::remote::Remote;
use crate::state::{State, locked};
use crate::trial::Trial;

/// The variable that tells where the checker's memory is, or how to reach it.
pub const VARIABLE: &str = "FARSIDE_RACES";
/// The exit status of a job in which races were found and that else succeeded.
pub const STATUS: u8 = 66;
/// The exit status of a job that succeeded, but of which nothing was looked at.
pub const NOTHING_CHECKED: u8 = 67;
/// The logarithm of how many pages of 2 KiB of memory are remembered at most: 512 MiB.
const PAGE_BITS: u32 = 18;

/// A checker of one job. All its ranks share its memory, or ask whoever has it.
pub struct Checker {
    memory: Memory,
    /// The file of the memory, where other processes open it.
    file: Option<File>,
    trial: Trial,
    /// The atomics that are under way, in explored programs.
    under_way: Mutex<UnderWay>,
    past: Mutex<Report>,
}

enum Memory {
    Here(Arena),
    /// On the launcher's host, where this one's daemon passes calls on to.
    Far {
        remote: Remote,
        layout: Layout,
    },
}

impl Checker {
    /// Makes a checker for ranks that are threads of this process.
    pub fn new(ranks: u32) -> Result<Arc<Checker>> {
        Ok(Arc::new(Checker::of(Arena::private(Layout::new(ranks, PAGE_BITS)?)?, None)))
    }

    /// Makes a checker for many short runs, one after the other, of ranks that have no threads.
    /// [`Checker::begin_again`] stands between them.
    pub fn for_runs(ranks: u32) -> Result<Arc<Checker>> {
        let checker = Checker::of(Arena::private(Layout::short(ranks)?)?, None);
        Ok(Arc::new(Checker { trial: Trial::for_runs(), ..checker }))
    }

    fn of(arena: Arena, file: Option<File>) -> Checker {
        Checker { file, ..Checker::with_memory(Memory::Here(arena)) }
    }

    fn with_memory(memory: Memory) -> Checker {
        let (trial, under_way, past) = (Trial::default(), Mutex::default(), Mutex::default());
        Checker { memory, file: None, trial, under_way, past }
    }

    /// Forgets what was found and seen: another run begins.
    pub fn begin_again(&self) {
        locked(&self.under_way).clear();
        if let Some(run) = self.with(|state| Report::read_coverage(state)) {
            locked(&self.past).add_coverage(run);
        }
        self.with(|state| state.begin_again());
        self.trial.begin_again();
    }

    /// Has the ranks do more than the program says, in the runs that follow; nothing more with
    /// `None`.
    pub fn try_cure(&self, cure: Option<&Cure>) {
        let number = |name: &String| self.with(|state| state.name_place(name));
        self.trial.set(cure.and_then(|cure| {
            Some((cure.means, number(&cure.after)?, cure.with.as_ref().and_then(number)))
        }));
    }

    /// Returns what could take a race away that was found in the runs so far, the weakest first.
    pub fn cures(&self, race: &Race) -> Vec<Cure> {
        let mut cures: Vec<Cure> = Vec::new();
        for means in [Means::PutSignal, Means::Fence, Means::Flush] {
            for after in &race.posted {
                let cure = Cure { after: after.clone(), with: None, means };
                if !cures.contains(&cure) {
                    cures.push(cure);
                }
            }
        }
        let name = |place| self.with(|state| state.place_name(place)).unwrap_or_default();
        cures.extend(self.trial.cures(race, name));
        cures
    }

    /// Makes a checker for ranks that are other processes, which open [`Checker::path`]. With
    /// `fails`, the operation that finds a race returns an error.
    pub fn create(ranks: u32, fails: bool) -> Result<Arc<Checker>> {
        let (arena, file) = Arena::create(Layout::new(ranks, PAGE_BITS)?)?;
        arena.with(|numbers| numbers[count::FAILS] = u32::from(fails));
        Ok(Arc::new(Checker::of(arena, Some(file))))
    }

    /// Opens the checker that a launcher has made.
    pub fn open(path: &Path) -> Result<Arc<Checker>> {
        Ok(Arc::new(Checker::of(Arena::open(path)?, None)))
    }

    /// Opens the checker that the environment names, if it names one.
    pub fn from_environment() -> Result<Option<Arc<Checker>>> {
        let Some(path) = std::env::var_os(VARIABLE).filter(|path| !path.is_empty()) else {
            return Ok(None);
        };
        match path.to_str().and_then(Remote::open) {
            None => Checker::open(Path::new(&path)).map(Some),
            Some(opened) => {
                let (remote, layout) = opened?;
                Ok(Some(Arc::new(Checker::with_memory(Memory::Far { remote, layout }))))
            }
        }
    }

    /// Answers a request of a rank on another host, which a launcher's daemon there has passed on
    /// as it was.
    pub fn answer(&self, request: &[u8]) -> Vec<u8> {
        remote::answer(request, self.layout(), |act| self.with(|state| act(state)))
    }

    /// Returns the path by which processes of this machine and user reach the checker's memory.
    pub fn path(&self) -> Option<PathBuf> {
        let file = self.file.as_ref()?;
        Some(format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()).into())
    }

    /// Puts the checker in front of a rank's connection.
    pub fn over(self: &Arc<Self>, inner: Box<dyn Connection>) -> Result<Box<dyn Connection>> {
        Ok(Box::new(checked::Checked::new(inner, self.clone())?))
    }

    /// Returns whether puts may be held back, for their signals to come with them: what a rank has
    /// not sent when it ends is sent by a flush.
    #[doc(hidden)]
    pub fn holds_puts(&self) -> bool {
        self.trial.holds_puts()
    }

    pub(crate) fn layout(&self) -> &Layout {
        match &self.memory {
            Memory::Here(arena) => arena.layout(),
            Memory::Far { layout, .. } => layout,
        }
    }

    /// Has calls done in one transaction, and returns the sum of their answers; `None` if the
    /// checker has given up.
    pub(crate) fn run(&self, calls: &[Call<'_>]) -> Option<u32> {
        match &self.memory {
            Memory::Here(_) => self.with(|state| state.run(calls)),
            Memory::Far { remote, .. } => remote.run(calls),
        }
    }

    /// Fails if the checker was on another host, and is out of reach.
    pub(crate) fn check(&self) -> Result<()> {
        match &self.memory {
            Memory::Here(_) => Ok(()),
            Memory::Far { remote, .. } => remote.check(),
        }
    }

    /// Calls `act` with the state under the lock; `None` if that cannot be had, or is elsewhere.
    fn with<R>(&self, act: impl FnOnce(&mut State<'_>) -> R) -> Option<R> {
        let Memory::Here(arena) = &self.memory else { return None };
        let layout = arena.layout();
        arena.with(|numbers| act(&mut State { layout, numbers }))
    }

    /// Has what an access to a word takes fetched before the lock is held.
    pub(crate) fn prefetch(&self, owner: usize, segment: SegmentId, offset: u64, word: usize) {
        let Memory::Here(arena) = &self.memory else { return };
        let layout = arena.layout();
        for number in shadow::probable(layout, owner, segment, offset).into_iter().flatten() {
            arena.prefetch(number);
        }
        arena.prefetch(layout.last_value_of_word(word));
    }

    pub(crate) fn fails(&self) -> bool {
        self.run(&[Call::Fails]).unwrap_or(0) != 0
    }

    /// Returns whether a race was found.
    pub fn has_race(&self) -> bool {
        self.with(|state| state.numbers[count::RACES] != 0).unwrap_or(false)
    }

    /// Returns what was looked at in all runs, and what was not, without the races.
    pub fn coverage(&self) -> Report {
        let mut all = locked(&self.past).clone();
        if let Some(run) = self.with(|state| Report::read_coverage(state)) {
            all.add_coverage(run);
        }
        all
    }

    /// Returns what was found so far.
    pub fn report(&self) -> Report {
        self.with(|state| Report::read(state)).unwrap_or_default()
    }
}
