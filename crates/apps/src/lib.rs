//! The built-in programs of `farside app`.

mod count;
mod hello;
pub mod lu;
pub mod shared;
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
}

/// All built-in programs.
pub const APPS: &[App] = &[
    App { name: "hello", about: "ranks exchange greetings through each other's memory", run: hello::run },
    App { name: "fft3d", about: "Fourier transforms in three dimensions, on shared memory", run: fft3d },
    App { name: "barnes", about: "bodies that attract each other (Barnes-Hut), on shared memory", run: barnes },
    App { name: "sor", about: "successive over-relaxation, on shared memory", run: sor },
    App { name: "jacobi", about: "Jacobi's method, on shared memory", run: jacobi },
    App {
        name: "count",
        about: "ranks count under each lock, and nothing may be lost: [TIMES] [LOCK …]",
        run: count::run,
    },
    App { name: "wordcount", about: "counts the words of files, as `sort | uniq -c` does", run: wordcount::run },
    App { name: "lu", about: "dense LU factorization in blocks, over windows with passive epochs", run: lu::run },
];

fn fft3d(world: &World, arguments: &[String]) -> Result<()> {
    shared::app(world, shared::Program::Fft3d, arguments)
}

fn barnes(world: &World, arguments: &[String]) -> Result<()> {
    shared::app(world, shared::Program::Barnes, arguments)
}

fn sor(world: &World, arguments: &[String]) -> Result<()> {
    shared::app(world, shared::Program::Sor, arguments)
}

fn jacobi(world: &World, arguments: &[String]) -> Result<()> {
    shared::app(world, shared::Program::Jacobi, arguments)
}

/// Finds a program by its name.
pub fn app(name: &str) -> Result<&'static App> {
    APPS.iter().find(|app| app.name == name).ok_or_else(|| {
        let names: Vec<&str> = APPS.iter().map(|app| app.name).collect();
        Error::Misuse(format!("there is no app {name:?}; there are: {}", names.join(", ")))
    })
}
