//! The Trace Event Format, as JSON, which Perfetto and the trace viewers of browsers read.
//!
//! What the format asks for and where it is met: slices on one track nest or are apart (a rank's
//! overlapping operations are on tracks of their own); an arrow begins and ends inside a slice (an
//! operation's landing is a slice of one nanosecond, which, as times are whole nanoseconds, cannot
//! cross the edge of another); times are microseconds with a fraction; of events at one time the
//! outer slice comes first, and an arrow's end right behind its slice.

use std::cmp::Reverse;
use std::io::{self, BufWriter, Write};

use farside_fabric::{Node, Rank, Topology};

use super::{Bar, Landing, Recorded, Timeline};

/// How long the slice is that an arrow ends in.
const LANDING_NS: u64 = 1;

/// Writes a recording as JSON for [Perfetto](https://ui.perfetto.dev): a process for each node, a
/// track for each rank and for each thread that executed operations for others, a slice for each
/// operation, and an arrow to its target for each operation that is known to have landed.
///
/// If the nodes have clocks of their own, `clock_error_ns` in the file's `otherData` says how well
/// their times fit.
///
/// ```
/// use farside_fabric::observed::{Kind, Operation};
/// use farside_fabric::{Rank, Topology, tracing::Slice};
///
/// let operation = Operation { kind: Kind::Put, peer: Some(Rank(1)), bytes: 64 };
/// let (begin_ns, end_ns, landed_ns) = (1_000, 1_250, Some(1_900));
/// let slice = Slice { rank: Rank(0), operation, begin_ns, end_ns, landed_ns };
/// let mut json = Vec::new();
/// let (slices, topology) = ([slice], Topology::flat(2));
/// let recorded = farside_inspect::trace::Recorded::new(&slices, &topology);
/// farside_inspect::trace::chrome(&recorded, &mut json)?;
/// let json = String::from_utf8(json).unwrap();
/// assert!(json.contains(r#""name":"put","cat":"operation","ph":"X","ts":0.000,"dur":0.250"#));
/// assert!(json.contains(r#""name":"put lands""#));
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
///
/// Those of `out`, and one that names the rank if the recording has one that its topology does not.
pub fn chrome(recorded: &Recorded<'_>, out: &mut dyn Write) -> io::Result<()> {
    let (timeline, topology) = (&Timeline::new(recorded)?, recorded.topology);
    let mut events = Events { out: BufWriter::new(out), timeline, topology, is_first: true };
    events.out.write_all(b"{\"displayTimeUnit\":\"ns\",")?;
    write!(events.out, "\"otherData\":{{\"clock_error_ns\":{}}},", recorded.clock_error_ns)?;
    events.out.write_all(b"\"traceEvents\":[")?;
    for node in 0..topology.nodes() {
        events.name_node(Node(node))?;
    }
    for moment in moments(timeline) {
        match moment.landing {
            None => events.operation(moment.number, moment.bar)?,
            Some(landing) => events.landing(moment.number, moment.bar, landing)?,
        }
    }
    events.out.write_all(b"\n]}\n")?;
    events.out.flush()
}

/// The beginning of a slice in the file: of an operation, or of its landing.
struct Moment<'a> {
    bar: &'a Bar,
    /// The operation's place in the timeline.
    number: usize,
    landing: Option<Landing>,
}

impl Moment<'_> {
    /// The key that puts outer slices before inner ones.
    fn order(&self) -> (u64, Reverse<u64>, usize) {
        match self.landing {
            None => (self.bar.begin_ns, Reverse(self.bar.end_ns), self.number),
            Some(landing) => (landing.at_ns, Reverse(landing.at_ns + LANDING_NS), self.number),
        }
    }
}

/// All slices in the order of the file.
fn moments(timeline: &Timeline) -> Vec<Moment<'_>> {
    let mut moments = Vec::new();
    for (number, bar) in timeline.bars.iter().enumerate() {
        moments.push(Moment { bar, number, landing: None });
        if bar.landing.is_some() {
            moments.push(Moment { bar, number, landing: bar.landing });
        }
    }
    moments.sort_by_key(Moment::order);
    moments
}

/// The list of events, as it is written. Nothing in it needs escaping: all texts are made of the
/// names of kinds, and of numbers.
struct Events<'a> {
    out: BufWriter<&'a mut dyn Write>,
    timeline: &'a Timeline,
    topology: &'a Topology,
    is_first: bool,
}

impl Events<'_> {
    /// Names a node and the tracks of its ranks and of those who serve them, and puts them into the
    /// order of their numbers.
    fn name_node(&mut self, node: Node) -> io::Result<()> {
        let Some(&first) = self.topology.ranks_of(node).first() else { return Ok(()) };
        self.name(first.0, 0, "process", &format!("node {}", node.0), u64::from(node.0))?;
        let (timeline, topology) = (self.timeline, self.topology);
        let is_here = |&track: &u32| timeline.node_of(track, topology) == node;
        for track in (0..timeline.tracks()).filter(is_here) {
            let own = match track.checked_sub(topology.ranks()) {
                None => format!("rank {track}"),
                Some(server) => timeline.servers[server as usize].to_string(),
            };
            for lane in 0..timeline.lanes[track as usize] {
                let name = match lane {
                    0 => own.clone(),
                    _ => format!("{own}, row {}", lane + 1),
                };
                self.name(track, lane, "thread", &name, u64::from(track) << 16 | u64::from(lane))?;
            }
        }
        Ok(())
    }

    /// The two events that name a process or a thread and give it its place.
    fn name(
        &mut self,
        track: u32,
        lane: u32,
        what: &str,
        name: &str,
        place: u64,
    ) -> io::Result<()> {
        let track = self.track(track, lane);
        for (event, value) in [("name", format!("\"{name}\"")), ("sort_index", place.to_string())] {
            self.separate()?;
            write!(
                self.out,
                concat!(
                    r#"{{"name":"{what}_{event}","cat":"__metadata","ph":"M","ts":0,{track},"#,
                    r#""args":{{"{event}":{value}}}}}"#
                ),
                what = what,
                event = event,
                track = track,
                value = value
            )?;
        }
        Ok(())
    }

    /// The slice of an operation, and the beginning of its arrow.
    fn operation(&mut self, number: usize, bar: &Bar) -> io::Result<()> {
        let (kind, bytes) = (bar.operation.kind.name(), bar.operation.bytes);
        let (begin, duration) = (micros(bar.begin_ns), micros(bar.end_ns - bar.begin_ns));
        let track = self.track(bar.track, bar.lane);
        let is_served = bar.track >= self.topology.ranks();
        let (category, peer) = if is_served { ("service", "from") } else { ("operation", "peer") };
        let known = |name: &str, rank: Option<Rank>| {
            rank.map_or(String::new(), |rank| format!("\"{name}\":{},", rank.0))
        };
        let ranks = known(peer, bar.operation.peer) + &known("target", bar.target);
        let over = if bar.is_over { "" } else { "\"over\":false," };
        self.separate()?;
        let place = format!(r#""ph":"X","ts":{begin},"dur":{duration},{track}"#);
        let args = format!(r#"{{{ranks}{over}"bytes":{bytes}}}"#);
        write!(self.out, r#"{{"name":"{kind}","cat":"{category}",{place},"args":{args}}}"#)?;
        if bar.landing.is_some() {
            self.separate()?;
            let tied = format!(r#""cat":"landing","ph":"s","id":"{number}""#);
            write!(self.out, r#"{{"name":"{kind}",{tied},"ts":{begin},{track}}}"#)?;
        }
        Ok(())
    }

    /// The slice of a landing on the target's track, and the end of the arrow in it.
    fn landing(&mut self, number: usize, bar: &Bar, landing: Landing) -> io::Result<()> {
        let (kind, bytes) = (bar.operation.kind.name(), bar.operation.bytes);
        let (at, duration) = (micros(landing.at_ns), micros(LANDING_NS));
        let (track, from) = (self.track(landing.target.0, 0), bar.track);
        self.separate()?;
        let place = format!(r#""ph":"X","ts":{at},"dur":{duration},{track}"#);
        let args = format!(r#"{{"from":{from},"bytes":{bytes}}}"#);
        write!(self.out, r#"{{"name":"{kind} lands","cat":"landing",{place},"args":{args}}}"#)?;
        self.separate()?;
        let tied = format!(r#""cat":"landing","ph":"f","bp":"e","id":"{number}""#);
        write!(self.out, r#"{{"name":"{kind}",{tied},"ts":{at},{track}}}"#)
    }

    /// The two fields that say which track an event is on. Both count from 1, as 0 means the idle
    /// task to readers, and no two tracks share a thread's number, not even on different nodes, as
    /// readers take it for a name by itself.
    fn track(&self, track: u32, lane: u32) -> String {
        let node = u64::from(self.timeline.node_of(track, self.topology).0);
        let thread = u64::from(lane) * u64::from(self.timeline.tracks()) + u64::from(track);
        format!(r#""pid":{},"tid":{}"#, node + 1, thread + 1)
    }

    fn separate(&mut self) -> io::Result<()> {
        let separator: &[u8] = if self.is_first { b"\n" } else { b",\n" };
        self.is_first = false;
        self.out.write_all(separator)
    }
}

/// Microseconds as a decimal number that loses nothing.
fn micros(ns: u64) -> String {
    format!("{}.{:03}", ns / 1000, ns % 1000)
}
