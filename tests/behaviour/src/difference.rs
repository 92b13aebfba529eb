//! Two outputs, line by line.

/// The first line that differs, with what leads to it; `None` if both texts are the same.
pub fn difference(host: &str, vink: &str) -> Option<String> {
    let mut host = host.lines();
    let mut vink = vink.lines();
    let mut before = Vec::new();
    loop {
        match (host.next(), vink.next()) {
            (None, None) => return None,
            (a, b) if a == b => before.extend(a),
            (a, b) => {
                let from = before.len().saturating_sub(5);
                return Some(format!(
                    "line {} differs, after\n    {}\n  expected: {}\n  on Vink:  {}",
                    before.len() + 1,
                    before[from..].join("\n    "),
                    a.unwrap_or("(the end)"),
                    b.unwrap_or("(the end)"),
                ));
            }
        }
    }
}
