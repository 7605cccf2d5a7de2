//! How busy this machine is, and who makes it so: a figure taken while others compile says little.

use std::fs;

use anyhow::Context;
use rustix::param::{clock_ticks_per_second, page_size};

/// CPU seconds that this machine has spent on anything.
pub(crate) fn busy() -> anyhow::Result<f64> {
    let stat = fs::read_to_string("/proc/stat")?;
    let fields: Vec<u64> = numbers(stat.lines().next().context("/proc/stat is empty")?, 1);
    // user, nice, system, idle, iowait, irq, softirq, steal; what guests used is part of user.
    let spent = |&(place, _): &(usize, &u64)| place < 8 && place != 3 && place != 4;
    Ok(seconds(fields.iter().enumerate().filter(spent).map(|(_, ticks)| ticks).sum()))
}

/// CPU seconds that the process `pid` has used.
pub(crate) fn used_by(pid: u32) -> anyhow::Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name, in brackets, may hold anything.
    let (_, rest) = stat.rsplit_once(')').context("/proc has no such process")?;
    // From the state on, which is the third: user is the 14th, system the 15th.
    Ok(seconds(numbers(rest, 11).iter().take(2).sum()))
}

/// Bytes of memory that the process `pid` has.
pub(crate) fn resident(pid: u32) -> anyhow::Result<f64> {
    let pages: u64 =
        *numbers(&fs::read_to_string(format!("/proc/{pid}/statm"))?, 1).first().context("no pages")?;
    Ok(pages as f64 * page_size() as f64)
}

fn numbers(line: &str, from: usize) -> Vec<u64> {
    line.split_whitespace().skip(from).map_while(|field| field.parse().ok()).collect()
}

fn seconds(ticks: u64) -> f64 {
    ticks as f64 / clock_ticks_per_second() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_part_of_what_is_busy() {
        let used = used_by(std::process::id()).unwrap();
        assert!(used >= 0.0 && used <= busy().unwrap(), "{used}");
    }

    #[test]
    fn what_this_process_holds_is_part_of_its_memory() {
        let held = std::hint::black_box(vec![1_u8; 32 << 20]);
        assert!(resident(std::process::id()).unwrap() >= held.len() as f64);
    }
}
