//! A page that shows a recording: one file that needs nothing but a browser.

use std::fmt::Display;
use std::io::{self, BufWriter, Write};

use farside_fabric::observed::Kind;
use farside_fabric::tracing::Slice;
use farside_fabric::{Rank, Topology};

use super::{Bar, Timeline};

/// The page, with marks where the parts go: its look, the title (twice), the recording, its
/// behaviour.
const PAGE: &str = include_str!("page/page.html");

/// How it looks.
const STYLE: &str = include_str!("page/page.css");

/// What it does.
const SCRIPT: &str = concat!(
    include_str!("page/recording.js"),
    include_str!("page/picture.js"),
    include_str!("page/controls.js")
);

/// Writes a recording as a page of HTML: a row for each rank, bars for operations, arrows to where
/// they landed.
///
/// The page asks for nothing from any network. It zooms and pans with the mouse or the keys, and
/// its address keeps the view (`#from=1000&to=2500`, in nanoseconds since the first operation), so
/// that views can be shared.
///
/// ```
/// use farside_fabric::Topology;
///
/// let mut page = Vec::new();
/// farside_trace::page(&[], &Topology::flat(2), "a <quiet> job", &mut page)?;
/// assert!(String::from_utf8(page).unwrap().contains("<title>a &lt;quiet&gt; job</title>"));
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
///
/// Those of `out`, and one that names the rank if `slices` has one that `topology` does not.
pub fn page(
    slices: &[Slice],
    topology: &Topology,
    title: &str,
    out: &mut dyn Write,
) -> io::Result<()> {
    let timeline = Timeline::new(slices, topology)?;
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
            "trace" => write_trace(&timeline, topology, &mut out)?,
            other => unreachable!("the page has the mark {other}"),
        }
        rest = below;
    }
    out.write_all(rest.as_bytes())?;
    out.flush()
}

/// The recording as JSON, a list for each column. Times are differences, which are short.
fn write_trace(timeline: &Timeline, topology: &Topology, out: &mut impl Write) -> io::Result<()> {
    let bars = &timeline.bars;
    let unknown = |time: Option<u64>| time.map_or("-1".into(), |time| time.to_string());
    let begins = std::iter::once(0).chain(bars.iter().map(|bar| bar.begin_ns));
    let since_last = bars.iter().zip(begins).map(|(bar, last_ns)| bar.begin_ns - last_ns);
    let kind = |bar: &Bar| {
        Kind::ALL.iter().position(|kind| *kind == bar.slice.operation.kind).unwrap_or_default()
    };
    let peer = |bar: &Bar| unknown(bar.slice.operation.peer.map(|peer| peer.0.into()));
    let landed = |bar: &Bar| unknown(bar.landing.map(|landing| landing.at_ns - bar.begin_ns));

    write!(out, "{{")?;
    column(out, "kinds", Kind::ALL.iter().map(|kind| format!("\"{}\"", kind.name())))?;
    column(out, "nodes", (0..topology.ranks()).map(|rank| topology.node_of(Rank(rank)).0))?;
    column(out, "lanes", &timeline.lanes)?;
    column(out, "rank", bars.iter().map(|bar| bar.slice.rank.0))?;
    column(out, "lane", bars.iter().map(|bar| bar.lane))?;
    column(out, "kind", bars.iter().map(kind))?;
    column(out, "peer", bars.iter().map(peer))?;
    column(out, "bytes", bars.iter().map(|bar| bar.slice.operation.bytes))?;
    column(out, "begin", since_last)?;
    column(out, "duration", bars.iter().map(|bar| bar.end_ns - bar.begin_ns))?;
    column(out, "landed", bars.iter().map(landed))?;
    // Few are not over: a list of their places.
    let unfinished = bars.iter().enumerate().filter(|(_, bar)| !bar.is_over());
    column(out, "unfinished", unfinished.map(|(place, _)| place))?;
    write!(out, "\"version\":1}}")
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

    use super::*;

    fn written(slices: &[Slice], title: &str) -> String {
        let mut out = Vec::new();
        page(slices, &Topology::flat(2), title, &mut out).unwrap();
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
