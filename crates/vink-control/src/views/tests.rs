//! Clients of one document, without sockets: what each is told, and what is refused.

use super::*;
use yrs::{Map, Text, WriteTxn};

/// A client with a document of its own.
struct Client {
    seat: Seat,
    doc: Doc,
}

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("vink-views-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

fn access(role: Role) -> Access {
    Access {
        role,
        actor: "ann".into(),
        ..Access::without_session()
    }
}

impl Client {
    /// As a page does: it asks for what it lacks, and answers what the server lacks.
    fn new(views: &Arc<Views>, role: Role) -> Client {
        let (seat, greetings) = views.enter(access(role)).expect("a seat");
        let mut client = Client {
            seat,
            doc: Doc::new(),
        };
        for greeting in greetings {
            client.hear(&greeting);
        }
        let vector = client.doc.transact().state_vector().encode_v1();
        let answer = client.say(&sync(STEP_1, &vector)).expect("it is read");
        client.hear(&answer.expect("the whole document"));
        client
    }

    fn say(&self, bytes: &[u8]) -> Result<Option<Bytes>, Refusal> {
        self.seat.take(bytes)
    }

    fn hear(&mut self, bytes: &[u8]) {
        let mut reader = Reader(bytes);
        if reader.number() == Some(SYNC) && reader.number() != Some(STEP_1) {
            let update = Update::decode_v1(reader.bytes().expect("a body")).expect("an update");
            self.doc
                .transact_mut()
                .apply_update(update)
                .expect("it fits");
        }
    }

    /// All that it was told since.
    fn hear_all(&mut self) {
        loop {
            let told = self.seat.told_now();
            if told.is_empty() {
                return;
            }
            for message in told {
                self.hear(&message);
            }
        }
    }

    /// Changes its own document and sends the change.
    fn change(&self, change: impl FnOnce(&mut yrs::TransactionMut)) -> Result<(), Refusal> {
        let update = {
            let mut txn = self.doc.transact_mut();
            change(&mut txn);
            txn.encode_update_v1()
        };
        self.say(&sync(UPDATE, &update)).map(|_| ())
    }

    fn place(&self, machine: &str, x: f64) -> Result<(), Refusal> {
        self.change(|txn| {
            let positions = txn.get_or_insert_map("positions");
            positions.insert(txn, machine, vec![x, 0.0]);
        })
    }

    fn positions(&self) -> Any {
        let positions = self.doc.get_or_insert_map("positions");
        positions.to_json(&self.doc.transact())
    }
}

#[tokio::test]
async fn two_converge_and_a_joiner_is_in_step() {
    let folder = folder("two");
    let views = Views::new(folder.clone(), "lab");
    let (mut one, mut other) = (
        Client::new(&views, Role::Draw),
        Client::new(&views, Role::Own),
    );
    one.place("r1", 1.0).expect("it may");
    other.place("r1", 2.0).expect("it may");
    other.place("r2", 3.0).expect("it may");
    one.change(|txn| {
        txn.get_or_insert_text("notes")
            .insert(txn, 0, "\u{1f600}one")
    })
    .expect("it may");
    one.hear_all();
    other
        .change(|txn| txn.get_or_insert_text("notes").insert(txn, 0, "two"))
        .expect("it may");
    one.hear_all();
    other.hear_all();
    let joiner = Client::new(&views, Role::View);
    for client in [&other, &joiner] {
        assert_eq!(client.positions(), one.positions());
        let notes = |client: &Client| {
            let notes = client.doc.get_or_insert_text("notes");
            notes.get_string(&client.doc.transact())
        };
        assert_eq!(notes(client), notes(&one));
    }

    // What is saved is there in the next life.
    let saved = views.save().expect("it is written");
    let json = std::fs::read_to_string(saved.json).expect("a file");
    assert!(json.contains("    \"r2\": [3, 0]\n"), "{json}");
    drop(other);
    let again = Views::new(folder.clone(), "lab");
    assert_eq!(Client::new(&again, Role::View).positions(), one.positions());
    std::fs::remove_dir_all(folder).expect("it is there");
}

#[tokio::test]
async fn who_may_look_changes_nothing() {
    let folder = folder("look");
    let views = Views::new(folder.clone(), "lab");
    let viewer = Client::new(&views, Role::View);
    let refused = viewer.place("r1", 1.0);
    assert!(matches!(refused, Err(Refusal::Role(_))), "{refused:?}");
    // What a client that has nothing new answers is no change.
    assert_eq!(viewer.say(&sync(STEP_2, &[0, 0])), Ok(None));
    let painter = Client::new(&views, Role::Draw);
    painter.place("r1", 7.0).expect("it may");
    // Whatever part it is of, in either message; and what is there can't be deleted.
    let mut changes = vec![vec![0, 1, 1, 1, 0, 1]];
    for part in update::MAPS {
        let mut txn = viewer.doc.transact_mut();
        let map = txn.get_or_insert_map(part);
        map.insert(&mut txn, "r1", 2);
        changes.push(txn.encode_update_v1());
    }
    {
        let mut txn = viewer.doc.transact_mut();
        let notes = txn.get_or_insert_text(update::NOTES);
        notes.insert(&mut txn, 0, "mine");
        changes.push(txn.encode_update_v1());
    }
    changes.push(
        painter
            .doc
            .transact()
            .encode_state_as_update_v1(&StateVector::default()),
    );
    for change in &changes {
        for kind in [STEP_2, UPDATE] {
            let refused = Client::new(&views, Role::View).say(&sync(kind, change));
            assert!(matches!(refused, Err(Refusal::Role(_))), "{refused:?}");
        }
        let (told, kept) = (painter.positions(), Client::new(&views, Role::Draw));
        assert_eq!(kept.positions(), told);
        assert_eq!(
            kept.doc
                .get_or_insert_text(update::NOTES)
                .get_string(&kept.doc.transact()),
            ""
        );
    }
    let views = Views::new(folder.clone(), "other");
    let next = Client::new(&views, Role::View);
    assert_eq!(next.positions(), Any::from(HashMap::<String, Any>::new()));
    views.save_changes();
    assert_eq!(std::fs::read_dir(&folder).expect("a folder").count(), 0);
    std::fs::remove_dir_all(folder).expect("it is there");
}

#[tokio::test]
async fn nonsense_and_too_much_are_refused_and_the_others_go_on() {
    let folder = folder("nonsense");
    let views = Views::new(folder.clone(), "lab");
    let mut good = Client::new(&views, Role::Draw);
    for wrong in [
        &b""[..],
        &[9],
        &[0, 9, 0],
        &[0, 2, 1, 7],
        &[0, 2, 9],
        &[1, 2, 1, 1],
        &[0, 0, 2, 1, 9],
    ] {
        let bad = Client::new(&views, Role::Own);
        let refused = bad.say(wrong);
        assert!(
            matches!(refused, Err(Refusal::Invalid(_))),
            "{wrong:?}: {refused:?}"
        );
    }
    let bad = Client::new(&views, Role::Own);
    let huge = vec![0; LARGEST_UPDATE + 1];
    assert!(matches!(bad.say(&huge), Err(Refusal::TooLarge(_))));
    let text = "x".repeat(LARGEST_UPDATE - 1000);
    let draw = |client: &Client, name: &str| {
        client.change(|txn| {
            txn.get_or_insert_map("whiteboard")
                .insert(txn, name, text.as_str());
        })
    };
    for name in ["a", "b", "c", "d"] {
        draw(&bad, name).expect("there is room");
    }
    assert!(matches!(draw(&bad, "e"), Err(Refusal::TooLarge(_))));
    // Another's small change has no room either, but erasing has, and then there is room again.
    good.hear_all();
    good.place("r1", 1.0).expect("some bytes are left");
    good.change(|txn| {
        txn.get_or_insert_map("whiteboard").remove(txn, "a");
    })
    .expect("erasing has room");
    draw(&good, "f").expect("there is room again");
    let joiner = Client::new(&views, Role::View);
    assert_eq!(joiner.positions(), good.positions());
    std::fs::remove_dir_all(folder).expect("it is there");
}

#[tokio::test]
async fn deletions_without_end_are_refused_and_what_is_saved_opens_again() {
    let folder = folder("deletions");
    let views = Views::new(folder.clone(), "lab");
    let bad = Client::new(&views, Role::Draw);
    bad.place("r1", 1.0).expect("it may");
    // Of things that are not there: they are kept until those come. Each client's number, clock and length is another.
    let mut next = 1 << 30;
    let refused = loop {
        let mut update = vec![0];
        put_number(&mut update, 50_000);
        for _ in 0..50_000 {
            next += 1;
            put_number(&mut update, next);
            for number in [1, 1 << 20, 1 << 20] {
                put_number(&mut update, number);
            }
        }
        if let Err(refused) = bad.say(&sync(UPDATE, &update)) {
            break refused;
        }
    };
    assert!(
        matches!(&refused, Refusal::TooLarge(text) if text.contains("4 MiB")),
        "{refused:?}"
    );
    let saved = views.save().expect("it is written").views;
    let length = std::fs::metadata(saved).expect("a file").len() as usize;
    assert!(
        length > LARGEST / 2 && length <= LARGEST + FOR_DELETIONS,
        "{length}"
    );
    let again = Views::new(folder.clone(), "lab");
    assert_eq!(Client::new(&again, Role::View).positions(), bad.positions());
    std::fs::remove_dir_all(folder).expect("it is there");
}

#[tokio::test]
async fn one_who_reads_late_gets_the_whole_and_there_are_not_too_many() {
    let folder = folder("late");
    let views = Views::new(folder.clone(), "lab");
    let mut late = Client::new(&views, Role::View);
    let painter = Client::new(&views, Role::Draw);
    for x in 0..3000 {
        painter.place("r1", f64::from(x)).expect("it may");
    }
    // Not one message for each change that it has missed.
    assert_eq!(late.seat.told_now().len(), 2);
    assert!(late.seat.told_now().is_empty());
    painter.place("r2", 1.0).expect("it may");
    late.hear_all();
    let mut late = Client::new(&views, Role::View);
    late.hear_all();
    assert_eq!(late.positions(), painter.positions());

    let more: Vec<_> = (3..MOST_CLIENTS)
        .map(|_| views.enter(access(Role::View)))
        .collect();
    assert!(more.iter().all(Result::is_ok));
    let refused = views.enter(access(Role::Own)).err().expect("it is full");
    assert!(
        refused.status == 409 && refused.problem.error.contains("256 clients"),
        "{refused:?}"
    );
    drop(more);
    assert!(views.enter(access(Role::View)).is_ok());
    std::fs::remove_dir_all(folder).expect("it is there");
}

#[tokio::test]
async fn a_file_that_holds_something_else_stays() {
    let folder = folder("else");
    let path = folder.join("lab.views.yjs");
    std::fs::write(&path, b"a diary").expect("a file");
    let views = Views::new(folder.clone(), "lab");
    let refused = views
        .enter(access(Role::Own))
        .err()
        .expect("it is no document");
    assert!(
        refused.problem.error.contains("lab.views.yjs"),
        "{refused:?}"
    );
    assert!(views.save().is_err());
    views.save_changes();
    assert_eq!(std::fs::read(&path).expect("a file"), b"a diary");
    std::fs::remove_dir_all(folder).expect("it is there");
}

#[tokio::test(start_paused = true)]
async fn a_failed_save_is_said_and_tried_again() {
    let folder = folder("fails");
    let views = Views::new(folder.clone(), "lab");
    let mut client = Client::new(&views, Role::Draw);
    let mut notice = move || loop {
        let told = client.seat.told_now();
        let mut reader = Reader(told.first()?);
        if reader.number() == Some(NOTICE) {
            return reader.text().map(str::to_owned);
        }
    };
    let painter = Client::new(&views, Role::Draw);
    painter.place("r1", 1.0).expect("it may");
    views.save_changes();
    let path = folder.join("lab.views.yjs");
    let before = std::fs::read(&path).expect("it is saved");
    // As on a full disk, nothing can be written beside it.
    let blocker = folder.join(".lab.views.yjs.new");
    std::fs::create_dir(&blocker).expect("a folder in its place");
    painter.place("r1", 2.0).expect("it may");
    views.save_changes();
    let said = notice().expect("it is said");
    assert!(
        said.contains("can't be saved") && said.contains("lab.views.yjs"),
        "{said}"
    );
    assert_eq!(std::fs::read(&path).expect("it stays"), before);
    std::fs::remove_dir(&blocker).expect("it is there");
    views.save_changes();
    assert_eq!(notice().as_deref(), Some("views are saved again"));
    assert!(std::fs::read(&path).expect("it is new") != before);
    std::fs::remove_dir_all(folder).expect("it is there");
}

#[test]
fn ten_thousand_positions_are_small() {
    let folder = folder("many");
    let views = Views::new(folder.clone(), "lab");
    let client = Client::new(&views, Role::Draw);
    let update = {
        let mut txn = client.doc.transact_mut();
        let positions = txn.get_or_insert_map("positions");
        for machine in 0..10_000 {
            let x = f64::from(machine).sqrt();
            positions.insert(&mut txn, format!("machine{machine}"), vec![x, -x]);
        }
        txn.encode_update_v1()
    };
    let mut guard = views.state();
    let state = guard.as_mut().expect("it is open");
    state.apply(&update).expect("it fits");
    // What web-ui.md promises.
    let bytes = state.count().len();
    assert!(bytes <= 1_500_000, "{bytes}");
    drop(guard);
    drop(client);
    std::fs::remove_dir_all(folder).expect("it is there");
}

/// Pages that look at a recorded run: each hears where the others are, and none changes anything.
#[tokio::test]
async fn of_users_there_is_no_document() {
    let views = Views::of_users();
    let (one, mut other) = (
        Client::new(&views, Role::Own),
        Client::new(&views, Role::View),
    );
    let refused = one.place("r1", 1.0).expect_err("no document");
    assert!(matches!(refused, Refusal::Role(_)), "{refused:?}");
    one.say(&[1, 6, 1, 1, 1, 2, b'{', b'}']).expect("presence");
    let told = other.seat.told_now();
    assert_eq!(told.len(), 1);
    assert_eq!(told[0][0], PRESENCE as u8);
    other.hear_all();
    assert_eq!(other.positions().to_string(), "{}");
    views.save_changes();
    assert!(views.save().is_err());
}
