//! The page's server, as a browser sees it: requests with the head that a test wants, and WebSockets.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{json, Value};

/// The page's server, as a browser sees it.
pub struct Server {
    pub address: String,
}

/// What it answers.
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    /// The body.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).expect(&self.body)
    }
}

impl Server {
    /// Sends a request with these lines in its head, `Host` among them.
    pub fn send(&self, method: &str, path: &str, lines: &[&str], body: &str) -> Answer {
        let mut stream = TcpStream::connect(&self.address).expect("a connection");
        let mut request = format!("{method} {path} HTTP/1.1\r\n");
        for line in lines {
            request += &format!("{line}\r\n");
        }
        if !lines.iter().any(|line| line.starts_with("Connection")) {
            request += "Connection: close\r\n";
        }
        request += &format!("Content-Length: {}\r\n\r\n{body}", body.len());
        stream.write_all(request.as_bytes()).expect("a request");
        let mut bytes = Vec::new();
        // A WebSocket stays open: its head is all that is wanted.
        while !(bytes.starts_with(b"HTTP/1.1 101") && bytes.ends_with(b"\r\n\r\n")) {
            let mut piece = [0; 4096];
            match stream.read(&mut piece).expect("an answer") {
                0 => break,
                count => bytes.extend(&piece[..count]),
            }
        }
        let text = String::from_utf8_lossy(&bytes);
        let (head, body) = text.split_once("\r\n\r\n").expect(&text);
        let status = head.split(' ').nth(1).expect(head).parse().expect(head);
        Answer {
            status,
            head: head.to_ascii_lowercase(),
            body: body.to_owned(),
        }
    }

    /// The line that names it.
    pub fn host(&self) -> String {
        format!("Host: {}", self.address)
    }

    /// Sends a request of a session.
    pub fn ask(&self, method: &str, path: &str, token: &str, body: &Value) -> Answer {
        let bearer = format!("Authorization: Bearer {token}");
        let body = match body {
            Value::Null => String::new(),
            body => body.to_string(),
        };
        self.send(method, path, &[&self.host(), &bearer], &body)
    }

    /// A session in exchange for a ticket.
    pub fn enter(&self, ticket: &str) -> Answer {
        let body = json!({ "ticket": ticket }).to_string();
        self.send("POST", "/v1/session", &[&self.host()], &body)
    }

    /// The token of a session in exchange for a ticket.
    pub fn token(&self, ticket: &str) -> String {
        let session = self.enter(ticket);
        assert_eq!(session.status, 201, "{}", session.body);
        session.json()["token"]
            .as_str()
            .expect("a token")
            .to_owned()
    }

    /// The status of a WebSocket's beginning, and its head.
    pub fn socket(&self, path: &str, protocols: &str, more: &[&str]) -> Answer {
        let host = self.host();
        let protocols = format!("Sec-WebSocket-Protocol: {protocols}");
        let mut lines = vec![
            host.as_str(),
            "Connection: Upgrade",
            "Upgrade: websocket",
            "Sec-WebSocket-Version: 13",
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
            &protocols,
        ];
        lines.extend(more);
        self.send("GET", path, &lines, "")
    }
}

/// Where a link leads, and its ticket.
pub fn parts(url: &str) -> (String, String) {
    let rest = url.trim().strip_prefix("http://").expect(url);
    let (address, rest) = rest.split_once("/#t=").expect(url);
    let ticket = rest.split('&').next().expect(url);
    (address.to_owned(), ticket.to_owned())
}
