//! How often each block of a function has run, by the counters of some of its arcs: as much goes into a block as
//! out of it.

use super::notes::Function;

/// The block that has no arcs to it, and the one that has none from it.
const ENTRY: usize = 0;
const EXIT: usize = 1;

/// By the number of a block.
pub(super) fn blocks(function: &Function, counters: &[u64]) -> Vec<i64> {
    let mut counters = counters.iter();
    let mut arcs: Vec<Option<i64>> = function
        .arcs
        .iter()
        .map(|arc| {
            arc.has_counter
                .then(|| counters.next().map_or(0, |count| *count as i64))
        })
        .collect();
    let mut leaving = vec![Vec::new(); function.blocks];
    let mut coming = vec![Vec::new(); function.blocks];
    for (number, arc) in function.arcs.iter().enumerate() {
        leaving[arc.from].push(number);
        coming[arc.to].push(number);
    }
    let mut blocks: Vec<Option<i64>> = vec![None; function.blocks];
    loop {
        let mut is_done = true;
        for block in 0..function.blocks {
            for (side, its) in [&leaving, &coming].into_iter().enumerate() {
                // No arcs there are none to count.
                if (side, block) == (0, EXIT) || (side, block) == (1, ENTRY) {
                    continue;
                }
                let unknown: Vec<usize> = its[block]
                    .iter()
                    .copied()
                    .filter(|arc| arcs[*arc].is_none())
                    .collect();
                let known: i64 = its[block].iter().filter_map(|arc| arcs[*arc]).sum();
                match (blocks[block], unknown[..].first()) {
                    (None, None) => {
                        blocks[block] = Some(known);
                        is_done = false;
                    }
                    (Some(count), Some(arc)) if unknown.len() == 1 => {
                        arcs[*arc] = Some(count - known);
                        is_done = false;
                    }
                    _ => {}
                }
            }
        }
        if is_done {
            break;
        }
    }
    blocks.into_iter().map(|count| count.unwrap_or(0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coverage::notes::Arc;

    /// `if (a) b; c;`, with a counter of the whole and one of the arc to `b`.
    #[test]
    fn what_has_no_counter_follows() {
        let arc = |from, to, has_counter| Arc {
            from,
            to,
            has_counter,
        };
        let function = Function {
            blocks: 5,
            arcs: vec![
                arc(ENTRY, 2, true),
                arc(2, 3, true),
                arc(2, 4, false),
                arc(3, 4, false),
                arc(4, EXIT, false),
            ],
            ..Function::default()
        };
        assert_eq!(function.counters(), 2);
        assert_eq!(blocks(&function, &[7, 3]), [7, 7, 7, 3, 7]);
        assert_eq!(blocks(&function, &[7, 0])[3], 0);
        assert_eq!(blocks(&function, &[0, 0]), [0; 5]);
    }
}
