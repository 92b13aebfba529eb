//! Links the unwinder of Rust's standard library into the library itself.
//!
//! It is `libgcc_s.so.1` else: another file that the loader of each program that is started has to
//! find, map and relocate, though few programs need one.

use std::path::Path;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let folder = env::var("OUT_DIR").map_err(io::Error::other)?;
    // A linker script, in the place of the library that rustc asks for (`-lgcc_s`).
    let script = Path::new(&folder).join("libgcc_s.so");
    fs::write(script, "INPUT(-lgcc_eh)\n")?;
    println!("cargo:rustc-link-search=native={folder}");
    println!("cargo:rerun-if-changed=build.rs");
    Ok(())
}
