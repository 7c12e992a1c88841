//! `farside info`: what this machine offers.

use std::io::Write;
use std::process::ExitCode;

use anyhow::Result;
use farside::job::{Host, Options};
use farside::sim::Profile;
use rustix::process::{Resource, getrlimit};

pub(crate) fn run() -> Result<ExitCode> {
    let mut out = std::io::stdout().lock();
    let processors = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
    let host = Host::create(&Options::new(processors)?)?;
    let memory = rustix::system::sysinfo();
    writeln!(out, "fabrics      shm (ranks of this machine over mapped memory)")?;
    writeln!(out, "             sim (simulated ranks, in virtual time or every schedule)")?;
    writeln!(out, "processors   {processors}")?;
    writeln!(out, "memory       {} MiB", (memory.totalram * u64::from(memory.mem_unit)) >> 20)?;
    writeln!(out, "topology     {}, one rank for each processor", host.topology().describe())?;
    let files = getrlimit(Resource::Nofile).current;
    writeln!(out, "open files   {}", files.map_or("unlimited".into(), |files| files.to_string()))?;
    // The launcher needs three files for each rank: two pipes and a handle on the process.
    if let Some(files) = files
        && files < 1024
    {
        writeln!(out, "             `farside run` needs 3 for each rank: raise it with `ulimit -n 4096`")?;
    }
    writeln!(out, "profiles     machines for --sim, in virtual time:")?;
    for name in Profile::names() {
        let profile = Profile::load(name)?;
        let first =
            profile.machine.split_once([':', ',', ';', '.']).map_or(profile.machine.as_str(), |(first, _)| first);
        writeln!(out, "             {name:16} {first}")?;
    }
    Ok(ExitCode::SUCCESS)
}
