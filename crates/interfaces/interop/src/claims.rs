//! Which pages of the process are attached, and which cannot be.

use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::Mutex;

use farside::{Error, Result};

use crate::check_private;

/// The pages that memory of the job lies over, by their first address.
static LAID_OVER: Mutex<BTreeMap<usize, usize>> = Mutex::new(BTreeMap::new());

/// No frame that is in use is further up a stack whose end is not known.
const STACK: usize = 8 << 20;

/// Notes that pages are about to be laid over; fails if some are already, are shared by other
/// means, or are this thread's stack.
pub(crate) fn claim(pages: Range<usize>) -> Result<Range<usize>> {
    // What lies above this frame is in use by the callers of this.
    let frames = frames();
    if pages.start < frames.end && frames.start < pages.end {
        return Err(Error::Unsupported {
            what: "sharing memory of a thread's own stack: use static or allocated memory".into(),
        });
    }
    let mut laid = LAID_OVER.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let before = laid.range(..pages.end).next_back();
    if let Some((&start, &end)) = before.filter(|&(_, &end)| end > pages.start) {
        return Err(Error::InvalidArgument(format!(
            "pages {:#x} to {:#x} have a page in common with {start:#x} to {end:#x}, which are \
             attached: attach both as one, or align them to pages",
            pages.start, pages.end
        )));
    }
    check_private(&pages)?;
    laid.insert(pages.start, pages.end);
    Ok(pages)
}

pub(crate) fn unclaim(pages: &Range<usize>) {
    LAID_OVER.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).remove(&pages.start);
}

/// Returns where the frames of this thread are: from here to the end of its stack.
fn frames() -> Range<usize> {
    let here = 0u8;
    let here = (&raw const here).addr();
    let mut attributes = MaybeUninit::uninit();
    let (mut base, mut bytes) = (std::ptr::null_mut(), 0);
    // SAFETY: the first call initializes what the others read.
    let is_known = unsafe {
        libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) == 0 && {
            let got = libc::pthread_attr_getstack(attributes.as_ptr(), &mut base, &mut bytes);
            libc::pthread_attr_destroy(attributes.as_mut_ptr());
            got == 0
        }
    };
    let stack = base.addr()..base.addr().saturating_add(bytes);
    // A thread may run on a stack of the program's own.
    match is_known && stack.contains(&here) {
        true => here..stack.end,
        false => here..here.saturating_add(STACK),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_frames_of_this_thread_are_its_stack() {
        let own = 0u64;
        let own = (&raw const own).addr();
        let refused = claim(own..own + 1).map_err(|error| error.to_string());
        assert!(refused.is_err_and(|error| error.contains("stack")));
        // What the system maps beside a stack is nobody's frame.
        let thread = std::thread::Builder::new().stack_size(1 << 20).spawn(frames).unwrap();
        let frames = thread.join().unwrap();
        assert!(frames.len() < 2 << 20, "{frames:x?}");
    }
}
