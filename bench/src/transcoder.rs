//! An MP3 stream through pods: what the process wall costs, beside the same pods without a wall and beside
//! ordinary processes with pipes; and what each tier gets in time with less and less of a processor.

use std::process::Command;
use std::time::Instant;

use serde_json::Value;

use crate::lab::Lab;
use crate::side::Round;
use crate::BoxError;

/// Seconds of music.
const SECONDS: &str = "20";
/// How much more than there is all tiers need of a processor.
const OVERLOADS: [f64; 5] = [1.0, 1.5, 2.0, 3.0, 4.0];

const LAB: &str = "name: transcoder
machines:
  server:
    interfaces: { eth0: { wire: studio, addresses: [10.0.0.1/24] } }
    programs: { httpd: { command: exec busybox httpd -f -p 80, ready: { port: 80 } } }
  transcoder:
    interfaces:
      eth0: { wire: studio, addresses: [10.0.0.2/24] }
      eth1: { wire: air, addresses: [10.0.1.1/24] }
  listener: { interfaces: { eth0: { wire: air, addresses: [10.0.1.2/24] } } }
wires: { studio: {}, air: {} }
";
/// The pods of one wall, and a path for each tier.
const PODS: &str = "
  frames-WALL: { file: mp3-frames.so, wall: WALL }
  decode-WALL: { file: mp3-decode.so, wall: WALL }
  gold-WALL: { file: mp3-encode.so, wall: WALL, config: bitrate=192 }
  silver-WALL: { file: mp3-encode.so, wall: WALL, config: bitrate=128 }
  bronze-WALL: { file: mp3-encode.so, wall: WALL, config: bitrate=32 }";
const PATHS: &str = "
  gold-WALL: { stream: transcoder, pods: [frames-WALL, decode-WALL, gold-WALL], class: 3 }
  silver-WALL: { stream: transcoder, pods: [frames-WALL, decode-WALL, silver-WALL], class: 2 }
  bronze-WALL: { stream: transcoder, pods: [frames-WALL, decode-WALL, bronze-WALL], class: 1 }";
const LISTEN: &str = "until nc -z 10.0.1.1 8000; do :; done
for tier in gold silver bronze; do curl -sS -o /dev/null http://10.0.1.1:8000/$tier-WALL & done; wait";
/// Of the same pods as processes; frames are cut before.
const PIPES: &str = "rm -f silver bronze; mkfifo silver bronze
./encode bitrate=128 <silver >/dev/null & ./encode bitrate=32 <bronze >/dev/null &
./decode <frames.units | tee silver bronze | ./encode bitrate=192 >/dev/null; wait";

/// A lab with the pods and the music.
fn lab() -> Result<Lab, BoxError> {
    let lab = Lab::up(LAB)?;
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    shell(
        &lab,
        &format!("'{root}/labs/transcoder/build.sh' {SECONDS} ."),
    )?;
    for (pod, library) in [
        ("frames", ""),
        ("decode", "-lmpg123"),
        ("encode", "-lmp3lame"),
    ] {
        shell(
            &lab,
            &format!("cc -O2 -I '{root}/include' -o {pod} '{root}/pods/pipe.c' '{root}/pods/mp3-{pod}.c' {library}"),
        )?;
    }
    let both = |text: &str| ["process", "none"].map(|wall| text.replace("WALL", wall));
    let [pods, paths] = [PODS, PATHS].map(|text| both(text).concat());
    lab.write("lab.yaml", &format!("{LAB}pods:{pods}\npaths:{paths}\n"))?;
    lab.vink(&["lab", "apply"])?;
    shell(&lab, "./frames -r <music.mp3 >frames.units")?;
    Ok(lab)
}

/// A shell command on the host, in the lab's folder.
fn shell(lab: &Lab, line: &str) -> Result<(), BoxError> {
    let mut command = Command::new("sh");
    let status = command
        .args(["-c", line])
        .current_dir(lab.folder())
        .status()?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("{line}: {status}").into()),
    }
}

/// One run of the stream, with three listeners: its report.
fn run(lab: &Lab, wall: &str, options: &str) -> Result<Value, BoxError> {
    let listen = LISTEN.replace("WALL", wall);
    let mut listeners = lab
        .command(&["exec", "listener", "--", "sh", "-c", &listen])
        .spawn()?;
    let url = "http://10.0.0.1/music.mp3";
    let paths = format!("gold-{wall} silver-{wall} bronze-{wall}");
    let line = format!("exec transcoder app stream -n 3 {options} {url} {paths}");
    let said = lab.vink(&["shell", "--json", "-c", &line])?;
    if !listeners.wait()?.success() {
        return Err("listeners failed".into());
    }
    let said: Value = serde_json::from_str(&said)?;
    report(&said)
        .cloned()
        .ok_or_else(|| format!("no report: {said}").into())
}

/// The report, somewhere in what the switch box answers.
fn report(data: &Value) -> Option<&Value> {
    match data {
        Value::Object(all) if all.contains_key("tiers") => Some(data),
        Value::Object(all) => all.values().find_map(report),
        Value::Array(all) => all.iter().find_map(report),
        _ => None,
    }
}

/// The wall's cost.
pub(crate) fn overhead() -> Result<Round, BoxError> {
    let lab = lab()?;
    Ok(Box::new(move || {
        let each = |wall: &str| -> Result<f64, BoxError> {
            let report = run(&lab, wall, "-u 0")?;
            let [seconds, units] = ["seconds", "units"].map(|name| report[name].as_f64());
            Ok(seconds.ok_or("seconds")? * 1e6 / units.ok_or("units")?)
        };
        // Before and after, so that a slow drift of the machine is in neither.
        let before = each("none")?;
        let protected = each("process")?;
        let bare = (before + each("none")?) / 2.0;
        let began = Instant::now();
        shell(&lab, PIPES)?;
        let units = SECONDS.parse::<f64>()? * 44_100.0 / 1152.0;
        let pipes = began.elapsed().as_secs_f64() * 1e6 / units;
        Ok(vec![
            Some(protected / bare),
            Some(protected),
            Some(bare),
            Some(pipes),
        ])
    }))
}

/// What each tier gets in time, in hundredths.
pub(crate) fn shedding() -> Result<Round, BoxError> {
    let lab = lab()?;
    Ok(Box::new(move || {
        let report = run(&lab, "process", "")?;
        let tiers = ["gold-process", "silver-process", "bronze-process"];
        let number = |report: &Value, tier: &str, name: &str| {
            report["tiers"][tier][name].as_f64().unwrap_or_default()
        };
        let units = report["units"].as_f64().unwrap_or(1.0);
        let time: f64 = tiers.iter().map(|tier| number(&report, tier, "time")).sum();
        let all = time / units / 0.026_122_449 / 0.95 * 100.0;
        let mut got = Vec::new();
        for overload in OVERLOADS {
            let report = run(&lab, "process", &format!("-c {}%", all / overload))?;
            let in_time = |tier: &str| {
                100.0 * number(&report, tier, "delivered") / number(&report, tier, "offered")
            };
            got.push(tiers.map(in_time));
        }
        // Gold alone is not too much before 2.
        let gold = got[..3].iter().map(|tiers| tiers[0]).fold(100.0, f64::min);
        let more = [
            got[3][0], got[4][0], got[1][1], got[2][1], got[0][2], got[1][2],
        ];
        Ok([gold].into_iter().chain(more).map(Some).collect())
    }))
}
