//! Memory of a process that others cannot reach: a thread of that process reads and writes it for
//! them.
//!
//! A rank that serves has a mailbox in its control memory. An origin takes the mailbox, writes a
//! list of pieces and their bytes, tells the thread, waits for its answer, and lets the mailbox go.
//! One mailbox serves one origin at a time; it is the way for memory that nothing better reaches.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use farside::{Context, Error, Place, Rank, Result, WaitOptions};

use crate::foreign::{Piece, Unreachable, Way};
use crate::runtime::{Runtime, Service, Serving};

/// The words of a rank's control memory, in bytes from its start.
const TAKEN: u64 = 64;
/// Counts requests: odd while one is to be served.
const TURN: u64 = 128;
/// How many pieces are listed, whether they are written, and whether that was refused.
const COUNT: u64 = 192;
const IS_WRITE: u64 = 200;
const REFUSED: u64 = 208;
/// The list: an address and a length for each piece.
const LIST: u64 = 4096;
const LIST_PIECES: usize = 2048;
const DATA: u64 = LIST + 16 * LIST_PIECES as u64;
const DATA_BYTES: usize = 64 << 10;
pub(crate) const CONTROL_BYTES: u64 = DATA + DATA_BYTES as u64;

impl Service {
    /// Starts to serve, unless this rank does already.
    pub(crate) fn start(&self, runtime: &Runtime) -> Result<()> {
        if self.thread.borrow().is_some() {
            return Ok(());
        }
        let ends = Arc::new(AtomicBool::new(false));
        let context = Alone(runtime.world.context()?);
        let (control, told) = (runtime.control.clone(), Arc::clone(&ends));
        let serve = move || {
            let context = context;
            serve(&context.0, &control, &told);
        };
        let thread = std::thread::Builder::new()
            .name("farside-mpi".into())
            .spawn(serve)
            .map_err(|error| Error::Unsupported { what: format!("a service thread: {error}") })?;
        *self.thread.borrow_mut() = Some(Serving { ends, thread });
        Ok(())
    }

    pub(crate) fn stop(&self, runtime: &Runtime) {
        let Some(Serving { ends, thread }) = self.thread.borrow_mut().take() else { return };
        ends.store(true, Ordering::SeqCst);
        let turn: Place<'_, u64> = runtime.control.at(runtime.world.rank(), TURN).cast();
        // It is told by a word that asks for nothing.
        let _ = runtime.world.fetch_add(turn, 2);
        let _ = thread.join();
    }

    /// Has a rank read or write pieces of its memory, whose bytes are packed on this side.
    pub(crate) fn transfer(
        &self,
        runtime: &Runtime,
        rank: Rank,
        pieces: &[Piece],
        mut way: Way<'_>,
    ) -> Result<()> {
        let taken = runtime.hold(rank, TAKEN)?;
        let chunks = pieces.iter().flat_map(|piece| {
            (0..piece.bytes).step_by(DATA_BYTES).map(move |at| Piece {
                address: piece.address.wrapping_add(at),
                bytes: (piece.bytes - at).min(DATA_BYTES),
            })
        });
        let (mut chunks, mut done) = (chunks.peekable(), 0);
        while chunks.peek().is_some() {
            let (mut some, mut bytes) = (Vec::new(), 0);
            while let Some(chunk) = chunks
                .next_if(|chunk| some.len() < LIST_PIECES && bytes + chunk.bytes <= DATA_BYTES)
            {
                bytes += chunk.bytes;
                some.push(chunk);
            }
            let part = done..done + bytes;
            match &mut way {
                Way::Write(from) => ask(runtime, rank, &some, Way::Write(&from[part]))?,
                Way::Read(into) => ask(runtime, rank, &some, Way::Read(&mut into[part]))?,
            }
            done += bytes;
        }
        taken.release()
    }
}

/// One request, with the mailbox taken.
fn ask(runtime: &Runtime, rank: Rank, pieces: &[Piece], way: Way<'_>) -> Result<()> {
    let (world, control) = (&runtime.world, &runtime.control);
    let word = |at: u64| -> Place<'_, u64> { control.at(rank, at).cast() };
    let is_write = matches!(way, Way::Write(_));
    let list: Vec<u64> =
        pieces.iter().flat_map(|piece| [piece.address as u64, piece.bytes as u64]).collect();
    world.put(&[pieces.len() as u64, is_write.into(), 0], word(COUNT))?;
    world.put(&list, word(LIST))?;
    if let Way::Write(from) = &way {
        world.put(from, control.at(rank, DATA))?;
    }
    world.fence()?;
    let asked = world.fetch_add(word(TURN), 1)? + 1;
    // It is served whoever else is lost meanwhile, and the mailbox is in use until then.
    while world.load(word(TURN))? == asked {
        world.relax_among(&[rank])?;
    }
    if world.load(word(REFUSED))? != 0 {
        let first = pieces.first().map_or(0, |piece| piece.address);
        let bytes = pieces.iter().map(|piece| piece.bytes).sum();
        return Err(Unreachable { rank, first, bytes }.into());
    }
    match way {
        Way::Read(into) => world.get(control.at(rank, DATA), into),
        Way::Write(_) => Ok(()),
    }
}

/// A context that another thread takes with it.
struct Alone(Context);

// SAFETY: it was made for the thread that takes it, and no other uses it.
unsafe impl Send for Alone {}

fn serve(context: &Context, control: &farside::raw::Memory, ends: &AtomicBool) {
    let me = context.rank();
    let word = |at: u64| -> Place<'_, u64> { control.at(me, at).cast() };
    while !ends.load(Ordering::SeqCst) {
        // A time limit, should the news be lost that the job ends. Whoever else is lost, those who
        // have asked wait for an answer.
        let slice = WaitOptions { timeout: Some(Duration::from_millis(200)), soon: true };
        match context.wait_among(&[me], word(TURN), |turn| turn % 2 == 1, slice) {
            Ok(_) => {}
            Err(Error::TimedOut { .. }) => continue,
            Err(_) => return,
        }
        if answer(context, control, me).is_err() {
            return;
        }
    }
}

fn answer(context: &Context, control: &farside::raw::Memory, me: Rank) -> Result<()> {
    let word = |at: u64| -> Place<'_, u64> { control.at(me, at).cast() };
    let is_write = context.load(word(IS_WRITE))? != 0;
    let mut list = vec![0u64; 2 * (context.load(word(COUNT))? as usize).min(LIST_PIECES)];
    context.get(word(LIST), &mut list)?;
    // An origin lists no more bytes than there is room for.
    let mut room = DATA_BYTES;
    let piece = |&[address, bytes]: &[u64; 2]| {
        let bytes = (bytes as usize).min(room);
        room -= bytes;
        Piece { address: address as usize, bytes }
    };
    let mine: Vec<Piece> = list.as_chunks().0.iter().map(piece).collect();
    let bytes = DATA_BYTES - room;
    let box_at = control.base().as_ptr().wrapping_add(DATA as usize);
    let process = std::process::id() as i32;
    // The kernel copies: an address that the origin got wrong is an error and not a fault.
    // SAFETY: the mailbox is this rank's until it has answered.
    let copied = unsafe {
        if is_write {
            let from = std::slice::from_raw_parts(box_at, bytes);
            crate::foreign::transfer(me, process, &mine, Way::Write(from))
        } else {
            let into = std::slice::from_raw_parts_mut(box_at, bytes);
            crate::foreign::transfer(me, process, &mine, Way::Read(into))
        }
    };
    if let Err(Error::Unsupported { .. }) = copied {
        // Not even a process's own memory by way of the kernel: then directly.
        let mut here = box_at;
        for piece in &mine {
            let there = std::ptr::with_exposed_provenance_mut::<u8>(piece.address);
            let (to, from) = if is_write { (there, here) } else { (here, there) };
            // SAFETY: the origin's window says that it is this process's memory, and the mailbox
            // has room for all pieces.
            unsafe { to.copy_from(from, piece.bytes) };
            here = here.wrapping_add(piece.bytes);
        }
    }
    let refused = copied.is_err_and(|error| !matches!(error, Error::Unsupported { .. }));
    context.store(word(REFUSED), u64::from(refused))?;
    context.fetch_add(word(TURN), 1).map(drop)
}
