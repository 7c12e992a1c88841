//! Programs under the race checker.

mod epochs;
mod examples;
mod handlers;
mod locks;
mod many;
#[path = "../support/mod.rs"]
mod support;
mod threads;
