//! The accesses of a rank in an interval, with their places in the program: what the search for
//! races needs beside diffs. They are noted by views, and told of when the interval ends.

use std::collections::BTreeMap;
use std::ops::Range;
use std::panic::Location;
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

use farside_fabric::{Error, Result};

use crate::message::{Reader, Writer};
use crate::race::AccessKind;

/// Spans are joined when there are twice as many as after the last time, and so many at least.
const JOINED_FIRST: usize = 1024;

type Site = (&'static Location<'static>, AccessKind);

/// The accesses of this rank since its last synchronization.
pub(crate) struct AccessLog {
    /// The address of the first byte of shared memory, as views have it.
    base: usize,
    notes_loads: bool,
    noted: Mutex<Noted>,
}

#[derive(Default)]
struct Noted {
    sites: BTreeMap<Site, Spans>,
}

#[derive(Default)]
struct Spans {
    all: Vec<Range<u64>>,
    /// The number of spans that are left after joining.
    joined: usize,
}

impl Spans {
    /// Adds bytes. Mostly they follow the last ones, or are the same again.
    fn add(&mut self, bytes: Range<u64>) {
        match self.all.last_mut() {
            Some(last) if bytes.start <= last.end && bytes.end >= last.start => {
                *last = last.start.min(bytes.start)..last.end.max(bytes.end);
            }
            _ => self.all.push(bytes),
        }
        if self.all.len() >= (2 * self.joined).max(JOINED_FIRST) {
            self.join();
        }
    }

    /// Sorts the spans, and joins those that touch.
    fn join(&mut self) {
        self.all.sort_unstable_by_key(|bytes| (bytes.start, bytes.end));
        self.all.dedup_by(|next, last| {
            let touch = next.start <= last.end;
            if touch {
                last.end = last.end.max(next.end);
            }
            touch
        });
        self.joined = self.all.len();
    }
}

impl AccessLog {
    pub(crate) fn new(base: NonNull<u8>, notes_loads: bool) -> AccessLog {
        AccessLog { base: base.as_ptr() as usize, notes_loads, noted: Mutex::default() }
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn load<T>(&self, elements: &[T], place: &'static Location<'static>) {
        if self.notes_loads {
            self.note(elements, (place, AccessKind::Load));
        }
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn store<T>(&self, elements: &[T], place: &'static Location<'static>) {
        self.note(elements, (place, AccessKind::Store));
    }

    fn note<T>(&self, elements: &[T], site: Site) {
        if size_of_val(elements) == 0 {
            return;
        }
        let start = (elements.as_ptr() as usize).wrapping_sub(self.base) as u64;
        let bytes = start..start + size_of_val(elements) as u64;
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        noted.sites.entry(site).or_default().add(bytes);
    }

    pub(crate) fn take(&self) -> Accesses {
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        let sites = std::mem::take(&mut noted.sites);
        let one = |((place, kind), mut spans): (Site, Spans)| {
            spans.join();
            let place = format!("{}:{}", place.file(), place.line());
            SiteAccesses { place, kind, spans: spans.all }
        };
        Accesses { sites: sites.into_iter().map(one).collect() }
    }
}

/// The accesses of an interval, by place.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Accesses {
    pub(crate) sites: Vec<SiteAccesses>,
}

/// The bytes that were accessed at a place, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SiteAccesses {
    /// The file and the line.
    pub(crate) place: String,
    pub(crate) kind: AccessKind,
    pub(crate) spans: Vec<Range<u64>>,
}

impl Accesses {
    pub(crate) fn has_loads(&self) -> bool {
        self.sites.iter().any(|site| site.kind == AccessKind::Load)
    }

    pub(crate) fn place_of(&self, kind: AccessKind, byte: u64) -> Option<&str> {
        let holds = |site: &&SiteAccesses| {
            let at = site.spans.partition_point(|bytes| bytes.end <= byte);
            site.kind == kind && site.spans.get(at).is_some_and(|bytes| bytes.start < byte + 4)
        };
        self.sites.iter().find(holds).map(|site| &site.place[..])
    }

    pub(crate) fn loads(&self) -> impl Iterator<Item = &Range<u64>> {
        let sites = self.sites.iter().filter(|site| site.kind == AccessKind::Load);
        sites.flat_map(|site| &site.spans)
    }

    pub(crate) fn to_words(&self) -> Vec<u32> {
        let mut writer = Writer::default();
        writer.number(self.sites.len() as u32);
        for SiteAccesses { place, kind, spans } in &self.sites {
            writer.number(place.len() as u32);
            writer.raw(place.as_bytes());
            writer.number(u32::from(*kind == AccessKind::Store));
            writer.number(spans.len() as u32);
            let mut end = 0;
            for bytes in spans {
                writer.wide(bytes.start - end);
                writer.wide(bytes.end - bytes.start);
                end = bytes.end;
            }
        }
        let word = |bytes: &[u8]| {
            u32::from_le_bytes(std::array::from_fn(|at| bytes.get(at).copied().unwrap_or(0)))
        };
        writer.bytes().chunks(4).map(word).collect()
    }

    pub(crate) fn from_words(words: &[u32]) -> Result<Accesses> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut reader = Reader::new(&bytes);
        let mut sites = Vec::new();
        for _ in 0..reader.number()? {
            let length = reader.number()? as usize;
            let place = String::from_utf8_lossy(reader.raw(length)?).into_owned();
            let kind = if reader.number()? == 0 { AccessKind::Load } else { AccessKind::Store };
            let mut spans = Vec::new();
            let mut end = 0u64;
            for _ in 0..reader.number()? {
                let start = end.checked_add(reader.wide()?).ok_or_else(nonsense)?;
                end = start.checked_add(reader.wide()?).ok_or_else(nonsense)?;
                spans.push(start..end);
            }
            sites.push(SiteAccesses { place, kind, spans });
        }
        Ok(Accesses { sites })
    }
}

fn nonsense() -> Error {
    Error::Internal("the accesses of another rank are beyond all memory".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accesses_survive_their_message_and_touching_ones_are_one() {
        let memory = [0u32; 5000];
        let log = AccessLog::new(NonNull::from(&memory).cast(), true);
        let mut places = Vec::new();
        for at in (0..5000).step_by(2).chain((1..5000).step_by(2)) {
            let place = Location::caller();
            places.push(place);
            log.load(&memory[at..at + 1], place);
        }
        log.store(&memory[7..9], Location::caller());
        log.store(&memory[3..3], Location::caller());
        let accesses = log.take();
        let loads: Vec<_> = accesses.loads().map(|bytes| (bytes.start, bytes.end)).collect();
        assert_eq!(loads, [(0, 20_000)]);
        assert_eq!(Accesses::from_words(&accesses.to_words()), Ok(accesses.clone()));
        let here = format!("{}:", file!());
        assert!(accesses.place_of(AccessKind::Load, 28).is_some_and(|at| at.starts_with(&here)));
        assert!(accesses.place_of(AccessKind::Store, 32).is_some());
        assert_eq!(accesses.place_of(AccessKind::Store, 36), None);
        assert_eq!(log.take(), Accesses::default());
        let deaf = AccessLog::new(NonNull::from(&memory).cast(), false);
        deaf.load(&memory[..], Location::caller());
        assert_eq!(deaf.take(), Accesses::default());
    }
}
