//! Compiles the typed interface, which is C: complex numbers and `long double` cross the border by
//! value.

fn main() {
    let sources = std::fs::read_dir("c").expect("the folder c of this crate can be read");
    let sources = sources.map(|entry| entry.expect("an entry of the folder c").path());
    println!("cargo::rerun-if-changed=c");
    println!("cargo::rerun-if-changed=include");
    cc::Build::new()
        .files(sources.filter(|path| path.extension().is_some_and(|ending| ending == "c")))
        .include("include")
        .std("c11")
        .opt_level(2)
        .pic(true)
        .flag("-fvisibility=default")
        .compile("farside_shmem_border");
}
