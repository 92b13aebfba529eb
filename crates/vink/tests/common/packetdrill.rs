//! packetdrill, which is in no package: from its source, where that is.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{root, Place};

/// The one that fits Linux 6.1 and 6.12.
const ARCHIVE: &str = "packetdrill-2025-07.tar.xz";

/// packetdrill's source, if it is there: `$VINK_PACKETDRILL`, or ../shared/packetdrill beside the workspace.
pub fn source() -> Option<PathBuf> {
    let given = std::env::var_os("VINK_PACKETDRILL").map(PathBuf::from);
    let path = given.unwrap_or_else(|| root().join("../shared/packetdrill"));
    let archive = path.join(ARCHIVE);
    match archive.is_file() {
        true => Some(archive),
        false => path.exists().then_some(path),
    }
}

/// Builds packetdrill where the user of a place has programs.
pub fn build(place: &Place, source: &Path) {
    let mut command = Command::new(root().join(".ci/packetdrill"));
    let output = command.arg(source).arg(place.folder()).output();
    let output = output.expect("the script");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
}
