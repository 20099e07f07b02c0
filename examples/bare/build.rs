//! Tells the linker where the machine's memory is.

fn main() {
    for script in ["lm3s6965.ld", "sections.ld"] {
        println!("cargo:rustc-link-arg=-T{}/{script}", env!("CARGO_MANIFEST_DIR"));
        println!("cargo:rerun-if-changed={script}");
    }
}
