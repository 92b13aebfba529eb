//! Long texts that are expected, in files: tests/golden.

/// Compares a text with tests/golden/NAME.txt; `VINK_GOLDEN=write` writes it.
pub fn golden(name: &str, text: &str) {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let path = folder.join(format!("{name}.txt"));
    if std::env::var_os("VINK_GOLDEN").is_some_and(|how| how == "write") {
        std::fs::create_dir_all(&folder).expect("tests/golden");
        std::fs::write(&path, text).expect("a golden text");
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        expected == text,
        "not as in {}:\n{text}\n(VINK_GOLDEN=write takes it over)",
        path.display()
    );
}
