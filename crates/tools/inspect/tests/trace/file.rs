//! The file for Perfetto, read by the types of `tracing-chrometrace`, which know nothing of this
//! writer.

use std::collections::{BTreeMap, BTreeSet};

use farside::fabric::observed::{Kind, Operation};
use farside::fabric::tracing::Slice;
use farside::{Rank, Topology};
use farside_inspect::trace::Recorded;
use serde_json::Value;
use tracing_chrometrace::{ChromeEvent, Phase};

use crate::recording::{RANKS, landings, record, serve, simulate, topology};

/// A process and a thread of it.
type Track = (u64, u64);

struct File {
    events: Vec<ChromeEvent>,
    /// The same events with the fields that the types leave out.
    raw: Vec<Value>,
}

impl File {
    /// Writes and reads back.
    fn of(slices: &[Slice], topology: &Topology) -> File {
        File::of_all(&Recorded::new(slices, topology))
    }

    /// Likewise, with what was executed for others.
    fn of_all(recorded: &Recorded<'_>) -> File {
        let mut json = Vec::new();
        farside_inspect::trace::chrome(recorded, &mut json).unwrap();
        let mut file: Value = serde_json::from_slice(&json).unwrap();
        assert_eq!(file["displayTimeUnit"], "ns");
        assert_eq!(file["otherData"]["clock_error_ns"], recorded.clock_error_ns);
        let events = file["traceEvents"].take();
        let raw = events.as_array().unwrap().clone();
        File { events: serde_json::from_value(events).unwrap(), raw }
    }

    fn of_phase(&self, phase: Phase) -> impl Iterator<Item = &ChromeEvent> {
        self.events.iter().filter(move |event| event.ph == phase)
    }

    fn operations(&self) -> impl Iterator<Item = &ChromeEvent> {
        self.of_phase(Phase::Complete).filter(|event| event.cat == "operation")
    }

    /// The names that tracks have, in the order in which they are to be shown.
    fn tracks(&self) -> Vec<(Track, String)> {
        let mut places: BTreeMap<Track, u64> = BTreeMap::new();
        let mut names: Vec<(Track, String)> = Vec::new();
        for event in self.of_phase(Phase::Metadata) {
            match &*event.name {
                "thread_name" => names
                    .push((track(event), event.args.get("name").unwrap().as_str().unwrap().into())),
                "thread_sort_index" => {
                    places.insert(
                        track(event),
                        event.args.get("sort_index").unwrap().as_u64().unwrap(),
                    );
                }
                _ => {}
            }
        }
        names.sort_by_key(|(track, _)| (track.0, places[track]));
        names
    }
}

fn track(event: &ChromeEvent) -> Track {
    (event.pid, event.tid)
}

fn nanoseconds(micros: f64) -> u64 {
    (micros * 1000.0).round() as u64
}

fn span(event: &ChromeEvent) -> (u64, u64) {
    (nanoseconds(event.ts), nanoseconds(event.ts) + nanoseconds(event.dur.unwrap_or(0.0)))
}

#[test]
fn every_rank_has_a_named_track_in_the_process_of_its_node() {
    let file = File::of(&record(), &topology());
    let expected: Vec<String> = (0..RANKS).map(|rank| format!("rank {rank}")).collect();
    let tracks = file.tracks();
    assert_eq!(tracks.iter().map(|(_, name)| name.clone()).collect::<Vec<_>>(), expected);
    let processes: Vec<_> =
        file.of_phase(Phase::Metadata).filter(|event| event.name == "process_name").collect();
    let names: Vec<_> =
        processes.iter().map(|event| event.args.get("name").unwrap().as_str().unwrap()).collect();
    assert_eq!(names, ["node 0", "node 1"]);
    let known: BTreeSet<Track> = tracks.iter().map(|(track, _)| *track).collect();
    assert_eq!(known.len(), RANKS as usize, "two ranks share a track");
    assert!(
        file.events.iter().all(|event| known.contains(&track(event))),
        "an event is on a track without a name"
    );
}

#[test]
fn operations_are_all_there_with_their_times_to_the_nanosecond() {
    let slices = record();
    let file = File::of(&slices, &topology());
    let start_ns = slices.iter().map(|slice| slice.begin_ns).min().unwrap();
    let mut expected: Vec<_> = slices
        .iter()
        .map(|slice| {
            let peer = slice.operation.peer.map(|peer| u64::from(peer.0));
            let times = (slice.begin_ns - start_ns, slice.end_ns - start_ns);
            (
                format!("rank {}", slice.rank.0),
                slice.operation.kind.name().to_owned(),
                times,
                peer,
                slice.operation.bytes,
            )
        })
        .collect();
    let names: BTreeMap<Track, String> = file.tracks().into_iter().collect();
    let number =
        |event: &ChromeEvent, name| event.args.get(name).map(|value| value.as_u64().unwrap());
    let mut written: Vec<_> = file
        .operations()
        .map(|event| {
            let (peer, bytes) = (number(event, "peer"), number(event, "bytes").unwrap());
            (names[&track(event)].clone(), event.name.to_string(), span(event), peer, bytes)
        })
        .collect();
    expected.sort();
    written.sort();
    assert!(!written.is_empty());
    assert_eq!(written, expected);
}

/// Asserts that slices of one track are inside of each other or apart, an outer one before those
/// inside of it.
fn nests(file: &File) {
    let mut open: BTreeMap<Track, Vec<(u64, u64)>> = BTreeMap::new();
    for event in file.of_phase(Phase::Complete) {
        let (begin, end) = span(event);
        let stack = open.entry(track(event)).or_default();
        assert!(stack.last().is_none_or(|outer| outer.0 <= begin), "{event:?} is not in order");
        stack.retain(|outer| outer.1 > begin);
        assert!(stack.iter().all(|outer| end <= outer.1), "{event:?} crosses the end of another");
        stack.push((begin, end));
    }
}

#[test]
fn slices_of_a_track_nest_or_are_apart() {
    nests(&File::of(&record(), &topology()));
    nests(&File::of(&simulate(), &topology()));
}

#[test]
fn every_arrow_leads_from_an_operation_to_its_landing() {
    arrows_lead_to_landings(&record());
    arrows_lead_to_landings(&simulate());
}

fn arrows_lead_to_landings(slices: &[Slice]) {
    let file = File::of(slices, &topology());
    let starts: BTreeMap<&str, &ChromeEvent> =
        file.of_phase(Phase::FlowStart).map(|event| (&*event.id, event)).collect();
    let ends: BTreeMap<&str, &ChromeEvent> =
        file.of_phase(Phase::FlowEnd).map(|event| (&*event.id, event)).collect();
    assert!(landings(slices) > 0);
    assert_eq!(file.of_phase(Phase::FlowStart).count(), landings(slices));
    assert_eq!(file.of_phase(Phase::FlowEnd).count(), landings(slices));
    assert_eq!(starts.len(), landings(slices), "two arrows share a number");
    assert_eq!(starts.keys().collect::<Vec<_>>(), ends.keys().collect::<Vec<_>>());
    let mut slice_at: BTreeMap<(Track, String, u64), &ChromeEvent> = BTreeMap::new();
    for event in file.of_phase(Phase::Complete) {
        slice_at.insert((track(event), event.name.to_string(), span(event).0), event);
    }
    for (id, start) in starts {
        let end = ends[id];
        assert!(end.ts >= start.ts, "{end:?} is before {start:?}");
        assert_eq!(
            (&start.name, &start.cat),
            (&end.name, &end.cat),
            "readers match arrows by these, too"
        );
        let operation = slice_at[&(track(start), start.name.to_string(), span(start).0)];
        let landing = slice_at[&(track(end), format!("{} lands", end.name), span(end).0)];
        let target = operation.args.get("peer").unwrap().as_u64().unwrap();
        assert_eq!(end.tid, target + 1, "{operation:?} lands at {landing:?}");
    }
    let ends: Vec<&Value> = file.raw.iter().filter(|event| event["ph"] == "f").collect();
    assert!(
        ends.iter().all(|event| event["bp"] == "e"),
        "an arrow's end is bound to the next slice, not to its own"
    );
}

#[test]
fn threads_of_one_rank_get_tracks_of_their_own() {
    let operation = Operation { kind: Kind::Put, peer: Some(Rank(1)), bytes: 8 };
    let slice = |begin_ns, end_ns| Slice {
        rank: Rank(0),
        operation,
        begin_ns,
        end_ns,
        landed_ns: Some(end_ns),
    };
    let file = File::of(&[slice(0, 10), slice(5, 15), slice(12, 20)], &Topology::flat(2));
    nests(&file);
    let names: Vec<String> = file.tracks().into_iter().map(|(_, name)| name).collect();
    assert_eq!(names, ["rank 0", "rank 0, row 2", "rank 1"]);
    assert_eq!(file.operations().filter(|event| event.tid == 1).count(), 2);
}

#[test]
fn those_who_serve_have_tracks_in_the_process_of_their_node() {
    let (slices, topology) = (record(), topology());
    let services = serve(&slices);
    let recorded =
        Recorded { services: &services, clock_error_ns: 21, ..Recorded::new(&slices, &topology) };
    let file = File::of_all(&recorded);
    nests(&file);
    let names: BTreeMap<Track, String> = file.tracks().into_iter().collect();
    let of_servers: Vec<(u64, &str)> = names
        .iter()
        .filter(|(_, name)| !name.starts_with("rank"))
        .map(|(track, name)| (track.0, &**name))
        .collect();
    let expected = [
        (1, "agent of node 0"),
        (1, "handlers of node 0"),
        (2, "agent of node 1"),
        (2, "handlers of node 1"),
    ];
    assert_eq!(of_servers, expected);
    let number = |event: &ChromeEvent, name| event.args.get(name).and_then(Value::as_u64);
    let mut written: Vec<_> = file
        .of_phase(Phase::Complete)
        .filter(|event| event.cat == "service")
        .map(|event| {
            let name = names[&track(event)].clone();
            let (from, target) = (number(event, "from"), number(event, "target"));
            (span(event), name, event.name.to_string(), from, target, number(event, "bytes"))
        })
        .collect();
    let start_ns = slices.iter().map(|slice| slice.begin_ns).min().unwrap();
    let mut expected: Vec<_> = services
        .iter()
        .map(|service| {
            let rank = |rank: Option<Rank>| rank.map(|rank| u64::from(rank.0));
            let Operation { kind, peer, bytes } = service.operation;
            let times = (service.begin_ns - start_ns, service.end_ns - start_ns);
            let (name, kind) = (service.server.to_string(), kind.name().to_owned());
            (times, name, kind, rank(peer), rank(service.target), Some(bytes))
        })
        .collect();
    written.sort();
    expected.sort();
    assert!(!written.is_empty());
    assert_eq!(written, expected);
    assert_eq!(file.operations().count(), slices.len());
}

#[test]
fn an_empty_recording_still_names_its_ranks() {
    let file = File::of(&[], &topology());
    assert_eq!(file.tracks().len(), RANKS as usize);
    assert!(file.events.iter().all(|event| event.ph == Phase::Metadata));
}
