//! Tables that state what operations do, checked instead of measured.

use anyhow::{Result, bail};
use farside::sim::{Profile, run};
use farside::{Rank, World};
use farside_bench::record::Record;

/// Runs the check of that name; its record has `holds`, 1 if everything is as the table says.
pub fn check(name: &str) -> Result<Vec<Record>> {
    match name {
        "nic02-table-1" => atomics(),
        other => bail!("there is no check {other:?}"),
    }
}

/// [NIC02 table I]: memory after fetch&add, fetch&write and compare&swap, and what they return,
/// executed by the interface and by a host that polls.
fn atomics() -> Result<Vec<Record>> {
    let mut records = Vec::new();
    for server in ["nic", "host-poll"] {
        let profile = Profile::load("myrinet-lanai4")?.served_by(server)?;
        let outcome = run(&profile, 2, 1, atomics_hold)?;
        let holds = outcome.results.iter().all(|holds| *holds);
        let record = Record::new("table", "atomics", "farside", "sim", 2, 2);
        records.push(record.with("server", server).figure("holds", u8::from(holds)));
    }
    Ok(records)
}

fn atomics_hold(world: &World) -> farside::Result<bool> {
    const X: u64 = 41;
    const DATA: u64 = 7;
    let words = world.words(4)?;
    let mut holds = true;
    if world.rank() == Rank(0) {
        let at = |word| words.at(Rank(1), word);
        for word in 0..4 {
            world.store(at(word), X)?;
        }
        let expected = [X + DATA, DATA, DATA, X];
        let returned = [
            world.fetch_add(at(0), DATA)?,
            world.swap(at(1), DATA)?,
            world.compare_swap(at(2), X, DATA)?,
            world.compare_swap(at(3), X + 1, DATA)?,
        ];
        for (word, after) in expected.into_iter().enumerate() {
            holds &= returned[word] == X && world.load(at(word))? == after;
        }
    }
    words.free(world)?;
    Ok(holds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_atomics_holds_by_interface_and_host() {
        let records = check("nic02-table-1").unwrap();
        assert_eq!(records.len(), 2);
        assert!(records.iter().all(|record| record.number("holds") == Some(1.0)));
        assert!(check("nic02-table-9").is_err());
    }
}
