//! What `vink explore` has found, by the control API: runs with any schedule, and their moments opened as labs.

mod common;

use std::fs;

use common::app::app;
use common::control::Control;
use common::{root, Place};
use serde_json::{json, Value};

/// The schedule that breaks `parcel`, in a query.
const FOUND: &str = "alice:eth0+1+behind,alice:eth0+3+drop";

/// Explores a lab of labs/explore whose app is in C, from another folder than the lab file's.
fn explore(control: &Control, name: &str) {
    let folder = control.folder().join("labs");
    let made = control.command("mkdir").arg(&folder).status();
    assert!(made.expect("mkdir").success());
    let lab = root().join(format!("labs/explore/{name}.yaml"));
    fs::copy(lab, folder.join(format!("{name}.yaml"))).expect("the lab");
    let source = format!("labs/explore/{name}.c");
    app(control, source, &format!("labs/{name}.so"), &[]);
    let searched = control.try_vink(&["explore", &format!("labs/{name}.yaml")]);
    assert_eq!(searched.status.code(), Some(1), "{searched:?}");
}

/// Lists what was found, and has a control process for that.
fn list(control: &Control, folder: &str) -> String {
    let link = control.vink(&["ui", "--explored", folder, "--share", "anna"]);
    let (_, id) = link.trim().rsplit_once('/').expect(&link);
    id.to_owned()
}

fn get(control: &Control, path: &str) -> Value {
    let (status, answer) = control.ask("GET", path, "");
    assert_eq!(status, 200, "{path}: {answer}");
    answer
}

#[test]
fn any_run_is_told_and_its_moments_are_labs() {
    for place in Place::all() {
        let control = Control::of(&place);
        explore(&control, "parcel");
        let id = list(&control, "parcel.explored/outcome");
        assert_eq!(id, "parcel-outcome");
        let of = format!("/v1/explored/{id}");
        let about = get(&control, &of);
        assert_eq!(about["summary"]["violation"]["property"], "outcome");
        assert_eq!(about["machines"], json!(["alice", "bob"]));
        assert_eq!(
            about["fates"],
            json!(["drop", "late", "behind", "duplicate"])
        );

        // What was found is what the story tells.
        let found = get(&control, &format!("{of}/run?schedule={FOUND}"));
        assert_eq!(found["violation"], about["summary"]["violation"]);
        let story = control.folder().join("parcel.explored/outcome/story.txt");
        let story = fs::read_to_string(story).expect("a story");
        let (_, happened) = story.split_once("What happened:\n").expect("events");
        let events = found["events"].as_array().expect("a list");
        assert_eq!(events.len(), happened.lines().count());
        for (event, line) in events.iter().zip(happened.lines()) {
            assert!(
                line.contains(event["text"].as_str().expect("text")),
                "{line}"
            );
        }
        // The second one overtakes the first one; the third one does not arrive.
        let of_departures: Vec<_> = events.iter().map(|event| &event["departure"]).collect();
        let nothing = Value::Null;
        assert_eq!(
            of_departures[..4],
            [&nothing, &nothing, &json!(1), &json!(0)]
        );
        assert_eq!(events[9]["kind"], "loss");
        assert_eq!(events[9]["departure"], 8);

        // Other schedules, and each fate of one more packet.
        let plain = get(&control, &format!("{of}/run"));
        assert_eq!(plain["violation"], Value::Null);
        assert_eq!(plain["schedule"], json!([]));
        let query = "schedule=alice:eth0+1+behind&from=alice:eth0&packet=3";
        let choices = get(&control, &format!("{of}/choices?{query}"));
        let broken = |fate: &str| {
            let all = choices.as_array().expect("a list");
            let one = all.iter().find(|one| one["fate"] == fate);
            one.expect(fate)["violation"]["property"].clone()
        };
        assert_eq!(broken("drop"), "outcome");
        assert_eq!(broken("duplicate"), Value::Null);
        let packet = &events[8]["packet"];
        let packet = get(&control, &format!("{of}/packets/{packet}?schedule={FOUND}"));
        assert_eq!(packet["packet"]["what"], "departure");
        assert_eq!(packet["bytes"].as_str().map(str::len), Some(2 * 46));

        // As a lab, at the time when the third one is lost; what comes of it is the same.
        let at = events[8]["nanoseconds"].as_u64().expect("a time");
        let schedule = FOUND.replace('+', " ");
        let open = json!({ "schedule": schedule, "at": at, "name": "then" }).to_string();
        let (status, opened) = control.ask("POST", &format!("{of}/open"), &open);
        assert_eq!(status, 201, "{opened}");
        assert_eq!(opened["nanoseconds"], at);
        let own = at - opened["begin"].as_u64().expect("a time");
        assert_eq!(get(&control, "/v1/labs/then/clock")["nanoseconds"], own);
        let (status, again) = control.ask("POST", &format!("{of}/open"), &open);
        assert_eq!(status, 409, "{again}");
        control.vink(&["lab", "until", "11s", "--lab", "then"]);
        let programs = control.vink(&["lab", "ps", "--lab", "then"]);
        assert!(programs.contains("bob.receiver  ended (1)"), "{programs}");
        control.vink(&["lab", "down", "then"]);

        // So with the lab file that was written, from any folder.
        control.vink(&["lab", "up", "parcel.explored/outcome/lab.yaml", "--paused"]);
        control.vink(&["lab", "until", "11s"]);
        let programs = control.vink(&["lab", "ps"]);
        assert!(programs.contains("bob.receiver  ended (1)"), "{programs}");
        control.vink(&["lab", "down"]);
        control.nothing_is_left();
    }
}

#[test]
fn programs_of_the_host_are_run_again() {
    let place = &Place::all()[0];
    let control = Control::of(place);
    for name in ["bank.yaml", "bank.py"] {
        let text = fs::read_to_string(root().join("labs/explore").join(name));
        control.write(name, &text.expect(name));
    }
    let searched = control.try_vink(&["explore", "bank.yaml"]);
    assert_eq!(searched.status.code(), Some(1), "{searched:?}");
    let id = list(&control, "bank.explored");
    let plain = get(&control, &format!("/v1/explored/{id}/run"));
    assert_eq!(plain["violation"], Value::Null);
    let query = "from=alice:eth0&packet=1";
    let choices = get(&control, &format!("/v1/explored/{id}/choices?{query}"));
    let broken = choices.as_array().expect("a list").iter();
    let broken: Vec<_> = broken.map(|one| &one["violation"]["property"]).collect();
    assert!(broken.contains(&&json!("stall")), "{choices}");
}

/// A lab, and one in which alice gives up what has no answer for half a second: on a slow wire before the answer to her
/// second SYN. She begins when the clock of a lab is not at 0 any more, which Linux takes for no time at all.
#[test]
fn a_difference_has_the_runs_of_both_sides() {
    for place in Place::all() {
        let control = Control::of(&place);
        let linux = fs::read_to_string(root().join("labs/explore/linux.yaml")).expect("a lab");
        let linux = linux
            .replace("5ms", "50ms")
            .replace("steps", "steps sleep 10ms,");
        let connects = "open, set user-timeout 500, connect";
        let impatient = linux.replace("connect", connects);
        assert_ne!(impatient, linux);
        let impatient = impatient.replace("name: linux", "name: impatient");
        control.write("linux.yaml", &linux);
        control.write("impatient.yaml", &impatient);
        let searched = control.try_vink(&["explore", "linux.yaml", "--against", "impatient.yaml"]);
        assert_eq!(searched.status.code(), Some(1), "{searched:?}");
        let id = list(&control, "linux.explored");
        assert_eq!(id, "linux-difference");
        let of = format!("/v1/explored/{id}");
        let about = get(&control, &of);
        let sides = about["sides"].as_array().expect("a list").iter();
        let sides: Vec<_> = sides.map(|side| (&side["name"], &side["lab"])).collect();
        let names = ["linux", "impatient"].map(Value::from);
        assert_eq!(sides, names.each_ref().map(|name| (name, name)));

        // The same difference from both sides, and a run of each.
        let lost = "schedule=alice:eth0+1+drop";
        let [one, other] =
            ["", "&side=1"].map(|side| get(&control, &format!("{of}/run?{lost}{side}")));
        assert_eq!(one["violation"]["property"], "difference");
        assert_eq!(one["violation"], other["violation"]);
        let says = one["violation"]["what"].as_str().expect("what differs");
        assert!(says.contains("impatient  ended with status 1"), "{says}");
        let status = |run: &Value| {
            let mut programs = run["programs"].as_array().expect("a list").iter();
            let sender = programs.find(|program| program["name"] == "sender");
            sender.expect("it is there")["ended"]["status"].clone()
        };
        assert_eq!((status(&one), status(&other)), (json!(0), json!(1)));
        assert_ne!(one["events"], other["events"]);
        let plain = get(&control, &format!("{of}/run?side=1"));
        assert_eq!(plain["compared"], "Both come to the same.");
        let choices = get(&control, &format!("{of}/choices?from=alice:eth0&packet=1"));
        let choices = choices.as_array().expect("a list").iter();
        let differing = choices.filter(|one| one["violation"]["property"] == "difference");
        let differing: Vec<_> = differing.map(|one| &one["fate"]).collect();
        assert_eq!(differing, ["drop", "late", "behind"]);
        let (status, refused) = control.ask("GET", &format!("{of}/run?side=2"), "");
        assert_eq!(status, 422, "{refused}");

        // The other side as a lab: there alice has given up.
        let open = json!({ "schedule": "alice:eth0 1 drop", "side": 1, "at": 3_000_000_000_u64 });
        let (status, opened) = control.ask("POST", &format!("{of}/open"), &open.to_string());
        assert_eq!((status, &opened["lab"]), (201, &json!("impatient-at-3s")));
        let programs = control.vink(&["lab", "ps", "--lab", "impatient-at-3s"]);
        assert!(programs.contains("alice.sender  ended (1)"), "{programs}");
        control.vink(&["lab", "down", "impatient-at-3s"]);
        control.nothing_is_left();
    }
}

#[test]
fn a_process_that_is_gone_is_started_again() {
    let place = &Place::all()[0];
    let control = Control::of(place);
    explore(&control, "parcel");
    let id = list(&control, "parcel.explored");
    let path = format!("/v1/explored/{id}/run?schedule={FOUND}");
    let first = get(&control, &path);
    let explored = || {
        let mut all = control.processes();
        all.retain(|pid| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.split(|byte| *byte == 0).nth(1) == Some(b"explored")
        });
        all
    };
    let before = explored();
    assert_eq!(before.len(), 1);
    for pid in &before {
        vink_sys::process::kill(*pid, libc::SIGKILL).expect("kill(2)");
    }
    assert_eq!(get(&control, &path), first);
    assert!(explored().is_disjoint(&before));

    // Mistakes, each with its reason.
    for (path, wanted) in [
        (
            "run?schedule=nonsense",
            "\"nonsense\" is no packet with another fate",
        ),
        (
            "choices?from=nowhere&packet=1",
            "there is no interface nowhere",
        ),
        (
            "choices?from=alice:eth0&packet=0",
            "packets are counted from 1 on",
        ),
        ("packets/1000", "the run has no packet 1000"),
        ("packets/one", "no packet one"),
    ] {
        let (status, answer) = control.ask("GET", &format!("/v1/explored/{id}/{path}"), "");
        let error = answer["error"].as_str().expect("an error");
        assert!(
            status >= 400 && error.contains(wanted),
            "{path}: {status} {answer}"
        );
    }
    let (status, answer) = control.ask("GET", "/v1/explored/no-such/run", "");
    assert_eq!(
        (status, &answer["error"]),
        (404, &json!("no explored lab no-such"))
    );
    for (path, wanted) in [
        ("relative", "is not an absolute path"),
        ("/proc/self/fdinfo", "vink explore has written nothing at"),
        ("/no/such/folder", "No such file or directory"),
    ] {
        let body = json!({ "path": path }).to_string();
        let (status, answer) = control.ask("POST", "/v1/explored", &body);
        let error = answer["error"].as_str().expect("an error");
        assert!(
            status == 422 && error.contains(wanted),
            "{path}: {status} {answer}"
        );
    }
    // With the folder goes its place in the list.
    assert_eq!(
        get(&control, "/v1/explored").as_array().map(Vec::len),
        Some(1)
    );
    fs::remove_dir_all(control.folder().join("parcel.explored")).expect("removed");
    assert_eq!(get(&control, "/v1/explored"), json!([]));
}
