//! How a job ends before its time: errors of the program, `shmem_global_exit`, a PE that was lost.
//!
//! Every PE has a word that tells it to exit; whoever ends the job writes it on all PEs. A thread
//! of the library looks at it, and at whether a PE was lost, so that a PE that computes ends, too.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::fmt::Display;
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use farside::fabric::Failures;
use farside::raw::Memory;
use farside::{Context, Error, ExitCause, Result, World};
use farside_interop::CallSite;

use crate::region::Regions;

/// The number of a PE that has not called `shmem_init`, and of one that has left.
pub(crate) const NOT_STARTED: c_int = -1;
pub(crate) const FINALIZED: c_int = -2;

/// This PE's number, or why there is none.
static PE: AtomicI32 = AtomicI32::new(NOT_STARTED);

/// Returns this PE's number, or one of the reasons why there is none.
pub(crate) fn pe() -> c_int {
    PE.load(Ordering::Relaxed)
}

pub(crate) fn set_pe(pe: c_int) {
    PE.store(pe, Ordering::Relaxed);
}

/// What it takes to end the job.
struct Job {
    world: &'static World,
    /// A context for the thread that ends the job, where there are several: whichever holds the
    /// default context may never give it back.
    farewell: Option<Context>,
    /// Its first word tells a PE to exit.
    control: Memory,
}

static JOB: AtomicPtr<Job> = AtomicPtr::new(std::ptr::null_mut());

/// Returns the job, while this PE is in it.
fn job() -> Option<&'static Job> {
    // SAFETY: it was leaked, and is freed by `unwatch`, during which by the specification's rules
    // no other call is under way.
    unsafe { JOB.load(Ordering::Acquire).as_ref() }
}

/// The name of the function that the program has called.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Call(*const c_char);

impl Call {
    pub(crate) fn new(name: &'static CStr) -> Call {
        Call(name.as_ptr())
    }

    pub(crate) fn name(self) -> &'static str {
        // SAFETY: the C sources of this crate pass literals.
        unsafe { CStr::from_ptr(self.0) }.to_str().unwrap_or("?")
    }
}

unsafe extern "C" {
    fn farside_shmem_want_callers(wants: c_int);
    fn farside_shmem_caller(call: *const c_char) -> *mut c_void;
}

/// Has the border note from where the program calls, in the calls that follow.
pub(crate) fn want_callers(wants: bool) {
    // SAFETY: writes a variable of the border, which other threads' calls may read before or after.
    unsafe { farside_shmem_want_callers(wants.into()) };
}

impl Call {
    /// Tells calls apart, together with where they return to.
    pub(crate) fn key(self) -> usize {
        self.0.addr()
    }

    /// Returns the address to which this call of the calling thread returns, if it was noted.
    pub(crate) fn address(self) -> Option<usize> {
        // SAFETY: reads a variable of this thread.
        let address = unsafe { farside_shmem_caller(self.0) };
        (!address.is_null()).then_some(address.addr())
    }
}

pub(crate) trait OrExit<T> {
    /// Returns the value, or ends the job with the error.
    fn or_exit(self, call: Call) -> T;
}

impl<T> OrExit<T> for Result<T> {
    #[inline]
    fn or_exit(self, call: Call) -> T {
        match self {
            Ok(value) => value,
            Err(error) => failed(call, &error),
        }
    }
}

#[cold]
#[inline(never)]
pub(crate) fn failed(call: Call, error: &Error) -> ! {
    // A PE that cannot go on gives memory back, says why, and ends the job.
    if let Error::PeerFailed { rank, .. }
    | Error::RankLost { rank, how: ExitCause::Left }
    | Error::NoSegment { rank, .. } = error
        && rank.0 as c_int != pe()
    {
        std::thread::park_timeout(FINDS);
    }
    end(call, &in_pes(error))
}

fn in_pes(error: &Error) -> String {
    error.to_string().replace("ranks", "PEs").replace("rank ", "PE ")
}

/// Ends the job: prints the message, with the place of the call, and makes all PEs exit.
#[cold]
#[inline(never)]
pub(crate) fn end(call: Call, message: &dyn Display) -> ! {
    if ENDING.swap(true, Ordering::AcqRel) {
        // Another thread has found something, too.
        wait_for_the_end();
    }
    let who = match pe() {
        NOT_STARTED | FINALIZED => String::new(),
        number => format!("PE {number}: "),
    };
    say(&format!("farside: {who}{}: {message}{}\n", call.name(), place(call)));
    leave_all(1)
}

#[cold]
pub(crate) fn not_running(call: Call) -> ! {
    end(
        call,
        &match pe() {
            FINALIZED => "called after shmem_finalize",
            _ => "called before shmem_init",
        },
    )
}

#[cold]
pub(crate) fn no_such_pe(call: Call, pe: c_int, size: usize) -> ! {
    end(call, &format!("there is no PE {pe}: the PEs are 0 to {}", size - 1))
}

#[cold]
pub(crate) fn not_symmetric(regions: &Regions, call: Call, address: usize, bytes: usize) -> ! {
    end(call, &regions.explain(address, bytes))
}

#[cold]
pub(crate) fn bad_setting(call: Call, error: &str) -> ! {
    end(call, &error)
}

fn place(call: Call) -> String {
    CallSite::find(call.address()).map(|site| format!("\n    at {site}")).unwrap_or_default()
}

static ENDING: AtomicBool = AtomicBool::new(false);
static WATCHES: AtomicBool = AtomicBool::new(false);

/// A word that tells a PE to exit: this, and the status in the lowest bits.
const EXIT: u64 = 1 << 32;
/// How often a PE looks whether it is to exit.
const LOOK: Duration = Duration::from_millis(50);
/// How long the thread that is in the library may take to find a loss by itself, and name it, and
/// how long a PE that failed may take to say why.
const FINDS: Duration = Duration::from_millis(400);

/// How long an exit waits for streams that it cannot write.
const STUCK: Duration = Duration::from_secs(1);

pub(crate) fn is_under_way() -> bool {
    ENDING.load(Ordering::Acquire)
}

/// Makes all PEs exit with a status. One thread alone gets here.
fn leave_all(status: c_int) -> ! {
    let job = job().filter(|_| pe() >= 0);
    if job.is_some_and(|job| !job.world.is_own_process()) {
        // A child that the program has forked is not the PE.
        exit_now(status);
    }
    if let Some(Job { world, farewell, control }) = job {
        let context: &Context = farewell.as_ref().unwrap_or(world);
        let me = context.rank();
        for rank in world.ranks().filter(|&rank| rank != me) {
            let word = control.at(rank, 0).cast::<u64>();
            // One that cannot be told is lost, or will hear of this PE's end.
            let _ = context.signal(word, EXIT | u64::from(status as u32));
        }
        let _ = context.flush_all();
    }
    leave_and_exit(status)
}

/// Exits, and lets nothing look as if the process had been lost.
fn leave_and_exit(status: c_int) -> ! {
    if let Some(job) = job() {
        // It is a shared reference to a world that another thread may be using; leaving touches
        // nothing but what all threads share.
        job.world.job().state.leave();
    }
    exit_now(status)
}

fn exit_now(status: c_int) -> ! {
    // A stream may be locked by a thread that never gives it back.
    let _ = std::thread::Builder::new().spawn(move || {
        let begin = Instant::now();
        while begin.elapsed() < STUCK {
            std::thread::park_timeout(STUCK);
        }
        // SAFETY: ends the process.
        unsafe { libc::_exit(status) }
    });
    // SAFETY: writes what the streams hold, and ends the process.
    unsafe {
        libc::fflush(std::ptr::null_mut());
        libc::_exit(status)
    }
}

fn wait_for_the_end() -> ! {
    loop {
        std::thread::park();
    }
}

/// Says what it takes to end the job, and starts the thread that looks whether this PE is to exit.
pub(crate) fn watch(world: &'static World, farewell: Option<Context>, control: Memory) {
    // The pointer outlives the thread's use of it: `unwatch` comes before the memory goes.
    let word = control.base().as_ptr().addr();
    let failures = world.failures().clone();
    JOB.store(Box::into_raw(Box::new(Job { world, farewell, control })), Ordering::Release);
    WATCHES.store(true, Ordering::Release);
    let watcher = std::thread::Builder::new().name("farside-shmem".into());
    // Without the thread a PE that computes is ended by the launcher.
    let _ = watcher.spawn(move || look(word as *const AtomicU64, &failures));
}

fn look(word: *const AtomicU64, failures: &Failures) {
    let mut lost_since = None;
    while WATCHES.load(Ordering::Acquire) {
        // SAFETY: the word is memory of the job, which is mapped while this process is in it.
        let told = unsafe { &*word }.load(Ordering::Acquire);
        if told & EXIT != 0 && WATCHES.load(Ordering::Acquire) {
            ENDING.store(true, Ordering::Release);
            leave_and_exit(told as u32 as c_int);
        }
        if failures.any_lost() {
            let since = *lost_since.get_or_insert_with(Instant::now);
            if since.elapsed() > FINDS && !ENDING.swap(true, Ordering::AcqRel) {
                say(&format!("farside: PE {}: {}\n", pe(), loss()));
                exit_now(1);
            }
        }
        std::thread::park_timeout(LOOK);
    }
}

fn loss() -> String {
    let world = job().map(|job| job.world);
    let Some((job, first)) =
        world.and_then(|world| Some((world.job(), world.job().first_loss(world.ranks())?)))
    else {
        return "another PE was lost".into();
    };
    // This PE ends because of it.
    job.state.note_cause(Some(first));
    in_pes(&first.error())
}

/// Ends what [`watch`] began: this PE leaves.
pub(crate) fn unwatch() {
    WATCHES.store(false, Ordering::Release);
    let job = JOB.swap(std::ptr::null_mut(), Ordering::AcqRel);
    if !job.is_null() {
        // SAFETY: `watch` has leaked it, and no other call is under way.
        drop(unsafe { Box::from_raw(job) });
    }
}

#[unsafe(no_mangle)]
extern "C" fn farside_shmem_global_exit(status: c_int, call: Call) -> ! {
    if job().is_none() {
        not_running(call);
    }
    if ENDING.swap(true, Ordering::AcqRel) {
        wait_for_the_end();
    }
    leave_all(status)
}

/// Writes a line to standard error, in one piece: under other launchers all PEs write to one file.
fn say(line: &str) {
    // A program that has closed its standard error does not want to hear it.
    let _ = std::io::stderr().write_all(line.as_bytes());
}
