//! docs/switchbox.md has every command as `help` has it.

use std::fs;
use std::path::Path;

#[test]
fn the_page_has_the_table() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/switchbox.md");
    let text = fs::read_to_string(&page).expect("docs/switchbox.md");
    let table = vink_shell::table();
    assert!(
        text.contains(&table),
        "{} is to have this table, and no other:\n{table}",
        page.display()
    );
    let rows = text.lines().filter(|line| line.contains("| everywhere |"));
    assert_eq!(rows.count(), table.matches("| everywhere |").count());
}
