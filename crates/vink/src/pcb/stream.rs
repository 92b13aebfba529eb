//! Samples as lines of JSON or CSV.

use std::io::{self, Write};

use serde::ser::{SerializeMap, Serializer};
use serde::Serialize;
use vink_pcb::{Connection, Value};

/// A sample.
#[derive(Serialize)]
pub(super) struct Line<'a> {
    /// In ns since `vink pcb` began; negative: before.
    #[serde(serialize_with = "seconds")]
    pub time: i64,
    /// What the kernel did: an event's name, or `time`.
    pub event: &'a str,
    pub machine: &'a str,
    #[serde(flatten, serialize_with = "ends")]
    pub connection: &'a Connection,
    pub state: &'a str,
    /// Samples that were lost before this one.
    #[serde(skip_serializing_if = "is_none")]
    pub missed: u64,
    #[serde(rename = "fields", serialize_with = "in_order")]
    pub values: Vec<(&'a str, Value)>,
}

fn is_none(missed: &u64) -> bool {
    *missed == 0
}

fn seconds<S: Serializer>(time: &i64, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(*time as f64 / 1e9)
}

fn ends<S: Serializer>(connection: &&Connection, to: S) -> Result<S::Ok, S::Error> {
    let mut map = to.serialize_map(Some(2))?;
    map.serialize_entry("local", &connection.local)?;
    map.serialize_entry("remote", &connection.remote)?;
    map.end()
}

fn in_order<S: Serializer>(values: &[(&str, Value)], to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(values.iter().map(|(name, value)| (name, value)))
}

/// Where lines go.
pub(super) enum Stream {
    Json(Box<dyn Write>),
    Csv(Box<csv::Writer<Box<dyn Write>>>),
}

impl Stream {
    /// A JSON object in each line.
    pub fn json(to: Box<dyn Write>) -> Stream {
        Stream::Json(to)
    }

    /// A line of names, and one for each sample.
    pub fn csv<'a>(
        to: Box<dyn Write>,
        fields: impl Iterator<Item = &'a str>,
    ) -> io::Result<Stream> {
        let mut writer = csv::Writer::from_writer(to);
        let head = ["time", "event", "machine", "local", "remote", "state"];
        writer.write_record(head.into_iter().chain(fields))?;
        writer.flush()?;
        Ok(Stream::Csv(Box::new(writer)))
    }

    /// Writes one.
    pub fn write(&mut self, line: &Line<'_>) -> io::Result<()> {
        match self {
            Stream::Json(to) => {
                let mut text = serde_json::to_vec(line)?;
                text.push(b'\n');
                to.write_all(&text)?;
                to.flush()
            }
            Stream::Csv(to) => {
                let head = [
                    (line.time as f64 / 1e9).to_string(),
                    line.event.to_owned(),
                    line.machine.to_owned(),
                    line.connection.local.to_string(),
                    line.connection.remote.to_string(),
                    line.state.to_owned(),
                ];
                let values = line.values.iter().map(|(_, value)| value.to_string());
                to.write_record(head.into_iter().chain(values))?;
                to.flush()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// What was written, after the end.
    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("no panic").write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Written {
        fn text(&self) -> String {
            let bytes = self.0.lock().expect("no panic").clone();
            String::from_utf8(bytes).expect("text")
        }
    }

    #[test]
    fn both_forms_say_the_same() {
        let connection = Connection {
            at: 4096,
            net: 1,
            local: "10.0.0.1:2000".parse().expect("an address"),
            remote: "[fe80::1]:80".parse().expect("an address"),
            state: 1,
            bytes: Vec::new(),
        };
        let list = vec![Value::Unsigned(1), Value::Unsigned(2)];
        let line = Line {
            time: 1_500_000_000,
            event: "ack",
            machine: "alice",
            connection: &connection,
            state: "ESTABLISHED",
            missed: 3,
            values: vec![
                ("snd_cwnd", Value::Unsigned(10)),
                ("a[0].b", Value::List(list)),
                ("ops", Value::Pointer(255)),
            ],
        };
        let (json, csv) = (Written::default(), Written::default());
        Stream::json(Box::new(json.clone()))
            .write(&line)
            .expect("JSON");
        let names = line.values.iter().map(|(name, _)| *name);
        let mut stream = Stream::csv(Box::new(csv.clone()), names).expect("CSV");
        stream.write(&line).expect("CSV");
        drop(stream);
        assert_eq!(
            json.text(),
            "{\"time\":1.5,\"event\":\"ack\",\"machine\":\"alice\",\"local\":\"10.0.0.1:2000\",\
             \"remote\":\"[fe80::1]:80\",\"state\":\"ESTABLISHED\",\"missed\":3,\
             \"fields\":{\"snd_cwnd\":10,\"a[0].b\":[1,2],\"ops\":\"0xff\"}}\n"
        );
        assert_eq!(
            csv.text(),
            "time,event,machine,local,remote,state,snd_cwnd,a[0].b,ops\n\
             1.5,ack,alice,10.0.0.1:2000,[fe80::1]:80,ESTABLISHED,10,1 2,0xff\n"
        );
    }
}
