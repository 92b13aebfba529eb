//! Why a request is refused, and with which HTTP status.

use std::future::Future;

use axum::http::StatusCode;
use vink_api::Problem;
use vink_spec::Diagnostics;

/// Carries this out even if the client goes away meanwhile.
pub(crate) async fn to_its_end<T: Send + 'static>(
    work: impl Future<Output = Result<T, HttpError>> + Send + 'static,
) -> Result<T, HttpError> {
    tokio::spawn(work).await.unwrap_or_else(|error| {
        let error = error.to_string();
        Err(HttpError::new(StatusCode::INTERNAL_SERVER_ERROR, error))
    })
}

/// A refusal.
#[derive(Clone, Debug)]
pub(crate) struct HttpError {
    pub(crate) status: StatusCode,
    pub(crate) problem: Box<Problem>,
}

impl HttpError {
    pub(crate) fn new(status: StatusCode, error: impl Into<String>) -> HttpError {
        HttpError {
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
    ) -> HttpError {
        let mut names: Vec<&str> = there.into_iter().collect();
        let many = names.len();
        // The nearest ones by their beginnings; a lab may have ten thousand.
        let beginning = |name: &str| name.chars().take(32).collect::<String>();
        let name_begins = beginning(name);
        names.sort_by_cached_key(|other| strsim::levenshtein(&name_begins, &beginning(other)));
        names.truncate(5);
        let hint = match (names.as_slice(), many) {
            ([], _) => format!("there is no {kind} {where_}"),
            (names, many) if many > names.len() => {
                format!("{many} are {where_}, such as {}", names.join(", "))
            }
            (names, _) => format!("{where_}: {}", names.join(", ")),
        };
        HttpError::new(StatusCode::NOT_FOUND, format!("no {kind} {name}")).hint(hint)
    }

    /// It is not as it would have to be for this.
    pub(crate) fn conflict(error: impl Into<String>) -> HttpError {
        HttpError::new(StatusCode::CONFLICT, error)
    }

    /// What was asked for can't be.
    pub(crate) fn invalid(error: impl Into<String>) -> HttpError {
        HttpError::new(StatusCode::UNPROCESSABLE_ENTITY, error)
    }

    /// A lab can't be used by what is wrong with this object of it, such as `pods.enc`, which the request has
    /// as its `spec`. None: all mistakes are others'.
    pub(crate) fn of_object(mistakes: &Diagnostics, object: &str) -> Option<HttpError> {
        let own = mistakes.0.iter().filter(|mistake| !mistake.warning);
        let (mistake, rest) = own
            .filter_map(|mistake| Some((mistake, mistake.path.strip_prefix(object)?)))
            .find(|(_, rest)| rest.is_empty() || rest.starts_with('.'))?;
        let fault = HttpError::invalid(mistake.message.clone());
        let fault = fault.at(pointer_in("/spec", rest.trim_start_matches('.')));
        Some(match mistake.fix.is_empty() {
            true => fault,
            false => fault.hint(mistake.fix.clone()),
        })
    }

    /// These are wrong in an object of a lab, which the request has at this JSON pointer.
    pub(crate) fn of_mistakes(mistakes: &Diagnostics, object: &str) -> HttpError {
        let mut fault = HttpError::invalid(mistakes.to_string());
        for mistake in &mistakes.0 {
            fault = fault.at(pointer_in(object, &mistake.path));
        }
        fault
    }

    /// The host failed.
    pub(crate) fn host(what: &str, error: std::io::Error) -> HttpError {
        HttpError::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("{what}: {error}"),
        )
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> HttpError {
        self.problem.hint = Some(hint.into());
        self
    }

    /// Where in the request: a JSON pointer.
    pub(crate) fn at(mut self, path: impl Into<String>) -> HttpError {
        self.problem.paths.push(path.into());
        self
    }

    /// What was done when it failed.
    pub(crate) fn during(mut self, what: &str) -> HttpError {
        self.problem.error = format!("{what}: {}", self.problem.error);
        self
    }
}

/// A path within an object, such as `machines.m1`, as a JSON pointer from the request on.
fn pointer_in(object: &str, path: &str) -> String {
    match path {
        "" => object.to_owned(),
        path => format!("{object}/{}", path.replace('.', "/")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistake_is_of_the_object_that_it_names() {
        let mistake = |path: &str, warning| vink_spec::Diagnostic {
            file: None,
            span: vink_spec::SourceSpan::default(),
            excerpt: String::new(),
            path: path.to_owned(),
            message: format!("{path} is bad"),
            fix: String::new(),
            warning,
        };
        let mistakes = Diagnostics(vec![
            mistake("pods.enc2.file", false),
            mistake("pods.enc.seed", true),
            mistake("pods.enc.limits.time", false),
            mistake("pods.dec", false),
        ]);
        let of = |object: &str| HttpError::of_object(&mistakes, object).map(|fault| fault.problem);
        let fault = of("pods.enc").unwrap();
        assert_eq!(fault.error, "pods.enc.limits.time is bad");
        assert_eq!(fault.paths, ["/spec/limits/time"]);
        assert_eq!(of("pods.dec").unwrap().paths, ["/spec"]);
        assert!(of("pods.en").is_none());
        assert!(of("series.enc").is_none());
    }

    #[test]
    fn names_what_is_near() {
        let names: Vec<String> = (0..100).map(|i| format!("router{i}")).collect();
        let fault = HttpError::no(
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
        let fault = HttpError::no("wire", "w", [], "in lab ring");
        assert_eq!(fault.problem.hint.unwrap(), "there is no wire in lab ring");
    }
}
