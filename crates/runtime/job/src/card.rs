//! The card that each rank of a job leaves under another launcher: the machine that it runs on.

use farside_fabric::{Error, Result};

use crate::lines::{LineReader, Lines};

/// The machine of a rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Card {
    /// The same for all processes that can share memory and hear of each other's ends, and for no
    /// others.
    pub(crate) machine: String,
    pub(crate) host: String,
    /// The processors that this process may use, as the system lists them: launchers bind processes
    /// to some.
    pub(crate) processors: String,
}

impl Card {
    pub(crate) fn here() -> Card {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        let namespace = |kind: &str| {
            let link = std::fs::read_link(format!("/proc/self/ns/{kind}")).unwrap_or_default();
            link.to_string_lossy().into_owned()
        };
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let boot = read("/proc/sys/kernel/random/boot_id");
        // A file is handed over in one network, and a process is watched in one space of numbers.
        let machine = format!("{boot} {} {}", namespace("net"), namespace("pid"));
        let machine = if boot.is_empty() { host.clone() } else { machine };
        let status = read("/proc/self/status");
        let processors = status
            .lines()
            .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
            .unwrap_or_default();
        Card { machine, host, processors: processors.trim().to_owned() }
    }

    pub(crate) fn encode(&self) -> Result<String> {
        let mut lines = Lines::default();
        lines.push("machine", &self.machine);
        lines.push("host", &self.host);
        lines.push("processors", &self.processors);
        lines.encode()
    }

    pub(crate) fn decode(text: &str) -> Result<Card> {
        let lines = LineReader::new(text, |text| {
            Error::Join(format!("cannot parse a rank's location: {text:?}"))
        });
        let value = |name: &str| lines.need(name).map(str::to_owned);
        Ok(Card {
            machine: value("machine")?,
            host: value("host")?,
            processors: value("processors")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_says_where_this_process_is() {
        let card = Card::here();
        assert_eq!(Card::decode(&card.encode().unwrap()), Ok(card.clone()));
        assert!(!card.machine.is_empty() && !card.processors.is_empty(), "{card:?}");
    }
}
