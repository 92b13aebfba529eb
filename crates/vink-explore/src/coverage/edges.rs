//! TCP's states, and the ways between them that RFC 9293 draws (3.3.2, figure 5).

/// A state, by the kernel's number (net/tcp_states.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum State {
    /// Data may be exchanged.
    Established = 1,
    /// Its SYN is under way.
    SynSent,
    /// The peer's SYN has come, and the acknowledgment of its own has not.
    SynReceived,
    /// Its FIN is not acknowledged.
    FinWait1,
    /// Its FIN is acknowledged, the peer's has not come.
    FinWait2,
    /// Both have ended; old segments may still come.
    TimeWait,
    /// No connection.
    Closed,
    /// The peer's FIN has come.
    CloseWait,
    /// The peer's FIN has come, and its own after that is not acknowledged.
    LastAck,
    /// It waits for a SYN.
    Listen,
    /// Both FINs were under way at a time; its own is not acknowledged.
    Closing,
}

use State::{
    CloseWait, Closed, Closing, Established, FinWait1, FinWait2, LastAck, Listen, SynReceived,
    SynSent, TimeWait,
};

impl State {
    /// All of them, in the order in which a connection goes through them.
    pub const ALL: [State; 11] = [
        Closed,
        Listen,
        SynSent,
        SynReceived,
        Established,
        FinWait1,
        FinWait2,
        CloseWait,
        Closing,
        LastAck,
        TimeWait,
    ];

    /// As the standard has it.
    pub fn name(self) -> &'static str {
        match self {
            Established => "ESTABLISHED",
            SynSent => "SYN-SENT",
            SynReceived => "SYN-RECEIVED",
            FinWait1 => "FIN-WAIT-1",
            FinWait2 => "FIN-WAIT-2",
            TimeWait => "TIME-WAIT",
            Closed => "CLOSED",
            CloseWait => "CLOSE-WAIT",
            LastAck => "LAST-ACK",
            Listen => "LISTEN",
            Closing => "CLOSING",
        }
    }
}

/// Why a step was made, by the number that the image counts it by (kernel/coverage.c).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
enum Cause {
    ItsOwn = 0,
    Reset,
}

/// A way from state to state.
#[derive(Clone, Copy, Debug)]
pub struct Edge {
    /// The state that is left.
    pub from: State,
    /// The one that is reached.
    pub to: State,
    /// What happens then, as the standard's figure has it.
    pub by: &'static str,
    cause: Cause,
}

const fn edge(from: State, to: State, by: &'static str) -> Edge {
    let cause = Cause::ItsOwn;
    Edge {
        from,
        to,
        by,
        cause,
    }
}

const fn reset(from: State, to: State) -> Edge {
    Edge {
        from,
        to,
        by: "rcv RST",
        cause: Cause::Reset,
    }
}

/// Figure 5's, with those of its notes 1 and 2.
pub const FIGURE: [Edge; 21] = [
    edge(Closed, Listen, "passive OPEN"),
    edge(Closed, SynSent, "active OPEN"),
    edge(Listen, Closed, "CLOSE"),
    edge(Listen, SynSent, "SEND"),
    edge(Listen, SynReceived, "rcv SYN"),
    edge(SynSent, Closed, "CLOSE"),
    edge(SynSent, SynReceived, "rcv SYN"),
    edge(SynSent, Established, "rcv SYN,ACK"),
    edge(SynReceived, Established, "rcv ACK of SYN"),
    edge(SynReceived, FinWait1, "CLOSE"),
    reset(SynReceived, Listen),
    edge(Established, FinWait1, "CLOSE"),
    edge(Established, CloseWait, "rcv FIN"),
    edge(FinWait1, FinWait2, "rcv ACK of FIN"),
    edge(FinWait1, Closing, "rcv FIN"),
    edge(FinWait1, TimeWait, "rcv FIN,ACK of FIN"),
    edge(FinWait2, TimeWait, "rcv FIN"),
    edge(Closing, TimeWait, "rcv ACK of FIN"),
    edge(CloseWait, LastAck, "CLOSE"),
    edge(LastAck, Closed, "rcv ACK of FIN"),
    edge(TimeWait, Closed, "2MSL timeout"),
];

/// What note 3 says that the figure leaves out: a RST ends a connection in each state.
pub const RESETS: [Edge; 8] = [
    reset(SynSent, Closed),
    reset(SynReceived, Closed),
    reset(Established, Closed),
    reset(FinWait1, Closed),
    reset(FinWait2, Closed),
    reset(CloseWait, Closed),
    reset(Closing, Closed),
    reset(LastAck, Closed),
];

/// How often which step was made: `vink_tcp_steps` of the image.
pub(super) struct Steps<'a> {
    counts: &'a [u64],
    /// States that the kernel has, and one more.
    states: usize,
}

/// Kinds of causes.
const CAUSES: usize = 3;

impl<'a> Steps<'a> {
    /// Of the table as it is in memory.
    pub fn new(counts: &'a [u64]) -> Steps<'a> {
        let states = (counts.len() / CAUSES).isqrt();
        Steps { counts, states }
    }

    fn count(&self, cause: usize, from: usize, to: usize) -> u64 {
        let at = (cause * self.states + from) * self.states + to;
        self.counts.get(at).copied().unwrap_or(0)
    }

    /// Whether it was gone along.
    pub fn has(&self, edge: &Edge) -> bool {
        self.count(edge.cause as usize, edge.from as usize, edge.to as usize) > 0
    }

    /// Whether a connection was in this state.
    pub fn has_been_in(&self, state: State) -> bool {
        let state = state as usize;
        (0..CAUSES).any(|cause| {
            (0..self.states)
                .any(|other| self.count(cause, state, other) + self.count(cause, other, state) > 0)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_found_by_cause_and_states() {
        // Linux 6.12 has 13 states.
        let mut counts = vec![0; CAUSES * 14 * 14];
        counts[(Established as usize) * 14 + FinWait1 as usize] = 2;
        counts[(14 + SynReceived as usize) * 14 + Listen as usize] = 1;
        let steps = Steps::new(&counts);
        let has: Vec<_> = FIGURE.iter().filter(|edge| steps.has(edge)).collect();
        assert_eq!(
            has.iter().map(|edge| edge.from).collect::<Vec<_>>(),
            [SynReceived, Established]
        );
        assert!(!RESETS.iter().any(|edge| steps.has(edge)));
        let been = State::ALL.into_iter().filter(|one| steps.has_been_in(*one));
        assert_eq!(been.count(), 4);
    }

    #[test]
    fn each_state_can_be_reached_and_left() {
        for state in State::ALL {
            assert!(FIGURE.iter().any(|edge| edge.from == state), "{state:?}");
            assert!(FIGURE.iter().any(|edge| edge.to == state), "{state:?}");
        }
    }
}
