//! Hosts for tests: network namespaces, each with an address of its own, joined by a bridge that
//! stands in one more of them.
//!
//! Nothing of it is seen outside: no interface, address or route of the machine changes. The
//! namespaces have names that no other test has, and go when the value is dropped; what a test that
//! was killed has left is removed by the next one.
//!
//! ```
//! use farside_testing::namespaces::Namespaces;
//!
//! let Some(hosts) = Namespaces::wanted(2) else { return };
//! assert!(hosts.run(0, &["ip", "route", "get", "10.77.0.2"]).is_ok());
//! let list = hosts.list(4); // "NAME=10.77.0.1:4,NAME=10.77.0.2:4"
//! assert!(list.contains("=10.77.0.2:4"));
//! ```

use std::io::Write;
use std::net::Ipv4Addr;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::Pid;

/// The command that runs a program in a namespace, for `farside run --rsh`.
pub const RSH: &str = "ip netns exec {host}";

/// The beginning of all names of namespaces; the number of the process that made them follows.
const PREFIX: &str = "farside-";
/// The interface that each namespace has, beside the loopback.
const INTERFACE: &str = "eth0";

/// Makes names differ within a process.
static COUNT: AtomicU32 = AtomicU32::new(0);

/// Several namespaces, joined by a bridge.
pub struct Namespaces {
    names: Vec<String>,
    /// The namespace in which the bridge is.
    middle: String,
}

impl Namespaces {
    /// Makes so many namespaces. If they cannot be made, it says so, loudly, and returns none; in
    /// CI (`CI=true`), where that would go unnoticed, it fails.
    pub fn wanted(count: u8) -> Option<Namespaces> {
        match Namespaces::new(count) {
            Ok(namespaces) => Some(namespaces),
            Err(why) => {
                let in_ci = std::env::var("CI").is_ok_and(|value| value == "true" || value == "1");
                assert!(!in_ci, "in CI, network namespaces are needed: {why}");
                // Written past the test harness, which keeps what tests that pass print to itself.
                let _ = writeln!(
                    std::io::stderr(),
                    "\nSKIPPED: a test with {count} network namespaces: {why}\n"
                );
                None
            }
        }
    }

    /// So many namespaces, 200 at most, or why there can be none.
    pub fn new(count: u8) -> Result<Namespaces, String> {
        if count > 200 {
            return Err(format!("{count} namespaces are more than this is made for"));
        }
        remove_stale();
        let unique =
            format!("{PREFIX}{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let names = (0..count).map(|index| format!("{unique}-{index}")).collect();
        // From here on, whatever was made is removed.
        let made = Namespaces { names, middle: format!("{unique}-bridge") };
        made.build()?;
        Ok(made)
    }

    fn build(&self) -> Result<(), String> {
        let middle = self.middle.as_str();
        ip(&["netns", "add", middle])?;
        ip(&["-n", middle, "link", "add", "bridge", "type", "bridge"])?;
        ip(&["-n", middle, "link", "set", "bridge", "up"])?;
        for (index, name) in self.names.iter().enumerate() {
            let (port, address) = (format!("port{index}"), format!("{}/24", self.address(index)));
            ip(&["netns", "add", name])?;
            ip(&[
                "-n", middle, "link", "add", &port, "type", "veth", "peer", "name", INTERFACE,
                "netns", name,
            ])?;
            ip(&["-n", middle, "link", "set", &port, "master", "bridge", "up"])?;
            ip(&["-n", name, "address", "add", &address, "dev", INTERFACE])?;
            ip(&["-n", name, "link", "set", "lo", "up"])?;
            ip(&["-n", name, "link", "set", INTERFACE, "up"])?;
        }
        Ok(())
    }

    /// The names of the namespaces.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The address of a namespace.
    pub fn address(&self, index: usize) -> Ipv4Addr {
        Ipv4Addr::new(10, 77, 0, index as u8 + 1)
    }

    /// All of them with so many ranks each, as `farside run --hosts` wants it.
    pub fn list(&self, ranks: u32) -> String {
        let entry =
            |(index, name): (usize, &String)| format!("{name}={}:{ranks}", self.address(index));
        self.names.iter().enumerate().map(entry).collect::<Vec<_>>().join(",")
    }

    /// Cuts a namespace off from the others: nothing reaches it any more, and nothing that it sends
    /// gets anywhere.
    pub fn cut(&self, index: usize) -> Result<(), String> {
        ip(&["-n", &self.middle, "link", "set", &format!("port{index}"), "down"])
    }

    /// Undoes [`Namespaces::cut`].
    pub fn heal(&self, index: usize) -> Result<(), String> {
        ip(&["-n", &self.middle, "link", "set", &format!("port{index}"), "up"])
    }

    /// The processes that are in a namespace.
    pub fn processes(&self, index: usize) -> Result<Vec<u32>, String> {
        let output = run(&["netns", "pids", &self.names[index]])?;
        Ok(String::from_utf8_lossy(&output.stdout)
            .split_whitespace()
            .filter_map(|word| word.parse().ok())
            .collect())
    }

    /// Runs a program in a namespace to its end.
    pub fn run(&self, index: usize, command: &[&str]) -> Result<Output, String> {
        let mut words = vec!["netns", "exec", self.names[index].as_str()];
        words.extend(command);
        run(&words)
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for name in self.names.iter().chain([&self.middle]) {
            // One that was not made need not be removed. The interfaces go with it, and with an
            // interface its other end.
            let _ = ip(&["netns", "delete", name]);
        }
    }
}

fn remove_stale() {
    let Ok(entries) = std::fs::read_dir("/run/netns") else {
        return;
    };
    for name in entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()) {
        let maker = name
            .strip_prefix(PREFIX)
            .and_then(|rest| rest.split('-').next())
            .and_then(|word| word.parse().ok());
        let Some(maker) = maker.and_then(Pid::from_raw) else {
            continue;
        };
        if rustix::process::test_kill_process(maker) == Err(rustix::io::Errno::SRCH) {
            let _ = ip(&["netns", "delete", &name]);
        }
    }
}

fn ip(words: &[&str]) -> Result<(), String> {
    run(words).map(drop)
}

fn run(words: &[&str]) -> Result<Output, String> {
    let line = words.join(" ");
    let output = Command::new("ip").args(words).stdin(Stdio::null()).output();
    let output = output
        .map_err(|error| format!("cannot start `ip {line}` ({error}); is iproute2 installed?"))?;
    if output.status.success() {
        return Ok(output);
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(format!(
        "`ip {line}` failed ({}): {said}; namespaces need root, or the right to administer the \
         network",
        output.status
    ))
}
