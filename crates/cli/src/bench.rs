//! `farside bench`: measures, beside rivals and limits.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::{Args, Subcommand};
use farside::job::parse_bytes;
use farside_bench::ops;
use farside_bench::record::Record;
use farside_bench::rivals::Rival;

use crate::simulate::Simulate;

/// Measures. What is compared takes turns in one run: on a shared machine only ratios hold.
#[derive(Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Subcommand)]
enum Bench {
    /// Every one-sided operation, and the barrier
    ///
    /// An operation counts when it is complete at its target. `limit` is what no system can beat: the bare store and fence, atomic and copy,
    /// and for the barrier a futex round trip. Where ranks outnumber processors only the barrier is measured.
    Ops(Ops),
}

#[derive(Args)]
#[command(
    after_help = "Examples:\n  farside bench ops --ranks 2,16 --against mpich,openmpi,openshmem --json ops.json --plot plots\n  farside bench ops --sim aries-xc30 --ranks 16,256,1024 --time 1 --rounds 1"
)]
struct Ops {
    /// At how many ranks
    #[arg(long, value_delimiter = ',', default_value = "2", value_name = "N,…")]
    ranks: Vec<u32>,
    #[command(flatten)]
    simulate: Simulate,
    /// Pretend that the simulated ranks are arranged like this, such as node:16
    #[arg(long, value_name = "LEVELS", requires = "sim")]
    topology: Option<String>,
    /// Rivals to measure in the same run: mpich, openmpi, openshmem
    #[arg(long, value_delimiter = ',', value_name = "RIVAL,…")]
    against: Vec<String>,
    /// Which cases: put, get, accumulate, put_strided, fetch_add, swap, compare_swap, signal, rate, barrier; all by default
    #[arg(long, value_delimiter = ',', value_name = "CASE,…")]
    cases: Vec<String>,
    /// At which sizes
    #[arg(long, value_delimiter = ',', default_value = "8,64,1K,8K,64K,1M,4M", value_name = "BYTES,…")]
    sizes: Vec<String>,
    /// How long each case is measured in each round, in milliseconds
    #[arg(long, default_value_t = 20, value_name = "MS")]
    time: u64,
    /// How many rounds; a figure is the median of them
    #[arg(long, default_value_t = 5, value_name = "N")]
    rounds: u32,
    /// Also write the figures here, as one JSON object a line
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Also draw them into this directory, with a page that shows them all
    #[arg(long, value_name = "DIR")]
    plot: Option<PathBuf>,
}

pub(crate) fn run(arguments: Arguments) -> Result<ExitCode> {
    match arguments.bench {
        Bench::Ops(arguments) => run_ops(arguments),
    }
}

fn run_ops(arguments: Ops) -> Result<ExitCode> {
    let program = std::env::current_exe().context("cannot find the running program")?;
    let mut against = Vec::new();
    for word in &arguments.against {
        against.extend(Rival::parse(word)?);
    }
    let sizes: Vec<usize> =
        arguments.sizes.iter().map(|text| Ok(parse_bytes(text)? as usize)).collect::<Result<_>>()?;
    let options = ops::Options {
        sim: arguments.simulate.machine(arguments.topology.as_deref())?,
        ranks: arguments.ranks,
        against,
        cases: arguments.cases,
        sizes,
        time: Duration::from_millis(arguments.time),
        rounds: arguments.rounds,
        workshop: ops::workshop(&program),
        program,
        progress: true,
    };
    // Better now than after minutes of measuring.
    if let Some(path) = &arguments.json {
        std::fs::File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
    }
    if let Some(directory) = &arguments.plot {
        std::fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
    }
    let (records, troubles) = ops::run(&options)?;
    writeln!(std::io::stdout(), "{}", ops::tables(&records))?;
    for trouble in troubles {
        eprintln!("farside: a rival failed: {trouble}");
    }
    if options.against.contains(&Rival::OpenMpi) {
        eprintln!("farside: openmpi's default one-sided component crashes in compare_swap; that case was left out");
    }
    if let Some(path) = arguments.json {
        write_json(&path, &records)?;
    }
    if let Some(directory) = arguments.plot {
        ops::plot(&records, &directory)?;
        writeln!(std::io::stdout(), "plots: {}", directory.join("index.html").display())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn write_json(path: &std::path::Path, records: &[Record]) -> Result<()> {
    let mut file = std::fs::File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
    for record in records {
        writeln!(file, "{}", record.to_json_line()).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// What a rank of a measurement does.
pub(crate) fn rank(name: &str, arguments: &[String]) -> Result<ExitCode> {
    match name {
        "ops" => {
            let world = farside::join()?;
            for sample in ops::run_rank(&world, &ops::Plan::parse(arguments)?)? {
                println!("{sample}");
            }
            Ok(ExitCode::SUCCESS)
        }
        other => bail!("there is no bench {other:?}"),
    }
}
