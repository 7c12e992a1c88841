//! The systems that benches compare, and how each runs a plan.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use farside_job::Kind;
use farside_launch::Launch;

use super::{FARSIDE, Limit, OFI, Plan, Setting};
use crate::machine::Machine;
use crate::record::{LIMIT, LIMIT_ASLEEP};
use crate::rivals::{Compiled, Reached, Rival};

pub(super) enum System {
    Farside {
        /// The server of far memory, if one can be chosen.
        server: Option<String>,
        /// The program in C, if that is what ranks run.
        program: Option<PathBuf>,
    },
    Limit(Limit),
    Rival(Compiled),
    Server(Rival),
}

impl System {
    pub(super) fn name(&self) -> &'static str {
        match self {
            System::Farside { .. } => FARSIDE,
            System::Limit(Limit::FarAsleep) => LIMIT_ASLEEP,
            System::Limit(_) => LIMIT,
            System::Rival(compiled) => compiled.rival.name(),
            System::Server(rival) => rival.name(),
        }
    }

    /// Whether it is somebody else's, so that what it cannot do is a finding and no failure.
    pub(super) fn is_rival(&self) -> bool {
        match self {
            System::Rival(compiled) => compiled.rival.taken_over().is_none(),
            System::Server(_) => true,
            System::Farside { .. } | System::Limit(_) => false,
        }
    }

    pub(super) fn server(&self) -> Option<&str> {
        match self {
            System::Farside { server, .. } => server.as_deref(),
            System::Limit(Limit::Far(server)) => Some(server),
            _ => None,
        }
    }

    pub(super) fn all<P: Plan>(setting: &Setting) -> Result<Vec<System>> {
        let servers = setting.in_turn();
        let program = P::program(setting)?;
        let farside = |server: &Option<String>| System::Farside {
            server: server.clone(),
            program: program.clone(),
        };
        let mut systems: Vec<System> = match P::HAS_OWN {
            true => servers.iter().map(farside).collect(),
            false => Vec::new(),
        };
        if P::HAS_LIMIT && setting.sim.is_none() {
            let far =
                |server: Option<String>| System::Limit(server.map_or(Limit::Near, Limit::Far));
            systems.extend(servers.into_iter().map(far));
            let is_loopback = setting.nodes.is_some() && setting.link.is_none();
            systems.extend(is_loopback.then_some(System::Limit(Limit::FarAsleep)));
        }
        for &rival in &setting.against {
            ensure!(
                P::rivals().contains(&rival),
                "{} is not a rival of `bench {}`; the rivals are: {}",
                rival.name(),
                P::BENCH,
                P::rivals().iter().map(|rival| rival.name()).collect::<Vec<_>>().join(", ")
            );
            systems.push(match rival.is_server() {
                true => System::Server(rival),
                false => {
                    let (directory, farside) = (&setting.build_directory, setting.program.clone());
                    System::Rival(Compiled::new(rival, P::BENCH, directory, farside)?)
                }
            });
        }
        Ok(systems)
    }

    /// Runs a plan and returns what it printed.
    pub(super) fn run<P: Plan>(
        &self,
        setting: &Setting,
        ranks: u32,
        plan: &P,
        round: u32,
    ) -> Result<String> {
        match self {
            System::Limit(limit) => plan.run_limit(limit, setting),
            System::Farside { server, program } => match (program, &setting.sim) {
                (None, Some(machine)) => {
                    run_simulated(machine, server.as_deref(), ranks, plan, round)
                }
                (program, _) => {
                    run_farside(setting, server.as_deref(), program.as_deref(), ranks, plan)
                }
            },
            System::Rival(compiled) => {
                match plan.for_rival(compiled.rival, setting.nodes.is_some()) {
                    Some(plan) => compiled.run(
                        ranks,
                        &Reached { far: setting.nodes.is_some(), link: setting.link.as_deref() },
                        &plan.arguments(),
                        plan.deadline(),
                    ),
                    None => Ok(String::new()),
                }
            }
            System::Server(rival) => match plan.for_rival(*rival, setting.nodes.is_some()) {
                Some(plan) => plan.run_server(*rival, ranks, &setting.program),
                None => Ok(String::new()),
            },
        }
    }
}

fn run_simulated<P: Plan>(
    machine: &Machine,
    server: Option<&str>,
    ranks: u32,
    plan: &P,
    round: u32,
) -> Result<String> {
    let program = plan.clone();
    let later = if P::VARIES { u64::from(round - 1) } else { 0 };
    let job = machine.served_by(server)?.later(later).job(ranks)?;
    let outcome = job.run(move |world| program.run(world))?;
    Ok(plan.simulated(outcome.results.concat(), &outcome.timing).join("\n"))
}

/// The word that starts a rank of a measurement.
pub(crate) const RANK: &str = "__bench";

/// Runs a plan as processes of ours: of a program in C, or of the running one.
fn run_farside<P: Plan>(
    setting: &Setting,
    server: Option<&str>,
    program: Option<&Path>,
    ranks: u32,
    plan: &P,
) -> Result<String> {
    let as_rank = [String::from(RANK), P::BENCH.into(), serde_json::to_string(plan)?];
    if let Some(rival) = plan.launcher() {
        let launched = rival.launch(ranks, &setting.program, &as_rank, plan.deadline());
        return launched.with_context(|| format!("farside under {}", rival.name()));
    }
    let launch = match program {
        Some(program) => Launch::new(program, ranks)?.arguments(plan.arguments()),
        None => Launch::new(&setting.program, ranks)?.arguments(as_rank),
    };
    let launch = launch.timeout(plan.deadline()).options(|options| {
        if setting.nodes.is_some() {
            (options.fabric, options.nodes, options.server) =
                (Kind::Nic, setting.nodes, server.map(str::to_owned));
            if server == Some(OFI) {
                (options.fabric, options.server) = (Kind::Ofi, None);
                options.provider = setting.provider.clone().or(options.provider.take());
            }
        }
    });
    let launch = match &setting.link {
        Some(link) => launch.hosts(link.hosts(ranks)?),
        None => launch,
    };
    let report = match plan.launcher_cores() {
        Some(cores) => cores.pinned(|| launch.run())??,
        None => launch.run()?,
    };
    ensure!(report.status == 0, "farside at {ranks} ranks failed: {}", report.failure());
    Ok(String::from_utf8_lossy(&report.stdout).into_owned())
}
