//! What would be another one in each run, virtualised: clocks, the time stamp counter, random numbers,
//! times and numbers of files, the host as programs see it.

pub(crate) mod auxv;
pub(in crate::sched) mod clock_code;
pub(in crate::sched) mod clocks;
pub(in crate::sched) mod file_times;
pub(in crate::sched) mod host_files;
pub(in crate::sched) mod inode_numbers;
pub(crate) mod ld_so;
pub(in crate::sched) mod prng;
pub(in crate::sched) mod sysinfo;
pub(crate) mod tsc;
pub(crate) mod uptime;
pub(crate) mod vdso;
pub(in crate::sched) mod vvar;
