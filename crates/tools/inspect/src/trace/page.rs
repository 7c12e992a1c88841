//! A page that shows a recording: one file that needs nothing but a browser.

use std::fmt::Display;
use std::io::{self, BufWriter, Write};

use farside_fabric::observed::Kind;

use super::{Bar, Recorded, Timeline};

/// The page, with marks where the parts go: its look, the title (twice), the recording, its
/// behaviour.
const PAGE: &str = include_str!("page/page.html");

const STYLE: &str = include_str!("page/page.css");

const SCRIPT: &str = concat!(
    include_str!("page/recording.js"),
    include_str!("page/picture.js"),
    include_str!("page/controls.js")
);

/// Writes a recording as a page of HTML: a row for each rank and for each thread that executed
/// operations for others, bars for operations, arrows to where they landed.
///
/// The page asks for nothing from any network. It zooms and pans with the mouse or the keys, and
/// its address keeps the view (`#from=1000&to=2500`, in nanoseconds since the first operation), so
/// that views can be shared.
///
/// ```
/// use farside_fabric::Topology;
///
/// let mut page = Vec::new();
/// let topology = Topology::flat(2);
/// let recorded = farside_inspect::trace::Recorded::new(&[], &topology);
/// farside_inspect::trace::page(&recorded, "a <quiet> job", &mut page)?;
/// assert!(String::from_utf8(page).unwrap().contains("<title>a &lt;quiet&gt; job</title>"));
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
///
/// Those of `out`, and one that names the rank if the recording has one that its topology does not.
pub fn page(recorded: &Recorded<'_>, title: &str, out: &mut dyn Write) -> io::Result<()> {
    let timeline = Timeline::new(recorded)?;
    let mut out = BufWriter::new(out);
    let mut rest = PAGE;
    // From mark to mark, so that marks in what was put in mean nothing.
    while let Some((above, (mark, below))) =
        rest.split_once("{{").and_then(|(a, b)| Some((a, b.split_once("}}")?)))
    {
        out.write_all(above.as_bytes())?;
        match mark {
            "title" => out.write_all(escaped(title).as_bytes())?,
            "style" => out.write_all(STYLE.as_bytes())?,
            "script" => out.write_all(SCRIPT.as_bytes())?,
            "trace" => write_trace(&timeline, recorded, &mut out)?,
            other => unreachable!("the page has the mark {other}"),
        }
        rest = below;
    }
    out.write_all(rest.as_bytes())?;
    out.flush()
}

/// The recording as JSON, a list for each column. Times are differences, which are short.
fn write_trace(
    timeline: &Timeline,
    recorded: &Recorded<'_>,
    out: &mut impl Write,
) -> io::Result<()> {
    let (bars, topology) = (&timeline.bars, recorded.topology);
    let unknown = |time: Option<u64>| time.map_or("-1".into(), |time| time.to_string());
    let begins = std::iter::once(0).chain(bars.iter().map(|bar| bar.begin_ns));
    let since_last = bars.iter().zip(begins).map(|(bar, last_ns)| bar.begin_ns - last_ns);
    let kind = |bar: &Bar| {
        Kind::ALL.iter().position(|kind| *kind == bar.operation.kind).unwrap_or_default()
    };
    let peer = |bar: &Bar| unknown(bar.operation.peer.map(|peer| peer.0.into()));
    let landed = |bar: &Bar| unknown(bar.landing.map(|landing| landing.at_ns - bar.begin_ns));

    write!(out, "{{")?;
    column(out, "kinds", Kind::ALL.iter().map(|kind| format!("\"{}\"", kind.name())))?;
    // Tracks are the ranks, and then those who serve them.
    column(out, "servers", timeline.servers.iter().map(|server| format!("\"{server}\"")))?;
    let node = |track: u32| timeline.node_of(track, topology).0;
    column(out, "nodes", (0..timeline.tracks()).map(node))?;
    column(out, "lanes", &timeline.lanes)?;
    column(out, "track", bars.iter().map(|bar| bar.track))?;
    column(out, "lane", bars.iter().map(|bar| bar.lane))?;
    column(out, "kind", bars.iter().map(kind))?;
    column(out, "peer", bars.iter().map(peer))?;
    column(out, "bytes", bars.iter().map(|bar| bar.operation.bytes))?;
    column(out, "begin", since_last)?;
    column(out, "duration", bars.iter().map(|bar| bar.end_ns - bar.begin_ns))?;
    column(out, "landed", bars.iter().map(landed))?;
    // Of those on the tracks of servers only.
    let served = bars.iter().filter(|bar| bar.track >= topology.ranks());
    let target = |bar: &Bar| unknown(bar.target.map(|target| target.0.into()));
    column(out, "targets", served.map(target))?;
    // Few are not over: a list of their places.
    let unfinished = bars.iter().enumerate().filter(|(_, bar)| !bar.is_over);
    column(out, "unfinished", unfinished.map(|(place, _)| place))?;
    write!(out, "\"clockErrorNs\":{},\"version\":1}}", recorded.clock_error_ns)
}

/// One list, and the comma behind it.
fn column<T: Display>(
    out: &mut impl Write,
    name: &str,
    values: impl IntoIterator<Item = T>,
) -> io::Result<()> {
    write!(out, "\"{name}\":[")?;
    for (index, value) in values.into_iter().enumerate() {
        let separator = if index == 0 { "" } else { "," };
        write!(out, "{separator}{value}")?;
    }
    writeln!(out, "],")
}

/// A text that means itself in HTML.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use farside_fabric::observed::Operation;
    use farside_fabric::tracing::{Server, Service, Slice};
    use farside_fabric::{Node, Rank, Topology};

    use super::*;

    fn written(slices: &[Slice], title: &str) -> String {
        let mut out = Vec::new();
        let topology = Topology::flat(2);
        page(&Recorded::new(slices, &topology), title, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn columns_hold_differences_and_say_what_is_unknown() {
        let put = Operation { kind: Kind::Put, peer: Some(Rank(1)), bytes: 64 };
        let fence = Operation { kind: Kind::Fence, peer: None, bytes: 0 };
        let text = written(
            &[
                Slice {
                    rank: Rank(0),
                    operation: fence,
                    begin_ns: 1250,
                    end_ns: 1300,
                    landed_ns: None,
                },
                Slice {
                    rank: Rank(0),
                    operation: put,
                    begin_ns: 1000,
                    end_ns: 1250,
                    landed_ns: Some(1900),
                },
            ],
            "two",
        );
        for column in
            ["\"begin\":[0,250]", "\"duration\":[250,50]", "\"landed\":[900,-1]", "\"peer\":[1,-1]"]
        {
            assert!(text.contains(column), "{column}");
        }
    }

    #[test]
    fn those_who_serve_are_named_with_what_they_did() {
        let operation = Operation { kind: Kind::Put, peer: Some(Rank(1)), bytes: 64 };
        let service =
            |server, target| Service { server, operation, target, begin_ns: 1000, end_ns: 1100 };
        let (agent, handlers) = (Server::Agent(Node(0)), Server::Handlers(Node(0)));
        let services = [service(agent, Some(Rank(0))), service(handlers, None)];
        let (mut out, topology) = (Vec::new(), Topology::flat(2));
        let recorded =
            Recorded { services: &services, clock_error_ns: 4200, ..Recorded::new(&[], &topology) };
        page(&recorded, "served", &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        for column in [
            "\"servers\":[\"agent of node 0\",\"handlers of node 0\"]",
            "\"nodes\":[0,0,0,0]",
            "\"track\":[2,3]",
            "\"targets\":[0,-1]",
            "\"clockErrorNs\":4200",
        ] {
            assert!(text.contains(column), "{column}");
        }
    }

    #[test]
    fn a_title_can_neither_break_the_page_nor_take_the_place_of_the_recording() {
        let text = written(&[], "</title>{{trace}}<script>&");
        assert!(text.contains("<title>&lt;/title&gt;{{trace}}&lt;script&gt;&amp;</title>"));
        assert_eq!(text.matches("\"version\":1").count(), 1);
        assert_eq!(text.matches("{{").count(), 2, "only those of the title");
    }

    #[test]
    fn the_page_asks_for_nothing() {
        for request in ["http:", "https:", "src=", "href=", "@import", "url("] {
            assert!(![PAGE, STYLE, SCRIPT].concat().contains(request), "{request}");
        }
    }
}
