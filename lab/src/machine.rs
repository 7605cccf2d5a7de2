//! CPU time and memory of this machine and of its processes.

use std::fs;

use anyhow::Context;
use rustix::param::{clock_ticks_per_second, page_size};

/// CPU seconds that this machine has spent, on any program.
///
/// # Errors
/// When `/proc` cannot be read.
pub fn busy() -> anyhow::Result<f64> {
    let stat = fs::read_to_string("/proc/stat")?;
    let fields: Vec<u64> = numbers(stat.lines().next().context("/proc/stat is empty")?, 1);
    // user, nice, system, idle, iowait, irq, softirq, steal; what guests used is part of user.
    let spent = |&(place, _): &(usize, &u64)| place < 8 && place != 3 && place != 4;
    Ok(seconds(fields.iter().enumerate().filter(spent).map(|(_, ticks)| ticks).sum()))
}

/// CPU seconds that all living threads of the process `pid` have used, to the µs.
///
/// # Errors
/// When it has ended.
pub fn used_by(pid: u32) -> anyhow::Result<f64> {
    // Finer than the ticks of /proc/PID/stat: the first of three figures is ns on a CPU.
    let nanos = |thread: fs::DirEntry| -> Option<f64> {
        fs::read_to_string(thread.path().join("schedstat")).ok()?.split_whitespace().next()?.parse().ok()
    };
    let threads = fs::read_dir(format!("/proc/{pid}/task"))?;
    Ok(threads.flatten().filter_map(nanos).sum::<f64>() / 1e9)
}

/// Bytes of memory that the process `pid` has.
///
/// # Errors
/// When it has ended.
pub fn resident(pid: u32) -> anyhow::Result<f64> {
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
    fn this_process_keeps_the_machine_busy() {
        let used = used_by(std::process::id()).unwrap();
        assert!(used > 0.0 && used <= busy().unwrap() + 1.0, "{used}");
    }

    #[test]
    fn memory_of_this_process_holds_its_values() {
        let held = std::hint::black_box(vec![1_u8; 32 << 20]);
        assert!(resident(std::process::id()).unwrap() >= held.len() as f64);
    }
}
