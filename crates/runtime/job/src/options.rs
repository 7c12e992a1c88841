//! The description of a job: how many ranks, on which fabric, arranged in which way.

use std::time::Duration;

use farside_fabric::{Error, Result};

use crate::lines::{LineReader, Lines};
use crate::{BETWEEN_NODES, CORES, FABRIC, MEMORY, PROVIDER, TOPOLOGY, is_of_farside, variable};

/// The fabrics that a job can run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Kind {
    /// Ranks of one machine over mapped memory.
    #[default]
    Shm,
    /// Ranks of several nodes over UDP.
    Nic,
    /// Ranks of several nodes over libfabric.
    Ofi,
}

impl Kind {
    /// Returns the default fabric between nodes: nic, or the one that [`BETWEEN_NODES`] names.
    pub fn between_nodes() -> Result<Kind> {
        match std::env::var(BETWEEN_NODES).unwrap_or_default().as_str() {
            "" | "nic" => Ok(Kind::Nic),
            "ofi" => Ok(Kind::Ofi),
            other => Err(Error::InvalidSetting(format!(
                "{BETWEEN_NODES}={other:?}: expected nic or ofi"
            ))),
        }
    }

    /// Returns the fabric that the user has named with [`FABRIC`], if any. For ranks of `farside
    /// run`, that has set it.
    pub fn from_environment() -> Result<Option<Kind>> {
        if is_of_farside() {
            return Ok(None);
        }
        variable(FABRIC).as_deref().map(Kind::of_variable).transpose()
    }

    /// Reads the value of [`FABRIC`].
    pub(crate) fn of_variable(name: &str) -> Result<Kind> {
        let named = |error| Error::InvalidSetting(format!("{FABRIC}={name}: {error}"));
        name.parse().map_err(named)
    }

    /// Whether it connects several nodes.
    pub fn spans_nodes(self) -> bool {
        self != Kind::Shm
    }
}

impl std::str::FromStr for Kind {
    type Err = Error;

    fn from_str(name: &str) -> Result<Kind> {
        match name {
            "shm" => Ok(Kind::Shm),
            "nic" => Ok(Kind::Nic),
            "ofi" => Ok(Kind::Ofi),
            other => Err(Error::InvalidSetting(format!(
                "there is no fabric {other:?}; there are: shm, nic, ofi"
            ))),
        }
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Kind::Shm => write!(f, "shm"),
            Kind::Nic => write!(f, "nic"),
            Kind::Ofi => write!(f, "ofi"),
        }
    }
}

/// The description of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The number of ranks.
    pub ranks: u32,
    /// The fabric.
    pub fabric: Kind,
    /// A description such as `node:2,socket:2`, instead of what this machine is like.
    pub topology: Option<String>,
    /// How much memory each rank may share, in bytes.
    pub memory: Option<u64>,
    /// How many processors the ranks may use together, instead of what this machine has.
    pub cores: Option<u32>,
    /// Into how many nodes of this machine the ranks are divided.
    pub nodes: Option<u32>,
    /// The server that executes far operations at a node.
    pub server: Option<String>,
    /// Which provider of libfabric, and what it executes itself: see `docs/ofi.md`.
    pub provider: Option<String>,
    /// How long a node may be silent before it counts as lost.
    pub peer_timeout: Option<Duration>,
    /// Whether the latest operations of each rank are recorded, for a trace.
    pub is_recorded: bool,
}

impl Options {
    /// The default job of so many ranks, with the settings that the environment overrides.
    pub fn new(ranks: u32) -> Result<Options> {
        let memory = variable(MEMORY)
            .map(|text| {
                parse_bytes(&text)
                    .map_err(|error| Error::InvalidSetting(format!("{MEMORY}: {error}")))
            })
            .transpose()?;
        let cores = variable(CORES).map(|text| {
            let cores = text.parse().ok().filter(|&cores| cores > 0);
            cores.ok_or_else(|| {
                Error::InvalidSetting(format!("{CORES}={text:?}: expected a number of processors"))
            })
        });
        Ok(Options {
            ranks,
            fabric: Kind::default(),
            topology: variable(TOPOLOGY),
            memory,
            cores: cores.transpose()?,
            nodes: None,
            server: None,
            provider: variable(PROVIDER),
            peer_timeout: None,
            is_recorded: false,
        })
    }

    /// Adds the settings to others, a line for each that is set.
    pub(crate) fn write(&self, lines: &mut Lines) {
        lines.push("ranks", self.ranks);
        lines.push("fabric", self.fabric);
        lines.push_each("topology", &self.topology);
        lines.push_each("memory", self.memory);
        lines.push_each("cores", self.cores);
        lines.push_each("nodes", self.nodes);
        lines.push_each("server", &self.server);
        lines.push_each("provider", &self.provider);
        lines.push_each("patience", self.peer_timeout.map(|time| time.as_nanos()));
        lines.push("recorded", self.is_recorded);
    }

    pub(crate) fn read(lines: LineReader<'_>) -> Result<Options> {
        let peer_timeout = lines.find("patience").map(|_| lines.read("patience", from_nanos));
        Ok(Options {
            ranks: lines.number("ranks")?,
            fabric: lines.need("fabric")?.parse()?,
            topology: lines.text("topology"),
            memory: lines.find_number("memory")?,
            cores: lines.find_number("cores")?,
            nodes: lines.find_number("nodes")?,
            server: lines.text("server"),
            provider: lines.text("provider"),
            peer_timeout: peer_timeout.transpose()?,
            is_recorded: lines.number("recorded")?,
        })
    }
}

fn from_nanos(text: &str) -> Option<Duration> {
    let nanos = text.parse::<u128>().ok()?;
    let seconds = u64::try_from(nanos / 1_000_000_000).ok()?;
    Some(Duration::new(seconds, (nanos % 1_000_000_000) as u32))
}

/// Reads a number of bytes such as `4096`, `512M` or `4GiB`.
pub fn parse_bytes(text: &str) -> Result<u64> {
    let bad = || {
        Error::InvalidSetting(format!(
            "{text:?} is not a size; expected something like 4096, 512M or 4G"
        ))
    };
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| bad())?;
    let shift = match unit.trim().trim_end_matches(['B', 'b']).trim_end_matches('i') {
        "" => 0,
        "K" | "k" => 10,
        "M" | "m" => 20,
        "G" | "g" => 30,
        "T" | "t" => 40,
        _ => return Err(bad()),
    };
    number.checked_mul(1 << shift).filter(|&bytes| bytes > 0).ok_or_else(bad)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_bytes_have_units() {
        assert_eq!(parse_bytes("4096"), Ok(4096));
        assert_eq!(parse_bytes("512M"), Ok(512 << 20));
        assert_eq!(parse_bytes("4GiB"), Ok(4 << 30));
        for bad in ["", "M", "-1", "4X", "0", "99999999999T"] {
            assert!(parse_bytes(bad).unwrap_err().to_string().contains(bad), "{bad}");
        }
    }

    #[test]
    fn an_unknown_fabric_is_named() {
        assert!("ib".parse::<Kind>().unwrap_err().to_string().contains("\"ib\""));
        assert_eq!("shm".parse::<Kind>(), Ok(Kind::Shm));
        let error = Kind::of_variable("ib").unwrap_err().to_string();
        assert!(error.contains("FARSIDE_FABRIC=ib") && error.contains("shm, nic, ofi"), "{error}");
    }
}
