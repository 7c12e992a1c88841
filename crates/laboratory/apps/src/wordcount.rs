//! Counts the words of files in a distributed hash table.
//!
//! Ranks read stretches of the files in turns, count up the words in them, and rank 0 prints what
//! came out, in order.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};

use farside::map::Options;
use farside::{Error, HashMap, Rank, Result, World};

use crate::output::unprinted;

/// How much is read at a time, and how many words are counted up together.
const STRETCH_BYTES: u64 = 1 << 16;
/// Nearly all words are this short.
const SHORT: usize = 24;
/// Longer ones are refused.
const LONG: usize = 1024;

type Short = [u8; SHORT];
type Long = [u8; LONG];

pub(crate) fn run(world: &World, files: &[String]) -> Result<()> {
    check(files)?;
    let short = HashMap::<Short, u64>::new(world)?;
    let long =
        HashMap::<Long, u64>::with(&world.team(), &Options { slots: 1, ..Options::default() })?;
    let mut turn = 0;
    for name in files {
        let failed = |error: std::io::Error| Error::File(format!("cannot read {name}: {error}"));
        let mut file = File::open(name).map_err(failed)?;
        let len = file.metadata().map_err(failed)?.len();
        for start in (0..len).step_by(STRETCH_BYTES as usize) {
            if turn % u64::from(world.size()) == u64::from(world.rank().0) {
                let words = stretch(&mut file, start, len).map_err(failed)?;
                count(world, &short, &long, &words)
                    .map_err(|error| Error::File(format!("{name}: {error}")))?;
            }
            turn += 1;
        }
    }
    world.barrier()?;
    if world.rank() == Rank(0) {
        let mut counts: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
        for &member in short.members() {
            short.for_each_of(world, member, |word, count| {
                _ = counts.insert(trimmed(&word), count)
            })?;
            long.for_each_of(world, member, |word, count| {
                _ = counts.insert(trimmed(&word), count)
            })?;
        }
        print(&counts).map_err(|error| unprinted(&error))?;
    }
    world.barrier()?;
    long.free(world)?;
    short.free(world)
}

/// The words that begin in a stretch of a file; the last of them may end beyond it.
fn stretch(file: &mut File, start: u64, len: u64) -> std::io::Result<Vec<Vec<u8>>> {
    // One byte before tells whether a word begins with the first one.
    let from = start.saturating_sub(1);
    file.seek(SeekFrom::Start(from))?;
    let end = (start + STRETCH_BYTES).min(len);
    let mut text = vec![0; (end - from) as usize];
    file.read_exact(&mut text)?;
    // The last word goes on until there is none, or until it is too long anyway.
    let mut more = [0];
    let is_open = |text: &[u8]| text.last().is_some_and(|byte| !byte.is_ascii_whitespace());
    while is_open(&text)
        && (text.len() as u64) < end - from + LONG as u64 + 1
        && file.read(&mut more)? == 1
    {
        text.push(more[0]);
    }
    let is_inside = start > 0 && !text[0].is_ascii_whitespace();
    let skipped = if is_inside {
        text.iter().position(u8::is_ascii_whitespace).unwrap_or(text.len())
    } else {
        0
    };
    // A word that begins beyond the end is the next stretch's.
    let inside = (end - from) as usize;
    let mut words = Vec::new();
    let mut at = skipped;
    while at < inside {
        match text[at..].iter().position(|byte| !byte.is_ascii_whitespace()) {
            Some(gap) if at + gap < inside => {
                let begin = at + gap;
                let size = text[begin..]
                    .iter()
                    .position(u8::is_ascii_whitespace)
                    .unwrap_or(text.len() - begin);
                words.push(text[begin..begin + size].to_vec());
                at = begin + size;
            }
            _ => break,
        }
    }
    Ok(words)
}

fn count(
    world: &World,
    short: &HashMap<Short, u64>,
    long: &HashMap<Long, u64>,
    words: &[Vec<u8>],
) -> Result<()> {
    // Each word of the stretch once.
    let mut sums: BTreeMap<&[u8], u64> = BTreeMap::new();
    words.iter().for_each(|word| *sums.entry(word).or_insert(0) += 1);
    let mut batch = Vec::new();
    for (word, sum) in sums {
        if let Some(key) = padded(word) {
            batch.push((key, sum));
        } else {
            let too_long = || Error::Unsupported {
                what: format!("a word of more than {LONG} bytes, or with a zero at its end"),
            };
            long.fetch_add(world, padded(word).ok_or_else(too_long)?, sum)?;
        }
    }
    short.fetch_add_all(world, &batch).map(drop)
}

/// A word, and zeros; none if it is too long. Text has no zeros, but a file may.
fn padded<const N: usize>(word: &[u8]) -> Option<[u8; N]> {
    let mut key = [0; N];
    let is_plain = word.last() != Some(&0) && word.len() <= N;
    is_plain.then(|| {
        key[..word.len()].copy_from_slice(word);
        key
    })
}

fn trimmed(key: &[u8]) -> Vec<u8> {
    key[..key.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1)].to_vec()
}

/// Refuses to count nothing.
pub(crate) fn check(files: &[String]) -> Result<()> {
    if files.is_empty() {
        return Err(Error::InvalidArgument(
            "which files? For example: farside app wordcount -n 4 README.md".into(),
        ));
    }
    Ok(())
}

/// As `uniq -c` prints.
fn print(counts: &BTreeMap<Vec<u8>, u64>) -> std::io::Result<()> {
    let mut to = std::io::BufWriter::new(std::io::stdout().lock());
    for (word, count) in counts {
        write!(to, "{count:7} ")?;
        to.write_all(word)?;
        to.write_all(b"\n")?;
    }
    to.flush()
}
