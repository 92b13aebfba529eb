//! The apps that are built in, by name.

use crate::arguments::{Arguments, Syntax};
use crate::{dns_server, echo, http_client, http_server, ping, sink, source, App, Names};

/// What makes an app of its words.
type Make = fn(&Arguments<'_>, &Names) -> Result<Box<dyn App>, String>;

/// A built-in app: how it is called, and what makes it.
pub(crate) struct Builtin {
    pub syntax: &'static Syntax,
    /// Makes it; what is wrong with the words otherwise.
    pub make: Make,
}

/// All of them, in the order of the help.
pub(crate) static BUILTINS: &[Builtin] = &[
    Builtin {
        syntax: &echo::SERVER,
        make: echo::server,
    },
    Builtin {
        syntax: &echo::CLIENT,
        make: echo::client,
    },
    Builtin {
        syntax: &echo::DISCARD_SERVER,
        make: echo::discard_server,
    },
    Builtin {
        syntax: &source::DISCARD,
        make: source::discard,
    },
    Builtin {
        syntax: &source::SYNTAX,
        make: source::make,
    },
    Builtin {
        syntax: &sink::SYNTAX,
        make: sink::make,
    },
    Builtin {
        syntax: &http_server::SYNTAX,
        make: http_server::make,
    },
    Builtin {
        syntax: &http_client::SYNTAX,
        make: http_client::make,
    },
    Builtin {
        syntax: &ping::SYNTAX,
        make: ping::make,
    },
    Builtin {
        syntax: &dns_server::SYNTAX,
        make: dns_server::make,
    },
];

/// The built-in app of this name.
pub(crate) fn find(name: &str) -> Option<&'static Builtin> {
    BUILTINS.iter().find(|b| b.syntax.name == name)
}
