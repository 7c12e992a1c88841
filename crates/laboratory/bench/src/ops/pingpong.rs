//! What libfabric itself takes over the same provider: its own `fi_pingpong`, two processes that
//! send each other messages and poll.

use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use super::{Plan, WORDS, row};
use crate::timing::Times;

const PROGRAM: &str = "fi_pingpong";
/// The provider that a job over libfabric has here if none is named.
const USUAL: &str = "tcp;ofi_rxm";
/// How many round trips of one word.
const ROUNDS: usize = 3000;
/// The fewest round trips, of long messages.
const ROUNDS_MIN: usize = 100;
/// From so many bytes on a round trip takes as much longer as it is longer.
const LONG_BYTES: usize = 8 << 10;
const DEADLINE: Duration = Duration::from_secs(20);

/// A message of as many bytes one way, and one of 8 bytes the other, as the limit of every case
/// that is as much: an operation and its answer.
pub(super) fn run(plan: &Plan, provider: Option<&str>) -> Result<String> {
    // What follows the name says who executes what; it is not libfabric's.
    let name = provider
        .and_then(|text| text.split('/').next())
        .filter(|name| !name.is_empty())
        .unwrap_or(USUAL);
    let is_round_trip = |(case, _): &(String, usize)| {
        case != "rate" && (case == "put" || case == "get" || WORDS.contains(&case.as_str()))
    };
    let cases: Vec<(String, usize)> = plan.cases().filter(is_round_trip).collect();
    let Some(answer_ns) = cases.first().map(|_| one_way_ns(name, 8)).transpose()? else {
        return Ok(String::new());
    };
    let mut known = vec![(8, answer_ns)];
    let mut rows = Vec::new();
    for (case, bytes) in &cases {
        let ns = match known.iter().find(|(known, _)| known == bytes) {
            Some(&(_, ns)) => ns,
            None => {
                let ns = one_way_ns(name, *bytes)?;
                known.push((*bytes, ns));
                ns
            }
        };
        rows.push(row(case, *bytes, plan.target, Times::of_batches(ns + answer_ns)));
    }
    Ok(rows.join("\n"))
}

fn one_way_ns(provider: &str, bytes: usize) -> Result<f64> {
    let port =
        TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr())?.port().to_string();
    let rounds = (ROUNDS * LONG_BYTES / bytes.max(LONG_BYTES)).max(ROUNDS_MIN).to_string();
    let bytes = bytes.to_string();
    let start = |arguments: &[&str]| {
        let mut command = Command::new(PROGRAM);
        command.args(["-p", provider, "-e", "rdm", "-I", &rounds, "-S", &bytes]).args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        command.spawn().with_context(|| {
            format!("{PROGRAM}, the limit over libfabric, cannot be started; install libfabric-bin")
        })
    };
    let begin = Instant::now();
    let mut server = start(&["-B", &port])?;
    let measured = loop {
        // The server says nowhere that it listens: the client tries until it does.
        let mut client = start(&["-P", &port, "127.0.0.1"])?;
        while client.try_wait()?.is_none() {
            if begin.elapsed() > DEADLINE {
                let _ = client.kill();
                break;
            }
            // sleep: another process is measuring, and must not be disturbed.
            std::thread::sleep(Duration::from_millis(5));
        }
        let output = client.wait_with_output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if let Some(us) = per_transfer_us(&text) {
            break Ok(us);
        }
        if begin.elapsed() > DEADLINE {
            break Err(text);
        }
    };
    let _ = server.kill();
    let _ = server.wait();
    match measured {
        // It counts transfers; a round trip is two.
        Ok(us) => Ok(1000.0 * us),
        Err(text) => {
            bail!("{PROGRAM} over {provider} has measured nothing in {DEADLINE:?}: {text:?}")
        }
    }
}

/// The column `usec/xfer` of the only line of figures.
fn per_transfer_us(text: &str) -> Option<f64> {
    let mut lines = text.lines().skip_while(|line| !line.starts_with("bytes"));
    let column = lines.next()?.split_whitespace().position(|name| name == "usec/xfer")?;
    lines.next()?.split_whitespace().nth(column)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_fi_pingpong_is_read() {
        let text = "bytes   #sent   #ack     total       time     MB/sec    usec/xfer   \
                    Mxfers/sec\n\
                    8       3k      =3k      46k         0.29s      0.16      48.63       0.02\n";
        assert_eq!(per_transfer_us(text), Some(48.63));
        assert_eq!(per_transfer_us("fi_domain(): failed"), None);
    }
}
