//! The published figures that farside reproduces or misses, judged by a program.
//!
//! Published results are data: one file for each paper under `points/`, with the number, where the
//! paper states it, how it is compared, and what is known to make the comparison worthless (it
//! calibrated a profile, it holds by construction, or the run never reaches its threshold). Runs
//! are commands of `farside bench`; their records, not a person, decide each verdict.
//!
//! - [`points`]: the data, and what is wrong with it; [`baseline`]: numbers of profiles as they
//!   were when results became known;
//! - [`measure`]: from records to a value; [`verdict`]: from a value to a verdict;
//! - [`session`]: runs what is asked for, and keeps results as they come;
//! - [`report`]: results as JSON and Markdown; [`page`]: as a page; [`plots`]: its drawings;
//! - [`semantics`]: a table that is checked instead of measured.

#![forbid(unsafe_code)]

pub mod baseline;
pub mod measure;
pub mod page;
pub mod plots;
pub mod points;
pub mod report;
pub mod semantics;
pub mod session;
pub mod verdict;
