//! A link between two nodes of this machine: two network namespaces, joined by a pair of virtual
//! Ethernet interfaces with a given MTU, or by a relay that loses packets.
//!
//! Loopback carries datagrams of 64 KiB, as no network between hosts does; the link divides them as
//! an Ethernet would. It needs root and `ip` of iproute2, and goes when the value is dropped.

mod relay;
mod tun;

use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use farside_launch::Hosts;

use self::relay::Relay;
pub use self::relay::Trouble;
use crate::within::output_within;

/// The interface of a node.
pub const INTERFACE: &str = "eth0";
/// The least and the greatest MTU that such an interface has.
const MTUS: std::ops::RangeInclusive<u32> = 1280..=65_535;
/// How long `iperf3` may take beyond what it measures.
const SLACK: Duration = Duration::from_secs(20);

/// Two nodes, each in a network namespace, and the link between them.
#[derive(Debug)]
pub struct Link {
    names: [String; 2],
    mtu: u32,
    /// The program that runs a command line on a node, as `ssh` does.
    shell: PathBuf,
    /// What stands between the nodes, if they are not joined directly.
    relay: Option<Relay>,
}

impl Link {
    /// Makes the two nodes, joined directly. `directory` is where a program that reaches them is
    /// written.
    pub fn new(mtu: u32, directory: &Path) -> Result<Link> {
        let link = Link::with_nodes(mtu, directory)?;
        let [first, second] = &link.names;
        let veth = ["type", "veth", "peer", "name", INTERFACE, "netns", second];
        ip(&[&["-n", first, "link", "add", INTERFACE], &veth[..]].concat())?;
        link.configure()?;
        Ok(link)
    }

    /// Likewise, with a relay between them, which carries everything at first.
    pub fn relayed(mtu: u32, directory: &Path) -> Result<Link> {
        let mut link = Link::with_nodes(mtu, directory)?;
        let [first, second] = &link.names;
        let ends = [tun::open(first, INTERFACE)?, tun::open(second, INTERFACE)?];
        link.configure()?;
        link.relay = Some(Relay::start(ends)?);
        Ok(link)
    }

    /// Tells the relay, if there is one, what happens to packets from now on.
    pub fn set_trouble(&self, trouble: Trouble) {
        if let Some(relay) = &self.relay {
            relay.set(trouble);
        }
    }

    /// Makes two nodes that nothing joins yet.
    fn with_nodes(mtu: u32, directory: &Path) -> Result<Link> {
        ensure!(
            MTUS.contains(&mtu),
            "--mtu {mtu} is not an MTU of a link; use {} to {}",
            MTUS.start(),
            MTUS.end()
        );
        let name = |index: usize| format!("farside-{}-link{index}", std::process::id());
        // From here on, whatever was made is removed.
        let shell = directory.join(format!("link-shell-{}", std::process::id()));
        let link = Link { names: [name(0), name(1)], mtu, shell, relay: None };
        link.add_nodes(directory)?;
        Ok(link)
    }

    /// Gives both interfaces their addresses.
    fn configure(&self) -> Result<()> {
        for (index, name) in self.names.iter().enumerate() {
            let address = format!("{}/24", self.address(index));
            ip(&["-n", name, "address", "add", &address, "dev", INTERFACE])?;
            ip(&["-n", name, "link", "set", INTERFACE, "mtu", &self.mtu.to_string(), "up"])?;
            ip(&["-n", name, "link", "set", "lo", "up"])?;
        }
        Ok(())
    }

    fn add_nodes(&self, directory: &Path) -> Result<()> {
        let [first, second] = &self.names;
        ip(&["netns", "add", first])?;
        ip(&["netns", "add", second])?;
        std::fs::create_dir_all(directory)
            .with_context(|| format!("cannot make {}", directory.display()))?;
        let text = format!(
            "#!/bin/sh\ncase $1 in {}) node={first};; *) node={second};; esac\nshift\nexec ip \
             netns exec $node sh -c \"$*\"\n",
            self.address(0)
        );
        std::fs::write(&self.shell, text)
            .and_then(|()| {
                std::fs::set_permissions(&self.shell, std::fs::Permissions::from_mode(0o755))
            })
            .with_context(|| format!("cannot write {}", self.shell.display()))
    }

    /// Returns the address of a node.
    pub fn address(&self, index: usize) -> Ipv4Addr {
        Ipv4Addr::new(10, 77, 1, index as u8 + 1)
    }

    /// Returns the MTU of the link.
    pub fn mtu(&self) -> u32 {
        self.mtu
    }

    /// Returns the nodes as hosts of a job, each with half of the ranks.
    pub fn hosts(&self, ranks: u32) -> Result<Hosts> {
        let entry = |index: usize| {
            let share = if index == 0 { ranks.div_ceil(2) } else { ranks / 2 };
            format!("{}={}:{share}", self.names[index], self.address(index))
        };
        let list = format!("{},{}", entry(0), entry(1));
        Ok(Hosts::parse(&list, None)?.rsh("ip netns exec {host}")?)
    }

    /// Returns the command that runs a program on a node.
    pub fn command(&self, index: usize, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.names[index], program]);
        command
    }

    /// Returns the flags of Open MPI's launcher, on the first node, for ranks on both nodes.
    pub fn open_mpi_flags(&self, ranks: u32) -> Vec<String> {
        let hosts =
            format!("{}:{},{}:{}", self.address(0), ranks.div_ceil(2), self.address(1), ranks / 2);
        let shell = self.shell.display().to_string();
        let mca = [
            ("plm_rsh_agent", shell.as_str()),
            ("orte_keep_fqdn_hostnames", "1"),
            ("oob_tcp_if_include", INTERFACE),
            ("btl_tcp_if_include", INTERFACE),
        ];
        let mut flags: Vec<String> = mca
            .iter()
            .flat_map(|(name, value)| ["--mca".into(), (*name).into(), (*value).into()])
            .collect();
        flags.extend(["--host".into(), hosts]);
        flags
    }

    /// Measures one TCP stream by `iperf3` for so long, from the first node to the second or
    /// `back`. Returns its throughput in bytes per second.
    pub fn stream_bytes_per_s(&self, time: Duration, back: bool) -> Result<f64> {
        let seconds = time.as_secs().max(1);
        let mut server = self.command(1, "iperf3");
        server.args(["--server", "--one-off"]);
        server.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut server =
            server.spawn().context("cannot start `ip netns exec`; is iproute2 installed?")?;
        let begin = Instant::now();
        let measured = loop {
            let mut client = self.command(0, "iperf3");
            client.args(["--client", &self.address(1).to_string(), "--json"]);
            client.args(["--time", &seconds.to_string()]);
            client.args(back.then_some("--reverse"));
            // The server says nowhere that it listens: the client tries until it does.
            let said = output_within(&mut client, Duration::from_secs(seconds) + SLACK);
            match said.and_then(|text| throughput(&text)) {
                Ok(bytes_per_s) => break Ok(bytes_per_s),
                Err(_) if begin.elapsed() < SLACK && server.try_wait()?.is_none() => {}
                Err(error) => break Err(error.context("iperf3 failed; is it installed?")),
            }
        };
        let _ = server.kill();
        let _ = server.wait();
        measured
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if let Some(relay) = self.relay.take() {
            for name in &self.names {
                let _ = ip(&["-n", name, "link", "delete", INTERFACE]);
            }
            relay.join();
        }
        for name in &self.names {
            // One that was not made need not be removed. The interface goes with it.
            let _ = ip(&["netns", "delete", name]);
        }
        let _ = std::fs::remove_file(&self.shell);
    }
}

/// Reads the throughput, in bytes per second, from what `iperf3 --json` prints.
pub(crate) fn throughput(text: &str) -> Result<f64> {
    let value: serde_json::Value = serde_json::from_str(text).context("iperf3 prints no JSON")?;
    let bits = value["end"]["sum_received"]["bits_per_second"].as_f64();
    bits.map(|bits| bits / 8.0).context("iperf3 tells no throughput")
}

fn ip(words: &[&str]) -> Result<()> {
    let line = words.join(" ");
    let output = Command::new("ip").args(words).stdin(Stdio::null()).output();
    let output =
        output.with_context(|| format!("cannot start `ip {line}`; is iproute2 installed?"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    bail!("`ip {line}` failed: {said}; a link between nodes needs root")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_throughput_of_iperf3_is_read() {
        let text = r#"{"end":{"sum_received":{"bits_per_second":8e9}}}"#;
        assert_eq!(throughput(text).unwrap(), 1e9);
        assert!(throughput("{}").is_err() && throughput("refused").is_err());
    }

    #[test]
    fn an_mtu_that_no_link_has_is_refused() {
        for mtu in [0, 1000, 70_000] {
            let error = Link::new(mtu, Path::new("/nonexistent")).unwrap_err().to_string();
            assert!(error.contains(&format!("--mtu {mtu}")), "{error}");
        }
    }
}
