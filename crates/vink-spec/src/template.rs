//! What each of many machines has, with names and numbers of its own in its texts: `{{number}}`.

use crate::{Command, FileSpec, MachineSpec, ProgramSpec, Ready, Scalar};

/// What the words in double braces stand for.
pub(crate) struct Template<'a> {
    pub name: &'a str,
    /// From 1 on.
    pub number: usize,
    /// `spine` or `leaf`; empty: neither.
    pub role: &'a str,
    /// Interfaces, and the machines at their other ends.
    pub neighbours: Vec<(&'a str, &'a str)>,
}

impl Template<'_> {
    /// The machine.
    pub fn machine(&self, of: &MachineSpec) -> MachineSpec {
        let mut machine = of.clone();
        for file in machine.files.values_mut() {
            if let FileSpec::Text(text) = file {
                *text = self.text(text);
            }
        }
        if let Some(FileSpec::Text(text)) = &mut machine.filter {
            *text = self.text(text);
        }
        for line in &mut machine.setup {
            *line = self.text(line);
        }
        for value in machine.sysctls.values_mut() {
            if let Scalar::Text(text) = value {
                *text = self.text(text);
            }
        }
        for program in machine.programs.values_mut() {
            self.program(program);
        }
        machine
    }

    fn program(&self, program: &mut ProgramSpec) {
        match &mut program.command {
            Some(Command::Shell(line)) => *line = self.text(line),
            Some(Command::List(words)) => words.iter_mut().for_each(|word| *word = self.text(word)),
            None => {}
        }
        if let Some(app) = &mut program.app {
            *app = self.text(app);
        }
        for value in program.env.values_mut() {
            *value = self.text(value);
        }
        for name in &mut program.after {
            *name = self.text(name);
        }
        if let Some(Ready::Command(text) | Ready::Output(text)) =
            program.ready.as_mut().map(|ready| &mut ready.by)
        {
            *text = self.text(text);
        }
    }

    /// Line by line; one that is about a neighbour once for each, with the lines below that are
    /// indented further.
    fn text(&self, text: &str) -> String {
        let mut filled = String::new();
        let indent = |line: &str| line.len() - line.trim_start().len();
        let mut lines = text.split_inclusive('\n').peekable();
        while let Some(line) = lines.next() {
            let about = ["{{interface}}", "{{peer}}"];
            if !about.iter().any(|word| line.contains(word)) {
                filled += &self.line(line);
                continue;
            }
            let mut block = line.to_owned();
            while let Some(below) = lines.next_if(|below| indent(below) > indent(line)) {
                block += below;
            }
            for (interface, peer) in &self.neighbours {
                let block = block.replace(about[0], interface).replace(about[1], peer);
                filled += &self.line(&block);
            }
        }
        filled
    }

    /// With what its words stand for; others stay as they are.
    fn line(&self, line: &str) -> String {
        let mut filled = String::new();
        let mut rest = line;
        while let Some((before, after)) = rest.split_once("{{") {
            filled += before;
            match after
                .split_once("}}")
                .and_then(|(word, left)| Some((self.word(word)?, left)))
            {
                Some((word, left)) => {
                    filled += &word;
                    rest = left;
                }
                None => {
                    filled += "{{";
                    rest = after;
                }
            }
        }
        filled + rest
    }

    fn word(&self, word: &str) -> Option<String> {
        Some(match word {
            "name" => self.name.to_owned(),
            "role" => self.role.to_owned(),
            "router-id" => format!("10.255.{}.{}", self.number >> 8 & 255, self.number & 255),
            _ => {
                let more = word.strip_prefix("number")?;
                let more: usize = match more.strip_prefix('+') {
                    Some(more) => more.parse().ok()?,
                    None if more.is_empty() => 0,
                    None => return None,
                };
                (self.number + more).to_string()
            }
        })
    }
}
