//! Answers with the files of the web page, and with the headers that keep other pages out.

use axum::extract::Request;
use axum::http::{header, HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};

use crate::http_error::HttpError;

/// What each answer over TCP has. Scripts come from here alone; styles may be written by the terminal and the editor.
const HEADERS: [(HeaderName, &str); 5] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; \
         img-src 'self' data: blob:; font-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
];

/// Has an answer that goes over TCP say what a browser may do with it.
pub(crate) fn secure(response: &mut Response) {
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    let no_store = HeaderValue::from_static("no-store");
    headers.entry(header::CACHE_CONTROL).or_insert(no_store);
}

/// A file of the page; anything below `/v1` is no route.
pub(crate) async fn find(request: Request) -> Response {
    let path = request.uri().path();
    if path == "/v1" || path.starts_with("/v1/") || request.method() != Method::GET {
        return unknown();
    }
    let headers = request.headers();
    let takes_gzip = contains(headers, header::ACCEPT_ENCODING, "gzip");
    let Some(asset) = vink_ui::find(path, takes_gzip) else {
        return unknown();
    };
    let cache = match asset.is_immutable {
        true => "public, max-age=31536000, immutable",
        false => "no-cache",
    };
    let mut response = match asset.tag {
        Some(tag) if contains(headers, header::IF_NONE_MATCH, tag) => {
            StatusCode::NOT_MODIFIED.into_response()
        }
        _ => ([(header::CONTENT_TYPE, asset.kind)], asset.bytes).into_response(),
    };
    let mut set = |name, value| {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    };
    set(header::CACHE_CONTROL, cache);
    set(header::VARY, "accept-encoding");
    if let Some(tag) = asset.tag {
        set(header::ETAG, tag);
    }
    if asset.is_gzip {
        set(header::CONTENT_ENCODING, "gzip");
    }
    response
}

fn unknown() -> Response {
    HttpError::new(StatusCode::NOT_FOUND, "there is nothing at this path")
        .hint("GET /v1/openapi.json describes what there is")
        .into_response()
}

/// Whether a header's list has an item, whatever its parameters.
fn contains(headers: &HeaderMap, name: HeaderName, item: &str) -> bool {
    let values = headers
        .get_all(name)
        .iter()
        .filter_map(|value| value.to_str().ok());
    values
        .flat_map(|value| value.split(','))
        .any(|one| one.split(';').next().is_some_and(|one| one.trim() == item))
}
