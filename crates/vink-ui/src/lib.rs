//! The web page: the files of `ui/dist`, as they were when this was built, or a page that says how to build them.
//!
//! `VINK_UI_DIR` names a folder that is read instead, at each request, while the page is changed.

use std::borrow::Cow;
use std::path::{Component, Path};

/// A file of the page as it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asset {
    /// Its media type (RFC 6838).
    pub kind: &'static str,
    /// Its entity tag, with quotes (RFC 9110, 8.8.3); none: it may change at any time.
    pub tag: Option<&'static str>,
    /// What is at its name will never be another, so that it may be kept for good.
    pub is_immutable: bool,
    /// `bytes` are compressed by gzip.
    pub is_gzip: bool,
    /// Its content.
    pub bytes: Cow<'static, [u8]>,
}

struct File {
    name: &'static str,
    tag: &'static str,
    bytes: &'static [u8],
    gzip: &'static [u8],
}

const FILES: &[File] = include!(concat!(env!("OUT_DIR"), "/files.rs"));

const INDEX: &str = "index.html";

/// What is there instead of the page.
const STUB: &str = "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>Vink</title>\n\
    <h1>This vink has no page</h1>\n\
    <p>It was built without. In its sources, run <code>make ui</code>, and build it again.</p></html>\n";

/// The file for a request's path, which begins with a slash; compressed if the client `takes_gzip`. A path without a
/// file is the page itself, whose scripts know what to show, unless it is one of a file that is not there any more.
pub fn find(path: &str, takes_gzip: bool) -> Option<Asset> {
    let name = path.trim_start_matches('/');
    let name = if name.is_empty() { INDEX } else { name };
    let is_page = !name
        .rsplit('/')
        .next()
        .is_some_and(|last| last.contains('.'));
    if let Some(folder) = std::env::var_os("VINK_UI_DIR").filter(|folder| !folder.is_empty()) {
        return in_folder(Path::new(&folder), if is_page { INDEX } else { name });
    }
    if FILES.is_empty() {
        return (is_page || name == INDEX).then(|| Asset {
            kind: kind(INDEX),
            tag: None,
            is_immutable: false,
            is_gzip: false,
            bytes: Cow::Borrowed(STUB.as_bytes()),
        });
    }
    let name = if is_page { INDEX } else { name };
    let file = FILES.iter().find(|file| file.name == name)?;
    let is_gzip = takes_gzip && file.gzip.len() < file.bytes.len();
    Some(Asset {
        kind: kind(name),
        tag: Some(file.tag),
        is_immutable: name.starts_with("assets/"),
        is_gzip,
        bytes: Cow::Borrowed(if is_gzip { file.gzip } else { file.bytes }),
    })
}

fn in_folder(folder: &Path, name: &str) -> Option<Asset> {
    let is_below = |step| matches!(step, Component::Normal(_));
    if !Path::new(name).components().all(is_below) {
        return None;
    }
    let bytes = std::fs::read(folder.join(name)).ok()?;
    Some(Asset {
        kind: kind(name),
        tag: None,
        is_immutable: false,
        is_gzip: false,
        bytes: Cow::Owned(bytes),
    })
}

fn kind(name: &str) -> &'static str {
    match name.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("json") => "application/json",
        Some("woff2") => "font/woff2",
        Some("txt") => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_to_files_or_to_the_page() {
        let page = find("/", true).expect("the page");
        assert_eq!(page.kind, "text/html; charset=utf-8");
        assert!(!page.is_immutable);
        assert_eq!(find("/labs/any", true), Some(page));
        assert_eq!(find("/assets/gone-12345678.js", true), None);
        for file in FILES {
            let plain = find(&format!("/{}", file.name), false).expect(file.name);
            assert_eq!(plain.bytes, file.bytes);
            let small = find(&format!("/{}", file.name), true).expect(file.name);
            assert_eq!(small.is_gzip, file.gzip.len() < file.bytes.len());
        }
    }

    #[test]
    fn a_folder_is_not_left() {
        let folder = std::env::temp_dir();
        assert_eq!(in_folder(&folder, "../etc/passwd"), None);
        assert_eq!(in_folder(&folder, "/etc/passwd"), None);
    }
}
