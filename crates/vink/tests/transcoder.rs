//! Streams through pods: what arrives, what a pod that faults takes with it, which tier goes without when the processor
//! is short, and listeners that do not listen.

mod common;

use std::fs;
use std::process::Output;

use common::control::Control;
use common::lab::copy_labs;
use common::Place;

/// By the lab's clock, so that what the host does meanwhile makes nothing late.
const LAB: &str = "
name: radio
time: virtual
machines:
  server:
    interfaces: { eth0: { wire: w1, addresses: [10.0.0.1/24] } }
    programs: { httpd: { command: exec busybox httpd -f -p 80, ready: { port: 80 } } }
  transcoder:
    interfaces:
      eth0: { wire: w1, addresses: [10.0.0.2/24] }
      eth1: { wire: w2, addresses: [10.0.1.1/24] }
    programs: { radio: { app: 'stream OPTIONS http://10.0.0.1/music.mp3 gold silver bronze', after: [server.httpd] } }
  listener:
    interfaces: { eth0: { wire: w2, addresses: [10.0.1.2/24] } }
wires: { w1: { delay: 5ms }, w2: { delay: 5ms } }
pods:
PODS
paths:
PATHS
";

const PODS: &str = "
  frames: { file: mp3-frames.so, wall: process }
  decode: { file: mp3-decode.so, wall: process }
  gold: { file: mp3-encode.so, wall: process, config: bitrate=192 }
  silver: { file: mp3-encode.so, wall: process, config: bitrate=128 }
  bronze: { file: mp3-encode.so, wall: process, config: bitrate=32 }";

const PATHS: &str = "
  gold: { stream: transcoder, pods: [frames, decode, gold], class: 3 }
  silver: { stream: transcoder, pods: [frames, decode, silver], class: 2 }
  bronze: { stream: transcoder, pods: [frames, decode, bronze], class: 1 }";

/// Three listeners, one of each tier.
const LISTEN: &str =
    "for t in gold silver bronze; do curl -sS -o $t.mp3 http://10.0.1.1:8000/$t & done; wait";

/// It makes 20 units, and then a mistake.
const BAD: &str = "
#include <vink/pod.h>
POD();
static int units;
int32_t pod_stream(const uint8_t *bytes, uint32_t len, uint32_t flags)
{
	if (units++ == 20)
		*(volatile int *)8 = 0;
	return vink_emit(0, bytes, len);
}
";

/// A shell command on the host, in the folder of the lab.
fn sh(control: &Control<'_>, line: &str) -> String {
    let output: Output = control
        .command("sh")
        .args(["-c", line])
        .output()
        .expect("sh");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line}: {said}{complaint}");
    said
}

/// The pods, and two seconds of music, in the lab's folder.
fn build(control: &Control<'_>) {
    copy_labs(control.place());
    sh(control, "labs/transcoder/build.sh 2 .");
}

/// Puts the lab up.
fn up(control: &Control<'_>, options: &str, pods: &str) {
    control.write("lab.yaml", &lab(options, pods, PATHS));
    control.vink(&["lab", "up"]);
}

/// The lab file.
fn lab(options: &str, pods: &str, paths: &str) -> String {
    let lab = LAB.replace("OPTIONS", options).replace("PODS", pods);
    lab.replace("PATHS", paths)
}

/// What listeners do, and the stream's last report, as text.
fn listen(control: &Control<'_>, line: &str) -> String {
    let listened = control.try_vink(&["exec", "listener", "--", "sh", "-c", line]);
    let complaint = String::from_utf8_lossy(&listened.stderr).into_owned();
    if !listened.status.success() {
        let said = control.vink(&["lab", "logs", "transcoder.radio"]);
        panic!("{}: {complaint}{said}", listened.status);
    }
    control.vink(&["lab", "until", "--ended", "transcoder.radio"]);
    control.vink(&["lab", "logs", "transcoder.radio"])
}

/// A tier's number in the report: the one before these words.
fn number(said: &str, tier: &str, what: &str) -> f64 {
    let line = said
        .lines()
        .find_map(|line| line.strip_prefix(&format!("{tier}: ")));
    let mut parts = line.expect(said).split(", ");
    let part = parts.find_map(|part| part.strip_suffix(what)).expect(said);
    part.trim().parse().expect(said)
}

/// Units in time, and units that came.
fn in_time(said: &str, tier: &str) -> (u32, u32) {
    let line = said
        .lines()
        .find_map(|line| line.strip_prefix(&format!("{tier}: ")));
    let words: Vec<&str> = line.expect(said).split(' ').collect();
    (words[0].parse().expect(said), words[2].parse().expect(said))
}

/// How many samples Debian's player finds in a file.
fn samples(control: &Control<'_>, file: &str) -> u64 {
    sh(
        control,
        &format!("mpg123 -q --no-gapless -w decoded.wav {file}"),
    );
    let wav = fs::metadata(control.folder().join("decoded.wav")).expect("what it decoded");
    (wav.len() - 44) / 4
}

/// Paths and pods have counted what the report says.
fn counted(control: &Control<'_>, said: &str, wall: &str) {
    for tier in ["gold", "silver", "bronze"] {
        let (delivered, offered) = in_time(said, tier);
        let path = control.json(&["path", "stat", tier, "--json"]);
        let numbers = &path["numbers"];
        assert_eq!(numbers["packets"], offered);
        assert_eq!(numbers["passed"], delivered);
        assert!(numbers["cycles"].as_u64() > Some(0) && numbers["bytes"].as_u64() > Some(20_000));
        let pod = control.json(&["pod", "stat", tier, "--json"]);
        assert_eq!(pod["wall"], wall);
        assert_eq!(pod["calls"], offered + 1, "the end is a call, too");
    }
}

#[test]
fn tiers_arrive_whole_whatever_the_wall() {
    for place in Place::all() {
        let control = Control::of(&place);
        build(&control);
        // The same pods as ordinary processes, with pipes between them.
        for (pod, library) in [
            ("frames", ""),
            ("decode", "-lmpg123"),
            ("encode", "-lmp3lame"),
        ] {
            sh(
                &control,
                &format!("cc -I include -o {pod} pods/pipe.c pods/mp3-{pod}.c {library}"),
            );
        }
        sh(
            &control,
            "./frames -r <music.mp3 | ./decode >samples
             for rate in 192 128 32; do ./encode -w bitrate=$rate <samples >$rate.mp3; done",
        );
        let source = samples(&control, "music.mp3");
        for wall in ["process", "none"] {
            up(
                &control,
                "-n 3",
                &PODS.replace("wall: process", &format!("wall: {wall}")),
            );
            let said = listen(&control, LISTEN);
            counted(&control, &said, wall);
            control.vink(&["lab", "down"]);
            for (tier, rate) in [("gold", 192), ("silver", 128), ("bronze", 32)] {
                let (delivered, offered) = in_time(&said, tier);
                assert!(delivered == offered && offered > 70, "{said}");
                sh(&control, &format!("cmp {tier}.mp3 {rate}.mp3"));
                // What the source begins with (LAME's own frame), and what an encoder holds back.
                let more = samples(&control, &format!("{tier}.mp3")) - source;
                assert!(more <= 3 * 1152, "{tier}: {more} more than {source}");
            }
        }
    }
}

#[test]
fn a_pod_that_faults_ends_its_tier_alone() {
    for place in Place::all() {
        let control = Control::of(&place);
        build(&control);
        control.write("bad.c", BAD);
        sh(&control, "cc -shared -fPIC -I include -o bad.so bad.c");
        let silver = "mp3-encode.so, wall: process, config: bitrate=128";
        let pods = PODS.replace(silver, "bad.so");
        up(&control, "-n 3", &pods);
        let said = listen(&control, LISTEN);
        let why = "path silver: pod silver has ended: it ";
        assert!(said.contains(why), "{said}");
        let path = control.json(&["path", "stat", "silver", "--json"]);
        assert_eq!(path["ended"], "silver");
        control.vink(&["lab", "down"]);
        for tier in ["gold", "bronze"] {
            let (delivered, offered) = in_time(&said, tier);
            assert!(delivered == offered && offered > 70, "{said}");
        }
        assert_eq!(in_time(&said, "silver").0, 20, "{said}");
        let silver = fs::metadata(control.folder().join("silver.mp3")).expect("silver's");
        assert_eq!(silver.len(), 20 * 1152 * 4);

        // One that all share takes all with it, by its name.
        up(&control, "-n 3", &PODS.replace("mp3-decode.so", "bad.so"));
        let said = listen(&control, LISTEN);
        assert!(said.contains("pod decode has ended: it "), "{said}");
        control.vink(&["lab", "down"]);
    }
}

#[test]
fn the_lowest_tier_goes_without_first() {
    let place = &Place::all()[0];
    let control = Control::of(place);
    build(&control);
    up(&control, "-n 3", PODS);
    let said = listen(&control, LISTEN);
    control.vink(&["lab", "down"]);
    let tiers = ["gold", "silver", "bronze"];
    let each: f64 = tiers
        .map(|tier| number(&said, tier, "us a unit"))
        .iter()
        .sum();
    // What all need of a processor, with what is kept free.
    let all = each / 26_122.449 / 0.95 * 100.0;
    let shared = |overload: f64| {
        up(&control, &format!("-n 3 -c {}%", all / overload), PODS);
        let said = listen(&control, LISTEN);
        control.vink(&["lab", "down"]);
        println!("{overload}:\n{said}");
        let got = tiers.map(|tier| in_time(&said, tier));
        let parts = got.map(|(delivered, offered)| f64::from(delivered) / f64::from(offered));
        // What is in time and what is shed are all: nothing is begun and then late.
        for (tier, (delivered, offered)) in tiers.iter().zip(got) {
            let shed = number(&said, tier, " shed") as u32;
            let late = number(&said, tier, " late") as u32;
            assert_eq!(delivered + shed + late, offered, "{said}");
        }
        // Those that are left can be played.
        let kept = samples(&control, "gold.mp3") / 1152;
        let (delivered, late) = (got[0].0, number(&said, "gold", " late") as u32);
        assert!(
            kept.abs_diff(u64::from(delivered + late)) <= 3,
            "{kept}: {said}"
        );
        parts
    };
    // Half of what gold, silver and decoding need is left for gold: it has all, bronze has nothing but what it was tried with.
    let [gold, silver, bronze] = shared(1.6);
    assert!(
        gold == 1.0 && silver < 1.0 && bronze < 0.1,
        "{gold} {silver} {bronze}"
    );
    // Gold alone is too much.
    let [gold, silver, bronze] = shared(5.0);
    assert!(
        (0.2..0.9).contains(&gold) && silver + bronze < 0.1,
        "{gold} {silver} {bronze}"
    );
}

#[test]
fn listeners_disturb_no_others() {
    let place = &Place::all()[0];
    let control = Control::of(place);
    build(&control);
    up(&control, "-n 5", PODS);
    // One of gold that reads nothing, one that goes, and one that asks for what is not there.
    let said = listen(
        &control,
        &format!(
            "ask() {{ printf 'GET /gold HTTP/1.0\\r\\n\\r\\n'; }}
             {{ ask; sleep 20; }} | nc 10.0.1.1 8000 | sleep 20 &
             ask | nc 10.0.1.1 8000 | head -c 2000 >/dev/null &
             curl -sS -o other -w '%{{http_code}}' http://10.0.1.1:8000/tin >code
             {LISTEN}"
        ),
    );
    assert_eq!(
        sh(&control, "cat code other"),
        "404/gold\n/silver\n/bronze\n"
    );
    for tier in ["gold", "silver", "bronze"] {
        let (delivered, offered) = in_time(&said, tier);
        assert!(delivered == offered && offered > 70, "{said}");
        let kept = samples(&control, &format!("{tier}.mp3")) / 1152;
        assert!(kept >= u64::from(offered), "{tier}: {kept} of {offered}");
    }
}

#[test]
fn numbers_of_its_report_are_time_series() {
    let place = &Place::all()[0];
    let control = Control::of(place);
    build(&control);
    let series = "series: { tiers: { every: 100ms, values: { gold: app transcoder stream tiers.gold.delivered } } }";
    let lab = lab("-n 3", PODS, PATHS);
    control.write("lab.yaml", &format!("{lab}{series}\n"));
    control.vink(&["lab", "up"]);
    listen(&control, LISTEN);
    let text = fs::read_to_string(control.folder().join("tiers.csv")).expect("the series");
    let numbers: Vec<f64> = text
        .lines()
        .filter_map(|line| line.split(',').nth(1)?.parse().ok())
        .collect();
    assert!(
        numbers.is_sorted() && numbers.last() > Some(&60.0),
        "{text}"
    );
}

#[test]
fn mistakes_are_named() {
    let place = &Place::all()[0];
    let control = Control::of(place);
    build(&control);
    control.write("text.so", "this is no object");
    let without = PATHS.replace("stream: transcoder", "at: 'transcoder:eth0'");
    let alike = PATHS.replace("decode, silver]", "decode, gold]");
    let other = PATHS.replace("[frames, decode, silver]", "[decode, silver]");
    let here = "{ stream: transcoder, pods: [frames], on: arrival }";
    for (options, pods, paths, says) in [
        ("-c 0%", PODS, PATHS, "a part of a processor, such as 2.5%"),
        ("", PODS, &without, "no path gold of a stream is here"),
        ("", PODS, &alike, "give path silver one of its own"),
        ("", PODS, &other, "begin with the same pod"),
        ("", PODS, &format!("{PATHS}\n  x: {here}"), "has no packets"),
        (
            "",
            PODS,
            &PATHS.replacen("stream: transcoder", "stream: transcode", 1),
            "did you mean transcoder?",
        ),
        ("", &PODS.replace("mp3-frames", "none"), PATHS, "none.so"),
        ("", &PODS.replace("mp3-frames", "text"), PATHS, "text.so"),
    ] {
        let text = lab(options, pods, paths);
        control.write("lab.yaml", &text);
        let output = control.try_vink(&["lab", "up"]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let log = control.try_vink(&["lab", "logs", "transcoder.radio"]);
        let said = said + &String::from_utf8_lossy(&log.stdout);
        assert!(said.contains(says), "{says}: {said}");
        let _ = control.try_vink(&["lab", "down"]);
    }
}

#[test]
fn a_path_of_a_stream_is_revoked_bounded_and_used_again() {
    for place in Place::all() {
        let control = Control::of(&place);
        build(&control);
        // Three of ten frames of silver: a frame has some 417 bytes.
        let budget = "class: 2, bytes: 1000, period: 261224490ns";
        let paths = PATHS.replace("class: 2", budget);
        control.write("lab.yaml", &lab("-n 3", PODS, &paths));
        control.vink(&["lab", "up"]);
        let said = listen(&control, LISTEN);
        let (delivered, offered) = in_time(&said, "silver");
        assert!(
            offered > 70 && delivered * 10 < offered * 5 && delivered * 10 > offered,
            "{said}"
        );
        let numbers = &control.json(&["path", "stat", "silver", "--json"])["numbers"];
        let shed = u64::from(offered - delivered);
        assert_eq!(numbers["shed"], shed);
        assert_eq!(numbers["overdrafts"], shed);
        let (delivered, offered) = in_time(&said, "gold");
        assert!(delivered == offered, "{said}");
        fs::copy(
            control.folder().join("gold.mp3"),
            control.folder().join("first.mp3"),
        )
        .expect("a copy");

        // The same pods have another stream; a path that goes takes its tier with it.
        let app = "exec transcoder app stream -n 3 http://10.0.0.1/music.mp3 gold silver bronze &";
        control.vink(&["shell", "-c", app]);
        control.vink(&["path", "revoke", "bronze"]);
        let listened = control.try_vink(&["exec", "listener", "--", "sh", "-c", LISTEN]);
        assert!(listened.status.success());
        sh(&control, "cmp gold.mp3 first.mp3; test ! -s bronze.mp3");
        let said = control.vink(&["path", "ls"]);
        assert!(!said.contains("bronze"), "{said}");
        let pod = control.json(&["pod", "stat", "bronze", "--json"]);
        assert_eq!(pod["ended"], serde_json::Value::Null);
        // Nor the path whose pods the others share.
        control.vink(&[
            "shell",
            "-c",
            &app.replace(" bronze", "").replace("-n 3", "-n 2"),
        ]);
        control.vink(&["path", "revoke", "gold"]);
        let two = LISTEN.replace(" bronze", "");
        let listened = control.try_vink(&["exec", "listener", "--", "sh", "-c", &two]);
        assert!(listened.status.success());
        sh(&control, "test ! -s gold.mp3; test -s silver.mp3");
        control.vink(&["lab", "down"]);
        control.nothing_is_left();
    }
}
