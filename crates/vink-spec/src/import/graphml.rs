//! GraphML, as the Internet Topology Zoo has it: <http://graphml.graphdrawing.org/>.

use std::collections::HashMap;

use quick_xml::events::{BytesStart, Event};
use quick_xml::Reader;

use super::graph::{Edge, Graph, Vertex};
use super::{text_place, wrong};
use crate::diagnostic::Diagnostics;

/// What `data` belongs to.
enum Within {
    Graph,
    Node,
    Edge,
}

pub(super) fn read(text: &str, file: &str) -> Result<Graph, Diagnostics> {
    let mut reader = Reader::from_str(text);
    // `<node/>` as `<node></node>`.
    reader.config_mut().expand_empty_elements = true;
    let mut graph = Graph::default();
    // Names of attributes by the ids of their keys.
    let mut keys: HashMap<String, String> = HashMap::new();
    let mut within = Within::Graph;
    let mut key: Option<String> = None;
    let mut graphs = 0;
    let mut strange = 0;
    loop {
        let at = reader.buffer_position() as usize;
        let bad = |message: String| {
            let fix = "this is to be GraphML: give another --format if it is something else";
            wrong(text_place(text, at), file, message, fix)
        };
        let event = reader
            .read_event()
            .map_err(|error| bad(format!("this is not XML: {error}")))?;
        let attribute = |tag: &BytesStart<'_>, name: &str| -> Result<Option<String>, Diagnostics> {
            for attribute in tag.attributes() {
                let attribute =
                    attribute.map_err(|error| bad(format!("this is not XML: {error}")))?;
                if attribute.key.as_ref() == name {
                    return Ok(Some(unescape(&attribute.value)));
                }
            }
            Ok(None)
        };
        let needed = |tag: &BytesStart<'_>, name: &str| {
            attribute(tag, name)?
                .ok_or_else(|| bad(format!("<{}> has no {name}", tag.name().as_ref())))
        };
        match event {
            Event::Eof => break,
            Event::Start(tag) => match tag.local_name().as_ref() {
                "key" => {
                    if let Some(name) = attribute(&tag, "attr.name")? {
                        keys.insert(needed(&tag, "id")?, name);
                    }
                }
                "graph" => graphs += 1,
                "node" => {
                    within = Within::Node;
                    graph.nodes.push(Vertex {
                        id: needed(&tag, "id")?,
                        ..Vertex::default()
                    });
                }
                "edge" => {
                    within = Within::Edge;
                    graph.edges.push(Edge {
                        source: needed(&tag, "source")?,
                        target: needed(&tag, "target")?,
                        ..Edge::default()
                    });
                }
                "data" => key = Some(needed(&tag, "key")?),
                "hyperedge" | "port" => strange += 1,
                _ => {}
            },
            Event::Text(content) => {
                if let Some(key) = &key {
                    put(
                        &mut graph,
                        &within,
                        keys.get(key).unwrap_or(key),
                        &unescape(&content),
                    );
                }
            }
            // Newer readers tell of `&amp;` by itself.
            Event::GeneralRef(name) => {
                if let Some(key) = &key {
                    let raw = format!("&{};", &*name);
                    put(
                        &mut graph,
                        &within,
                        keys.get(key).unwrap_or(key),
                        &unescape(&raw),
                    );
                }
            }
            Event::End(tag) => match tag.local_name().as_ref() {
                "data" => key = None,
                "node" | "edge" => within = Within::Graph,
                _ => {}
            },
            _ => {}
        }
    }
    if graphs == 0 {
        let fix = "this is to be GraphML: give another --format if it is something else";
        return Err(wrong(
            text_place(text, 0),
            file,
            "there is no <graph> in it".to_owned(),
            fix,
        ));
    }
    if graphs > 1 {
        graph.warnings.push(format!("{graphs} graphs are one lab"));
    }
    if strange > 0 {
        graph
            .warnings
            .push(format!("{strange} hyperedges and ports are left out"));
    }
    Ok(graph)
}

fn put(graph: &mut Graph, within: &Within, name: &str, text: &str) {
    let attributes = match within {
        Within::Graph => {
            if name == "Network" {
                graph.name.push_str(text);
            }
            return;
        }
        Within::Node => graph.nodes.last_mut().map(|node| &mut node.attributes),
        Within::Edge => graph.edges.last_mut().map(|edge| &mut edge.attributes),
    };
    if let Some(attributes) = attributes {
        attributes
            .entry(name.to_owned())
            .or_default()
            .push_str(text);
    }
}

fn unescape(raw: &str) -> String {
    quick_xml::escape::unescape(raw).map_or_else(|_| raw.to_owned(), |text| text.into_owned())
}
