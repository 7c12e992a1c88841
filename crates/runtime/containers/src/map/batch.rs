//! Many keys at once.

use farside_fabric::Result;
use farside_rma::{Context, Integer, Plain};

use super::{HashMap, pack, unpack, wrapping_sum};
use crate::protocol::bucket::Verdict;
use crate::protocol::many::{ChangeOf, Item};
use crate::protocol::{hash_of, volume_of};

impl<K: Plain, V: Plain> HashMap<K, V> {
    /// The values of many keys, in their order. What is read travels in one request for each
    /// volume, and a further one where keys collide.
    ///
    /// ```
    /// # use farside::HashMap;
    /// # farside::local(3, |world| {
    /// let map = HashMap::<u64, u64>::new(world)?;
    /// let me = u64::from(world.rank().0);
    /// let mine: Vec<(u64, u64)> = (0..100).map(|n| (n * 3 + me, n)).collect();
    /// assert!(map.insert_all(world, &mine)?.iter().all(Option::is_none));
    /// world.barrier()?;
    /// let keys: Vec<u64> = (0..301).collect();
    /// let values = map.get_all(world, &keys)?;
    /// assert_eq!((values[0], values[299], values[300]), (Some(0), Some(99), None));
    /// # world.barrier()?;
    /// # map.free(world) }).unwrap();
    /// ```
    #[track_caller]
    pub fn get_all(&self, context: &Context, keys: &[K]) -> Result<Vec<Option<V>>> {
        let mut values = vec![None; keys.len()];
        for (at, items) in
            self.by_volume(keys.iter()).iter().enumerate().filter(|(_, items)| !items.is_empty())
        {
            context.noted(self.guards.read(context, at, || {
                self.volume(context, at)
                    .find_many(items, &mut |index, value| values[index] = value.map(unpack))
            }))?;
        }
        Ok(values)
    }

    /// Inserts many entries; returns what their keys stood for before. Of entries with the same
    /// key, the last one wins.
    #[track_caller]
    pub fn insert_all(&self, context: &Context, entries: &[(K, V)]) -> Result<Vec<Option<V>>> {
        let keys = entries.iter().map(|(key, _)| key);
        self.change_all(context, keys, &mut |index, _, new| {
            pack(&entries[index].1, new);
            Verdict::Write
        })
    }

    /// Removes the entries of many keys; returns their values.
    #[track_caller]
    pub fn remove_all(&self, context: &Context, keys: &[K]) -> Result<Vec<Option<V>>> {
        self.change_all(context, keys.iter(), &mut |_, _, _| Verdict::Remove)
    }

    #[track_caller]
    fn change_all<'k>(
        &self,
        context: &Context,
        keys: impl Iterator<Item = &'k K>,
        change: &mut ChangeOf<'_>,
    ) -> Result<Vec<Option<V>>> {
        let volumes = self.by_volume(keys);
        let mut old = vec![None; volumes.iter().map(Vec::len).sum()];
        for (at, items) in volumes.iter().enumerate().filter(|(_, items)| !items.is_empty()) {
            context.noted(self.guards.write(context, at, || {
                let mut changed =
                    |index: usize, value: Option<&[u64]>| old[index] = value.map(unpack);
                self.volume(context, at).change_many(items, change, &mut changed)
            }))?;
        }
        Ok(old)
    }

    /// The keys of each volume, in the order of the caller.
    fn by_volume<'k>(&self, keys: impl Iterator<Item = &'k K>) -> Vec<Vec<Item>> {
        let mut volumes: Vec<Vec<Item>> = self.members.iter().map(|_| Vec::new()).collect();
        for (index, key) in keys.enumerate() {
            let mut words = vec![0; self.layout.key_words];
            pack(key, &mut words);
            let hash = hash_of(&words);
            volumes[volume_of(hash, self.members.len())].push(Item { hash, key: words, index });
        }
        volumes
    }
}

impl<K: Plain, V: Integer> HashMap<K, V> {
    /// Adds to the values of many keys; returns what they were before. See [`HashMap::fetch_add`].
    #[track_caller]
    pub fn fetch_add_all(&self, context: &Context, sums: &[(K, V)]) -> Result<Vec<V>> {
        let keys = sums.iter().map(|(key, _)| key);
        let old = self.change_all(context, keys, &mut |index, old, new| {
            pack(&wrapping_sum(old.map(unpack), sums[index].1), new);
            Verdict::Write
        })?;
        Ok(old.into_iter().map(|value| value.unwrap_or(V::from_bits(0))).collect())
    }
}
