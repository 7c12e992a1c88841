//! `farside info`: what this machine offers, what is too small, and what to do about it.

mod interfaces;
mod launchers;
mod libfabric;
mod limits;

use std::io::{IsTerminal as _, Write};
use std::net::{Ipv4Addr, UdpSocket};
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use comfy_table::{ContentArrangement, Table, presets};
use farside::sim::Profile;
use farside_job::{Host, Options};
use serde_json::{Value, json};

/// The arguments of `farside info`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Print one JSON object instead of tables
    #[arg(long)]
    json: bool,
}

/// How wide tables are where nothing says how wide they may be.
const WIDTH: u16 = 140;

/// What a section consists of: rows with the same columns, whose names are also those of the fields
/// in JSON.
pub(crate) struct Section {
    pub(crate) name: &'static str,
    pub(crate) columns: &'static [&'static str],
    pub(crate) rows: Vec<Vec<Value>>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let sections = [
        fabrics(),
        libfabric::section(),
        interfaces::section(),
        machine()?,
        limits::section(),
        launchers::section(),
        profiles()?,
    ];
    let mut out = std::io::stdout().lock();
    if arguments.json {
        let sections = sections.iter().map(|section| (section.name.to_owned(), section.to_json()));
        let all: serde_json::Map<String, Value> =
            std::iter::once(("version".to_owned(), json!(env!("CARGO_PKG_VERSION"))))
                .chain(sections)
                .collect();
        writeln!(out, "{}", Value::Object(all))?;
    } else {
        for section in sections {
            writeln!(out, "{}\n{}\n", section.name, section.to_table())?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

impl Section {
    fn to_json(&self) -> Value {
        let row = |row: &Vec<Value>| {
            let fields = self
                .columns
                .iter()
                .zip(row)
                .map(|(column, value)| ((*column).to_owned(), value.clone()));
            Value::Object(fields.collect())
        };
        self.rows.iter().map(row).collect()
    }

    fn to_table(&self) -> Table {
        let mut table = Table::new();
        table
            .load_style(presets::UTF8_FULL_CONDENSED)
            .set_content_arrangement(ContentArrangement::Dynamic);
        if !std::io::stdout().is_terminal() {
            table.set_width(WIDTH);
        }
        table.set_header(self.columns);
        let cell = |value: &Value| match value {
            Value::String(text) => text.clone(),
            Value::Null => String::new(),
            Value::Bool(holds) => if *holds { "yes" } else { "no" }.to_owned(),
            other => other.to_string(),
        };
        for row in &self.rows {
            table.add_row(row.iter().map(cell));
        }
        table
    }
}

/// What moves bytes between ranks, and whether it can here.
fn fabrics() -> Section {
    let shm = Options::new(1)
        .and_then(|options| Host::create(&options))
        .map(drop)
        .map_err(|error| error.to_string());
    let nic =
        UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).map(drop).map_err(|error| error.to_string());
    let ofi = farside_job::libfabric().map(drop).map_err(|error| error.to_string());
    let row = |name: &str, works: Result<(), String>, what: &str, atomics: &str| {
        let note = works.as_ref().err().cloned().unwrap_or_else(|| what.to_owned());
        vec![json!(name), json!(works.is_ok()), json!(atomics), json!(note)]
    };
    let rows = vec![
        row("shm", shm, "ranks of one machine over mapped memory", "the processor's"),
        row(
            "nic",
            nic,
            "nodes over UDP; an agent of each node serves its memory",
            "the agent's, with the processor's",
        ),
        row("ofi", ofi, "nodes over libfabric", "the agent's, or the provider's"),
        row("sim", Ok(()), "simulated ranks, in virtual time or every schedule", "simulated"),
    ];
    Section { name: "fabrics", columns: &["fabric", "here", "atomics", "what"], rows }
}

/// The machine as ranks would be placed on it, one for each processor.
fn machine() -> Result<Section> {
    let processors = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
    let host = Host::create(&Options::new(processors)?)?;
    let memory = rustix::system::sysinfo();
    let mebibytes = (memory.totalram * u64::from(memory.mem_unit)) >> 20;
    let mut rows = vec![
        vec![json!("processors"), json!(processors), json!("that this process may use")],
        vec![json!("memory"), json!(mebibytes), json!("MiB")],
    ];
    for level in host.topology().levels() {
        let sizes = format!(
            "as ranks would be placed, one for each processor: {}",
            host.topology().describe()
        );
        let note = if level.name == "node" { sizes } else { String::new() };
        rows.push(vec![json!(level.name), json!(level.elements), json!(note)]);
    }
    Ok(Section { name: "machine", columns: &["what", "count", "note"], rows })
}

/// Machines to simulate.
fn profiles() -> Result<Section> {
    let mut rows = Vec::new();
    for name in Profile::names() {
        let profile = Profile::load(name)?;
        // The first part of a sentence; a point within a number ends none.
        let ends = [": ", ", ", "; ", ". "].iter().filter_map(|end| profile.machine.find(end));
        let first =
            profile.machine.get(..ends.min().unwrap_or(profile.machine.len())).unwrap_or_default();
        rows.push(vec![json!(name), json!(first.trim_end_matches('.'))]);
    }
    Ok(Section { name: "profiles", columns: &["profile", "machine"], rows })
}
