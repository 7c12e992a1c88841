//! Requests for diffs, which the agent of a node answers: it makes those that do not exist yet.

use std::sync::{Arc, Mutex, PoisonError};

use farside_fabric::{Error, Rank, Result};
use zerocopy::IntoBytes;

use super::table::Table;
use crate::message::{Reader, Writer};

pub(crate) const PAGES_MAX: usize = 64;
/// The bytes that the numbers ahead of a diff take at most.
const DIFF_NUMBERS: usize = 20;
/// The bytes that the numbers ahead of the diffs of a page, and ahead of all, take at most.
const PAGE_NUMBERS: usize = 15;
const HEADER_NUMBERS: usize = 10;

/// The first number of a reply.
const DONE: u32 = 0;
const BUSY: u32 = 1;
const NO_ROOM: u32 = 2;

/// The domains of a node, as the agent finds them; none when the shared memory was closed.
pub(crate) type Served = Arc<Mutex<Vec<(Rank, Arc<Table>)>>>;

/// What is wanted of a page: the diffs with numbers after `after`, up to `upto`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) page: u32,
    pub(crate) after: u64,
    pub(crate) upto: u64,
}

/// A diff that has come, or that is to be fetched from its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Delivered {
    pub(crate) page: u32,
    pub(crate) order: u64,
    pub(crate) is_whole: bool,
    pub(crate) words: Words,
}

/// The words of a diff, or where they are in the storage of the domain that made it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Words {
    Here(Vec<u32>),
    Stored { at: usize, words: usize },
}

impl Words {
    /// Returns their number, that of runs included.
    pub(crate) fn len(&self) -> usize {
        match self {
            Words::Here(words) => words.len(),
            Words::Stored { words, .. } => *words,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The domain's state is being changed at this moment.
    Busy,
    Diffs {
        diffs: Vec<Delivered>,
        rest: Vec<Wanted>,
    },
}

pub(crate) fn write_request(home: Rank, wanted: &[Wanted]) -> Writer {
    let mut writer = Writer::default();
    writer.number(home.0);
    for wanted in wanted {
        writer.number(wanted.page);
        writer.wide(wanted.after);
        writer.wide(wanted.upto.saturating_sub(wanted.after));
    }
    writer
}

fn read_request(asked: &[u8]) -> Result<(Rank, Vec<Wanted>)> {
    let mut reader = Reader::new(asked);
    let home = Rank(reader.number()?);
    let mut wanted = Vec::new();
    while !reader.is_empty() {
        let (page, after) = (reader.number()?, reader.wide()?);
        let upto = after.saturating_add(reader.wide()?);
        wanted.push(Wanted { page, after, upto });
    }
    Ok((home, wanted))
}

/// Answers a request, as the agent of the node, in at most `bytes_max` bytes. A request that makes
/// no sense gets an empty reply.
pub(crate) fn serve(served: &Served, bytes_max: usize, asked: &[u8]) -> Vec<u8> {
    let Ok((home, wanted)) = read_request(asked) else { return Vec::new() };
    let table = {
        let served = served.lock().unwrap_or_else(PoisonError::into_inner);
        served.iter().find(|(rank, _)| *rank == home).map(|(_, table)| table.clone())
    };
    let Some(table) = table else { return Vec::new() };
    if wanted.iter().any(|wanted| wanted.page as usize >= table.extents.pages) {
        return Vec::new();
    }
    let mut writer = Writer::default();
    let Some(section) = table.try_lock() else {
        writer.number(BUSY);
        return writer.into_bytes();
    };
    let mut answered = 0;
    let mut diffs = Writer::default();
    for wanted in &wanted {
        let noticed = section.field(wanted.page, super::table::Field::Noticed);
        let is_wanted = noticed > wanted.after && noticed <= wanted.upto;
        if is_wanted && let Err(full) = section.end_chain(wanted.page) {
            writer.number(NO_ROOM);
            writer.number(full.wanted_words as u32);
            return writer.into_bytes();
        }
        let mut stored = section.stored(wanted.page, wanted.after, wanted.upto);
        let used = diffs.bytes().len() + HEADER_NUMBERS + PAGE_NUMBERS;
        let fit = bytes_max.saturating_sub(used) / DIFF_NUMBERS;
        if fit == 0 {
            break;
        }
        let reached = if stored.len() > fit { stored[fit - 1].number } else { wanted.upto };
        stored.truncate(fit);
        answered += 1;
        diffs.number(stored.len() as u32);
        diffs.wide(reached - wanted.after);
        for (at, diff) in stored.iter().enumerate() {
            let later = (stored.len() - at) * DIFF_NUMBERS;
            let used = diffs.bytes().len() + HEADER_NUMBERS + later;
            let is_here = used + diff.words * 4 <= bytes_max;
            section.note_wanted(wanted.page, diff);
            diffs.wide(diff.order);
            let is_whole = section.is_whole(diff);
            diffs.number(2 * diff.words as u32 + u32::from(is_whole));
            diffs.number(if is_here { 0 } else { diff.at as u32 + 1 });
            if is_here {
                let mut words = vec![0u32; diff.words];
                if !section.diffs.get(diff.at as u64 * 4, words.as_mut_bytes()) {
                    return Vec::new();
                }
                diffs.raw(words.as_bytes());
            }
        }
    }
    drop(section);
    writer.number(DONE);
    writer.number(answered);
    writer.raw(diffs.bytes());
    writer.into_bytes()
}

pub(crate) fn read_answer(wanted: &[Wanted], reply: &[u8]) -> Result<Answer> {
    if reply.is_empty() {
        let what = "a page was requested of shared memory that is closed or never existed".into();
        return Err(Error::InvalidState(what));
    }
    let mut reader = Reader::new(reply);
    match reader.number()? {
        BUSY => return Ok(Answer::Busy),
        NO_ROOM => {
            let bytes = u64::from(reader.number()?) * 4;
            return Err(Error::Exhausted(format!(
                "{bytes} bytes of diffs do not fit into a node's storage between two barriers of \
                 all ranks: call barriers more often, or raise `storage_max`"
            )));
        }
        _ => {}
    }
    let pages = reader.number()? as usize;
    if pages > wanted.len() || (pages == 0 && !wanted.is_empty()) {
        let what = format!("{pages} of {} pages were answered for", wanted.len());
        return Err(Error::Internal(what));
    }
    let mut diffs = Vec::new();
    let mut rest = wanted[pages..].to_vec();
    for wanted in &wanted[..pages] {
        let (count, reached) = (reader.number()?, wanted.after.saturating_add(reader.wide()?));
        if reached < wanted.upto {
            rest.push(Wanted { after: reached, ..*wanted });
        }
        for _ in 0..count {
            let (order, words, place) = (reader.wide()?, reader.number()?, reader.number()?);
            let (words, is_whole) = ((words / 2) as usize, words % 2 == 1);
            let words = match place {
                0 => {
                    let bytes = reader.raw(words * 4)?;
                    let mut here = vec![0u32; words];
                    here.as_mut_bytes().copy_from_slice(bytes);
                    Words::Here(here)
                }
                place => Words::Stored { at: place as usize - 1, words },
            };
            diffs.push(Delivered { page: wanted.page, order, is_whole, words });
        }
    }
    Ok(Answer::Diffs { diffs, rest })
}
