//! What coherence knows of a front end: it says which page is about to be read or written, and is
//! told which pages may be. Signals are not known here.

use std::ops::Range;

use farside_fabric::Result;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Allowed {
    Nothing,
    Reading,
    Writing,
}

pub(crate) trait Guard {
    /// From now on this may be done with `count` pages from `first` on.
    fn allow(&mut self, first: u32, count: u32, what: Allowed) -> Result<()>;

    /// The same for pages that are about to be touched.
    fn allow_ahead(&mut self, first: u32, count: u32, what: Allowed) -> Result<()> {
        self.allow(first, count, what)
    }
}

/// The front end of explicit accesses, which enforces nothing.
pub(crate) struct NoGuard;

impl Guard for NoGuard {
    fn allow(&mut self, _first: u32, _count: u32, _what: Allowed) -> Result<()> {
        Ok(())
    }
}

/// Allows the same for many pages, which are in order: neighbours together.
pub(crate) fn allow_all(guard: &mut dyn Guard, pages: &[u32], what: Allowed) -> Result<()> {
    for run in pages.chunk_by(|last, next| *next == last + 1) {
        guard.allow(run[0], run.len() as u32, what)?;
    }
    Ok(())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ViewPages {
    pub(crate) first: u32,
    pub(crate) end: u32,
    pub(crate) is_mut: bool,
}

impl ViewPages {
    pub(crate) fn after(self, page: u32, count: u32) -> Range<u32> {
        page + 1..self.end.min(page.saturating_add(1 + count)).max(page + 1)
    }

    pub(crate) fn contains(self, page: u32) -> bool {
        (self.first..self.end).contains(&page)
    }
}
