//! What can be chosen on the command line.

use farside::Prices;
use farside::dsm::{Access, BarrierKind, Copies, Diffs, Fetch, Start};
use farside::sim::Profile;
use farside::{Error, Result};

use crate::flag::Flag;

/// A program on shared memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// A Fourier transform in three dimensions, forth and many times back.
    Fft3d,
    /// Bodies that attract each other, by the method of Barnes and Hut.
    Barnes,
    /// The same with bodies that are dealt out by their cost, as in SPLASH.
    BarnesZones,
    /// Successive over-relaxation, red and black.
    Sor,
    /// Jacobi's method.
    Jacobi,
    /// The shortest round trip, by branch and bound.
    Tsp,
}

impl Program {
    /// All of them.
    pub const ALL: [Program; 6] = [
        Program::Fft3d,
        Program::Barnes,
        Program::BarnesZones,
        Program::Sor,
        Program::Jacobi,
        Program::Tsp,
    ];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Program::Fft3d => "fft3d",
            Program::Barnes => "barnes",
            Program::BarnesZones => "barnes-zones",
            Program::Sor => "sor",
            Program::Jacobi => "jacobi",
            Program::Tsp => "tsp",
        }
    }

    /// The size, in \[BST97\] if it is there.
    fn usual_size(self) -> &'static [usize] {
        match self {
            Program::Fft3d => &[64, 64, 64],
            Program::Barnes | Program::BarnesZones => &[5000],
            Program::Sor => &[2000, 1000],
            Program::Jacobi => &[1200, 1200],
            Program::Tsp => &[15],
        }
    }

    /// As many iterations as one rank does in about a second.
    fn usual_iterations(self) -> usize {
        match self {
            Program::Fft3d => 150,
            Program::Barnes | Program::BarnesZones => 100,
            Program::Sor => 600,
            Program::Jacobi => 1500,
            Program::Tsp => 20,
        }
    }

    /// As many iterations as in \[BST97\], if it is there: what virtual time is told of.
    pub fn published_iterations(self) -> usize {
        match self {
            Program::Fft3d | Program::Barnes | Program::BarnesZones => 6,
            Program::Sor | Program::Jacobi => 10,
            Program::Tsp => 2,
        }
    }
}

const FLAGS: [Flag; 18] = [
    Flag::new(
        "--size",
        "NxN…",
        "planes, rows and columns of fft3d; bodies of barnes; cities of tsp; rows and columns of \
         sor and jacobi",
    ),
    Flag::new(
        "--iterations",
        "N",
        "how many iterations, steps, or problems [default: about a second of one rank, and in \
         virtual time as many as in [BST97]]",
    ),
    Flag::new("--turns", "N", "how often the program and its base run, in turns [default: 3]"),
    Flag::new("--barrier", "BARRIER", "how ranks meet: central, tree [default: tree]"),
    Flag::new(
        "--start",
        "START",
        "what pages hold at the start: original, zero, zero-invalid [default: zero]",
    ),
    Flag::new(
        "--access",
        "ACCESS",
        "how accesses are noticed: pager, protect, userfault, explicit",
    ),
    Flag::new("--copies", "COPIES", "which ranks share a copy: node, rank [default: node]"),
    Flag::new("--diffs", "DIFFS", "when diffs are made: on-demand, eager [default: on-demand]"),
    Flag::new(
        "--fetch",
        "FETCH",
        "how eager diffs of a copy per rank are fetched: get, call [default: get]",
    ),
    Flag::new("--storage-limit", "BYTES", "when storage is reclaimed"),
    Flag::new("--check-races", "", "look for words that two ranks write without being ordered"),
    Flag::new(
        "--check-loads",
        "",
        "look for words that one rank writes and another one loads without being ordered, too",
    ),
    Flag::new(
        "--stats",
        "",
        "say for each array what was done, and which pages move back and forth",
    ),
    Flag::new("--plot", "FILE", "draw the result as SVG"),
    Flag::new("--flop-ns", "NS", "in virtual time: how long an operation on numbers takes"),
    Flag::new("--fault-ns", "NS", "in virtual time: how long a page fault takes"),
    Flag::new("--notice-ns", "NS", "in virtual time: how long making or merging a notice takes"),
    Flag::new("--byte-ps", "PS", "in virtual time: how long a byte of a page takes to be copied"),
];

pub(crate) fn help() -> String {
    Flag::help(&FLAGS)
}

/// What a run is told.
#[derive(Debug, Clone)]
pub struct Options {
    /// Which program.
    pub program: Program,
    /// Its size: planes, rows and columns; rows and columns; bodies; or cities.
    pub size: Vec<usize>,
    /// How many iterations, steps, or problems.
    pub iterations: usize,
    /// How often the program and its base are run, in turns. In virtual time it is once.
    pub turns: usize,
    /// How ranks meet.
    pub barrier: BarrierKind,
    /// What pages hold at the start.
    pub start: Start,
    /// How accesses are noticed, if not as is usual for the ranks at hand.
    pub access: Option<Access>,
    /// The ranks that share one copy.
    pub copies: Copies,
    /// When diffs are made.
    pub diffs: Diffs,
    /// How eager diffs of a copy for each rank are fetched.
    pub fetch: Fetch,
    /// When storage is reclaimed, if not as usual.
    pub storage_limit: Option<u64>,
    /// Whether races are looked for.
    pub check_races: bool,
    /// Whether loads that race with stores are looked for, too.
    pub check_loads: bool,
    /// Whether the statistics of each array are reported.
    pub stats: bool,
    /// How long an operation on numbers takes, in virtual time.
    pub flop_ns: f64,
    /// What handling pages costs, in virtual time.
    pub prices: Prices,
    /// Where to draw what has come out.
    pub plot: Option<String>,
    /// Whether the base is run, and the result compared with its own.
    pub verify: bool,
}

impl Options {
    /// The program at its size in \[BST97\], for about a second, with the usual choices.
    pub fn new(program: Program) -> Options {
        Options {
            program,
            size: program.usual_size().to_vec(),
            iterations: program.usual_iterations(),
            turns: 3,
            barrier: BarrierKind::Tree,
            start: Start::Zero,
            access: None,
            copies: Copies::Node,
            diffs: Diffs::OnDemand,
            fetch: Fetch::Get,
            storage_limit: None,
            check_races: false,
            check_loads: false,
            stats: false,
            flop_ns: 0.0,
            prices: Prices::default(),
            plot: None,
            verify: true,
        }
    }

    /// Reads the arguments of a program.
    pub fn parse(program: Program, arguments: &[String]) -> Result<Options> {
        let mut options = Options::new(program);
        let set = |flag: &str, value: &str| options.set(flag, value);
        Flag::read(program.name(), &FLAGS, arguments, set)?;
        Ok(options)
    }

    fn set(&mut self, flag: &str, value: &str) -> Result<()> {
        let bad = || Error::InvalidArgument(format!("{flag} {value}: expected a number"));
        let number = || value.parse::<u64>().map_err(|_| bad());
        match flag {
            "--size" => {
                let parts = value.split('x').map(str::parse);
                self.size = parts.collect::<Result<_, _>>().map_err(|_| {
                    Error::InvalidArgument(format!(
                        "--size {value}: expected numbers with an x between them, such as 2000x1000"
                    ))
                })?;
            }
            "--iterations" => self.iterations = number()? as usize,
            "--turns" => self.turns = number()? as usize,
            "--barrier" => self.barrier = value.parse()?,
            "--start" => self.start = value.parse()?,
            "--access" => self.access = Some(value.parse()?),
            "--copies" => self.copies = value.parse()?,
            "--diffs" => self.diffs = value.parse()?,
            "--fetch" => self.fetch = value.parse()?,
            "--storage-limit" => self.storage_limit = Some(number()?),
            "--flop-ns" => self.flop_ns = value.parse().map_err(|_| bad())?,
            "--fault-ns" => self.prices.fault_ns = number()?,
            "--notice-ns" => self.prices.notice_ns = number()?,
            "--byte-ps" => self.prices.byte_ps = number()?,
            "--plot" => self.plot = Some(value.to_owned()),
            "--check-races" => self.check_races = true,
            "--check-loads" => self.check_loads = true,
            "--stats" => self.stats = true,
            _ => return Err(bad()),
        }
        Ok(())
    }

    /// Refuses a size with another number of dimensions than the program has, or without extent.
    pub(crate) fn check_size<const N: usize>(
        name: &str,
        size: &[usize],
        least: usize,
    ) -> Result<[usize; N]> {
        let good = size.iter().all(|&extent| (least..=1 << 20).contains(&extent));
        size.try_into().ok().filter(|_| good).ok_or_else(|| {
            Error::InvalidArgument(format!(
                "{name} takes {N} numbers of at least {least} as its size, and not {size:?}"
            ))
        })
    }
}

/// How many iterations of a program \[BST97\] makes, as an argument.
pub fn published_iterations(case: &str) -> Vec<String> {
    let program = Program::ALL.into_iter().find(|program| program.name() == case);
    let count = program.map(|program| program.published_iterations().to_string());
    count.into_iter().flat_map(|count| ["--iterations".to_owned(), count]).collect()
}

/// How many iterations a program makes in virtual time, and what computing and handling pages cost
/// on a simulated machine, as arguments of the program.
pub fn virtual_work(case: &str, profile: &Profile) -> Vec<String> {
    let figure = |name: &str| profile.processor.get(name).map(|figure| figure.is);
    // Pages are copied as fast as memory is.
    let byte_ps = profile.level.last().map(|level| level.byte_ps.is);
    let words = [
        ("--flop-ns", figure("flop_ns")),
        ("--fault-ns", figure("fault_ns")),
        ("--notice-ns", figure("notice_ns")),
        ("--byte-ps", byte_ps),
    ];
    // Where the processor is not described, computing takes no time.
    let is_known = figure("flop_ns").is_some();
    let known = words
        .into_iter()
        .filter(|_| is_known)
        .filter_map(|(flag, value)| Some([flag.to_owned(), value?.to_string()]));
    published_iterations(case).into_iter().chain(known.flatten()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<Options> {
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        Options::parse(Program::Sor, &words)
    }

    #[test]
    fn arguments_are_read() {
        let options =
            parse(&["--size", "20x30", "--barrier=central", "--start", "original"]).unwrap();
        assert_eq!(
            (&options.size[..], options.barrier, options.start),
            (&[20, 30][..], BarrierKind::Central, Start::Original)
        );
        assert_eq!(Options::parse(Program::Fft3d, &[]).unwrap().size, [64, 64, 64]);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (words, problem) in [
            (&["--barrier", "ring"][..], "\"ring\""),
            (&["--size", "20,30"], "20,30"),
            (&["--sise", "1"], "--sise"),
            (&["--size"], "needs a value"),
        ] {
            let error = parse(words).unwrap_err().to_string();
            assert!(error.contains(problem), "{error}");
        }
    }
}
