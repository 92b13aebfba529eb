//! Writes the table of the page's files, `ui/dist`, each with its compressed form; an empty one if `make ui` has not run.

use std::fmt::Write as _;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use flate2::{write::GzEncoder, Compression};

fn main() {
    let root = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it"));
    let dist = root.join("../../ui/dist");
    // Cargo looks for changes in a folder; one that is not there would make each build a change.
    let _ = fs::create_dir_all(&dist);
    println!("cargo::rerun-if-changed={}", dist.display());
    let mut files = Vec::new();
    list(&dist, &mut files);
    files.sort();
    let mut table = String::from("&[\n");
    for (number, file) in files.iter().enumerate() {
        let bytes = fs::read(file).expect("a file of ui/dist");
        let mut hasher = DefaultHasher::new();
        bytes.hash(&mut hasher);
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(&bytes).expect("memory");
        let gzip = encoder.finish().expect("memory");
        let compressed = out.join(format!("{number}.gz"));
        fs::write(&compressed, gzip).expect("OUT_DIR is writable");
        let name = file.strip_prefix(&dist).expect("it is below");
        writeln!(
            table,
            "    File {{ name: {:?}, tag: \"W/\\\"{:016x}\\\"\", bytes: include_bytes!({file:?}), gzip: include_bytes!({compressed:?}) }},",
            name.to_str().expect("UTF-8"),
            hasher.finish(),
        )
        .expect("memory");
    }
    table += "]\n";
    fs::write(out.join("files.rs"), table).expect("OUT_DIR is writable");
}

fn list(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        match path.is_dir() {
            true => list(&path, files),
            false => files.push(path),
        }
    }
}
