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
    programs: { radio: { app: 'stream OPTIONS http://10.0.0.1/music.mp3 PODS', after: [server.httpd] } }
  listener:
    interfaces: { eth0: { wire: w2, addresses: [10.0.1.2/24] } }
wires: { w1: { delay: 5ms }, w2: { delay: 5ms } }
";

const PODS: &str = "frames=mp3-frames.so decode=mp3-decode.so gold=mp3-encode.so,bitrate=192 \
                    silver=mp3-encode.so,bitrate=128 bronze=mp3-encode.so,bitrate=32";

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
    let lab = LAB.replace("OPTIONS", options).replace("PODS", pods);
    control.write("lab.yaml", &lab);
    control.vink(&["lab", "up"]);
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
    let said = control.vink(&["lab", "logs", "transcoder.radio"]);
    control.vink(&["lab", "down"]);
    said
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
            up(&control, &format!("-n 3 -w {wall}"), PODS);
            let said = listen(&control, LISTEN);
            assert!(said.contains(&format!("wall: {wall}")), "{said}");
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
        let pods = PODS.replace("silver=mp3-encode.so,bitrate=128", "silver=bad.so");
        up(&control, "-n 3", &pods);
        let said = listen(&control, LISTEN);
        assert!(said.contains("pod silver has ended: it "), "{said}");
        for tier in ["gold", "bronze"] {
            let (delivered, offered) = in_time(&said, tier);
            assert!(delivered == offered && offered > 70, "{said}");
        }
        assert_eq!(in_time(&said, "silver").0, 20, "{said}");
        let silver = fs::metadata(control.folder().join("silver.mp3")).expect("silver's");
        assert_eq!(silver.len(), 20 * 1152 * 4);

        // One that all share takes all with it, by its name.
        up(
            &control,
            "-n 3",
            &PODS.replace("decode=mp3-decode.so", "decode=bad.so"),
        );
        let said = listen(&control, LISTEN);
        assert!(said.contains("pod decode has ended: it "), "{said}");
    }
}

#[test]
fn the_lowest_tier_goes_without_first() {
    let place = &Place::all()[0];
    let control = Control::of(place);
    build(&control);
    up(&control, "-n 3", PODS);
    let said = listen(&control, LISTEN);
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
    let lab = LAB.replace("OPTIONS", "-n 3").replace("PODS", PODS);
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
    for (options, pods, says) in [
        ("-n 0 -w paper", PODS, "it is process, wasm or none"),
        ("-c 0%", PODS, "a part of a processor, such as 2.5%"),
        (
            "",
            "frames=mp3-frames.so decode=mp3-decode.so gold",
            "NAME=FILE",
        ),
        (
            "",
            "frames=none.so decode=mp3-decode.so gold=mp3-encode.so",
            "none.so",
        ),
        (
            "",
            "frames=text.so decode=mp3-decode.so gold=mp3-encode.so",
            "text.so",
        ),
    ] {
        let lab = LAB.replace("OPTIONS", options).replace("PODS", pods);
        control.write("lab.yaml", &lab);
        let output = control.try_vink(&["lab", "up"]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            !output.status.success() && said.contains(says),
            "{options} {pods}: {said}"
        );
        let _ = control.try_vink(&["lab", "down"]);
    }
}
