//! Where each client is and what it points at, as y-protocols' awareness has it. A client can speak for itself only:
//! its name and role are what its session says, whatever it claims.

use std::collections::BTreeMap;

use serde_json::Value;
use vink_api::Role;

use super::lib0::{put_bytes, put_number, Reader};
use crate::session::Access;

/// Bytes of one client's state.
const LARGEST: usize = 4096;

/// What clients have said of themselves, by their numbers in the document.
#[derive(Default)]
pub(super) struct Presence(BTreeMap<u64, Person>);

struct Person {
    /// The connection that it is told by.
    seat: u64,
    clock: u64,
    /// JSON; nothing once it has gone.
    state: Option<String>,
}

impl Presence {
    /// Takes what a client says: the message for the others, if anything is new.
    pub(super) fn take(
        &mut self,
        seat: u64,
        access: &Access,
        bytes: &[u8],
    ) -> Result<Option<Vec<u8>>, &'static str> {
        const WRONG: &str = "its presence is not whole";
        let mut reader = Reader(bytes);
        let mut new = Vec::new();
        for _ in 0..reader.number().ok_or(WRONG)? {
            let client = reader.number().ok_or(WRONG)?;
            let clock = reader.number().ok_or(WRONG)?;
            let state = reader.text().ok_or(WRONG)?;
            if state.len() > LARGEST {
                return Err("its presence is too large");
            }
            let state: Value = serde_json::from_str(state).map_err(|_| WRONG)?;
            let own = self.0.iter().find(|(_, person)| person.seat == seat);
            let is_other = own.is_some_and(|(own, _)| *own != client)
                || self
                    .0
                    .get(&client)
                    .is_some_and(|person| person.seat != seat);
            if is_other {
                // A client that repeats what others have said is right to, but it is not needed.
                continue;
            }
            if self
                .0
                .get(&client)
                .is_some_and(|person| person.clock > clock)
            {
                continue;
            }
            let state = match state {
                Value::Object(mut state) => {
                    state.insert("name".to_owned(), (*access.actor).into());
                    let role = serde_json::to_value(access.role).unwrap_or_default();
                    state.insert("role".to_owned(), role);
                    if access.role < Role::Own {
                        state.remove("presents");
                    }
                    // A stroke that is being drawn.
                    if access.role < Role::Draw {
                        state.remove("drawing");
                    }
                    Some(Value::Object(state).to_string())
                }
                Value::Null => None,
                _ => return Err(WRONG),
            };
            self.0.insert(client, Person { seat, clock, state });
            new.push(client);
        }
        Ok((!new.is_empty()).then(|| self.encode(&new)))
    }

    /// All that are there.
    pub(super) fn all(&self) -> Vec<u8> {
        let there = self.0.iter().filter(|(_, person)| person.state.is_some());
        self.encode(&there.map(|(client, _)| *client).collect::<Vec<_>>())
    }

    /// A connection has ended: what the others are to be told.
    pub(super) fn leave(&mut self, seat: u64) -> Option<Vec<u8>> {
        let gone = self.0.iter().find(|(_, person)| person.seat == seat);
        let client = *gone?.0;
        let person = self.0.get_mut(&client)?;
        person.state = None;
        let told = self.encode(&[client]);
        self.0.remove(&client);
        Some(told)
    }

    fn encode(&self, clients: &[u64]) -> Vec<u8> {
        let mut bytes = Vec::new();
        put_number(&mut bytes, clients.len() as u64);
        for client in clients {
            let Person { clock, state, .. } = &self.0[client];
            put_number(&mut bytes, *client);
            put_number(&mut bytes, *clock);
            put_bytes(&mut bytes, state.as_deref().unwrap_or("null").as_bytes());
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(client: u64, clock: u64, state: &str) -> Vec<u8> {
        let mut bytes = vec![1];
        put_number(&mut bytes, client);
        put_number(&mut bytes, clock);
        put_bytes(&mut bytes, state.as_bytes());
        bytes
    }

    fn ann(role: Role) -> Access {
        Access {
            role,
            actor: "ann".into(),
            ..Access::without_session()
        }
    }

    #[test]
    fn a_client_speaks_for_itself_alone() {
        let mut presence = Presence::default();
        let claims = r#"{"name":"bob","role":"own","presents":1,"drawing":{},"pointer":[1,2]}"#;
        let told = presence.take(1, &ann(Role::View), &said(7, 1, claims));
        let told = String::from_utf8(told.expect("whole").expect("new")).expect("JSON");
        assert!(
            told.contains(r#""name":"ann","role":"view","pointer":[1,2]}"#),
            "{told}"
        );
        let told = presence.take(
            2,
            &ann(Role::Own),
            &said(8, 1, r#"{"presents":1,"drawing":{}}"#),
        );
        let told = String::from_utf8(told.expect("whole").expect("new")).expect("JSON");
        assert!(told.contains(r#""presents":1,"drawing":{}"#), "{told}");
        // Neither another's number, nor a second one of its own.
        assert_eq!(
            presence.take(2, &ann(Role::Own), &said(7, 9, "null")),
            Ok(None)
        );
        assert_eq!(
            presence.take(1, &ann(Role::Own), &said(9, 1, "{}")),
            Ok(None)
        );
        assert_eq!(presence.all()[0], 2);
        let gone = presence.leave(1).expect("it was there");
        assert_eq!(gone, said(7, 1, "null"));
        assert_eq!((presence.leave(1), presence.all()[0]), (None, 1));
        for wrong in [
            &said(8, 2, "[]")[..],
            &said(8, 2, "{"),
            &[1, 8],
            &said(8, 2, &" ".repeat(5000)),
        ] {
            assert!(presence.take(2, &ann(Role::Own), wrong).is_err());
        }
    }
}
