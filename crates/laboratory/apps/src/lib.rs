//! The built-in programs of `farside app`.
//!
//! They are ordinary programs: `farside-apps NAME` is one of them, and joins the job of whatever
//! launcher started it. `farside` itself has [`HELLO`] alone, which needs nothing but a world, so
//! that a first greeting waits for nothing else to be built.

#[cfg(feature = "programs")]
mod count;
#[cfg(feature = "programs")]
mod flag;
mod hello;
#[cfg(feature = "programs")]
pub mod irregular;
#[cfg(feature = "programs")]
pub mod lu;
pub mod output;
#[cfg(feature = "programs")]
pub mod shared;
#[cfg(feature = "programs")]
pub mod svg;
#[cfg(feature = "programs")]
mod wordcount;

use std::process::ExitCode;

use farside::{Result, World};
use farside_fabric::text::say;

/// A built-in program.
pub struct App {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it shows, in a line.
    pub about: &'static str,
    /// What every rank runs; the arguments are those after the name.
    pub run: fn(&World, &[String]) -> Result<()>,
    /// Refuses arguments that `run` would refuse, as far as that can be said without running.
    pub check: fn(&[String]) -> Result<()>,
    /// What a help says of its arguments.
    pub help: fn() -> String,
}

/// The program that needs nothing but a world.
pub const HELLO: App = App {
    name: "hello",
    about: "ranks exchange greetings through each other's memory",
    run: hello::run,
    check: hello::check,
    help: || "  It takes none.\n".into(),
};

impl App {
    /// Says what the program does and takes.
    pub fn page(&self) -> String {
        let App { name, about, .. } = self;
        format!(
            "{name}: {about}\n\nUsage: farside app {name} -n N [OPTIONS OF THE JOB] -- \
             [ARGUMENTS]\n\nArguments:\n{}\n\
             Options of the job, such as --threads, --sim and --trace: farside app --help",
            (self.help)()
        )
    }

    /// Runs the program as the ranks that this process was started for, and returns the exit
    /// status. An error is said on standard error.
    pub fn be_ranks(&self, arguments: Vec<String>) -> ExitCode {
        let App { name, run, .. } = *self;
        let result = farside::entry::try_run(move |world| run(world, &arguments));
        result.unwrap_or_else(|error| {
            if output::is_closed(&error) {
                return output::CLOSED.into();
            }
            let rank = std::env::var(farside_job::RANK);
            match (rank, std::env::var_os(farside_job::ENTRY)) {
                (Ok(rank), None) => say(format_args!("farside: rank {rank}: {name}: {error}")),
                _ => say(format_args!("farside: {name}: {error}")),
            }
            ExitCode::FAILURE
        })
    }
}

/// A program on shared memory, as one of the built-in ones.
#[cfg(feature = "programs")]
macro_rules! shared {
    ($name:literal, $about:literal, $program:ident) => {
        App {
            name: $name,
            about: $about,
            run: |world, arguments| shared::app(world, shared::Program::$program, arguments),
            check: |arguments| shared::check(shared::Program::$program, arguments),
            help: shared::help,
        }
    };
}

/// All built-in programs.
#[cfg(feature = "programs")]
pub const APPS: &[App] = &[
    HELLO,
    shared!("fft3d", "Fourier transforms in three dimensions, on shared memory", Fft3d),
    shared!("barnes", "bodies that attract each other (Barnes-Hut), on shared memory", Barnes),
    shared!("barnes-zones", "the same, with bodies dealt out by cost as in SPLASH", BarnesZones),
    shared!("sor", "successive over-relaxation, on shared memory", Sor),
    shared!("jacobi", "Jacobi's method, on shared memory", Jacobi),
    shared!("tsp", "the shortest round trip, from a work queue on shared memory", Tsp),
    App {
        name: "count",
        about: "ranks count under each lock, and nothing may be lost: [TIMES] [LOCK …]",
        run: count::run,
        check: |arguments| count::parse(arguments).map(drop),
        help: count::help,
    },
    App {
        name: "wordcount",
        about: "counts the words of files, as `sort | uniq -c` does",
        run: wordcount::run,
        check: wordcount::check,
        help: || "  FILE …                   the files whose words are counted\n".into(),
    },
    App {
        name: "irregular",
        about: "many small operations on other ranks' memory, and how fast they are: [OPERATIONS]",
        run: irregular::run,
        check: |arguments| irregular::parse(arguments).map(drop),
        help: irregular::help,
    },
    App {
        name: "lu",
        about: "dense LU factorization in blocks, over windows with passive epochs",
        run: lu::run,
        check: |arguments| lu::parse(arguments).map(drop),
        help: lu::help,
    },
];

/// Finds a program by its name.
#[cfg(feature = "programs")]
pub fn app(name: &str) -> Result<&'static App> {
    APPS.iter().find(|app| app.name == name).ok_or_else(|| {
        let names: Vec<&str> = APPS.iter().map(|app| app.name).collect();
        farside::Error::InvalidArgument(format!(
            "there is no app {name:?}; there are: {}",
            names.join(", ")
        ))
    })
}

#[cfg(all(test, feature = "programs"))]
mod tests {
    use super::*;

    #[test]
    fn every_program_names_what_it_does_not_take() {
        for app in APPS {
            // A file may have any name.
            if app.name == "wordcount" {
                continue;
            }
            let error =
                (app.check)(&["--sim".into(), "aries-xc30".into()]).unwrap_err().to_string();
            assert!(error.contains("--sim"), "{}: {error}", app.name);
            assert!(!(app.help)().is_empty(), "{}", app.name);
        }
    }
}
