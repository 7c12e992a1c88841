//! The built-in programs of `farside app`.

mod count;
mod hello;
pub mod irregular;
pub mod lu;
pub mod output;
pub mod shared;
pub mod svg;
mod wordcount;

use farside::{Error, Result, World};

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

/// A program on shared memory, as one of the built-in ones.
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
pub const APPS: &[App] = &[
    App {
        name: "hello",
        about: "ranks exchange greetings through each other's memory",
        run: hello::run,
        check: hello::check,
        help: || "  It takes none.\n".into(),
    },
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
pub fn app(name: &str) -> Result<&'static App> {
    APPS.iter().find(|app| app.name == name).ok_or_else(|| {
        let names: Vec<&str> = APPS.iter().map(|app| app.name).collect();
        Error::InvalidArgument(format!("there is no app {name:?}; there are: {}", names.join(", ")))
    })
}

#[cfg(test)]
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
