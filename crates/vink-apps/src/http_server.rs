//! A web server whose pages are as large as they are asked to be.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use crate::arguments::{self, Arguments, Syntax};
use crate::server::{self, serve, Answer, ListenAddress, Service};
use crate::{App, AppError, Calls, Names, Report, ServerReport};

pub(crate) const PORT: u16 = 80;
/// A request's head has at most so many bytes.
const MOST_HEAD: usize = 16 << 10;

pub(crate) static SYNTAX: Syntax = Syntax {
    name: "httpserver",
    purpose: "Serves a greeting at /, and N bytes at /N (10, 64k, 1M), as HTTP/1.1; port 80.",
    operands: "",
    options: &[server::PORT, server::BIND],
};

struct HttpServer(ListenAddress);

pub(crate) fn make(arguments: &Arguments<'_>, _: &Names) -> Result<Box<dyn App>, String> {
    let address = ListenAddress::parse(arguments, PORT)?;
    Ok(Box::new(HttpServer(ListenAddress {
        udp: false,
        ..address
    })))
}

impl App for HttpServer {
    fn run(&mut self, calls: &Calls<'_>) -> Result<i32, AppError> {
        let statistics = Rc::new(RefCell::new(ServerReport::default()));
        let seen = Rc::clone(&statistics);
        calls.publish(move || Report::Server(seen.borrow().clone()));
        let name = calls.host_name()?;
        serve(calls, &self.0, Pages { name }, &statistics)
    }
}

struct Pages {
    name: String,
}

/// Where a connection's next request stands.
#[derive(Default)]
struct Talk {
    head: Vec<u8>,
    /// Of the last request's body, to be read over, and what is answered then.
    body: u64,
    page: Answer,
    ends: bool,
}

impl Service for Pages {
    type Talk = Talk;

    fn received(
        &mut self,
        _: &Calls<'_>,
        talk: &mut Talk,
        mut data: &[u8],
        answer: &mut Answer,
    ) -> io::Result<bool> {
        while !data.is_empty() {
            let over = talk.body.min(data.len() as u64);
            talk.body -= over;
            data = &data[over as usize..];
            if talk.body == 0 {
                answer.append(&mut talk.page);
            }
            if talk.ends || data.is_empty() {
                return Ok(!talk.ends || talk.body > 0);
            }
            // An end of the head may begin in what came before.
            let from = talk.head.len().saturating_sub(3);
            let before = talk.head.len();
            talk.head.extend_from_slice(data);
            let Some(end) = talk.head[from..].windows(4).position(|w| w == b"\r\n\r\n") else {
                if talk.head.len() > MOST_HEAD {
                    respond(answer, "431 Request Header Fields Too Large", b"", false);
                    return Ok(false);
                }
                return Ok(true);
            };
            let end = from + end + 4;
            data = &data[end - before..];
            let head = String::from_utf8_lossy(&talk.head[..end]).into_owned();
            talk.head.clear();
            match self.request(&head, &mut talk.page) {
                Some((body, lives)) => {
                    talk.body = body;
                    talk.ends = !lives;
                }
                None => talk.ends = true,
            }
            if talk.body == 0 {
                answer.append(&mut talk.page);
                if talk.ends {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }
}

impl Pages {
    /// Answers a request; how many bytes of its body follow, and whether the connection lives on
    /// then. `None`: it ends at once.
    fn request(&self, head: &str, answer: &mut Answer) -> Option<(u64, bool)> {
        let mut lines = head.split("\r\n");
        let mut words = lines.next().unwrap_or_default().split(' ');
        let (method, path, version) = (words.next(), words.next(), words.next());
        let (Some(method), Some(path), Some(version)) = (method, path, version) else {
            respond(
                answer,
                "400 Bad Request",
                b"a request has three words\n",
                false,
            );
            return None;
        };
        let mut lives = version == "HTTP/1.1";
        let mut body = 0;
        for line in lines {
            let Some((name, value)) = line.split_once(':') else {
                continue;
            };
            let value = value.trim().to_ascii_lowercase();
            match name.to_ascii_lowercase().as_str() {
                "content-length" => match value.parse() {
                    Ok(length) => body = length,
                    Err(_) => {
                        let why = b"Content-Length is a number\n";
                        respond(answer, "400 Bad Request", why, false);
                        return None;
                    }
                },
                "connection" => lives = value.contains("keep-alive") || lives && value != "close",
                "transfer-encoding" => {
                    let why = b"bodies need a length here\n";
                    respond(answer, "411 Length Required", why, false);
                    return None;
                }
                _ => {}
            }
        }
        let only_head = method == "HEAD";
        let path = path.split('?').next().unwrap_or_default();
        match path.strip_prefix('/') {
            Some("") => {
                let greeting = format!("Hello from {}.\n", self.name);
                let text = if only_head { "" } else { &greeting };
                head_of(answer, "200 OK", greeting.len() as u64, "text/plain", lives);
                answer.push(text.as_bytes());
            }
            Some(size) => match arguments::size(size) {
                Ok(size) => {
                    head_of(answer, "200 OK", size, "application/octet-stream", lives);
                    answer.push_zeroes(if only_head { 0 } else { size });
                }
                Err(_) => {
                    let why = b"pages are called by their size, such as /64k\n";
                    let why: &[u8] = if only_head { b"" } else { why };
                    respond(answer, "404 Not Found", why, lives);
                }
            },
            None => {
                respond(answer, "400 Bad Request", b"a path begins with /\n", false);
                return None;
            }
        }
        Some((body, lives))
    }
}

fn respond(answer: &mut Answer, status: &str, text: &[u8], lives: bool) {
    head_of(answer, status, text.len() as u64, "text/plain", lives);
    answer.push(text);
}

fn head_of(answer: &mut Answer, status: &str, length: u64, kind: &str, lives: bool) {
    let connection = if lives { "keep-alive" } else { "close" };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nContent-Type: {kind}\r\n\
         Connection: {connection}\r\n\r\n"
    );
    answer.push(head.as_bytes());
}
