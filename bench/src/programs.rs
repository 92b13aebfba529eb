//! Unmodified servers and their load generators: what is started, and where the figure stands in its output.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use vink_trap::Worker;

use crate::BoxError;

/// The benchmarks that are such a pair.
pub(crate) const GROUPS: [&str; 16] = [
    "inproc_rtt",
    "inproc_iperf3",
    "inproc_redis_p1",
    "inproc_redis_p16",
    "trap_iperf3",
    "trap_redis_p1",
    "trap_redis_p16",
    "trap_nginx",
    "auto_iperf3",
    "auto_redis_p1",
    "auto_redis_p16",
    "auto_nginx",
    "notify_iperf3",
    "notify_redis_p1",
    "notify_redis_p16",
    "notify_nginx",
];

/// Whether a benchmark's programs post their calls in shared memory.
pub(crate) fn is_quick(group: &str) -> bool {
    matches!(
        group,
        "trap_iperf3" | "trap_redis_p1" | "trap_redis_p16" | "trap_nginx"
    )
}

/// Whether it is left to the worker when they do.
pub(crate) fn is_auto(group: &str) -> bool {
    group.starts_with("auto_")
}

/// What programs of this worker have loaded to make their calls in shared memory; `None` if they can't.
pub(crate) fn quick_library(worker: &mut Worker) -> io::Result<Option<PathBuf>> {
    let own = std::env::current_exe()?;
    Ok(worker
        .allow_shared_rings()
        .then(|| own.with_file_name("libvink_quick.so")))
}

/// The same if it is left to the worker.
pub(crate) fn auto_library(worker: &mut Worker) -> io::Result<Option<PathBuf>> {
    let own = std::env::current_exe()?;
    Ok(worker
        .allow_shared_rings_when_often()
        .then(|| own.with_file_name("libvink_quick.so")))
}

/// A server and a client of it, for one benchmark.
pub(crate) struct Pair {
    pub server: Vec<String>,
    /// What the server prints once it listens.
    pub ready: &'static str,
    /// Serves one client only, so that each round needs another.
    pub once: bool,
    pub client: Vec<String>,
    /// Requests of a redis-benchmark.
    pub requests: f64,
    /// The figure in what the client printed.
    pub figure: fn(&str) -> Option<f64>,
    /// Holds the server's files and its log; removed with this.
    directory: Directory,
}

/// Bytes of the page that nginx serves.
const PAGE: usize = 612;

impl Pair {
    /// The pair of a benchmark; the server's address is `to`.
    pub fn new(group: &str, to: [u8; 4]) -> Result<Pair, BoxError> {
        let directory = Directory::new()?;
        let at = directory.0.display().to_string();
        let to = to.map(|byte| byte.to_string()).join(".");
        let words = |line: String| line.split_whitespace().map(str::to_owned).collect();
        let mut sent = 0;
        let mut redis = |pipeline: u32, requests: u32| {
            sent = requests;
            words(format!(
                "redis-benchmark -h {to} -t get -n {requests} -P {pipeline} --csv"
            ))
        };
        let redis_server = words(format!("redis-server {at}/redis.conf"));
        let (server, ready, client, figure): (_, _, _, fn(&str) -> Option<f64>) = match group {
            "inproc_rtt" => {
                let own = std::env::current_exe()?.display().to_string();
                (
                    words(format!("{own} loop echo_server")),
                    "ready",
                    words(format!("{own} loop echo_client {to}")),
                    |output| output.trim().parse().ok(),
                )
            }
            "trap_iperf3" | "auto_iperf3" | "notify_iperf3" | "inproc_iperf3" => (
                words("iperf3 --server --one-off --forceflush".to_owned()),
                "Server listening",
                words(format!(
                    "iperf3 --client {to} --congestion cubic --time 1 --json"
                )),
                received,
            ),
            "filter" | "kvs_x1_p1" | "kvs_x1_p16" | "kvs_x4" | "kvs_x1_auto" | "trap_redis_p1"
            | "trap_redis_p16" | "auto_redis_p1" | "auto_redis_p16" | "notify_redis_p1"
            | "notify_redis_p16" | "inproc_redis_p1" | "inproc_redis_p16" => {
                let conf = format!("bind 0.0.0.0\nprotected-mode no\nsave \"\"\ndir {at}\n");
                fs::write(directory.0.join("redis.conf"), conf)?;
                let client = match group {
                    "filter" => redis(16, 600_000),
                    // A second or so.
                    "kvs_x1_p1" => redis(1, 150_000),
                    "kvs_x4" => redis(16, 500_000),
                    "kvs_x1_p16" | "kvs_x1_auto" => redis(16, 1_500_000),
                    _ if group.ends_with("p1") => redis(1, 30_000),
                    _ => redis(16, 300_000),
                };
                (redis_server, "Ready to accept", client, gets)
            }
            "trap_nginx" | "auto_nginx" | "notify_nginx" => {
                fs::write(directory.0.join("page.html"), "x".repeat(PAGE))?;
                fs::write(directory.0.join("nginx.conf"), nginx(&at))?;
                (
                    words(format!("nginx -p {at} -c {at}/nginx.conf")),
                    "start worker process",
                    words(format!("wrk -t 1 -c 16 -d 1s http://{to}/page.html")),
                    requests,
                )
            }
            _ => return Err(format!("no programs for {group}").into()),
        };
        Ok(Pair {
            server,
            ready,
            once: group.ends_with("iperf3"),
            requests: f64::from(sent),
            client,
            figure,
            directory,
        })
    }

    /// Both with the stack in their own process, joined by a wire in memory; the server's address is `to`.
    pub fn in_process(mut self, vink: &Path, to: [u8; 4]) -> Pair {
        let wire = format!("wire:{}", self.directory.0.join("wire").display());
        let client = [to[0], to[1], to[2], to[3] ^ 3];
        in_front(&mut self.server, vink, &wire, to, None);
        in_front(&mut self.client, vink, &wire, client, None);
        self
    }

    /// Where the server's output goes.
    pub fn log(&self) -> PathBuf {
        self.directory.0.join("log")
    }

    /// Where the client's output goes, if it goes to a file.
    pub fn output(&self) -> PathBuf {
        self.directory.0.join("output")
    }

    /// Whether the server listens, by its log.
    pub fn listens(&self) -> bool {
        fs::read_to_string(self.log()).is_ok_and(|log| log.contains(self.ready))
    }
}

/// A command whose stack is to be in its own process, at an uplink.
pub(crate) fn in_front(
    words: &mut Vec<String>,
    vink: &Path,
    uplink: &str,
    address: [u8; 4],
    mac: Option<&str>,
) {
    let vink = vink.display().to_string();
    let address = address.map(|byte| byte.to_string()).join(".") + "/24";
    let options = [
        "run",
        "--in-process",
        "--uplink",
        uplink,
        "--address",
        &address,
    ];
    let mac = mac.map(|mac| ["--mac", mac]).into_iter().flatten();
    let front = [vink.as_str()]
        .into_iter()
        .chain(options)
        .chain(mac)
        .chain(["--"]);
    words.splice(0..0, front.map(str::to_owned));
}

fn nginx(at: &str) -> String {
    format!(
        "daemon off; worker_processes 1; pid {at}/pid; error_log stderr notice;
         events {{ }}
         http {{
             sendfile on; access_log off; keepalive_requests 1000000;
             client_body_temp_path {at}/body; proxy_temp_path {at}/proxy; fastcgi_temp_path {at}/fastcgi;
             uwsgi_temp_path {at}/uwsgi; scgi_temp_path {at}/scgi;
             server {{ listen 80; root {at}; }}
         }}"
    )
}

/// Gbit/s of iperf3's JSON.
pub(crate) fn received(output: &str) -> Option<f64> {
    let output: serde_json::Value = serde_json::from_str(output).ok()?;
    Some(output["end"]["sum_received"]["bits_per_second"].as_f64()? / 1e9)
}

/// Thousands of requests per second of redis-benchmark's CSV: "GET","12345.67",...
fn gets(output: &str) -> Option<f64> {
    let line = output.lines().find(|line| line.starts_with("\"GET\""))?;
    let figure: f64 = line.split(',').nth(1)?.trim_matches('"').parse().ok()?;
    Some(figure / 1000.0)
}

/// Thousands of requests per second of wrk.
fn requests(output: &str) -> Option<f64> {
    let line = output
        .lines()
        .find_map(|l| l.strip_prefix("Requests/sec:"))?;
    Some(line.trim().parse::<f64>().ok()? / 1000.0)
}

/// A temporary directory that every user may write to: nginx's workers are another user's.
pub(crate) struct Directory(PathBuf);

impl Directory {
    pub(crate) fn new() -> Result<Directory, BoxError> {
        use std::os::unix::fs::PermissionsExt;
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let (pid, number) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(format!("vink-bench.{pid}.{number}"));
        fs::create_dir_all(&path)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777))?;
        Ok(Directory(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What the client printed, as a figure.
pub(crate) fn read_figure(pair: &Pair, output: &str) -> Result<f64, BoxError> {
    (pair.figure)(output).ok_or_else(|| {
        let log = fs::read_to_string(pair.log()).unwrap_or_default();
        format!(
            "{}: no figure in:\n{output}\nthe server said:\n{log}",
            pair.client[0]
        )
        .into()
    })
}

/// The path of a log, opened anew.
pub(crate) fn create(path: &Path) -> Result<fs::File, BoxError> {
    fs::File::create(path).map_err(|e| format!("{}: {e}", path.display()).into())
}
