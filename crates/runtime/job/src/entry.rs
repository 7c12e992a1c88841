//! How a launcher asks a program's entry to run.
//!
//! `farside run --threads` and `--sim`, and `farside check PROGRAM`, start a program with the
//! variable [`ENTRY`], which holds an [`Entry`] as text. The program's entry (`#[farside::main]`)
//! obeys it, and answers in the [report](crate::Report). [`join`](crate::join()) obeys nothing: it
//! refuses to run where threads or simulated ranks were asked for.

use std::path::PathBuf;

use farside_fabric::{Error, Result};

use crate::lines::{LineReader, Lines};
use crate::{ENTRY, Options};

/// What a program's entry is asked to do.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The kind of ranks.
    pub run_as: RunAs,
    /// Whether to record every operation.
    pub records: bool,
    /// The file of the report.
    pub report: PathBuf,
}

/// The kind of ranks that a program's entry makes.
#[derive(Debug, Clone)]
pub enum RunAs {
    /// The process runs all ranks of a job as its threads.
    Threads(Options),
    /// The process simulates all ranks of a job, in virtual time.
    Simulated(Simulated),
    /// The process tries the schedules of simulated ranks.
    Explored(Explored),
}

/// An exploration of schedules. What is not given is up to the program.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Explored {
    /// The programs of those that it lists; all of them if none is named.
    pub names: Vec<String>,
    /// The number of ranks.
    pub ranks: Option<u32>,
    /// A description such as `node:2`.
    pub topology: Option<String>,
    /// Which schedules.
    pub policy: Option<String>,
    /// Which random schedules.
    pub seed: Option<u64>,
    /// How many schedules at most.
    pub schedules: Option<u64>,
    /// How long it may take, in milliseconds.
    pub budget_ms: Option<u64>,
    /// How many ranks may die.
    pub deaths: Option<u32>,
    /// Whether each node hears of a death at a time of its own.
    pub slow_news: bool,
    /// Whether long puts and gets are torn.
    pub torn: bool,
    /// Whether races are not looked for.
    pub ignores_races: bool,
    /// Whether it is a failure if a limit ends it.
    pub fails_on_bounded: bool,
    /// The schedule to run again, and no other.
    pub replay: Option<String>,
}

impl Explored {
    fn write(&self, lines: &mut Lines) {
        lines.push_each("name", &self.names);
        lines.push_each("ranks", self.ranks);
        lines.push_each("topology", &self.topology);
        lines.push_each("policy", &self.policy);
        lines.push_each("seed", self.seed);
        lines.push_each("schedules", self.schedules);
        lines.push_each("budget", self.budget_ms);
        lines.push_each("deaths", self.deaths);
        lines.push("slow-news", self.slow_news);
        lines.push("torn", self.torn);
        lines.push("ignores-races", self.ignores_races);
        lines.push("fails-on-bounded", self.fails_on_bounded);
        lines.push_each("replay", &self.replay);
    }

    fn read(lines: LineReader<'_>) -> Result<Explored> {
        Ok(Explored {
            names: lines.all("name").map(str::to_owned).collect(),
            ranks: lines.find_number("ranks")?,
            topology: lines.text("topology"),
            policy: lines.text("policy"),
            seed: lines.find_number("seed")?,
            schedules: lines.find_number("schedules")?,
            budget_ms: lines.find_number("budget")?,
            deaths: lines.find_number("deaths")?,
            slow_news: lines.number("slow-news")?,
            torn: lines.number("torn")?,
            ignores_races: lines.number("ignores-races")?,
            fails_on_bounded: lines.number("fails-on-bounded")?,
            replay: lines.text("replay"),
        })
    }
}

/// A job in virtual time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Simulated {
    /// The simulated machine: the name of a profile, or the absolute path of one.
    pub profile: String,
    /// The number of ranks.
    pub ranks: u32,
    /// The seed of the machine's random delays.
    pub seed: u64,
    /// A description such as `node:2,socket:2`, instead of what is usual on that machine.
    pub topology: Option<String>,
    /// The server of far operations, instead of the profile's.
    pub server: Option<String>,
}

impl Entry {
    /// Reads what this process was asked to do, if it was asked anything.
    pub fn from_environment() -> Result<Option<Entry>> {
        let Some(text) = std::env::var_os(ENTRY) else { return Ok(None) };
        let text = text.to_str().ok_or_else(|| damaged(&text.to_string_lossy()))?;
        Entry::decode(text).map(Some)
    }

    /// Refuses to join a job where this process was asked to make all ranks itself.
    pub(crate) fn check_joining() -> Result<()> {
        let option = match Entry::from_environment()?.map(|entry| entry.run_as) {
            None => return Ok(()),
            Some(RunAs::Threads(_)) => "--threads",
            Some(RunAs::Simulated(_)) => "--sim",
            Some(RunAs::Explored(_)) => "`farside check`",
        };
        Err(Error::Join(format!(
            "it was started with {option}, for which its main function must be \
             `#[farside::main] fn main(world: &World)`; `farside::join` makes one rank of a \
             process, and needs a start without {option}"
        )))
    }

    /// Returns it as the value of [`ENTRY`], a line for each setting.
    pub fn encode(&self) -> Result<String> {
        let mut lines = Lines::default();
        match &self.run_as {
            RunAs::Threads(options) => {
                lines.push("run", "threads");
                options.write(&mut lines);
            }
            RunAs::Simulated(job) => {
                lines.push("run", "simulated");
                lines.push("ranks", job.ranks);
                lines.push("profile", &job.profile);
                lines.push("seed", job.seed);
                lines.push_each("topology", &job.topology);
                lines.push_each("server", &job.server);
            }
            RunAs::Explored(explored) => {
                lines.push("run", "explored");
                explored.write(&mut lines);
            }
        }
        lines.push("records", self.records);
        lines.push("report", self.report.to_str().unwrap_or("\n"));
        lines.encode()
    }

    fn decode(text: &str) -> Result<Entry> {
        let lines = LineReader::new(text, damaged);
        let run_as = match lines.need("run")? {
            "threads" => RunAs::Threads(Options::read(lines)?),
            "simulated" => RunAs::Simulated(Simulated {
                profile: lines.need("profile")?.to_owned(),
                ranks: lines.number("ranks")?,
                seed: lines.number("seed")?,
                topology: lines.text("topology"),
                server: lines.text("server"),
            }),
            "explored" => RunAs::Explored(Explored::read(lines)?),
            _ => return Err(damaged(text)),
        };
        let (records, report) = (lines.number("records")?, PathBuf::from(lines.need("report")?));
        Ok(Entry { run_as, records, report })
    }
}

fn damaged(text: &str) -> Error {
    Error::Join(format!(
        "{ENTRY} is not understood ({text:?}): `farside run` sets it, of the same version as the \
         program's farside; to run this program alone, unset it"
    ))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::Kind;

    fn entry(run_as: RunAs) -> Entry {
        Entry { run_as, records: true, report: "/proc/1/fd/7".into() }
    }

    #[test]
    fn an_entry_survives_its_way_through_the_environment() {
        let mut options = Options::new(4).unwrap();
        (options.fabric, options.nodes) = (Kind::Ofi, Some(2));
        (options.server, options.provider) = (Some("nic".into()), Some("tcp;ofi_rxm".into()));
        (options.peer_timeout, options.memory) = (Some(Duration::from_millis(1500)), Some(1 << 20));
        let text = entry(RunAs::Threads(options.clone())).encode().unwrap();
        let read = Entry::decode(&text).unwrap();
        assert_eq!(read.encode().unwrap(), text);
        let RunAs::Threads(read) = read.run_as else { panic!("threads were asked for") };
        assert_eq!(format!("{read:?}"), format!("{options:?}"));

        let job = Simulated {
            profile: "/a profile.toml".into(),
            ranks: 64,
            seed: 7,
            topology: Some("node:2".into()),
            server: None,
        };
        let read = Entry::decode(&entry(RunAs::Simulated(job.clone())).encode().unwrap()).unwrap();
        assert!(read.records && read.report.as_os_str() == "/proc/1/fd/7");
        let RunAs::Simulated(read) = read.run_as else { panic!("simulated ranks were asked for") };
        assert_eq!(read, job);

        let explored = Explored {
            names: vec!["one".into(), "two".into()],
            ranks: Some(3),
            slow_news: true,
            torn: true,
            replay: Some("<4>11".into()),
            ..Explored::default()
        };
        let text = entry(RunAs::Explored(explored.clone())).encode().unwrap();
        let RunAs::Explored(read) = Entry::decode(&text).unwrap().run_as else {
            panic!("an exploration was asked for")
        };
        assert_eq!(read, explored);
    }

    #[test]
    fn what_is_not_understood_is_named() {
        for bad in ["", "run fibers", "run threads\nranks many\nfabric shm", "run process"] {
            let error = Entry::decode(bad).unwrap_err().to_string();
            assert!(error.contains("FARSIDE_ENTRY"), "{error}");
        }
        let mut options = Options::new(1).unwrap();
        options.topology = Some("node:2\nrun process".into());
        let error = entry(RunAs::Threads(options)).encode().unwrap_err().to_string();
        assert!(error.contains("topology"), "{error}");
    }
}
