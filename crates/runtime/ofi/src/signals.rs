//! Removes the signal handlers that libraries of providers install when they are loaded.
//!
//! PSM's print a backtrace and end the process, also for signals that ask it to end. They would
//! take faults from the program's own handlers, such as a pager's, and make a rank that was told to
//! end look like one that has failed.

use std::ffi::c_void;

/// The signals that a program may handle.
const SIGNALS: std::ops::Range<libc::c_int> = 1..32;

/// Calls `load`, and restores the handlers that libraries have replaced meanwhile. One that this
/// program itself has installed, from another thread, stays.
pub(crate) fn keeping_handlers<R>(load: impl FnOnce() -> R) -> R {
    let before: Vec<_> = SIGNALS.map(installed).collect();
    let result = load();
    for (signal, before) in SIGNALS.zip(before) {
        let (Some(before), Some(after)) = (before, installed(signal)) else { continue };
        let is_new = after.sa_sigaction != before.sa_sigaction;
        let is_default = [libc::SIG_DFL, libc::SIG_IGN].contains(&after.sa_sigaction);
        if is_new
            && !is_default
            && home(after.sa_sigaction) != home(home as fn(usize) -> Option<usize> as usize)
        {
            // SAFETY: it is what the system said was installed before.
            unsafe { libc::sigaction(signal, &before, std::ptr::null_mut()) };
        }
    }
    result
}

fn installed(signal: libc::c_int) -> Option<libc::sigaction> {
    // SAFETY: all zeros is a value of this type, which the call then fills.
    let mut action = unsafe { std::mem::zeroed::<libc::sigaction>() };
    // SAFETY: it only asks, and has room for the answer.
    let answered = unsafe { libc::sigaction(signal, std::ptr::null(), &mut action) } == 0;
    answered.then_some(action)
}

/// Returns the base of the program or library that an address of code belongs to.
fn home(code: usize) -> Option<usize> {
    // SAFETY: all zeros is a value of this type, which the call then fills.
    let mut found = unsafe { std::mem::zeroed::<libc::Dl_info>() };
    // SAFETY: any address may be asked for.
    let known = unsafe { libc::dladdr(code as *const c_void, &mut found) } != 0;
    known.then_some(found.dli_fbase as usize)
}
