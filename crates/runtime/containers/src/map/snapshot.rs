//! A map as a file: written by all ranks together, and read by any number of them.

use std::fs::{File, OpenOptions};
use std::io::{BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::Path;

use farside_fabric::{Error, Result};
use farside_rma::{Plain, Team, or_free};
use zerocopy::IntoBytes;

use super::{HashMap, Options};

const MAGIC: &[u8; 16] = b"farside map  1\r\n";
/// The magic, and then the bytes of a key, of a value, and the number of entries.
const HEADER_BYTES: u64 = 16 + 3 * 8;
const BATCH: usize = 4096;

impl<K: Plain, V: Plain> HashMap<K, V> {
    /// Writes all entries into a file that all members reach by this path. Collective; no rank may
    /// change the map meanwhile.
    ///
    /// ```
    /// # use farside::{map::Options, HashMap};
    /// # let scratch = tempfile::tempdir().unwrap();
    /// # let file = &scratch.path().join("map");
    /// farside::local(3, |world| {
    ///     let map = HashMap::<u64, u64>::new(world)?;
    ///     map.insert(world, world.rank().0.into(), 5)?;
    ///     map.save(world, file)?;
    ///     map.free(world)
    /// })?;
    /// farside::local(2, |world| {
    ///     let map = HashMap::<u64, u64>::load(&world.team(), &Options::default(), file)?;
    ///     assert_eq!((map.len(world)?, map.get(world, 2)?), (3, Some(5)));
    ///     world.barrier()?;
    ///     map.free(world)
    /// })?;
    /// # Ok::<(), farside::Error>(())
    /// ```
    pub fn save<'t>(&self, team: impl Into<Team<'t>>, path: impl AsRef<Path>) -> Result<()> {
        let (team, path) = (team.into(), path.as_ref());
        // All that was inserted before by anybody is in it.
        team.sync()?;
        let entries = self.own_entries(team.context())?;
        let counts = team.all_gather(&[entries.len() as u64])?;
        let before: u64 = counts[..team.index()].iter().sum();
        let begin = || -> std::io::Result<()> {
            let mut file = File::create(path)?;
            file.write_all(MAGIC)?;
            file.write_all(
                [size_of::<K>() as u64, size_of::<V>() as u64, counts.iter().sum()].as_bytes(),
            )
        };
        agree(&team, path, "write", if team.index() == 0 { begin() } else { Ok(()) })?;
        let append = || -> std::io::Result<()> {
            let mut file = BufWriter::new(OpenOptions::new().write(true).open(path)?);
            file.seek(SeekFrom::Start(HEADER_BYTES + before * entry_bytes::<K, V>()))?;
            for (key, value) in &entries {
                file.write_all(key.as_bytes())?;
                file.write_all(value.as_bytes())?;
            }
            file.flush()
        };
        agree(&team, path, "write", append())
    }
}

impl<K: Plain, V: Plain> HashMap<K, V> {
    /// Makes a map of the entries in a file that [`HashMap::save`] has written, with any number of
    /// ranks. Collective.
    pub fn load(
        team: &Team<'_>,
        options: &Options,
        path: impl AsRef<Path>,
    ) -> Result<HashMap<K, V>> {
        let path = path.as_ref();
        let mut file = None;
        let open = File::open(path).map(|opened| file = Some(BufReader::new(opened)));
        agree(team, path, "read", open)?;
        let mut file =
            file.ok_or_else(|| Error::Internal("a file that was opened is there".into()))?;
        let header = read_header(&mut file);
        let entries =
            check(team, path, header.and_then(|header| check_header::<K, V>(&header, path)))?;
        let (index, size) = (team.index() as u64, team.size() as u64);
        let part = |at: u64| (u128::from(entries) * u128::from(at) / u128::from(size)) as u64;
        let map = HashMap::with(team, options)?;
        // An error is told only when all have come: nobody waits for one that has given up.
        let mut result = file
            .seek(SeekFrom::Start(HEADER_BYTES + part(index) * entry_bytes::<K, V>()))
            .map(drop)
            .map_err(|error| failed(path, "read", &error));
        let mut left = part(index + 1) - part(index);
        while left > 0 && result.is_ok() {
            let count = (left as usize).min(BATCH);
            result = read_entries::<K, V>(&mut file, count)
                .map_err(|error| failed(path, "read", &error))
                .and_then(|batch| map.insert_all(team.context(), &batch).map(drop));
            left -= count as u64;
        }
        or_free(map, |map| map.free(team), |_| check(team, path, result)).map(|(map, ())| map)
    }
}

fn entry_bytes<K, V>() -> u64 {
    (size_of::<K>() + size_of::<V>()) as u64
}

fn read_header(file: &mut impl Read) -> Result<[u8; HEADER_BYTES as usize]> {
    let mut header = [0; HEADER_BYTES as usize];
    file.read_exact(&mut header)
        .map_err(|error| Error::File(format!("cannot read the header of a map: {error}")))?;
    Ok(header)
}

/// How many entries the file has, if it is one of such keys and values.
fn check_header<K, V>(header: &[u8; HEADER_BYTES as usize], path: &Path) -> Result<u64> {
    let (magic, numbers) = header.split_at(MAGIC.len());
    if magic != MAGIC {
        return Err(Error::File(format!("{} is not a saved map", path.display())));
    }
    let number = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| numbers[at * 8 + byte]));
    if (number(0), number(1)) != (size_of::<K>() as u64, size_of::<V>() as u64) {
        return Err(Error::File(format!(
            "{} has keys of {} and values of {} bytes, but the map that it is read into has {} and \
             {}",
            path.display(),
            number(0),
            number(1),
            size_of::<K>(),
            size_of::<V>()
        )));
    }
    Ok(number(2))
}

fn read_entries<K: Plain, V: Plain>(
    file: &mut impl Read,
    count: usize,
) -> std::io::Result<Vec<(K, V)>> {
    let mut entries = Vec::with_capacity(count);
    for _ in 0..count {
        let (mut key, mut value) = (K::new_zeroed(), V::new_zeroed());
        file.read_exact(key.as_mut_bytes())?;
        file.read_exact(value.as_mut_bytes())?;
        entries.push((key, value));
    }
    Ok(entries)
}

/// All members get on, or none of them does.
pub(crate) fn agree(
    team: &Team<'_>,
    path: &Path,
    verb: &str,
    mine: std::io::Result<()>,
) -> Result<()> {
    check(team, path, mine.map_err(|error| failed(path, verb, &error)))
}

/// All members go on, or none of them does: returns this rank's error, or that another has one.
pub(crate) fn check<T>(team: &Team<'_>, path: &Path, mine: Result<T>) -> Result<T> {
    let mut failed = [if mine.is_err() { team.index() as u64 + 1 } else { 0 }];
    team.all_reduce(&mut failed, u64::max)?;
    match (mine, failed[0].checked_sub(1)) {
        (Ok(_), Some(at)) => {
            let rank = team.members()[at as usize];
            Err(Error::File(format!(
                "{}: {rank} has failed; its own error says why",
                path.display()
            )))
        }
        (mine, _) => mine,
    }
}

fn failed(path: &Path, verb: &str, error: &std::io::Error) -> Error {
    Error::File(format!("cannot {verb} {}: {error}", path.display()))
}
