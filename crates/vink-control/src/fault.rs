//! Why a request is refused, and with which HTTP status.

use axum::http::StatusCode;
use vink_api::Problem;

/// A refusal.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) status: StatusCode,
    pub(crate) problem: Box<Problem>,
}

impl Fault {
    pub(crate) fn new(status: StatusCode, error: impl Into<String>) -> Fault {
        Fault {
            status,
            problem: Box::new(Problem {
                error: error.into(),
                ..Problem::default()
            }),
        }
    }

    /// What it is that was asked for is not there; names those that are.
    pub(crate) fn no<'a>(
        kind: &str,
        name: &str,
        there: impl IntoIterator<Item = &'a str>,
        where_: &str,
    ) -> Fault {
        let mut names: Vec<&str> = there.into_iter().collect();
        let many = names.len();
        // The nearest ones; a lab may have ten thousand.
        names.sort_by_cached_key(|other| distance(name, other));
        names.truncate(5);
        let hint = match (names.as_slice(), many) {
            ([], _) => format!("there is no {kind} {where_}"),
            (names, many) if many > names.len() => {
                format!("{many} are {where_}, such as {}", names.join(", "))
            }
            (names, _) => format!("{where_}: {}", names.join(", ")),
        };
        Fault::new(StatusCode::NOT_FOUND, format!("no {kind} {name}")).hint(hint)
    }

    /// It is not as it would have to be for this.
    pub(crate) fn conflict(error: impl Into<String>) -> Fault {
        Fault::new(StatusCode::CONFLICT, error)
    }

    /// What was asked for can't be.
    pub(crate) fn invalid(error: impl Into<String>) -> Fault {
        Fault::new(StatusCode::UNPROCESSABLE_ENTITY, error)
    }

    /// The host failed.
    pub(crate) fn host(what: &str, error: std::io::Error) -> Fault {
        Fault::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("{what}: {error}"),
        )
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Fault {
        self.problem.hint = Some(hint.into());
        self
    }

    /// Where in the request: a JSON pointer.
    pub(crate) fn at(mut self, path: impl Into<String>) -> Fault {
        self.problem.paths.push(path.into());
        self
    }

    /// What was done when it failed.
    pub(crate) fn during(mut self, what: &str) -> Fault {
        self.problem.error = format!("{what}: {}", self.problem.error);
        self
    }
}

/// How many letters are to be changed to make one of the other; of the beginnings only.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) =
        (a.chars().take(32).collect(), b.chars().take(32).collect());
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut corner = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let above = row[j + 1];
            row[j + 1] = (corner + usize::from(x != y))
                .min(above + 1)
                .min(row[j] + 1);
            corner = above;
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_what_is_near() {
        let names: Vec<String> = (0..100).map(|i| format!("router{i}")).collect();
        let fault = Fault::no(
            "machine",
            "ruter7",
            names.iter().map(String::as_str),
            "in lab ring",
        );
        assert_eq!(fault.status, 404);
        let hint = fault.problem.hint.unwrap();
        assert!(
            hint.starts_with("100 are in lab ring, such as router7, "),
            "{hint}"
        );
        let fault = Fault::no("wire", "w", [], "in lab ring");
        assert_eq!(fault.problem.hint.unwrap(), "there is no wire in lab ring");
    }
}
