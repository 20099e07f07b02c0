//! Names the shared library as programs will look for it: by the version of its interface.

/// Changes when programs that were linked with the library before would no longer run with it.
const INTERFACE: u32 = 0;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libtruechimer.so.{INTERFACE}");
    // A function that nobody defines is found here, not in the program that loads the library.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,defs");
}
