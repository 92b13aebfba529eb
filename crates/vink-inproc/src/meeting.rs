//! Both ends of a shared wire on one processor, while other processes use all processors.
//!
//! A thread that blocks is woken by the process at the other end. If it was last on another processor, one that computes,
//! that takes an interrupt between processors, which in a virtual machine costs both some 20 µs; on the waker's own
//! processor it takes none. The host's scheduler leaves both threads where they are for seconds, wherever that is. So a
//! thread that mostly waits goes to the processor that stands for its wire. It is only put there: its affinity
//! (sched_setaffinity(2)) is as before, and the scheduler may move it on. What affinity another process sets just
//! then is lost.

use std::fs::canonicalize;
use std::hash::{DefaultHasher, Hash, Hasher};

use vink_spec::Uplink;
use vink_sys::process::{affinity, cpus, current_cpu, one_cpu, set_affinity, CpuSet};

/// Where the threads at both ends of a wire meet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Meeting {
    /// The same number at both ends.
    wire: u64,
}

impl Meeting {
    /// `None` if the way out is no shared wire.
    pub fn at(uplink: Option<&Uplink>) -> Option<Meeting> {
        let Some(Uplink::Wire(path)) = uplink else {
            return None;
        };
        // Each process may have another name for it.
        let path = canonicalize(path).ok()?;
        let mut hasher = DefaultHasher::new();
        path.hash(&mut hasher);
        let wire = hasher.finish();
        Some(Meeting { wire })
    }

    /// Puts the calling thread on the wire's processor, if it may use more than one.
    pub fn join(self) {
        let Some(allowed) = affinity(0) else {
            return;
        };
        let Some(processor) = self.processor(&allowed) else {
            return;
        };
        if current_cpu() != processor && set_affinity(0, &one_cpu(processor)) {
            // It is what the thread had a moment ago, so it can't be refused.
            set_affinity(0, &allowed);
        }
    }

    fn processor(self, allowed: &CpuSet) -> Option<usize> {
        let count = u64::from(allowed.count());
        if count < 2 {
            return None;
        }
        cpus(allowed).nth((self.wire % count) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_choose_one_processor() {
        let folder = std::env::temp_dir().join(format!("vink-meeting-{}", std::process::id()));
        std::fs::create_dir(&folder).expect("a folder");
        let wire = folder.join("wire");
        std::fs::write(&wire, "").expect("a file");
        let names = [wire.clone(), folder.join(".").join("wire")];
        let meetings = names.map(|name| {
            let uplink = Uplink::Wire(name.display().to_string());
            Meeting::at(Some(&uplink)).expect("a wire")
        });
        assert_eq!(meetings[0].wire, meetings[1].wire);
        let mut allowed = CpuSet::new();
        allowed.set(3);
        assert_eq!(meetings[0].processor(&allowed), None);
        allowed.set(70);
        let processor = meetings[0].processor(&allowed);
        assert!(processor == Some(3) || processor == Some(70));
        std::fs::remove_dir_all(&folder).expect("it is there");
        let gone = Uplink::Wire(wire.display().to_string());
        assert!(Meeting::at(Some(&gone)).is_none() && Meeting::at(None).is_none());
    }

    #[test]
    fn the_affinity_stays() {
        let before = affinity(0).expect("a set");
        for wire in 0..4 {
            Meeting { wire }.join();
            assert_eq!(affinity(0).expect("a set"), before);
        }
    }
}
