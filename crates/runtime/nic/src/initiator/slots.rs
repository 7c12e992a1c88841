//! A table whose entries are named by their index.

/// Indices are used again, the last one freed first.
#[cfg_attr(test, derive(Clone))]
pub(crate) struct Slots<T> {
    entries: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Slots<T> {
    pub(crate) fn new() -> Slots<T> {
        Slots { entries: Vec::new(), free: Vec::new() }
    }

    pub(crate) fn insert(&mut self, entry: T) -> u32 {
        if let Some(at) = self.free.pop() {
            self.entries[at as usize] = Some(entry);
            return at;
        }
        self.entries.push(Some(entry));
        self.entries.len() as u32 - 1
    }

    pub(crate) fn get_mut(&mut self, at: u32) -> Option<&mut T> {
        self.entries.get_mut(at as usize)?.as_mut()
    }

    pub(crate) fn remove(&mut self, at: u32) -> Option<T> {
        let entry = self.entries.get_mut(at as usize)?.take()?;
        self.free.push(at);
        Some(entry)
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    pub(crate) fn any(&self, holds: impl Fn(&T) -> bool) -> bool {
        self.entries.iter().flatten().any(holds)
    }

    pub(crate) fn remove_if(&mut self, mut gone: impl FnMut(&T) -> bool) {
        for (at, entry) in self.entries.iter_mut().enumerate() {
            if entry.as_ref().is_some_and(&mut gone) {
                *entry = None;
                self.free.push(at as u32);
            }
        }
    }

    /// Hashes the entries, and what decides which indices come next.
    #[cfg(test)]
    pub(crate) fn fingerprint<H: std::hash::Hasher>(
        &self,
        into: &mut H,
        mut each: impl FnMut(&T, &mut H),
    ) {
        use std::hash::Hash as _;
        self.free.hash(into);
        for entry in &self.entries {
            entry.is_some().hash(into);
            entry.iter().for_each(|entry| each(entry, into));
        }
    }
}
