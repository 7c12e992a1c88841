//! Traces for people to look at: a file for Perfetto, or a page that needs nothing but a browser.
//!
//! A [`Trace`](farside_fabric::tracing::Trace) in front of every rank's fabric records; [`chrome`]
//! and [`page`] write down what it took:
//!
//! ```
//! use std::time::Instant;
//!
//! use farside::fabric::tracing::Trace;
//! use farside::{Local, Rank, Topology};
//!
//! let start = Instant::now();
//! let recording = Trace::new(move || start.elapsed().as_nanos() as u64);
//! let recorder = recording.clone();
//! Local::new(4)?.decorate(move |fabric| recorder.over(fabric)).run(|world| {
//!     let window = world.window::<u64>(1)?;
//!     world.put_value(7, window.at(Rank(0), 0))?;
//!     window.free(&world)
//! })?;
//! let slices = recording.take();
//! let mut page = Vec::new();
//! farside_trace::page(&slices, &Topology::flat(4), "four puts", &mut page)?;
//! assert!(page.starts_with(b"<!doctype html>"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Both start their time at the earliest operation. Both draw an arrow from an operation to its
//! target where the recording knows when it landed there. Operations of one rank that overlap,
//! because several of its threads were at it, get a row each.

mod chrome;
mod page;

pub use chrome::chrome;
pub use page::page;

use std::io;

use farside_fabric::tracing::Slice;
use farside_fabric::{Rank, Topology};

/// The operations of a recording, each on a row of its rank, in the order in which they began.
struct Timeline {
    bars: Vec<Bar>,
    /// How many rows each rank needs; at least one.
    lanes: Vec<u32>,
}

/// An operation and where it is drawn. Times are nanoseconds since the earliest operation: they
/// stay small enough for the floating-point numbers that readers hold them in, whatever the clock's
/// beginning was.
struct Bar {
    slice: Slice,
    lane: u32,
    begin_ns: u64,
    end_ns: u64,
    /// When it landed, and with whom.
    landing: Option<Landing>,
}

#[derive(Clone, Copy)]
struct Landing {
    target: Rank,
    at_ns: u64,
}

impl Timeline {
    /// Puts every slice on a row. Fails if a slice names a rank that the topology does not have.
    fn new(slices: &[Slice], topology: &Topology) -> io::Result<Timeline> {
        for rank in
            slices.iter().flat_map(|slice| [Some(slice.rank), slice.operation.peer]).flatten()
        {
            if rank.0 >= topology.ranks() {
                let message = format!(
                    "the trace has rank {} but the topology only {} ranks",
                    rank.0,
                    topology.ranks()
                );
                return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
            }
        }
        let start_ns = slices.iter().map(|slice| slice.begin_ns).min().unwrap_or(0);
        let times = slices.iter().flat_map(|slice| [slice.begin_ns, slice.end_ns]);
        let last_ns = times.filter(|&time| time != Slice::NOT_OVER).max().unwrap_or(0);
        let bar = |slice: &Slice| Bar::new(slice, start_ns, last_ns);
        let mut bars: Vec<Bar> = slices.iter().map(bar).collect();
        bars.sort_by_key(|bar| (bar.begin_ns, bar.end_ns, bar.slice.rank));
        let mut busy_until: Vec<Vec<u64>> = vec![Vec::new(); topology.ranks() as usize];
        for bar in &mut bars {
            let lanes = &mut busy_until[bar.slice.rank.index()];
            let free =
                lanes.iter().position(|&end_ns| end_ns <= bar.begin_ns).unwrap_or(lanes.len());
            if free == lanes.len() {
                lanes.push(0);
            }
            lanes[free] = bar.end_ns;
            bar.lane = free as u32;
        }
        let lanes = busy_until.iter().map(|lanes| lanes.len().max(1) as u32).collect();
        Ok(Timeline { bars, lanes })
    }
}

impl Bar {
    fn is_over(&self) -> bool {
        self.slice.end_ns != Slice::NOT_OVER
    }

    /// An operation of a recording that begins and ends at these times; one that is not over is
    /// drawn to the end.
    fn new(slice: &Slice, start_ns: u64, last_ns: u64) -> Bar {
        let begin_ns = slice.begin_ns - start_ns;
        let end_ns = match slice.end_ns {
            Slice::NOT_OVER => last_ns,
            end_ns => end_ns,
        };
        let end_ns = end_ns.max(slice.begin_ns) - start_ns;
        // Nothing lands before it begins. A recording that says so mixes clocks, and readers drop
        // an arrow into the past.
        let landing = slice.operation.peer.zip(slice.landed_ns).map(|(target, landed_ns)| {
            Landing { target, at_ns: landed_ns.saturating_sub(start_ns).max(begin_ns) }
        });
        Bar { slice: *slice, lane: 0, begin_ns, end_ns, landing }
    }
}

#[cfg(test)]
mod tests {
    use farside_fabric::observed::{Kind, Operation};

    use super::*;

    fn slice(rank: u32, begin_ns: u64, end_ns: u64, landed_ns: Option<u64>) -> Slice {
        let operation = Operation { kind: Kind::Put, peer: Some(Rank(1)), bytes: 8 };
        Slice { rank: Rank(rank), operation, begin_ns, end_ns, landed_ns }
    }

    #[test]
    fn overlapping_operations_of_one_rank_are_on_rows_of_their_own() {
        let slices = [
            slice(0, 20, 30, None),
            slice(0, 10, 20, None),
            slice(0, 15, 25, None),
            slice(1, 10, 40, None),
        ];
        let timeline = Timeline::new(&slices, &Topology::flat(3)).unwrap();
        let placed: Vec<_> =
            timeline.bars.iter().map(|bar| (bar.slice.rank.0, bar.begin_ns, bar.lane)).collect();
        assert_eq!(placed, [(0, 0, 0), (1, 0, 0), (0, 5, 1), (0, 10, 0)]);
        assert_eq!(timeline.lanes, [2, 1, 1]);
    }

    #[test]
    fn nothing_lands_before_it_begins() {
        let slices = [slice(0, 100, 110, Some(105)), slice(0, 120, 130, Some(90))];
        let timeline = Timeline::new(&slices, &Topology::flat(2)).unwrap();
        let landings: Vec<_> = timeline.bars.iter().map(|bar| bar.landing.unwrap().at_ns).collect();
        assert_eq!(landings, [5, 20]);
    }

    #[test]
    fn a_rank_that_the_topology_does_not_have_is_named() {
        let error = Timeline::new(&[slice(7, 0, 1, None)], &Topology::flat(2)).err().unwrap();
        assert_eq!(error.to_string(), "the trace has rank 7 but the topology only 2 ranks");
    }
}
