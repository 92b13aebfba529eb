//! For how long machines have been up in virtual time: longer than their kernel's clock says.

pub(in crate::sched) const SECOND: u64 = 1_000_000_000;
/// For how long the machines have been up when the kernel's clock is at 0: programs take a clock
/// that shows 0 for broken (Go), or for one that was not read yet (ping).
pub(crate) const BOOTED: u64 = 60 * SECOND;
/// Of times(2): one tick (`USER_HZ`).
pub(in crate::sched) const TICK: u64 = 10_000_000;

/// For how long times(2) tells the same from now on.
pub(in crate::sched) fn until_tick(now: u64) -> u64 {
    TICK - (now + BOOTED) % TICK
}

/// What `/proc/uptime` or `/proc/stat` say, of machines that have been up for as long as their
/// clocks say.
pub(crate) fn since_boot(text: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(text);
    let seconds = (BOOTED / SECOND) as i64;
    let moved = |number: &str, by: i64| {
        let (whole, rest) = number.split_at(number.find('.').unwrap_or(number.len()));
        let whole: Option<i64> = whole.parse().ok();
        whole.map_or(number.to_owned(), |whole| format!("{}{rest}", whole + by))
    };
    let line = |line: &str| match line.split_once(' ') {
        Some(("btime", date)) => format!("btime {}\n", moved(date, -seconds)),
        Some((up, idle)) if up.starts_with(|c: char| c.is_ascii_digit()) => {
            format!("{} {}\n", moved(up, seconds), moved(idle, seconds))
        }
        _ => format!("{line}\n"),
    };
    text.lines().map(line).collect::<String>().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_tell_of_boot() {
        let told = |text: &str| String::from_utf8(since_boot(text.as_bytes())).unwrap();
        assert_eq!(told("2.04 1.90\n"), "62.04 61.90\n");
        let stat = |date| format!("cpu  1 2 3\nctxt 5\nbtime {date}\nprocesses 7\n");
        assert_eq!(told(&stat(1_000)), stat(940));
    }
}
