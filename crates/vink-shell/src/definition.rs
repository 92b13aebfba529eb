//! The commands: how each is written, what it does, and what reads it. `help`, the table of
//! docs/switchbox.md, completion and the parser all come from here.

use crate::parse::{self, Words};
use crate::{Command, ParseError};

/// Where a command is one. Elsewhere its name is no more than another program's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Outside and inside of machines.
    Anywhere,
    /// Outside: inside, a program of the host has this name.
    Outside,
    /// Inside of a machine.
    Inside,
}

/// A command of the switch box.
#[derive(Debug)]
pub struct Definition {
    /// Its first word.
    pub name: &'static str,
    /// Where it is known.
    pub place: Place,
    /// The ways to write it.
    pub usage: &'static [&'static str],
    /// What it does, in a line.
    pub summary: &'static str,
    /// What else there is to know; may be empty.
    pub details: &'static str,
    pub(crate) parse: fn(&mut Words) -> Result<Command, ParseError>,
}

/// Two definitions are the same if their names are.
impl PartialEq for Definition {
    fn eq(&self, other: &Definition) -> bool {
        self.name == other.name
    }
}

/// All commands, in the order in which `help` lists them.
pub static COMMANDS: [Definition; 30] = [
    Definition {
        name: "new",
        place: Place::Anywhere,
        usage: &[
            "new machine NAME [image IMAGE] [forward]",
            "new wire NAME [bus] [SETTING VALUE]...",
        ],
        summary: "make a machine or a wire",
        details: "A machine with 'forward' is a router. A wire without settings is ideal; 'help wire' lists them. \
                  With 'bus' it has any number of ends.",
        parse: parse::new,
    },
    Definition {
        name: "delete",
        place: Place::Anywhere,
        usage: &[
            "delete machine NAME",
            "delete wire NAME",
            "delete interface [MACHINE] INTERFACE",
        ],
        summary: "remove a machine, a wire or an interface",
        details: "A machine's programs end. Interfaces at a wire stay, without a carrier.",
        parse: parse::delete,
    },
    Definition {
        name: "connect",
        place: Place::Anywhere,
        usage: &["connect MACHINE"],
        summary: "enter a machine: further lines are for it",
        details: "Inside, a line that is none of these commands is run by sh(1) on the machine, in a terminal if \
                  the session is one. Commands marked 'outside' are the host's programs there.",
        parse: parse::connect,
    },
    Definition {
        name: "exit",
        place: Place::Anywhere,
        usage: &["exit"],
        summary: "leave the machine; outside: end the session",
        details: "The end of a session ends its program in the foreground and its stopped jobs. Background jobs \
                  continue.",
        parse: parse::exit,
    },
    Definition {
        name: "addif",
        place: Place::Anywhere,
        usage: &["addif [MACHINE] INTERFACE"],
        summary: "give a machine an interface",
        details: "Inside a machine its name can be left out. The interface has no carrier until 'wireup'.",
        parse: parse::addif,
    },
    Definition {
        name: "wireup",
        place: Place::Anywhere,
        usage: &["wireup [MACHINE] INTERFACE WIRE"],
        summary: "attach an interface to a wire",
        details: "Inside a machine its name can be left out.",
        parse: parse::wireup,
    },
    Definition {
        name: "wiredown",
        place: Place::Anywhere,
        usage: &["wiredown [MACHINE] INTERFACE"],
        summary: "take an interface off its wire",
        details: "It keeps its addresses and loses its carrier.",
        parse: parse::wiredown,
    },
    Definition {
        name: "wire",
        place: Place::Anywhere,
        usage: &[
            "wire [set] WIRE SETTING VALUE... [from MACHINE:INTERFACE]",
            "wire WIRE up|down",
        ],
        summary: "change what a wire does to packets, or plug it in or out",
        details: "SETTING is rate (10mbit; 0: unlimited), delay, jitter (times: 10ms), overtake (yes, no), loss, \
                  corrupt, duplicate, reorder (shares: 1%), burst (START,END[,LOSS[,GOOD-LOSS]], shares), limit \
                  (packets), mtu (bytes). It holds from the next packet on; with 'from' only for packets sent by \
                  that end ('outside' for the uplink's).",
        parse: parse::wire,
    },
    Definition {
        name: "show",
        place: Place::Anywhere,
        usage: &[
            "show machines|wires",
            "show programs [MACHINE]",
            "show [machine|wire] NAME",
            "show program PROGRAM",
        ],
        summary: "list objects, or show one",
        details: "For a program started in the background, or by the lab file, its output too.",
        parse: parse::show,
    },
    Definition {
        name: "clock",
        place: Place::Anywhere,
        usage: &[
            "clock",
            "clock pause",
            "clock continue [free]",
            "clock step [TIME|event|packet|call]",
            "clock until TIME",
            "clock speed FACTOR|max",
        ],
        summary: "show the lab's clock, stop it, or run it for a time",
        details: "For labs with a clock of their own (time: virtual or scaled). 'until' takes the time since the lab is up. \
                  'free' lets the clock run even if no client waits.",
        parse: parse::clock,
    },
    Definition {
        name: "ps",
        place: Place::Outside,
        usage: &["ps [MACHINE]"],
        summary: "list programs: 'show programs'",
        details: "",
        parse: parse::ps,
    },
    Definition {
        name: "exec",
        place: Place::Outside,
        usage: &["exec MACHINE LINE"],
        summary: "carry out a line inside a machine",
        details: "LINE is what could be written after 'connect MACHINE': a program with its arguments, 'app ...', \
                  'ifconfig ...'.",
        parse: parse::exec,
    },
    Definition {
        name: "app",
        place: Place::Inside,
        usage: &["app NAME [ARGUMENT]... [&]"],
        summary: "start a virtualized process, even if the host has a program of this name",
        details: "'app' may be omitted for echoserver and others that are no program of a host.",
        parse: parse::app,
    },
    Definition {
        name: "ifconfig",
        place: Place::Inside,
        usage: &[
            "ifconfig INTERFACE [inet] ADDRESS [netmask MASK] [up]",
            "ifconfig INTERFACE inet6 add|del ADDRESS/PREFIX",
        ],
        summary: "give or take an address",
        details: "The lab does it, and so knows of the address. All else that begins with 'ifconfig' is for the \
                  host's ifconfig(8).",
        parse: parse::ifconfig,
    },
    Definition {
        name: "kill",
        place: Place::Outside,
        usage: &["kill PROGRAM [SIGNAL]"],
        summary: "send a signal to a program (default: TERM)",
        details: "PROGRAM is its number in 'ps', or %N for a job of this session, which is understood inside a \
                  machine too. SIGNAL is a name or a number. Any signal stops a virtualized process.",
        parse: parse::kill,
    },
    Definition {
        name: "wait",
        place: Place::Anywhere,
        usage: &["wait PROGRAM"],
        summary: "wait for the end of a program",
        details: "PROGRAM is its number in 'ps', or %N for a job of this session. Fails if the program failed.",
        parse: parse::wait,
    },
    Definition {
        name: "jobs",
        place: Place::Anywhere,
        usage: &["jobs"],
        summary: "list this session's background and stopped jobs",
        details: "",
        parse: parse::jobs,
    },
    Definition {
        name: "fg",
        place: Place::Anywhere,
        usage: &["fg [N]"],
        summary: "continue a job in the foreground",
        details: "Without N: the last one. ^Z stops the program in the foreground.",
        parse: parse::fg,
    },
    Definition {
        name: "bg",
        place: Place::Anywhere,
        usage: &["bg [N]"],
        summary: "continue a stopped job in the background",
        details: "Without N: the last one.",
        parse: parse::bg,
    },
    Definition {
        name: "capture",
        place: Place::Anywhere,
        usage: &[
            "capture MACHINE INTERFACE FILE [FILTER]",
            "capture stop NUMBER",
        ],
        summary: "write an interface's packets to a file, as pcapng, until it is stopped",
        details: "FILTER is as in pcap-filter(7).",
        parse: parse::capture,
    },
    Definition {
        name: "break",
        place: Place::Anywhere,
        usage: &[
            "break add PLACE [WORD...]",
            "break list",
            "break rm|enable|disable NAME",
            "break continue [MACHINE]",
        ],
        summary: "breakpoints: which packets, where, and what becomes of them",
        details: "PLACE is MACHINE:INTERFACE, a machine, a wire, or any. Which packets: departure, arrival, loss, \
                  filter 'EXPRESSION', tcp 'CONDITION', after N, times N. What becomes of them: log, drop, corrupt, delay TIME, \
                  reorder N, duplicate N, run 'LINE', stop all, stop machine. Also: disabled, name NAME.",
        parse: parse::breakpoint,
    },
    Definition {
        name: "pod",
        place: Place::Anywhere,
        usage: &["pod list", "pod load NAME [FILE]", "pod revoke NAME"],
        summary: "pods: code on packets' paths, in protection domains of their own",
        details: "'load' takes a shared object or a WebAssembly module; without FILE the pod is loaded again. 'revoke' ends it.",
        parse: parse::pod,
    },
    Definition {
        name: "path",
        place: Place::Anywhere,
        usage: &["path list", "path revoke NAME"],
        summary: "paths of packets through pods",
        details: "'revoke' removes it: its packets take none any more.",
        parse: parse::path,
    },
    Definition {
        name: "filter",
        place: Place::Anywhere,
        usage: &[
            "filter list",
            "filter set|check PLACE FILE",
            "filter show|counters|rm PLACE",
            "filter rollback PLACE [VERSION]",
        ],
        summary: "nft rules that the lab loads",
        details: "PLACE is a machine or MACHINE:INTERFACE, FILE is for nft(8). 'set' replaces the rules of the place in one \
                  transaction. 'check' changes nothing.",
        parse: parse::filter,
    },
    Definition {
        name: "save",
        place: Place::Anywhere,
        usage: &["save FILE"],
        summary: "write the lab as it is now to a lab file",
        details: "",
        parse: parse::save,
    },
    Definition {
        name: "load",
        place: Place::Anywhere,
        usage: &["load FILE"],
        summary: "make the lab what a lab file says, and print the changes",
        details: "",
        parse: parse::load,
    },
    Definition {
        name: "source",
        place: Place::Outside,
        usage: &["source FILE"],
        summary: "carry out the lines of a file; the first that fails ends it",
        details: "",
        parse: parse::source,
    },
    Definition {
        name: "sleep",
        place: Place::Outside,
        usage: &["sleep TIME"],
        summary: "wait for a time: 1s, 200ms",
        details: "By the lab's clock, if it has one of its own.",
        parse: parse::sleep,
    },
    Definition {
        name: "errors",
        place: Place::Anywhere,
        usage: &["errors stop|continue"],
        summary: "whether the session ends at the first line that fails",
        details: "A script ends, unless it says otherwise or runs with --keep-going. A telnet session does not.",
        parse: parse::errors,
    },
    Definition {
        name: "help",
        place: Place::Anywhere,
        usage: &["help [COMMAND]"],
        summary: "list the commands, or explain one",
        details: "",
        parse: parse::help,
    },
];

impl Definition {
    /// The command of this name.
    pub fn find(name: &str) -> Option<&'static Definition> {
        COMMANDS.iter().find(|command| command.name == name)
    }

    /// Whether it is known inside of machines, or else outside.
    pub fn is_known(&self, inside: bool) -> bool {
        match self.place {
            Place::Anywhere => true,
            Place::Outside => !inside,
            Place::Inside => inside,
        }
    }

    /// What `help NAME` says.
    pub fn help(&self) -> String {
        let mut text = String::new();
        for usage in self.usage {
            text += &format!("{usage}\n");
        }
        let place = match self.place {
            Place::Anywhere => "",
            Place::Outside => " (outside of machines)",
            Place::Inside => " (inside of machines)",
        };
        text += &fold(&format!("{}{place}.", self.summary), 76, "  ");
        if !self.details.is_empty() {
            text += &fold(self.details, 76, "  ");
        }
        text
    }
}

/// Breaks a text into lines.
fn fold(text: &str, width: usize, indent: &str) -> String {
    let mut lines = String::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() && line.len() + 1 + word.len() > width {
            lines += &format!("{indent}{line}\n");
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line += word;
    }
    lines += &format!("{indent}{line}\n");
    lines
}

/// What `help` says: all commands with their summaries.
pub fn overview() -> String {
    let mut text = String::new();
    for command in &COMMANDS {
        let place = match command.place {
            Place::Anywhere => "",
            Place::Outside => " (outside)",
            Place::Inside => " (inside)",
        };
        text += &format!("  {:10}{}{place}\n", command.name, command.summary);
    }
    text + "Inside a machine ('connect MACHINE') any other line is a program, run by sh. 'help COMMAND' explains one.\n"
}

/// The table of docs/switchbox.md, in Markdown.
pub fn table() -> String {
    let mut text = String::from("| command | known | what it does |\n|---|---|---|\n");
    for command in &COMMANDS {
        let usage = command
            .usage
            .iter()
            .map(|usage| format!("`{}`", usage.replace('|', "\\|")))
            .collect::<Vec<_>>()
            .join("<br>");
        let place = match command.place {
            Place::Anywhere => "everywhere",
            Place::Outside => "outside",
            Place::Inside => "inside",
        };
        let mut what = command.summary.to_owned();
        if !command.details.is_empty() {
            what += &format!(". {}", command.details);
        }
        text += &format!("| {usage} | {place} | {} |\n", what.replace('|', "\\|"));
    }
    text
}
