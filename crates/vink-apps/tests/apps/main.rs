//! Apps on a real image, each against its partner.

mod bulk;
mod dns;
mod docs;
mod echo;
mod http;
mod journal;
mod lab;
mod life;
mod ping;
mod relay;
mod shared_object;
mod smoltcp;
mod steps;
