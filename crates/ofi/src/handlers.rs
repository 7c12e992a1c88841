//! Providers that install signal handlers when they are loaded (PSM's print a backtrace and end the process) would take faults away from those of the program, such
//! as a pager's. What they have installed is taken out again.

use std::ffi::c_void;

/// The signals of faults that programs may handle.
const FAULTS: [libc::c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];

/// Calls `load`, and puts back the handlers that others have installed for faults meanwhile. One that this program itself has installed, from another thread, stays.
pub(crate) fn keeping_handlers<R>(load: impl FnOnce() -> R) -> R {
    let before = FAULTS.map(installed);
    let result = load();
    for (signal, before) in FAULTS.into_iter().zip(before) {
        let (Some(before), Some(after)) = (before, installed(signal)) else { continue };
        let is_new = after.sa_sigaction != before.sa_sigaction;
        let is_default = [libc::SIG_DFL, libc::SIG_IGN].contains(&after.sa_sigaction);
        if is_new && !is_default && home(after.sa_sigaction) != home(home as fn(usize) -> Option<usize> as usize) {
            // SAFETY: it is what the system said was installed before.
            unsafe { libc::sigaction(signal, &before, std::ptr::null_mut()) };
        }
    }
    result
}

/// What handles a signal now.
fn installed(signal: libc::c_int) -> Option<libc::sigaction> {
    // SAFETY: all zeros is a value of this type, which the call then fills.
    let mut action = unsafe { std::mem::zeroed::<libc::sigaction>() };
    // SAFETY: it only asks, and has room for the answer.
    let answered = unsafe { libc::sigaction(signal, std::ptr::null(), &mut action) } == 0;
    answered.then_some(action)
}

/// Where the object begins, a program or a library, that an address of code belongs to.
fn home(code: usize) -> Option<usize> {
    // SAFETY: all zeros is a value of this type, which the call then fills.
    let mut found = unsafe { std::mem::zeroed::<libc::Dl_info>() };
    // SAFETY: any address may be asked for.
    let known = unsafe { libc::dladdr(code as *const c_void, &mut found) } != 0;
    known.then_some(found.dli_fbase as usize)
}
