//! What the compiler says of mistakes that newcomers make. It takes a build of its own, and so only
//! the longer tier (`FARSIDE_LONG=1`) looks.

use std::path::Path;
use std::process::Command;

/// Two programs, in a project of their own.
const PROGRAMS: [(&str, &str); 2] = [
    (
        "forbidden_values",
        "#[farside::main]
fn main(world: &farside::World) -> farside::Result<()> {
    world.window::<bool>(4)?.free(world)
}
",
    ),
    (
        "shared_context",
        "use farside::{Rank, World};

#[farside::main]
fn main(world: &World) -> farside::Result<()> {
    let words = world.words(1)?;
    let context = world.context()?;
    std::thread::scope(|threads| {
        threads.spawn(|| context.fetch_add(words.at(Rank(0), 0), 1).map(drop));
    });
    words.free(world)
}
",
    ),
];

/// Compiles one of the programs, which must fail; returns what the compiler says.
fn errors_of(name: &str) -> String {
    let project = Path::new(env!("CARGO_TARGET_TMPDIR")).join("compile");
    let source = Path::new(env!("CARGO_MANIFEST_DIR"));
    std::fs::create_dir_all(project.join("src/bin")).unwrap();
    let manifest = format!(
        "[package]\nname = \"mistakes\"\nedition = \"2024\"\n\n[dependencies]\nfarside = {{ path = \
         {source:?}, default-features = false }}\n\n[workspace]\n"
    );
    std::fs::write(project.join("Cargo.toml"), manifest).unwrap();
    // The versions of all dependencies are there already.
    std::fs::copy(source.join("../../../Cargo.lock"), project.join("Cargo.lock")).unwrap();
    for (name, text) in PROGRAMS {
        std::fs::write(project.join(format!("src/bin/{name}.rs")), text).unwrap();
    }
    let output = Command::new(env!("CARGO"))
        .args(["check", "--offline", "--quiet", "--color", "never", "--bin", name])
        .env("CARGO_TARGET_DIR", project.join("target"))
        .current_dir(&project)
        .output()
        .expect("cargo is there: it runs this test");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{name} compiles");
    said
}

#[test]
fn the_compiler_says_what_newcomers_need() {
    if std::env::var_os("FARSIDE_LONG").is_none() {
        println!("SKIPPED: FARSIDE_LONG=1 builds a project for it");
        return;
    }
    let said = errors_of("forbidden_values");
    for words in [
        "error[E0277]: `bool` is not plain data, which other ranks could read and write as bytes",
        "`#[zerocopy(crate = \"farside::zerocopy\")]`",
        "a `bool`, a `char` or an enum has forbidden values: use a number in its place",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let said = errors_of("shared_context");
    assert_eq!(said.matches("error[").count(), 1, "{said}");
    assert!(said.contains("context"), "{said}");
}
