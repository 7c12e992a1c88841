//! `farside top`: a live screen of a running job.

mod model;
mod screen;
mod state;
mod style;
mod text;
mod traffic;

use std::io::{IsTerminal as _, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use farside_inspect::{FoundJob, Reader, find};
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use signal_hook::consts::{SIGHUP, SIGTERM};

use model::Model;
use state::{After, State};

use crate::Misuse;

/// What `farside top --help` says.
pub(crate) const ABOUT: &str = "Show what the ranks of a running job do, as it happens

Ranks with their state and rates, who talks to whom, locks with holders and waiters, the longest
waits. Reads a job of this user on this machine, without stopping or slowing it. Press ? for keys.";

/// The arguments of `farside top`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// The process of the launcher, or of any rank; by default the only job that there is
    #[arg(value_name = "JOB")]
    job: Option<u32>,
    /// Print what is seen once, and end
    #[arg(long)]
    once: bool,
    /// Print one JSON object for each look, instead of a screen
    #[arg(long)]
    json: bool,
    /// How long to wait between two looks, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = crate::why::apart)]
    interval: Duration,
    /// Do without colours; so does the variable NO_COLOR
    #[arg(long)]
    no_color: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let job = find(arguments.job)?;
    let reader = job.open()?;
    let is_screen = !arguments.once && !arguments.json;
    if is_screen && !std::io::stdout().is_terminal() {
        bail!(Misuse("standard output is not a terminal: use --once or --json".into()));
    }
    if is_screen { watch(arguments, &job, &reader) } else { print(arguments, &job, &reader) }
}

/// Prints what is seen, as text or as JSON.
fn print(arguments: &Arguments, job: &FoundJob, reader: &Reader) -> Result<ExitCode> {
    let mut before = reader.read();
    loop {
        std::thread::park_timeout(arguments.interval);
        let after = reader.read();
        let model = Model::new(job, &before, &after);
        let mut out = std::io::stdout().lock();
        match arguments.json {
            true => writeln!(out, "{}", model.json(&after))?,
            false => write!(out, "{}", text::page(&model))?,
        }
        out.flush()?;
        if arguments.once || model.is_over() {
            return Ok(ExitCode::SUCCESS);
        }
        before = after;
    }
}

/// The reason why the screen is closed.
enum Closed {
    Quit,
    /// The job has ended.
    Job,
    Signal(usize),
}

/// The time between two looks for signals.
const SIGNAL_LOOK: Duration = Duration::from_millis(100);

/// Shows the screen until it is closed or the job has ended.
fn watch(arguments: &Arguments, job: &FoundJob, reader: &Reader) -> Result<ExitCode> {
    let has_colour = !arguments.no_color && std::env::var_os("NO_COLOR").is_none();
    let mut state = State::new(has_colour);
    // A signal must not end the process before the terminal is as it was.
    let signalled = Arc::new(AtomicUsize::new(0));
    for signal in [SIGTERM, SIGHUP] {
        signal_hook::flag::register_usize(signal, signalled.clone(), signal as usize)
            .context("cannot watch for signals")?;
    }
    let mut terminal = ratatui::try_init().context("cannot use the terminal")?;
    let mut before = reader.read();
    let mut model = Model::new(job, &before, &before);
    let mut due = Instant::now() + arguments.interval.min(Duration::from_millis(300));
    let mut is_changed = true;
    let ended = loop {
        let signal = signalled.load(Ordering::Relaxed);
        if signal != 0 {
            break Ok(Closed::Signal(signal));
        }
        if std::mem::take(&mut is_changed)
            && let Err(error) = terminal.draw(|frame| screen::draw(frame, &model, &state))
        {
            break Err(error);
        }
        let left = due.saturating_duration_since(Instant::now());
        match event::poll(left.min(SIGNAL_LOOK)) {
            Ok(true) => match event::read() {
                Ok(Event::Key(key)) if key.kind != KeyEventKind::Release => {
                    if state.press(key, &model) == After::Quit {
                        break Ok(Closed::Quit);
                    }
                    is_changed = true;
                }
                Ok(_) => is_changed = true,
                Err(error) => break Err(error),
            },
            Ok(false) if Instant::now() < due => {}
            Ok(false) => {
                is_changed = true;
                due = Instant::now() + arguments.interval;
                let after = reader.read();
                if !state.is_frozen() {
                    model = Model::new(job, &before, &after);
                }
                before = after;
                if model.is_over() {
                    break Ok(Closed::Job);
                }
            }
            Err(error) => break Err(error),
        }
    };
    ratatui::restore();
    match ended.context("cannot use the terminal")? {
        Closed::Quit => {}
        Closed::Job => writeln!(std::io::stdout(), "job {} has ended", job.id)?,
        Closed::Signal(signal) => {
            return Ok(ExitCode::from(u8::try_from(128 + signal).unwrap_or(1)));
        }
    }
    Ok(ExitCode::SUCCESS)
}
