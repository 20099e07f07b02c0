//! Strips the program of a release: cargo forgets `strip` of a profile for a package that has settings of its own there.

fn main() {
    let is = |name: &str, value: &str| std::env::var(name).is_ok_and(|found| found == value);
    if is("PROFILE", "release") && is("DEBUG", "false") {
        println!("cargo::rustc-link-arg-bins=-Wl,--strip-all");
    }
    println!("cargo::rerun-if-changed=build.rs");
}
