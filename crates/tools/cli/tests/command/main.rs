//! What the command does, as its users see it: a file for each of its parts.

mod app;
mod bench;
mod check;
mod command_line;
mod containers;
mod culprits;
mod endings;
mod failures;
mod far;
mod figures;
mod help;
mod hosts;
mod just_works;
mod measured;
mod namespaces;
mod run;
mod shared_pages;
mod shmem;
mod simulated;
#[path = "../support/mod.rs"]
mod support;
mod terminal;
