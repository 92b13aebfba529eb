//! The routes that are served, and their description: one table, so that neither has what the other
//! has not.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::rejection::PathRejection;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::{Path, RawQuery, State};
use axum::http::{header, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::{on, MethodFilter};
use axum::{Extension, Router};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde::de::DeserializeOwned;
use serde::Serialize;
use serde_json::{json, Map, Value};
use vink_api::{Problem, Role};

use crate::http_error::{to_its_end, HttpError};
use crate::page;
use crate::server::App;
use crate::session::Access;

/// What WebSockets speak, for clients that ask.
const PROTOCOL: &str = "vink.v1";

/// A request: the names in its path, its query, its body.
pub(crate) struct Call<Q = (), B = ()> {
    names: HashMap<String, String>,
    /// The session that it comes from.
    pub(crate) access: Access,
    pub(crate) query: Q,
    pub(crate) body: B,
}

impl<Q, B> Call<Q, B> {
    /// What stands in the path for `{name}`.
    pub(crate) fn name(&self, name: &str) -> &str {
        self.names.get(name).map_or("", String::as_str)
    }
}

/// Routes under construction.
pub(crate) struct RouteTable {
    router: Router<App>,
    paths: Map<String, Value>,
    generator: SchemaGenerator,
}

impl IntoResponse for HttpError {
    fn into_response(self) -> Response {
        let body = serde_json::to_vec(&self.problem).expect("plain data");
        answer(self.status, "application/problem+json", body)
    }
}

fn answer(status: StatusCode, kind: &'static str, body: Vec<u8>) -> Response {
    (status, [(header::CONTENT_TYPE, kind)], body).into_response()
}

impl RouteTable {
    pub(crate) fn new() -> RouteTable {
        let settings = SchemaSettings::draft2020_12().with(|settings| {
            settings.definitions_path = "/components/schemas".into();
            settings.meta_schema = None;
        });
        RouteTable {
            router: Router::new(),
            paths: Map::new(),
            generator: settings.into_generator(),
        }
    }

    /// A request with a JSON answer of this status; one that answers nothing (`()`) has 204.
    pub(crate) fn route<Q, B, A, F>(
        &mut self,
        method: &str,
        path: &str,
        summary: &str,
        handler: impl Fn(Arc<crate::server::Inner>, Call<Q, B>) -> F + Clone + Send + Sync + 'static,
    ) where
        Q: DeserializeOwned + JsonSchema + Send + 'static,
        B: DeserializeOwned + JsonSchema + Send + 'static,
        A: Serialize + JsonSchema + Send + 'static,
        F: Future<Output = Result<A, HttpError>> + Send + 'static,
    {
        let nothing = is_nothing::<A>();
        let status = match method {
            _ if nothing => StatusCode::NO_CONTENT,
            "post"
                if !path.ends_with("restart")
                    && !path.ends_with("signal")
                    && !path.starts_with("/v1/spec/") =>
            {
                StatusCode::CREATED
            }
            _ => StatusCode::OK,
        };
        // What is done to a lab is written down, if it is recorded.
        let verb = method.to_uppercase();
        let needed = needs(method, path);
        let changes =
            method != "get" && path.starts_with("/v1/labs/{lab}/") && !changes_no_lab(path)
                || method == "put";
        // That is written down piece by piece.
        let is_input = path.ends_with("/input");
        let serve = move |State(app): State<App>,
                          names: Result<Path<HashMap<String, String>>, PathRejection>,
                          RawQuery(query): RawQuery,
                          uri: Uri,
                          access: Option<Extension<Access>>,
                          body: Bytes| async move {
            let done = async {
                let call = Call {
                    access: allowed(access, needed)?,
                    names: named(names)?,
                    query: query_of(query.as_deref())?,
                    body: body_of(&body)?,
                };
                let lab = app.labs.get(call.name("lab"));
                let actor = call.access.actor.clone();
                let work = handler(app, call);
                if let (Ok(lab), true) = (&lab, verb != "GET" && !is_input) {
                    lab.tell_asked(&actor, &verb, uri.path(), &body);
                }
                match lab {
                    Ok(lab) if changes && !is_input => {
                        let is_whole = verb == "PUT";
                        let changed = async move {
                            lab.changed_by(&actor, &verb, uri.path(), &body, work).await
                        };
                        match is_whole {
                            true => to_its_end(changed).await,
                            false => changed.await,
                        }
                    }
                    _ => work.await,
                }
            };
            match done.await {
                Ok(_) if nothing => status.into_response(),
                Ok(found) => {
                    let body = serde_json::to_vec(&found).expect("plain data");
                    answer(status, "application/json", body)
                }
                Err(fault) => fault.into_response(),
            }
        };
        let content = match nothing {
            true => json!({ "description": "Done" }),
            false => {
                let schema = self.generator.subschema_for::<A>();
                let content = json!({ "application/json": { "schema": schema } });
                json!({ "description": "The answer", "content": content })
            }
        };
        let responses = json!({ status.as_str(): content });
        self.add::<Q, B>(method, path, summary, responses, Value::Null);
        let filter = match method {
            "get" => MethodFilter::GET,
            "put" => MethodFilter::PUT,
            "post" => MethodFilter::POST,
            "patch" => MethodFilter::PATCH,
            _ => MethodFilter::DELETE,
        };
        self.serve(path, on(filter, serve));
    }

    /// A request whose answer is bytes that come bit by bit.
    pub(crate) fn stream<Q, F>(
        &mut self,
        path: &str,
        summary: &str,
        handler: impl Fn(Arc<crate::server::Inner>, Call<Q>) -> F + Clone + Send + Sync + 'static,
    ) where
        Q: DeserializeOwned + JsonSchema + Send + 'static,
        F: Future<Output = Result<Body, HttpError>> + Send + 'static,
    {
        let needed = needs("get", path);
        let serve = move |State(app): State<App>,
                          names: Result<Path<HashMap<String, String>>, PathRejection>,
                          access: Option<Extension<Access>>,
                          RawQuery(query): RawQuery| async move {
            let done = async {
                let call = Call {
                    access: allowed(access, needed)?,
                    names: named(names)?,
                    query: query_of(query.as_deref())?,
                    body: (),
                };
                handler(app, call).await
            };
            match done.await {
                Ok(body) => {
                    ([(header::CONTENT_TYPE, "application/octet-stream")], body).into_response()
                }
                Err(fault) => fault.into_response(),
            }
        };
        let responses = json!({ "200": {
            "description": "Bytes",
            "content": { "application/octet-stream": {} }
        }});
        self.add::<Q, ()>("get", path, summary, responses, Value::Null);
        self.serve(path, on(MethodFilter::GET, serve));
    }

    /// A WebSocket. `about`: what its messages are, for the description.
    pub(crate) fn socket<Q, F>(
        &mut self,
        path: &str,
        summary: &str,
        about: impl FnOnce(&mut SchemaGenerator) -> Value,
        handler: impl Fn(Arc<crate::server::Inner>, Call<Q>, WebSocketUpgrade) -> F
            + Clone
            + Send
            + Sync
            + 'static,
    ) where
        Q: DeserializeOwned + JsonSchema + Send + 'static,
        F: Future<Output = Result<Response, HttpError>> + Send + 'static,
    {
        let needed = needs("get", path);
        let serve =
            move |State(app): State<App>,
                  names: Result<Path<HashMap<String, String>>, PathRejection>,
                  RawQuery(query): RawQuery,
                  access: Option<Extension<Access>>,
                  upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>| async move {
                let done = async {
                    let call = Call {
                        access: allowed(access, needed)?,
                        names: named(names)?,
                        query: query_of(query.as_deref())?,
                        body: (),
                    };
                    let upgrade = upgrade.map_err(|rejection| {
                        HttpError::new(StatusCode::UPGRADE_REQUIRED, rejection.to_string())
                            .hint("this is a WebSocket (RFC 6455)")
                    })?;
                    let upgrade = upgrade.protocols([PROTOCOL]);
                    handler(app, call, upgrade).await
                };
                done.await.unwrap_or_else(IntoResponse::into_response)
            };
        let responses = json!({
            "101": { "description": "A WebSocket: x-messages says what it carries" },
            "426": { "$ref": "#/components/responses/problem" }
        });
        let about = about(&mut self.generator);
        self.add::<Q, ()>("get", path, summary, responses, about);
        self.serve(path, on(MethodFilter::GET, serve));
    }

    fn serve(&mut self, path: &str, method: axum::routing::MethodRouter<App>) {
        let router = std::mem::take(&mut self.router);
        self.router = router.route(path, method);
    }

    /// Describes a route.
    fn add<Q: JsonSchema, B: JsonSchema + 'static>(
        &mut self,
        method: &str,
        path: &str,
        summary: &str,
        mut responses: Value,
        messages: Value,
    ) {
        let mut parameters = Vec::new();
        for name in path.split('/').filter_map(|part| part.strip_prefix('{')) {
            parameters.push(json!({
                "name": name.trim_end_matches('}'),
                "in": "path",
                "required": true,
                "schema": { "type": "string" }
            }));
        }
        let query = self.generator.root_schema_for::<Q>();
        let required: Vec<&str> = query
            .get("required")
            .and_then(Value::as_array)
            .map(|names| names.iter().filter_map(Value::as_str).collect())
            .unwrap_or_default();
        let properties = query.get("properties").and_then(Value::as_object);
        for (name, schema) in properties.into_iter().flatten() {
            parameters.push(json!({
                "name": name,
                "in": "query",
                "required": required.contains(&name.as_str()),
                "schema": schema
            }));
        }
        responses["default"] = json!({ "$ref": "#/components/responses/problem" });
        let mut operation = json!({
            "operationId": id(method, path),
            "summary": summary,
            "responses": responses
        });
        if let Some(role) = needs(method, path) {
            operation["x-role"] = json!(role);
        }
        if !parameters.is_empty() {
            operation["parameters"] = parameters.into();
        }
        if !is_nothing::<B>() {
            let schema = self.generator.subschema_for::<B>();
            operation["requestBody"] = json!({
                "required": true,
                "content": { "application/json": { "schema": schema } }
            });
        }
        if !messages.is_null() {
            operation["x-messages"] = messages;
        }
        let entry = self.paths.entry(path.to_owned()).or_insert(json!({}));
        entry[method] = operation;
    }

    /// What is served, with the description at `/v1/openapi.json`.
    pub(crate) fn finish(mut self, app: App) -> Router {
        const PATH: &str = "/v1/openapi.json";
        let responses = json!({ "200": {
            "description": "OpenAPI 3.1",
            "content": { "application/json": { "schema": { "type": "object" } } }
        }});
        self.add::<(), ()>("get", PATH, "This description", responses, Value::Null);
        let problem = self.generator.subschema_for::<Problem>();
        let document = json!({
            "openapi": "3.1.0",
            "info": {
                "title": "Vink's control API",
                "version": env!("CARGO_PKG_VERSION"),
                "license": { "name": "GPL-2.0-only", "identifier": "GPL-2.0-only" },
                "description": "Labs, machines, wires and programs. See docs/api.md."
            },
            "servers": [{ "url": "/" }],
            "paths": self.paths,
            "components": {
                "schemas": self.generator.take_definitions(true),
                "responses": { "problem": {
                    "description": "It could not be done",
                    "content": { "application/problem+json": { "schema": problem } }
                }}
            }
        });
        let text: Arc<str> = document.to_string().into();
        let serve = move || async move {
            answer(StatusCode::OK, "application/json", text.as_bytes().to_vec())
        };
        self.serve(PATH, on(MethodFilter::GET, serve));
        let wrong = || async {
            HttpError::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "this path has no such method",
            )
            .hint("GET /v1/openapi.json describes what there is")
        };
        self.router
            .fallback(page::find)
            .method_not_allowed_fallback(wrong)
            .with_state(app)
    }
}

/// Whether what is done at this path leaves the lab as it is.
fn changes_no_lab(path: &str) -> bool {
    path.contains("/captures") || path.contains("/views")
}

/// The least role that a request needs; `None`: it needs no session. What is not listed here and changes something is
/// the owner's.
fn needs(method: &str, path: &str) -> Option<Role> {
    let of_lab = path.strip_prefix("/v1/labs/{lab}/");
    Some(match (method, path, of_lab) {
        ("post", "/v1/session", _) => return None,
        // Reads files of the host, as far as they are named in a text.
        ("post", "/v1/spec/check", _) => Role::Operate,
        ("post", "/v1/spec/format", _) => Role::View,
        ("get", "/v1/sessions", _) => Role::Own,
        // What is beside the lab file, and nothing else.
        ("post", _, Some("views/save")) => Role::Draw,
        ("get", ..) => Role::View,
        // Writes files of the host, or loads code from them. What is captured into one is the owner's,
        // too.
        (_, _, Some("series" | "series/{series}" | "pods")) => Role::Own,
        (_, _, Some(_)) => Role::Operate,
        _ => Role::Own,
    })
}

/// Whether a request may be carried out, and its session.
fn allowed(access: Option<Extension<Access>>, needed: Option<Role>) -> Result<Access, HttpError> {
    let Some(needed) = needed else {
        return Ok(access.map_or_else(Access::without_session, |Extension(access)| access));
    };
    match access {
        Some(Extension(access)) => access.must_be(needed).map(|()| access),
        None => Err(HttpError::new(
            StatusCode::UNAUTHORIZED,
            "a session is needed",
        )),
    }
}

fn is_nothing<T: 'static>() -> bool {
    std::any::TypeId::of::<T>() == std::any::TypeId::of::<()>()
}

/// `getLabsLabMachines` and the like.
fn id(method: &str, path: &str) -> String {
    let mut id = method.to_owned();
    for part in path.trim_start_matches("/v1").split(['/', '.']) {
        let part = part.trim_matches(['{', '}']);
        let mut letters = part.chars();
        id.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        id.extend(letters);
    }
    id
}

fn named(
    names: Result<Path<HashMap<String, String>>, PathRejection>,
) -> Result<HashMap<String, String>, HttpError> {
    match names {
        Ok(Path(names)) => Ok(names),
        Err(error) => Err(HttpError::new(StatusCode::BAD_REQUEST, error.to_string())),
    }
}

fn query_of<Q: DeserializeOwned + 'static>(query: Option<&str>) -> Result<Q, HttpError> {
    let query = query.unwrap_or_default();
    if is_nothing::<Q>() {
        // A unit can't be read from a map, which an empty query is.
        return serde_json::from_value(Value::Null).map_err(|e| HttpError::invalid(e.to_string()));
    }
    serde_urlencoded::from_str(query)
        .map_err(|error| HttpError::invalid(format!("the query: {error}")))
}

/// A message's JSON; errors name the place.
pub(crate) fn body_of<B: DeserializeOwned + 'static>(body: &[u8]) -> Result<B, HttpError> {
    let body = match is_nothing::<B>() {
        true => b"null",
        false => body,
    };
    let mut reader = serde_json::Deserializer::from_slice(body);
    // Not of this request.
    drop(vink_spec::as_written::refused());
    let read = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let path = pointer(&error.path().to_string());
        if let Some(mistakes) = vink_spec::as_written::refused() {
            return HttpError::of_mistakes(&mistakes, &path);
        }
        let inner = error.into_inner();
        match inner.classify() {
            serde_json::error::Category::Data => {
                HttpError::invalid(format!("the request: {inner}")).at(path)
            }
            _ => HttpError::new(
                StatusCode::BAD_REQUEST,
                format!("the request is not JSON: {inner}"),
            ),
        }
    })?;
    reader.end().map_err(|error| {
        HttpError::new(
            StatusCode::BAD_REQUEST,
            format!("the request is not JSON: {error}"),
        )
    })?;
    Ok(read)
}

/// `a.b[1]` as a JSON pointer.
fn pointer(path: &str) -> String {
    let mut pointer = String::new();
    for part in path.split(['.', '[']) {
        let part = part.trim_end_matches(']');
        if !part.is_empty() {
            pointer.push('/');
            pointer += part;
        }
    }
    pointer
}
