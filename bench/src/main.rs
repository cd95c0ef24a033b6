//! How fast schedules are, beside the crates `cron` and `croner`, and how long a table of 10 000 jobs takes to load.
//!
//! `scripts/bench` runs it. Each figure is CPU time, and the best of several rounds: whatever else the machine does can
//! only make it slower.

mod load;
mod next;

use nix::time::ClockId;
use nix::time::clock_gettime;
use std::time::Duration;

fn main() {
    let part = std::env::args().nth(1);
    match part.as_deref() {
        None => {
            next::run();
            load::run();
        }
        Some("next") => next::run(),
        Some("load") => load::run(),
        Some(other) => panic!("the parts are `next` and `load`, not `{other}`"),
    }
}

/// The shortest of `rounds`, in nanoseconds of this thread's CPU time: other programs on the machine do not count.
fn best(rounds: usize, mut work: impl FnMut()) -> f64 {
    let now = || Duration::from(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("Linux has this clock"));
    let mut once = || {
        let start = now();
        work();
        (now() - start).as_secs_f64() * 1e9
    };
    (0..rounds).map(|_| once()).fold(f64::INFINITY, f64::min)
}
