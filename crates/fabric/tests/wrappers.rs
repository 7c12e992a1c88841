//! A fabric that stands on another one forwards every method of the trait. The compiler does not
//! ask for those that have a default, and a default is not what the fabric below would do: a put
//! without waiting would wait.

use std::path::{Path, PathBuf};

/// The fabrics that stand on no other: for them the defaults are what is meant.
const ALONE: [&str; 2] = ["shm/src/endpoint.rs", "sim/src/port.rs"];

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the crate is beside the others")
        .to_owned()
}

/// The text of the block that begins with the first line that `begins`, up to the brace that closes
/// it.
fn block(source: &str, begins: impl Fn(&str) -> bool) -> Option<String> {
    let lines: Vec<&str> = source.lines().collect();
    let first = lines.iter().position(|line| begins(line))?;
    let last = first + lines[first..].iter().position(|line| *line == "}")?;
    Some(lines[first..=last].join("\n"))
}

/// The names of the functions that are declared directly in a block.
fn functions(block: &str) -> Vec<&str> {
    let name = |line: &'_ str| -> Option<(usize, usize)> {
        let rest = line.strip_prefix("    ")?;
        let rest = rest.strip_prefix("unsafe ").unwrap_or(rest).strip_prefix("fn ")?;
        let begin = line.len() - rest.len();
        Some((begin, begin + rest.find(['(', '<'])?))
    };
    block.lines().filter_map(|line| name(line).map(|(begin, end)| &line[begin..end])).collect()
}

/// The sources of all crates, each with its path below `crates`.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("the folder can be read").flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The blocks that implement the trait, each with the file it is in.
fn implementations() -> Vec<(String, String)> {
    let mut files = Vec::new();
    sources(&crates(), &mut files);
    let of_file = |path: PathBuf| {
        let source = std::fs::read_to_string(&path).ok()?;
        let is_one = |line: &str| line.starts_with("impl") && line.contains(" Fabric for ");
        let name = path.strip_prefix(crates()).ok()?.to_str()?.to_owned();
        Some((name, block(&source, is_one)?))
    };
    files.into_iter().filter_map(of_file).collect()
}

#[test]
fn wrappers_forward_every_method() {
    let waist =
        std::fs::read_to_string(crates().join("fabric/src/waist.rs")).expect("the trait is there");
    let all = block(&waist, |line| line.starts_with("pub trait Fabric"))
        .expect("the trait is in its file");
    let all = functions(&all);
    assert!(all.len() > 25 && all.contains(&"put_nb") && all.contains(&"work"), "{all:?}");
    let wrappers: Vec<_> =
        implementations().into_iter().filter(|(file, _)| !ALONE.contains(&file.as_str())).collect();
    let missing: Vec<String> = wrappers
        .iter()
        .flat_map(|(file, block)| {
            let has = functions(block);
            let missing = all.iter().filter(move |name| !has.contains(name));
            missing.map(move |name| format!("{file}: {name}")).collect::<Vec<_>>()
        })
        .collect();
    assert!(wrappers.len() >= 3, "the decorator, nic and ofi stand on others: {wrappers:?}");
    assert!(missing.is_empty(), "not forwarded:\n{}", missing.join("\n"));
}
