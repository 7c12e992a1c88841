//! What `install.sh` installs: a library that shows its functions and nothing else, and what build
//! tools want to know of it.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use farside_testing::{command, libraries, run, wanted};

/// A directory that goes when the test does.
struct Prefix(std::path::PathBuf);

impl Drop for Prefix {
    fn drop(&mut self) {
        // What cannot be removed lies where cargo keeps its own files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn installed(name: &str) -> Prefix {
    let name = format!("{name}-{}", std::process::id());
    let prefix = Prefix(Path::new(env!("CARGO_TARGET_TMPDIR")).join(name));
    let archive = libraries().join("libfarside_c.a");
    // Whoever installs may keep new files from others.
    let ran = run(command("sh")
        .args(["-c", "umask 077; exec sh \"$0\" \"$@\""])
        .arg(here("install.sh"))
        .arg(archive)
        .args([env!("CARGO_PKG_VERSION")])
        .arg(&prefix.0));
    assert!(ran.status.success(), "{ran:?}");
    prefix
}

fn output(command: &mut Command) -> String {
    let output = command.output().expect("the program starts");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

#[test]
fn the_library_shows_its_functions_and_nothing_else() {
    let prefix = installed("shows");
    let lib = prefix.0.join("lib");
    let version = env!("CARGO_PKG_VERSION");
    let library = lib.join(format!("libfarside.so.{version}"));
    let names = output(Command::new("nm").args(["-D", "--defined-only"]).arg(&library));
    let names: Vec<&str> =
        names.lines().filter_map(|line| line.split_whitespace().last()).collect();
    let header = std::fs::read_to_string(here("include/farside.h")).expect("the header is there");
    let functions: Vec<&str> =
        names.iter().filter_map(|name| name.strip_suffix("@@FARSIDE_0")).collect();
    let others: Vec<&&str> = names
        .iter()
        .filter(|name| !name.starts_with("farside_") && !name.starts_with("FARSIDE_0"))
        .collect();
    assert!(others.is_empty(), "the library shows {others:?}");
    let missing: Vec<&&str> =
        functions.iter().filter(|name| !header.contains(&format!("{name}("))).collect();
    assert!(missing.is_empty(), "the header does not have {missing:?}");
    let declared =
        header.lines().filter(|line| line.contains(" farside_") && line.contains('(')).count();
    assert!(functions.len() > 100, "{} of some {declared} functions", functions.len());
    let dynamic = output(Command::new("readelf").arg("-d").arg(&library));
    assert!(dynamic.contains("soname: [libfarside.so.0]"), "{dynamic}");
    for (link, to) in [("libfarside.so.0", &*library), ("libfarside.so", &*library)] {
        assert_eq!(lib.join(link).canonicalize().unwrap(), to.canonicalize().unwrap());
    }
}

#[test]
fn everybody_can_read_what_is_installed() {
    let prefix = installed("read");
    let mut left = vec![prefix.0.clone()];
    while let Some(path) = left.pop() {
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        let wanted = if path.is_dir() || mode & 0o100 != 0 { 0o055 } else { 0o044 };
        assert_eq!(mode & wanted, wanted, "{}: {mode:o}", path.display());
        if path.is_dir() {
            left.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
}

#[test]
fn a_compiler_that_is_the_wrapper_itself_is_none() {
    let prefix = installed("itself");
    for (wrapper, variable, compiler) in [("farside-cc", "CC", "cc"), ("farside-c++", "CXX", "c++")]
    {
        let path = prefix.0.join("bin").join(wrapper);
        // A link has another name.
        let link = prefix.0.join(format!("link-to-{wrapper}"));
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let shown = |variables: &[(&str, &Path)]| {
            let mut shown = Command::new(&path);
            shown.args(["--showme", "x"]).envs(variables.iter().copied());
            output(&mut shown).split_whitespace().next().unwrap_or_default().to_owned()
        };
        assert_eq!(shown(&[]), compiler);
        assert_eq!(shown(&[(variable, &path)]), compiler);
        assert_eq!(shown(&[(variable, &link)]), compiler);
        assert_eq!(shown(&[(variable, Path::new("other"))]), "other");
        let own = format!("FARSIDE_{variable}");
        assert_eq!(shown(&[(variable, &path), (&own, Path::new("other"))]), "other");
    }
}

#[test]
fn a_program_is_built_with_what_is_installed() {
    let prefix = installed("built");
    let lib = prefix.0.join("lib");
    let program = prefix.0.join("hello");
    let mut compile = Command::new("gcc");
    compile.args(["-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror"]).arg("-o").arg(&program);
    compile.arg(here("examples/hello.c"));
    if wanted("pkg-config") {
        let mut flags = Command::new("pkg-config");
        flags.env("PKG_CONFIG_PATH", lib.join("pkgconfig"));
        let flags = output(flags.args(["--cflags", "--libs", "farside"]));
        compile.args(flags.split_whitespace());
    } else {
        compile.arg("-I").arg(prefix.0.join("include")).arg("-L").arg(&lib).arg("-lfarside");
    }
    output(&mut compile);
    let runs = |program: &Path| {
        // Where the library is, the program knows.
        let ran = run(command(program).env_remove("LD_LIBRARY_PATH"));
        assert!(ran.status.success() && ran.output.contains("hello: all 1 ranks"), "{ran:?}");
    };
    runs(&program);
    for (wrapper, source) in [("farside-cc", "hello.c"), ("farside-c++", "threads.cpp")] {
        let mut compile = Command::new(prefix.0.join("bin").join(wrapper));
        compile.args(["-Wall", "-pthread"]).arg(here("examples").join(source)).arg("-o");
        output(compile.arg(prefix.0.join(wrapper)));
        if source == "hello.c" {
            runs(&prefix.0.join(wrapper));
        }
        let mut shown = Command::new(prefix.0.join("bin").join(wrapper));
        let shown = output(shown.args(["--showme", "-c", "program.c"]));
        assert!(shown.contains("-c program.c") && !shown.contains("-lfarside"), "{shown}");
    }
    if wanted("cmake") {
        let project = prefix.0.join("project");
        std::fs::create_dir_all(&project).expect("a directory can be made");
        let text = format!(
            "cmake_minimum_required(VERSION 3.10)\nproject(hello C)\n\
             find_package(farside 0.1 REQUIRED)\nadd_executable(hello {:?})\n\
             target_link_libraries(hello farside::farside)\n",
            here("examples/hello.c")
        );
        std::fs::write(project.join("CMakeLists.txt"), text).expect("a file can be written");
        let mut configure = Command::new("cmake");
        configure.arg("-S").arg(&project).arg("-B").arg(project.join("build"));
        // It looks where the programs on the path are.
        let path = std::env::var("PATH").unwrap_or_default();
        output(configure.env("PATH", format!("{}/bin:{path}", prefix.0.display())));
        output(Command::new("cmake").arg("--build").arg(project.join("build")));
        runs(&project.join("build/hello"));
    }
}
