//! Asynchronous progress: a thread that drives a rank's ports while the rank computes.
//!
//! It sleeps while nothing is under way. Otherwise it looks every few milliseconds: it sends what
//! is left in batches, reads acknowledgements, and repeats what got lost. A rank that waits drives
//! its port itself, so this thread is not on the path of an operation that is waited for. Long
//! transfers that a rank has begun and does not wait for are *background* transfers: until they are
//! complete the thread drives their port without a pause.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, TryLockError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use farside_fabric::Node;

use super::port::Port;
use crate::clock::LONGEST_SLEEP;
use farside_fabric::lock::lock;

/// The interval while something has not been sent.
const UNSENT: Duration = Duration::from_millis(1);
/// The interval while something has not been acknowledged.
const UNDER_WAY: Duration = Duration::from_millis(5);
/// For how long it yields before it takes a port again whose own thread waits for it.
const YIELDING: Duration = Duration::from_micros(200);
/// For how long it looks at background transfers that do not move before it sleeps.
const IDLE: Duration = Duration::from_micros(100);
/// The number of idle looks before it sleeps until it is woken.
const IDLE_LOOKS_BEFORE_SLEEP: u32 = 20;

/// The ports of a rank and the thread that drives them, which starts when it is first needed.
pub(crate) struct Progress {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct Shared {
    ports: Mutex<Vec<Weak<Mutex<Port>>>>,
    /// Whether the thread looks at intervals, rather than sleeping until it is woken.
    is_awake: AtomicBool,
    /// Whether there is a background transfer that it has not seen.
    has_more: AtomicBool,
    stop: AtomicBool,
    sleep: Mutex<()>,
    wake: Condvar,
}

impl Progress {
    pub(crate) fn new() -> Progress {
        Progress { shared: Arc::default(), thread: Mutex::new(None) }
    }

    pub(crate) fn add(&self, port: &Arc<Mutex<Port>>) {
        let mut ports = lock(&self.shared.ports);
        ports.retain(|port| port.strong_count() > 0);
        ports.push(Arc::downgrade(port));
    }

    /// Notes that something is under way. Costs a load, unless the thread sleeps.
    #[inline]
    pub(crate) fn arm(&self) {
        if !self.shared.is_awake.load(Ordering::SeqCst) {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        // Without the thread, posted operations progress only while the rank calls the library.
        let _ = self.is_running();
        let _sleep = lock(&self.shared.sleep);
        self.shared.is_awake.store(true, Ordering::SeqCst);
        self.shared.wake.notify_all();
    }

    /// Starts the thread if need be, and returns whether it runs.
    pub(crate) fn is_running(&self) -> bool {
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

    /// Drives all ports that no other thread has, and takes the slots of their answered calls: the
    /// threads of those ports may wait for a slot themselves.
    pub(crate) fn take_answered_slots(&self) -> Vec<(Node, u32)> {
        let mut slots = Vec::new();
        for port in self.shared.ports() {
            let Ok(mut port) = port.try_lock() else { continue };
            if !port.has_background() {
                drive_for_its_thread(&mut port);
            }
            slots.append(&mut port.take_answered_slots());
        }
        slots
    }

    /// Lets the thread drive the ports that need it, at once.
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
            // A panic of the thread has been reported by its hook.
            let _ = thread.join();
        }
    }
}

/// Drives a port of another thread, which may sleep until what is read here arrives.
fn drive_for_its_thread(port: &mut Port) {
    let before = port.news();
    port.drive();
    if port.news() != before
        && let Ok(wakeup) = port.endpoint().wakeup_address()
    {
        port.endpoint().wake(wakeup);
    }
}

/// Gives all ports back to their threads when the progress thread ends.
struct EndBackground<'a>(&'a Shared);

impl Drop for EndBackground<'_> {
    fn drop(&mut self) {
        self.0.ports().iter().for_each(|port| lock(port).end_background());
    }
}

impl Shared {
    fn ports(&self) -> Vec<Arc<Mutex<Port>>> {
        lock(&self.ports).iter().filter_map(Weak::upgrade).collect()
    }

    fn run(&self) {
        let _end = EndBackground(self);
        let mut idle = 0;
        while !self.stop.load(Ordering::SeqCst) {
            self.has_more.store(false, Ordering::SeqCst);
            self.drive_background();
            let (mut is_busy, mut pause) = self.look();
            idle = if is_busy { 0 } else { idle + 1 };
            let mut sleep = lock(&self.sleep);
            if idle > IDLE_LOOKS_BEFORE_SLEEP {
                self.is_awake.store(false, Ordering::SeqCst);
                drop(sleep);
                // A rank may have posted before it could see that this thread sleeps.
                (is_busy, pause) = self.look();
                sleep = lock(&self.sleep);
                if is_busy {
                    self.is_awake.store(true, Ordering::SeqCst);
                }
                idle = 0;
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

    /// Drives the ports with background transfers until those are complete. Looks at the other
    /// ports at intervals.
    fn drive_background(&self) {
        let (mut looked, mut moved) = (Instant::now(), Instant::now());
        while !self.stop.load(Ordering::SeqCst) {
            let mut ports = self.ports();
            let are_others = ports.len() > 1;
            ports.retain(|port| lock(port).needs_driving());
            if ports.is_empty() {
                return;
            }
            let has_moved =
                ports.iter().map(|port| drive(port)).fold(false, |any, has_moved| any | has_moved);
            if has_moved {
                moved = Instant::now();
            }
            if moved.elapsed() < IDLE {
                // The agent that is to answer may need this processor.
                std::thread::yield_now();
            } else {
                sleep_at(&ports[0], if are_others { UNSENT } else { LONGEST_SLEEP });
            }
            if looked.elapsed() > UNSENT {
                let _ = self.look();
                looked = Instant::now();
            }
        }
    }

    /// Drives all ports once. Returns whether anything is under way, and when to look again.
    fn look(&self) -> (bool, Duration) {
        let (mut is_busy, mut pause) = (false, UNDER_WAY);
        for port in self.ports() {
            match port.try_lock() {
                Ok(mut port) if port.origin.is_busy() || has_direct(&port) => {
                    port.origin.push();
                    drive_for_its_thread(&mut port);
                    is_busy = true;
                    if port.origin.has_unsent() || has_direct(&port) {
                        pause = UNSENT;
                    }
                }
                Ok(_) => {}
                // Its own thread drives it.
                Err(TryLockError::WouldBlock) => is_busy = true,
                Err(TryLockError::Poisoned(_)) => {}
            }
        }
        (is_busy, pause)
    }
}

fn has_direct(port: &Port) -> bool {
    port.endpoint().direct().is_some_and(|direct| direct.is_busy())
}

/// Drives a port with background transfers. Returns whether anything moved, or may at once.
fn drive(port: &Mutex<Port>) -> bool {
    let mut guard = lock(port);
    let before = (guard.origin.moved(), guard.news());
    guard.origin.push();
    guard.drive();
    let has_moved = (guard.origin.moved(), guard.news()) != before;
    if !guard.has_waiter() {
        return has_moved;
    }
    let waiters = guard.waiters.clone();
    drop(guard);
    // Otherwise the thread that wakes up now would find the port locked again.
    let begin = Instant::now();
    while waiters.load(Ordering::Relaxed) != 0 && begin.elapsed() < YIELDING {
        std::thread::yield_now();
    }
    true
}

/// Sleeps until something arrives at a port, or a background transfer is added.
fn sleep_at(port: &Mutex<Port>, longest: Duration) {
    let mut guard = lock(port);
    if !guard.needs_driving() {
        return;
    }
    let (endpoint, limit) = (guard.endpoint().clone(), guard.sleep_limit());
    guard.progress_sleeps = true;
    drop(guard);
    endpoint.sleep(limit.unwrap_or(longest).min(longest));
    lock(port).progress_sleeps = false;
}
