//! An echo server and its clients on tokio's multi-thread runtime: `tokio-echo both` has them in one process on the loopback
//! interface, `serve ADDRESS` and `fetch ADDRESS` in two.
//!
//! A client sends messages of 1 to 5,000 bytes, reads each one back before the next, says `shutdown`, and reads to the end.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

const CLIENTS: usize = 200;
const MESSAGES: usize = 50;
const WORKERS: usize = 3;
/// Room for all clients, also while the server does not accept. With fewer Linux answers with SYN cookies, and may reset a
/// connection whose data comes before it was accepted.
const BACKLOG: u32 = 1024;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// The length of a client's message, and its first byte.
fn shape(client: usize, message: usize) -> (usize, u8) {
    let number = (client * MESSAGES + message) as u32;
    let mixed = number.wrapping_mul(2_654_435_761).rotate_left(15);
    ((mixed % 5_000 + 1) as usize, mixed as u8)
}

async fn echo(mut stream: TcpStream) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = vec![0; 4096];
    loop {
        match stream.read(&mut buffer).await? {
            0 => break,
            count => stream.write_all(&buffer[..count]).await?,
        }
    }
    Ok(stream.shutdown().await?)
}

fn listen(address: SocketAddr) -> Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket.listen(BACKLOG)?)
}

async fn serve(listener: TcpListener) -> Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(async move {
            if let Err(error) = echo(stream).await {
                eprintln!("tokio-echo: server: {error}");
            }
        });
    }
}

/// How many bytes came back.
async fn client(address: SocketAddr, number: usize) -> Result<usize> {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let mut total = 0;
    for message in 0..MESSAGES {
        let (len, first) = shape(number, message);
        let sent: Vec<u8> = (0..len).map(|n| first.wrapping_add(n as u8)).collect();
        stream.write_all(&sent).await?;
        let mut received = vec![0; len];
        stream.read_exact(&mut received).await?;
        if received != sent {
            return Err(format!("client {number}: message {message} came back otherwise").into());
        }
        total += len;
    }
    stream.shutdown().await?;
    let mut rest = Vec::new();
    match stream.read_to_end(&mut rest).await? {
        0 => Ok(total),
        more => Err(format!("client {number}: {more} bytes too many").into()),
    }
}

async fn fetch(address: SocketAddr) -> Result<()> {
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| tokio::spawn(client(address, number)))
        .collect();
    let mut total = 0;
    for client in clients {
        total += client.await??;
    }
    println!("{CLIENTS} clients, {MESSAGES} messages each, {total} bytes");
    Ok(())
}

async fn run() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["both"] => {
            let listener = listen("127.0.0.1:0".parse()?)?;
            let address = listener.local_addr()?;
            tokio::spawn(serve(listener));
            fetch(address).await
        }
        ["serve", address] => serve(listen(address.parse()?)?).await,
        ["fetch", address] => fetch(address.parse()?).await,
        _ => Err("usage: tokio-echo both | serve ADDRESS | fetch ADDRESS".into()),
    }
}

fn main() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .enable_io()
        .build()?;
    // A worker waits at the epoll instance before the first socket is there to be added.
    let metrics = runtime.metrics();
    while (0..WORKERS).any(|worker| metrics.worker_park_count(worker) == 0) {
        std::thread::yield_now();
    }
    runtime.block_on(run())
}
