//! How fast schedules are, beside the crates `cron` and `croner`, and how long a table of 10 000 jobs takes to load.
//!
//! `scripts/bench` runs it. Each figure is the best of several rounds, since whatever else the machine does can only
//! make it slower.

mod load;
mod next;

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

/// The shortest time of `rounds`, in nanoseconds.
fn best(rounds: usize, mut work: impl FnMut()) -> f64 {
    let once = |work: &mut dyn FnMut()| {
        let start = std::time::Instant::now();
        work();
        start.elapsed().as_secs_f64() * 1e9
    };
    (0..rounds).map(|_| once(&mut work)).fold(f64::INFINITY, f64::min)
}
