//! The apps that are built in, by name.

use crate::arguments::{Arguments, Syntax};
use crate::{
    dns_server, echo, http_client, http_server, ping, relay, sink, smoltcp, source, steps, stream,
    App, Names,
};

/// What makes an app of its words; what is wrong with them otherwise.
type Make = fn(&Arguments<'_>, &Names) -> Result<Box<dyn App>, String>;

/// A built-in app: how it is called, and what makes it.
pub(crate) type Builtin = (&'static Syntax, Make);

/// All of them, in the order of the help.
pub(crate) static BUILTINS: &[Builtin] = &[
    (&echo::SERVER, echo::server),
    (&echo::CLIENT, echo::client),
    (&echo::DISCARD_SERVER, echo::discard_server),
    (&source::DISCARD, source::discard),
    (&source::SYNTAX, source::make),
    (&sink::SYNTAX, sink::make),
    (&http_server::SYNTAX, http_server::make),
    (&http_client::SYNTAX, http_client::make),
    (&ping::SYNTAX, ping::make),
    (&dns_server::SYNTAX, dns_server::make),
    (&relay::SYNTAX, relay::make),
    (&stream::SYNTAX, stream::make),
    (&steps::SYNTAX, steps::make),
    (&smoltcp::SYNTAX, smoltcp::make),
];

/// The built-in app of this name.
pub(crate) fn find(name: &str) -> Option<Builtin> {
    let found = BUILTINS.iter().find(|(syntax, _)| syntax.name == name);
    found.copied()
}
