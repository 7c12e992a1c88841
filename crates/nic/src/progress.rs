//! What a rank has posted goes on while the rank computes: a thread that looks after its ports, seldom.
//!
//! It sleeps as long as nothing is under way. When something is, it looks every now and then: it sends what was left in a batch, reads
//! acknowledgements, and repeats what got lost. A rank that waits drives its port itself, so this thread is never on the way of an operation that
//! somebody waits for.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, TryLockError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::port::Port;

/// How soon it looks again when something has not been sent.
const UNSENT: Duration = Duration::from_millis(1);
/// How soon it looks again when something was not acknowledged.
const UNDER_WAY: Duration = Duration::from_millis(5);
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
        let mut thread = lock(&self.thread);
        if thread.is_none() {
            let shared = self.shared.clone();
            // Without it, what was posted goes on only while the rank calls the library: slower, but not wrong.
            *thread = std::thread::Builder::new().name("farside-progress".into()).spawn(move || shared.run()).ok();
        }
        let _sleep = lock(&self.shared.sleep);
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

impl Shared {
    fn run(&self) {
        let mut quiet = 0;
        while !self.stop.load(Ordering::SeqCst) {
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
            if self.stop.load(Ordering::SeqCst) {
                return;
            }
            if self.is_awake.load(Ordering::SeqCst) {
                drop(self.wake.wait_timeout(sleep, pause));
            } else {
                let awake = |(): &mut ()| !self.is_awake.load(Ordering::SeqCst) && !self.stop.load(Ordering::SeqCst);
                drop(self.wake.wait_while(sleep, awake));
            }
        }
    }

    /// Looks after all ports; says whether anything is under way, and when to look again.
    fn look(&self) -> (bool, Duration) {
        let ports: Vec<Arc<Mutex<Port>>> = lock(&self.ports).iter().filter_map(Weak::upgrade).collect();
        let (mut is_busy, mut pause) = (false, UNDER_WAY);
        for port in ports {
            match port.try_lock() {
                Ok(mut port) if port.origin.is_busy() || port.line().is_busy() => {
                    port.origin.push();
                    port.drive();
                    is_busy = true;
                    if port.origin.has_unsent() || port.line().is_busy() {
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing that is done under these locks can panic half-way.
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
