//! Records sixteen ranks and writes the recording twice: as a file for Perfetto, and as a page for
//! any browser.
//!
//! `cargo run --release --example trace -p farside-inspect [DIRECTORY]`

use std::fs::File;
use std::path::PathBuf;
use std::time::Instant;

use farside::fabric::tracing::Trace;
use farside::{Local, Rank, Result, Topology, World};
use farside_inspect::trace;

const RANKS: u32 = 16;
const NODES: &str = "node:2";
const ROUNDS: u64 = 4;
const CELLS: usize = 512;

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let directory = match std::env::args_os().nth(1) {
        Some(directory) => PathBuf::from(directory),
        None => tempfile::tempdir()?.keep(),
    };
    std::fs::create_dir_all(&directory)?;

    let start = Instant::now();
    let recording = Trace::new(move || start.elapsed().as_nanos() as u64);
    let recorder = recording.clone();
    Local::new(RANKS)?
        .topology(NODES)
        .decorate(move |fabric| recorder.over(fabric))
        .run(exchange)?;

    let (slices, topology) = (recording.take(), Topology::parse(NODES, RANKS)?);
    let (json, page) = (directory.join("trace.json"), directory.join("trace.html"));
    let recorded = trace::Recorded::new(&slices, &topology);
    trace::chrome(&recorded, &mut File::create(&json)?)?;
    trace::page(&recorded, "An exchange between sixteen ranks", &mut File::create(&page)?)?;
    println!("{} operations of {RANKS} ranks", slices.len());
    println!("for https://ui.perfetto.dev: {}", json.display());
    println!("for any browser: {}", page.display());
    Ok(())
}

/// Each rank gives its neighbour a row, looks at the row of the rank opposite, and counts itself in
/// at rank 0.
fn exchange(world: &World) -> Result<()> {
    let me = world.rank().0;
    let neighbour = Rank((me + 1) % world.size());
    let opposite = Rank((me + world.size() / 2) % world.size());
    let cells = world.window::<f64>(CELLS)?;
    let words = world.words(2)?;
    world.sync()?;
    let mut seen = vec![0.0; CELLS];
    for round in 1..=ROUNDS {
        world.put_signal(
            &vec![f64::from(me); CELLS],
            cells.at(neighbour, 0),
            round,
            words.at(neighbour, 0),
        )?;
        world.wait(words.at(world.rank(), 0), |arrived| arrived >= round)?;
        world.get(cells.at(opposite, 0), &mut seen)?;
        world.accumulate(0.5, &seen[..8], cells.at(opposite, 0))?;
        world.fetch_add(words.at(Rank(0), 1), 1)?;
        world.barrier()?;
    }
    cells.free(world)?;
    words.free(world)
}
