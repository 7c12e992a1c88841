//! Faults as signals: the lookup of the watched memory, and the way of signals that belong to none.
//!
//! A signal has no argument but an address, so which memory is watched must be known to the process
//! as a whole. This is the one place of farside that keeps such a table; it is read without locks.

use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering, fence};
use std::sync::{Mutex, OnceLock};

use crate::{Error, Fault, Handler};

/// The number of memories that a process can watch at a time.
const SLOTS: usize = 1024;

/// A watched memory. Free if its end is zero.
struct Slot {
    /// Odd while the rest changes: what was read with one even number belongs together.
    version: AtomicUsize,
    start: AtomicUsize,
    end: AtomicUsize,
    page_bytes: AtomicUsize,
    handler: AtomicPtr<HandlerCell>,
}

/// What a slot holds at one moment.
struct Found {
    version: usize,
    start: usize,
    end: usize,
    page_bytes: usize,
    handler: *const HandlerCell,
}

impl Slot {
    /// Changes it, with the table's lock held. `stores` must not fault.
    fn change(&self, stores: impl FnOnce()) {
        let version = self.version.load(Ordering::Relaxed);
        self.version.store(version + 1, Ordering::Relaxed);
        fence(Ordering::Release);
        stores();
        self.version.store(version + 2, Ordering::Release);
    }

    /// What it holds, if that is memory with this address.
    fn look(&self, address: usize) -> Option<Found> {
        loop {
            let found = self.read();
            if self.still_holds(&found) {
                return (found.start..found.end).contains(&address).then_some(found);
            }
            std::hint::spin_loop();
        }
    }

    /// What it holds, if that does not change meanwhile.
    fn read(&self) -> Found {
        Found {
            version: self.version.load(Ordering::Acquire),
            start: self.start.load(Ordering::Relaxed),
            end: self.end.load(Ordering::Relaxed),
            page_bytes: self.page_bytes.load(Ordering::Relaxed),
            handler: self.handler.load(Ordering::Relaxed),
        }
    }

    /// Whether all that was read belongs together.
    fn still_holds(&self, found: &Found) -> bool {
        fence(Ordering::Acquire);
        let version = self.version.load(Ordering::Relaxed);
        version.is_multiple_of(2) && version == found.version
    }
}

/// A reference to a handler is two words; this is one that points to it.
struct HandlerCell(*const dyn Handler);

static TABLE: [Slot; SLOTS] = [const {
    Slot {
        version: AtomicUsize::new(0),
        start: AtomicUsize::new(0),
        end: AtomicUsize::new(0),
        page_bytes: AtomicUsize::new(1),
        handler: AtomicPtr::new(std::ptr::null_mut()),
    }
}; SLOTS];
/// Held while the table is changed.
static CHANGES: Mutex<()> = Mutex::new(());
/// The previous handlers of the two signals.
static BEFORE: OnceLock<[(i32, libc::sigaction); 2]> = OnceLock::new();

/// A memory in the table.
pub(crate) struct Armed {
    slot: &'static Slot,
}

impl Armed {
    /// # Safety
    ///
    /// The handler must live as long as what is returned, and no thread may touch the memory when
    /// that is dropped.
    pub(crate) unsafe fn new(
        start: usize,
        bytes: usize,
        page_bytes: usize,
        handler: &(dyn Handler + '_),
    ) -> Result<Armed, Error> {
        let _changes = CHANGES.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        install()?;
        let free = TABLE.iter().find(|slot| slot.end.load(Ordering::Acquire) == 0);
        let slot = free.ok_or(Error { call: "watching one more memory", errno: libc::ENOSPC })?;
        // SAFETY: only the lifetime changes, and that the handler lives long enough is the caller's
        // promise.
        let handler = unsafe {
            std::mem::transmute::<&(dyn Handler + '_), &(dyn Handler + 'static)>(handler)
        };
        let handler = Box::into_raw(Box::new(HandlerCell(handler)));
        slot.change(|| {
            slot.start.store(start, Ordering::Relaxed);
            slot.page_bytes.store(page_bytes, Ordering::Relaxed);
            slot.handler.store(handler, Ordering::Relaxed);
            slot.end.store(start + bytes, Ordering::Relaxed);
        });
        Ok(Armed { slot })
    }
}

impl Drop for Armed {
    fn drop(&mut self) {
        let _changes = CHANGES.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let handler = self.slot.handler.load(Ordering::Relaxed);
        self.slot.change(|| self.slot.end.store(0, Ordering::Relaxed));
        // SAFETY: it was made by `Box::into_raw`, and nobody touches the memory at this moment.
        drop(unsafe { Box::from_raw(handler) });
    }
}

/// Takes over the two signals, once.
fn install() -> Result<(), Error> {
    if BEFORE.get().is_some() {
        return Ok(());
    }
    let mut before = [libc::SIGSEGV, libc::SIGBUS].map(|signal| {
        // SAFETY: all zero is a valid value: the default action.
        (signal, unsafe { std::mem::zeroed::<libc::sigaction>() })
    });
    for (signal, old) in &mut before {
        // SAFETY: only asks.
        if unsafe { libc::sigaction(*signal, std::ptr::null(), old) } != 0 {
            return Err(Error::last("sigaction"));
        }
    }
    // Known before the first signal can come.
    BEFORE.get_or_init(|| before);
    for (signal, _) in before {
        // SAFETY: as above.
        let mut ours = unsafe { std::mem::zeroed::<libc::sigaction>() };
        ours.sa_sigaction = on_signal as extern "C" fn(_, _, _) as usize;
        // On the stack of the thread that faults: a protocol needs more of it than a stack for
        // signals has.
        ours.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        // SAFETY: the handler restores what it changes, and runs foreign code for accesses to
        // watched memory only.
        if unsafe { libc::sigaction(signal, &ours, std::ptr::null_mut()) } != 0 {
            return Err(Error::last("sigaction"));
        }
    }
    Ok(())
}

extern "C" fn on_signal(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel gives both, and they are valid while the handler runs.
    let (address, is_write) = unsafe { ((*info).si_addr() as usize, was_write(context)) };
    // SAFETY: the thread's own variable.
    let errno = unsafe { *libc::__errno_location() };
    if deal_with(address, is_write) {
        // SAFETY: as above.
        unsafe { *libc::__errno_location() = errno };
        return;
    }
    pass_on(signal, info, context);
}

/// Runs the handler if the address is in memory that is watched; returns whether it is.
fn deal_with(address: usize, is_write: Option<bool>) -> bool {
    let Some(found) = TABLE.iter().find_map(|slot| slot.look(address)) else {
        return false;
    };
    let page = (address - found.start) / found.page_bytes;
    // SAFETY: the memory is being touched, so that it is not disarmed meanwhile, and its handler
    // lives.
    let handler = unsafe { &*(*found.handler).0 };
    handler.handle(Fault { page, is_write });
    true
}

/// Passes a foreign signal to its previous handler; without one, the process ends as it should.
fn pass_on(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let before = BEFORE.get().and_then(|all| all.iter().find(|(known, _)| *known == signal));
    match before {
        Some((_, old))
            if old.sa_sigaction != libc::SIG_DFL && old.sa_sigaction != libc::SIG_IGN =>
        {
            if old.sa_flags & libc::SA_SIGINFO != 0 {
                // SAFETY: the flag says that it is a function of this kind, which was installed for
                // this signal.
                let run: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) =
                    unsafe { std::mem::transmute(old.sa_sigaction) };
                run(signal, info, context);
            } else {
                // SAFETY: without the flag it is a function of that kind.
                let run: extern "C" fn(i32) = unsafe { std::mem::transmute(old.sa_sigaction) };
                run(signal);
            }
        }
        // The access is made again, and ends the process.
        // SAFETY: the default action is always valid.
        _ => unsafe {
            libc::signal(signal, libc::SIG_DFL);
        },
    }
}

/// Returns whether the access that faulted was a write, where the processor tells.
///
/// # Safety
///
/// `context` must be what a handler of signals was given.
#[cfg(target_arch = "x86_64")]
unsafe fn was_write(context: *mut libc::c_void) -> Option<bool> {
    const WRITE: i64 = 2;
    // SAFETY: as the caller says.
    let context = unsafe { &*context.cast::<libc::ucontext_t>() };
    Some(context.uc_mcontext.gregs[libc::REG_ERR as usize] & WRITE != 0)
}

/// Elsewhere, it is not known.
///
/// # Safety
///
/// None: the context is not looked at.
#[cfg(not(target_arch = "x86_64"))]
unsafe fn was_write(_context: *mut libc::c_void) -> Option<bool> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nothing;

    // SAFETY: it does nothing, and no memory of the test is touched.
    unsafe impl Handler for Nothing {
        fn handle(&self, _: Fault) {}
    }

    #[test]
    fn what_is_read_while_a_slot_changes_is_not_believed() {
        let first = 1 << 40;
        // SAFETY: the handler is a constant, and nothing touches the memory.
        let arm = |start| unsafe { Armed::new(start, 4096, 4096, &Nothing) }.expect("a slot");
        let armed = arm(first);
        let slot = armed.slot;
        let before = slot.read();
        assert!(slot.still_holds(&before));
        assert_eq!(slot.look(first + 5).map(|found| found.start), Some(first));
        drop(armed);
        assert!(!slot.still_holds(&before));
        slot.change(|| assert!(!slot.still_holds(&slot.read())));
        let again = arm(first + 8192);
        assert!(!slot.still_holds(&before));
        assert!(again.slot.look(first + 5000).is_none());
    }
}
