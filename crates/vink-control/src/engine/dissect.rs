//! Packets are dissected by Wireshark's sharkd, in a process of its own that is confined and bounded
//! (`vink dissect`): a packet may be made to attack it.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::sync::Semaphore;
use vink_api::{CapturedPacket, PacketDetail, PacketField};

/// Packets that are dissected at once.
const MAX_PARALLEL: usize = 2;
/// How long it may take altogether: the host bounds the processor's time.
const TIMEOUT: Duration = Duration::from_secs(30);

static PERMITS: Semaphore = Semaphore::const_new(MAX_PARALLEL);

/// All about a packet, which is the one of this number in a pcapng file.
pub(crate) async fn detail(
    executable: &Path,
    packet: CapturedPacket,
    bytes: &[u8],
    (file, number): (Vec<u8>, u64),
) -> PacketDetail {
    let (fields, undissected) = match dissect(executable, file, number).await {
        Ok(fields) => (Some(fields), None),
        Err(why) => (None, Some(why)),
    };
    PacketDetail {
        packet,
        bytes: bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
        fields,
        undissected,
    }
}

/// What a packet of a pcapng file has in it, by its number there from 0 on; or why that is not known.
async fn dissect(
    executable: &Path,
    file: Vec<u8>,
    packet: u64,
) -> Result<Vec<PacketField>, String> {
    let _seat = PERMITS.acquire().await.expect("it is never closed");
    let mut command = Command::new(executable);
    command
        .args(["dissect", &packet.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    let done = async {
        let mut child = command.spawn()?;
        let mut input = child.stdin.take().expect("a pipe");
        // It may have been ended; what it has written tells.
        let _ = input.write_all(&file).await;
        drop(input);
        child.wait_with_output().await
    };
    match tokio::time::timeout(TIMEOUT, done).await {
        Ok(Ok(output)) => serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| Err("vink dissect was ended".to_owned())),
        Ok(Err(error)) => Err(format!("vink dissect: {error}")),
        Err(_) => Err(format!("sharkd took longer than {} s", TIMEOUT.as_secs())),
    }
}
