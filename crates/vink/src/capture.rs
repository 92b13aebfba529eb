//! `vink capture`: packets of a lab's interfaces as pcapng, to a file or a pipe.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use tokio::signal::unix::{signal, SignalKind};
use vink_api::{CaptureQuery, Client, LabApi, RuntimeDir};

use crate::cli_error::CliError;
use crate::client::{lab_or_only, runtime};

/// The command line.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The lab; may be left away if only one runs
    #[arg(long, value_name = "NAME")]
    lab: Option<String>,
    /// Where to, - for standard output, which is meant if it is no terminal
    #[arg(short = 'w', long = "write", value_name = "FILE")]
    write: Option<PathBuf>,
    /// Bytes of each packet; 0: all
    #[arg(short, long, value_name = "BYTES", default_value_t = 0)]
    snap: u32,
    /// End after so many packets
    #[arg(short = 'c', long, value_name = "PACKETS")]
    count: Option<u64>,
    /// The machine
    machine: String,
    /// Its interface; any: all of them
    #[arg(default_value = "any")]
    interface: String,
    /// Which packets, as in pcap-filter(7)
    filter: Vec<String>,
}

const EXAMPLES: &str = "\
Examples:
  vink capture -w ping.pcapng -c 10 alice eth0 icmp    ten packets, to a file
  vink capture alice | tcpdump -nr -                   of all interfaces, as text
  vink capture alice eth0 | wireshark -k -i -          live
  vink capture -s 96 -w heads.pcapng alice eth0 'tcp port 80 or udp'
Packets that were lost are in it, too, with why as a comment.";

/// Captures until there is nothing more, or a signal ends it.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, CliError> {
    let (to, name): (Box<dyn Write>, &Path) = match arguments.write.as_deref() {
        Some(path) if path != Path::new("-") => {
            let what = format!("creating {}", path.display());
            (
                Box::new(File::create(path).map_err(CliError::host(what))?),
                path,
            )
        }
        None if io::stdout().is_terminal() => {
            return Err(CliError::Other(
                "packets are not for terminals: use -w FILE, or pipe them: \
                 `vink capture … | tcpdump -nr -`, `vink capture … | wireshark -k -i -`"
                    .to_owned(),
            ))
        }
        _ => (Box::new(io::stdout()), Path::new("standard output")),
    };
    let mut output = Output {
        to,
        blocks: Blocks::default(),
        most: arguments.count.unwrap_or(u64::MAX),
    };
    let client = Client::of(&RuntimeDir::find());
    let ended = runtime()?.block_on(async {
        let lab = lab_or_only(&client, arguments.lab.as_deref()).await?;
        let interfaces = if arguments.interface == "any" {
            let machine = client.machine(&lab, &arguments.machine).await?;
            machine.interfaces.into_iter().map(|i| i.name).collect()
        } else {
            vec![arguments.interface.clone()]
        };
        let interfaces = interfaces
            .iter()
            .map(|interface| format!("{}:{interface}", arguments.machine));
        let query = CaptureQuery {
            interfaces: interfaces.collect::<Vec<_>>().join(","),
            filter: Some(arguments.filter.join(" ")).filter(|text| !text.is_empty()),
            snap: arguments.snap,
        };
        follow(&client, &lab, &query, &mut output).await
    });
    // What came before is there whatever ended it.
    if output.blocks.packets > 0 || ended.is_ok() {
        eprintln!("{} packets captured", output.blocks.packets);
    }
    match ended {
        Err(Ended::Write(error)) if error.kind() == io::ErrorKind::BrokenPipe => {}
        Err(Ended::Write(error)) => {
            let what = format!("writing to {}", name.display());
            return Err(CliError::host(what)(error));
        }
        Err(Ended::CliError(failure)) => return Err(failure),
        Ok(()) => {}
    }
    Ok(ExitCode::SUCCESS)
}

/// Why a capture ended early.
pub(crate) enum Ended {
    /// There is no room, or the reader is gone.
    Write(io::Error),
    /// Something else.
    CliError(CliError),
}

impl<E: Into<CliError>> From<E> for Ended {
    fn from(error: E) -> Ended {
        Ended::CliError(error.into())
    }
}

/// Where packets go.
pub(crate) struct Output {
    /// The file.
    pub to: Box<dyn Write>,
    /// What has passed.
    pub blocks: Blocks,
    /// So many packets at most.
    pub most: u64,
}

/// Writes what the query asks for until the lab ends, `output` has all it wants, or a signal comes.
pub(crate) async fn follow(
    client: &Client,
    lab: &str,
    query: &CaptureQuery,
    output: &mut Output,
) -> Result<(), Ended> {
    let caught = |kind| signal(kind).map_err(CliError::host("catching signals"));
    let mut interrupt = caught(SignalKind::interrupt())?;
    let mut terminate = caught(SignalKind::terminate())?;
    let mut packets = client.capture(lab, query).await?;
    loop {
        let piece = tokio::select! {
            piece = packets.next() => piece?,
            _ = interrupt.recv() => return Ok(()),
            _ = terminate.recv() => return Ok(()),
        };
        let Some(piece) = piece else { return Ok(()) };
        let (bytes, full) = output.blocks.pass(&piece, output.most);
        output.to.write_all(bytes).map_err(Ended::Write)?;
        // Wireshark shows what it gets at once.
        output.to.flush().map_err(Ended::Write)?;
        if full {
            return Ok(());
        }
    }
}

/// Where the blocks of a pcapng stream begin; see draft-ietf-opsawg-pcapng.
#[derive(Default)]
pub(crate) struct Blocks {
    /// Type and length of the block that begins, as far as they have come.
    head: Vec<u8>,
    /// Bytes of the block that are still to come.
    left: usize,
    /// Packet blocks that have begun.
    pub packets: u64,
}

/// An Enhanced Packet Block.
const PACKET: u32 = 6;

impl Blocks {
    /// How much of the piece belongs to the first `most` packets, and whether that is all that is wanted.
    fn pass<'a>(&mut self, piece: &'a [u8], most: u64) -> (&'a [u8], bool) {
        let mut at = 0;
        loop {
            let skip = self.left.min(piece.len() - at);
            at += skip;
            self.left -= skip;
            if self.left == 0 && self.packets >= most {
                return (&piece[..at], true);
            }
            if at == piece.len() {
                return (piece, false);
            }
            let missing = (8 - self.head.len()).min(piece.len() - at);
            self.head.extend_from_slice(&piece[at..at + missing]);
            at += missing;
            if let Some((kind, length)) = split_head(&self.head) {
                self.packets += u64::from(kind == PACKET);
                self.left = (length as usize).saturating_sub(8);
                self.head.clear();
            }
        }
    }
}

/// A block's type and length, in the byte order of this host, as the worker writes them.
fn split_head(head: &[u8]) -> Option<(u32, u32)> {
    let (kind, rest) = head.split_first_chunk()?;
    let (length, _) = rest.split_first_chunk()?;
    Some((u32::from_ne_bytes(*kind), u32::from_ne_bytes(*length)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(kind: u32, length: u32) -> Vec<u8> {
        let mut block = kind.to_ne_bytes().to_vec();
        block.extend(length.to_ne_bytes());
        block.resize(length as usize, 0);
        block
    }

    #[test]
    fn blocks_are_counted_however_they_are_cut() {
        let stream = [
            block(0x0a0d_0d0a, 28),
            block(1, 20),
            block(6, 40),
            block(6, 36),
        ]
        .concat();
        for size in 1..stream.len() {
            let mut blocks = Blocks::default();
            for piece in stream.chunks(size) {
                let (bytes, full) = blocks.pass(piece, u64::MAX);
                assert_eq!((bytes, full), (piece, false));
            }
            assert_eq!(blocks.packets, 2);
        }
    }

    #[test]
    fn enough_is_enough() {
        let stream = [block(1, 20), block(6, 40), block(6, 36)].concat();
        for size in 1..stream.len() {
            let mut blocks = Blocks::default();
            let mut passed = Vec::new();
            for piece in stream.chunks(size) {
                let (bytes, full) = blocks.pass(piece, 1);
                passed.extend_from_slice(bytes);
                if full {
                    break;
                }
            }
            assert_eq!(passed, stream[..60]);
        }
    }
}
