//! What a rank has posted goes on while the rank computes: a thread that looks after its ports,
//! seldom.
//!
//! It sleeps as long as nothing is under way. When something is, it looks every now and then: it
//! sends what was left in a batch, reads acknowledgements, and repeats what got lost. A rank that
//! waits drives its port itself, so this thread is never on the way of an operation that somebody
//! waits for. Long transfers that a rank has begun and does not wait for are entrusted to it: until
//! they are over it does nothing else.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, TryLockError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::initiator::port::Port;
use crate::node::rank_state::NAP;

/// How soon it looks again when something has not been sent.
const UNSENT: Duration = Duration::from_millis(1);
/// How soon it looks again when something was not acknowledged.
const UNDER_WAY: Duration = Duration::from_millis(5);
/// How often it lets others run before it takes a port again that its thread wants.
const YIELDS: u32 = 100;
/// How often it looks in vain at what is entrusted to it before it sleeps.
const IDLE_LOOKS: u32 = 50;
/// How often it looks in vain before it goes to sleep.
const QUIET_LOOKS: u32 = 20;

/// The ports of a rank and the thread that looks after them, once it is needed.
pub(crate) struct Progress {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct Shared {
    ports: Mutex<Vec<Weak<Mutex<Port>>>>,
    /// Whether the thread looks every now and then.
    is_awake: AtomicBool,
    /// Whether something was entrusted to it that it has not seen.
    has_more: AtomicBool,
    stop: AtomicBool,
    sleep: Mutex<()>,
    wake: Condvar,
}

impl Progress {
    pub(crate) fn new() -> Progress {
        Progress { shared: Arc::default(), thread: Mutex::new(None) }
    }

    pub(crate) fn look_after(&self, port: &Arc<Mutex<Port>>) {
        let mut ports = lock(&self.shared.ports);
        ports.retain(|port| port.strong_count() > 0);
        ports.push(Arc::downgrade(port));
    }

    /// Something is under way. Costs a load, unless the thread sleeps.
    #[inline]
    pub(crate) fn arm(&self) {
        if !self.shared.is_awake.load(Ordering::SeqCst) {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        // Without it, what was posted goes on only while the rank calls the library: slower, but
        // not wrong.
        let _ = self.is_there();
        let _sleep = lock(&self.shared.sleep);
        self.shared.is_awake.store(true, Ordering::SeqCst);
        self.shared.wake.notify_all();
    }

    /// Whether the thread is there, or could be started.
    pub(crate) fn is_there(&self) -> bool {
        let mut thread = lock(&self.thread);
        if thread.is_none() {
            let shared = self.shared.clone();
            *thread = std::thread::Builder::new()
                .name("farside-progress".into())
                .spawn(move || shared.run())
                .ok();
        }
        thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Something was entrusted to the thread, or somebody may sleep until it is over.
    pub(crate) fn hurry(&self) {
        let _sleep = lock(&self.shared.sleep);
        self.shared.has_more.store(true, Ordering::SeqCst);
        self.shared.is_awake.store(true, Ordering::SeqCst);
        self.shared.wake.notify_all();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        {
            let _sleep = lock(&self.shared.sleep);
            self.shared.wake.notify_all();
        }
        if let Some(thread) = lock(&self.thread).take() {
            // Should it have panicked, there is nobody to tell.
            let _ = thread.join();
        }
    }
}

/// When the thread ends, whatever was entrusted to it is its rank's again.
struct Leaving<'a>(&'a Shared);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.0.ports().iter().for_each(|port| lock(port).take_back());
    }
}

impl Shared {
    fn ports(&self) -> Vec<Arc<Mutex<Port>>> {
        lock(&self.ports).iter().filter_map(Weak::upgrade).collect()
    }

    fn run(&self) {
        let _leaving = Leaving(self);
        let mut quiet = 0;
        while !self.stop.load(Ordering::SeqCst) {
            self.has_more.store(false, Ordering::SeqCst);
            self.see_to_entrusted();
            let (mut is_busy, mut pause) = self.look();
            quiet = if is_busy { 0 } else { quiet + 1 };
            let mut sleep = lock(&self.sleep);
            if quiet > QUIET_LOOKS {
                self.is_awake.store(false, Ordering::SeqCst);
                drop(sleep);
                // Whoever posted before it saw us asleep has left something here.
                (is_busy, pause) = self.look();
                sleep = lock(&self.sleep);
                if is_busy {
                    self.is_awake.store(true, Ordering::SeqCst);
                }
                quiet = 0;
            }
            let is_called =
                || self.has_more.load(Ordering::SeqCst) || self.stop.load(Ordering::SeqCst);
            if self.is_awake.load(Ordering::SeqCst) {
                drop(self.wake.wait_timeout_while(sleep, pause, |()| !is_called()));
            } else {
                let asleep = |(): &mut ()| !self.is_awake.load(Ordering::SeqCst) && !is_called();
                drop(self.wake.wait_while(sleep, asleep));
            }
        }
    }

    /// Does what was entrusted, until it is done. The other ports are looked after every now and
    /// then.
    fn see_to_entrusted(&self) {
        let (mut looked, mut idle_looks) = (Instant::now(), 0);
        while !self.stop.load(Ordering::SeqCst) {
            let mut ports = self.ports();
            let are_others = ports.len() > 1;
            ports.retain(|port| lock(port).is_pressing());
            if ports.is_empty() {
                return;
            }
            let has_moved =
                ports.iter().map(|port| drive(port)).fold(false, |any, has_moved| any | has_moved);
            idle_looks = if has_moved { 0 } else { idle_looks + 1 };
            if idle_looks < IDLE_LOOKS {
                // Whoever is to answer may need the processor.
                std::thread::yield_now();
            } else {
                sleep_at(&ports[0], if are_others { UNSENT } else { NAP });
            }
            if looked.elapsed() > UNSENT {
                let _ = self.look();
                looked = Instant::now();
            }
        }
    }

    /// Looks after all ports; says whether anything is under way, and when to look again.
    fn look(&self) -> (bool, Duration) {
        let (mut is_busy, mut pause) = (false, UNDER_WAY);
        for port in self.ports() {
            match port.try_lock() {
                Ok(mut port) if port.origin.is_busy() || is_at_memory(&port) => {
                    port.origin.push();
                    port.drive();
                    is_busy = true;
                    if port.origin.has_unsent() || is_at_memory(&port) {
                        pause = UNSENT;
                    }
                }
                Ok(_) => {}
                // Its thread is at it.
                Err(TryLockError::WouldBlock) => is_busy = true,
                Err(TryLockError::Poisoned(_)) => {}
            }
        }
        (is_busy, pause)
    }
}

/// Whether operations on far memory are under way that go past the agents.
fn is_at_memory(port: &Port) -> bool {
    port.line().direct().is_some_and(|direct| direct.is_busy())
}

/// Drives a port that is entrusted; says whether anything came of it, or may at once.
fn drive(port: &Mutex<Port>) -> bool {
    let mut guard = lock(port);
    let before = (guard.origin.moved(), guard.news());
    guard.origin.push();
    guard.drive();
    let has_moved = (guard.origin.moved(), guard.news()) != before;
    if !guard.is_wanted() {
        return has_moved;
    }
    let wanted = guard.wanted.clone();
    drop(guard);
    // Its thread is about to wake up, and would find the port taken again.
    for _ in 0..YIELDS {
        if wanted.load(Ordering::Relaxed) == 0 {
            break;
        }
        std::thread::yield_now();
    }
    true
}

/// Sleeps until something comes to a port, or is entrusted there.
fn sleep_at(port: &Mutex<Port>, longest: Duration) {
    let mut guard = lock(port);
    if !guard.is_pressing() {
        return;
    }
    let (line, patience) = (guard.line().clone(), guard.patience());
    guard.driver_sleeps = true;
    drop(guard);
    line.sleep(patience.unwrap_or(longest).min(longest));
    lock(port).driver_sleeps = false;
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing that is done under these locks can panic half-way.
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
