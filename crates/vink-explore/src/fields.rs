//! Fields of a `struct tcp_sock` that properties ask for, at each packet some forty times: by the same
//! constants, which are known by their addresses.

use vink_pcb::Field;

/// Places for names: more than twice as many as there are. A power of two.
const PLACES: usize = 256;

/// Those that were asked for.
pub(crate) struct Fields {
    known: Vec<(&'static str, Option<Field>)>,
    /// By names' addresses: one more than the place in `known`, or 0.
    places: Box<[u8; PLACES]>,
}

impl Default for Fields {
    fn default() -> Fields {
        Fields {
            known: Vec::new(),
            places: Box::new([0; PLACES]),
        }
    }
}

impl Fields {
    /// A field of a socket as a number; if it is asked for the first time, `find` finds it.
    pub fn number(
        &mut self,
        socket: &[u8],
        name: &'static str,
        find: impl FnOnce() -> Option<Field>,
    ) -> Option<u64> {
        let mut at = place(name);
        loop {
            match self.places[at] {
                0 => break,
                known => {
                    let (its, field) = &self.known[usize::from(known) - 1];
                    if std::ptr::eq(*its, name) {
                        return field.as_ref()?.number(socket);
                    }
                }
            }
            at = (at + 1) % PLACES;
        }
        // The same name may be a constant of another part of the program.
        let known = self.known.iter().find(|(its, _)| *its == name);
        let field = known.map_or_else(find, |(_, field)| field.clone());
        let number = field.as_ref().and_then(|field| field.number(socket));
        if self.known.len() < PLACES / 2 {
            self.known.push((name, field));
            self.places[at] = self.known.len() as u8;
        }
        number
    }
}

/// Where to look first.
fn place(name: &'static str) -> usize {
    let address = name.as_ptr() as usize;
    // Names follow one another, with some bytes each.
    (address ^ address >> 8 ^ name.len() << 4) % PLACES
}

#[cfg(test)]
impl Fields {
    /// Of eight bytes each, one behind the other.
    pub fn of_names(names: &[&'static str]) -> Fields {
        let field = |(place, name): (usize, &&'static str)| {
            let field = Field {
                name: (*name).to_owned(),
                path: (*name).to_owned(),
                offset: place * 8,
                kind: vink_pcb::Kind::Unsigned(8),
            };
            (*name, Some(field))
        };
        Fields {
            known: names.iter().enumerate().map(field).collect(),
            ..Fields::default()
        }
    }

    /// All that are known.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.known.iter().map(|(name, _)| *name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_looked_for_once() {
        let mut fields = Fields::of_names(&["one", "two"]);
        let socket = [7u64, 9].map(u64::to_le_bytes).concat();
        let never = || panic!("it is known");
        for _ in 0..2 {
            assert_eq!(fields.number(&socket, "two", never), Some(9));
            assert_eq!(fields.number(&socket, "one", never), Some(7));
        }
        assert_eq!(fields.number(&socket, "three", || None), None);
        assert_eq!(fields.number(&socket, "three", never), None);
        assert_eq!(fields.number(&socket[..8], "two", never), None);
    }

    #[test]
    fn more_names_than_places_are_found() {
        let names: Vec<&'static str> = (0..PLACES)
            .map(|number| &*String::leak(format!("field{number}")))
            .collect();
        let known = Fields::of_names(&names);
        let socket: Vec<u8> = (0..PLACES as u64).flat_map(u64::to_le_bytes).collect();
        let mut fields = Fields::default();
        for _ in 0..2 {
            for (number, name) in names.iter().enumerate() {
                let find = || known.known[number].1.clone();
                assert_eq!(fields.number(&socket, name, find), Some(number as u64));
            }
        }
    }
}
