//! What the ranks have done and wait for, served over HTTP in the text format of Prometheus.
//!
//! A request reads the ranks' records anew, at most ten times a second: between requests nothing is
//! done.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use farside_fabric::record::{DURATION_BUCKETS, bucket_end_ns};
use farside_inspect::Snapshot;
use farside_inspect::snapshot::{ContextView, Durations, RankState, RankView};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

use crate::console::Console;
use crate::http::{HttpServer, Page};
use crate::{Error, Launch};

const PATH: &str = "/metrics";
/// What the answer is: the text format, as its standard calls it.
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

pub(crate) type Source = dyn Fn() -> Snapshot + Send + Sync;

/// A server of metrics; dropping it ends it.
pub(crate) struct MetricsServer {
    server: HttpServer,
}

impl MetricsServer {
    /// Serves what `source` reads, if the user wants metrics, and says where.
    pub(crate) fn of(
        launch: &Launch,
        console: &Console,
        source: impl Fn() -> Snapshot + Send + Sync + 'static,
    ) -> Result<Option<MetricsServer>, Error> {
        let Some(address) = launch.metrics else { return Ok(None) };
        let server = MetricsServer::start(address, Arc::new(source))?;
        if launch.interactive {
            console.say(&format!("metrics at http://{}{PATH}", server.address()));
        }
        Ok(Some(server))
    }

    pub(crate) fn start(address: SocketAddr, source: Arc<Source>) -> Result<MetricsServer, Error> {
        let mut registry = Registry::with_prefix("farside");
        registry.register_collector(Box::new(Ranks { source }));
        let make = Box::new(move || {
            let mut text = String::new();
            encode(&mut text, &registry).is_ok().then_some(text)
        });
        let page = Page { path: PATH, content_type: CONTENT_TYPE, make };
        let server = HttpServer::start(address, page)
            .map_err(|error| Error::Metrics { address, error: error.to_string() })?;
        Ok(MetricsServer { server })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.server.address()
    }
}

/// The ranks of the job, each of whose numbers has the labels `rank` and `node`.
struct Ranks {
    source: Arc<Source>,
}

impl fmt::Debug for Ranks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ranks")
    }
}

/// A counter of a rank: its name, what it counts, and how to read it.
type Count = (&'static str, &'static str, fn(&RankView) -> u64);

const COUNTS: [Count; 6] = [
    ("operations", "Operations on memory of any rank", RankView::operations),
    ("bytes", "Bytes that these operations moved", RankView::bytes),
    ("waits", "Times that a rank found that it had to wait", |rank| {
        sum(rank, |context| context.waits)
    }),
    ("yields", "Times that a waiting rank gave its processor away", |rank| {
        sum(rank, |context| context.yields)
    }),
    ("sleeps", "Times that a waiting rank slept", |rank| sum(rank, |context| context.sleeps)),
    ("repetitions", "Messages that were sent again", |rank| {
        sum(rank, |context| context.repetitions)
    }),
];

fn sum(rank: &RankView, count: impl Fn(&ContextView) -> u64) -> u64 {
    rank.contexts.iter().map(count).sum()
}

impl Collector for Ranks {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let now = (self.source)();
        let ranks: Vec<&RankView> = now.ranks.iter().filter(|rank| rank.is_read).collect();
        for (name, help, count) in COUNTS {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for rank in &ranks {
                counted(&mut family, &labels(rank), count(rank))?;
            }
        }
        let help = "Bytes that operations moved between two ranks";
        let mut family =
            encoder.encode_descriptor("peer_bytes", help, None, MetricType::Counter)?;
        for rank in &ranks {
            for peer in rank.contexts.iter().flat_map(|context| &context.peers) {
                let [own, node] = labels(rank);
                let labels = [own, node, ("peer", peer.rank.to_string())];
                counted(&mut family, &labels, peer.bytes)?;
            }
        }
        let seconds = Some(&Unit::Seconds);
        let help = "CPU time of the rank's process";
        let mut family =
            encoder.encode_descriptor("computing", help, seconds, MetricType::Counter)?;
        for rank in &ranks {
            let computed_ns = rank.system.as_ref().map_or(0, |system| system.computed_ns);
            family
                .encode_family(&labels(rank))?
                .encode_counter::<NoLabelSet, _, u64>(&(computed_ns as f64 / 1e9), None)?;
        }
        let help = "How long the waits were that a rank slept in";
        let mut family = encoder.encode_descriptor("wait", help, seconds, MetricType::Histogram)?;
        for rank in &ranks {
            let waited = rank.waited();
            let total = waited.total_ns as f64 / 1e9;
            family.encode_family(&labels(rank))?.encode_histogram::<NoLabelSet>(
                total,
                waited.count(),
                &buckets(&waited),
                None,
            )?;
        }
        let help = "How long a rank has been waiting, or zero";
        let mut family = encoder.encode_descriptor("waiting", help, seconds, MetricType::Gauge)?;
        for rank in &ranks {
            let waits = rank.contexts.iter().filter(|context| context.activity.is_some());
            let longest = waits.map(|context| now.taken_ns.saturating_sub(context.since_ns)).max();
            let seconds = longest.unwrap_or(0) as f64 / 1e9;
            family.encode_family(&labels(rank))?.encode_gauge(&seconds)?;
        }
        let help = "One for each rank, with its state";
        let mut family = encoder.encode_descriptor("rank", help, None, MetricType::Gauge)?;
        for rank in &now.ranks {
            let state = match rank.state {
                RankState::Starting => "starting",
                RankState::Alive => "alive",
                RankState::Left => "left",
                RankState::Lost(_) => "lost",
            };
            let [own, node] = labels(rank);
            let labels = [own, node, ("state", state.to_owned())];
            family.encode_family(&labels)?.encode_gauge(&1i64)?;
        }
        Ok(())
    }
}

/// A histogram with as many buckets as a scraper likes: one for each power of four.
fn buckets(waited: &Durations) -> Vec<(f64, u64)> {
    let mut buckets = Vec::new();
    let mut from_ns = 0;
    for end_ns in (4..DURATION_BUCKETS).step_by(4).map(bucket_end_ns) {
        let within =
            waited.buckets.iter().filter(|(each, _)| (from_ns + 1..=end_ns).contains(each));
        buckets.push((end_ns as f64 / 1e9, within.map(|&(_, count)| count).sum()));
        from_ns = end_ns;
    }
    let beyond = waited.buckets.iter().filter(|&&(each, _)| each > from_ns);
    buckets.push((f64::INFINITY, beyond.map(|&(_, count)| count).sum()));
    buckets
}

fn counted<const N: usize>(
    family: &mut MetricEncoder<'_>,
    labels: &[(&'static str, String); N],
    count: u64,
) -> fmt::Result {
    family.encode_family(labels)?.encode_counter::<NoLabelSet, _, u64>(&count, None)
}

fn labels(rank: &RankView) -> [(&'static str, String); 2] {
    [("rank", rank.rank.to_string()), ("node", rank.node.to_string())]
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;
    use std::time::{Duration, Instant};

    use farside_inspect::snapshot::PeerView;

    use super::*;

    fn get(address: SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn a_scraper_gets_every_rank_and_others_are_told_the_path() {
        let context = ContextView {
            operations: 5,
            bytes: 40,
            sleeps: 2,
            waited: Durations { total_ns: 3_000_000, buckets: vec![(2048, 1), (4_194_304, 1)] },
            peers: vec![PeerView { rank: 1, operations: 5, bytes: 40 }],
            ..ContextView::default()
        };
        let alive = RankView { is_read: true, state: RankState::Alive, ..RankView::default() };
        let first = RankView { contexts: vec![context], ..alive.clone() };
        let second = RankView { rank: 1, node: 1, ..alive };
        let ranks = vec![first, second];
        let snapshot = Snapshot { ranks, ..Snapshot::default() };
        let address = "127.0.0.1:0".parse().unwrap();
        let server = MetricsServer::start(address, Arc::new(move || snapshot.clone())).unwrap();
        let address = server.address();
        let text = get(address, PATH);
        for line in [
            "Content-Type: application/openmetrics-text",
            "farside_operations_total{rank=\"0\",node=\"0\"} 5",
            "farside_operations_total{rank=\"1\",node=\"1\"} 0",
            "farside_peer_bytes_total{rank=\"0\",node=\"0\",peer=\"1\"} 40",
            "farside_sleeps_total{rank=\"0\",node=\"0\"} 2",
            "farside_waiting_seconds{rank=\"1\",node=\"1\"} 0",
            "farside_rank{rank=\"1\",node=\"1\",state=\"alive\"} 1",
            "farside_wait_seconds_sum{rank=\"0\",node=\"0\"} 0.003",
            "farside_wait_seconds_bucket{le=\"0.000004096\",rank=\"0\",node=\"0\"} 1",
            "farside_wait_seconds_bucket{le=\"+Inf\",rank=\"0\",node=\"0\"} 2",
            "# EOF",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        assert!(get(address, "/").contains("404") && get(address, "/").contains(PATH));
        drop(server);
        await_end(address);
    }

    /// Waits until nobody listens at an address any more: a thread of its own closes the socket.
    fn await_end(address: SocketAddr) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while TcpStream::connect(address).is_ok() {
            assert!(Instant::now() < deadline, "it has not ended");
            std::thread::yield_now();
        }
    }

    #[test]
    fn hostile_requests_end_nothing_and_hold_up_nobody() {
        let address = "127.0.0.1:0".parse().unwrap();
        let server = MetricsServer::start(address, Arc::new(Snapshot::default)).unwrap();
        let address = server.address();
        let long = "x".repeat(100_000);
        let requests = [
            // A body that no machine has room for, one that never comes, and one in pieces.
            "GET /x HTTP/1.1\r\nContent-Length: 4611686018427387904\r\n\r\n".to_owned(),
            "GET /metrics HTTP/1.1\r\nContent-Length: 18446744073709551615\r\n\r\n".to_owned(),
            "POST /metrics HTTP/1.1\r\nContent-Length: 2000\r\n\r\n".to_owned(),
            "PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n".to_owned(),
            // Lines and headers without end, and no line at all.
            long.clone(),
            format!("GET /{long}"),
            format!("GET /metrics HTTP/1.1\r\n{}", "a: b\r\n".repeat(10_000)),
            "\r\n\r\n".to_owned(),
            "\0\u{ffff} \r\n \r\n\r\n".to_owned(),
            "GET".to_owned(),
            String::new(),
            // Many requests, whose answers nobody reads.
            "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n".repeat(100),
        ];
        // Those that the server does not close stay open, as far as there are descriptors.
        let mut open = std::collections::VecDeque::new();
        for round in 0..3_000 {
            let mut stream = TcpStream::connect(address).unwrap();
            // The server may have closed the connection before all of it is written.
            let _ = stream.write_all(requests[round % requests.len()].as_bytes());
            open.push_back(stream);
            if open.len() > 200 {
                open.pop_front();
            }
            if round % 100 == 0 {
                assert!(get(address, PATH).contains("# EOF"), "round {round}");
            }
        }
        drop(server);
        await_end(address);
    }
}
