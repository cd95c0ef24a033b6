//! Many seeds, one after another, on all cores.

use super::check;
use super::world::Faults;
use super::world::World;
use onecron::engine::Notice;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;

/// How many seeds run where nobody says how many: the whole is meant for a build with optimisation.
const SEEDS: u64 = 6;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// `ONECRON_SEED=4711`: that one. `ONECRON_SEEDS=2000`: so many. `ONECRON_SEEDS=2000..4000`: those.
pub fn seeds() -> Range<u64> {
    if let Some(seed) = number("ONECRON_SEED") {
        return seed..seed + 1;
    }
    let Ok(text) = std::env::var("ONECRON_SEEDS") else { return 0..SEEDS };
    let parse =
        |text: &str| text.parse().unwrap_or_else(|_| panic!("ONECRON_SEEDS is {text:?}: write 2000 or 2000..4000"));
    match text.split_once("..") {
        Some((from, to)) => parse(from)..parse(to),
        None => 0..parse(&text),
    }
}

/// What the worlds of a campaign have met, and how often.
pub type Met = BTreeMap<&'static str, u64>;

/// Runs all seeds, and says what went wrong by seed.
#[expect(clippy::disallowed_methods, reason = "how long a campaign takes is for people; no world knows of it")]
pub fn failures(seeds: Range<u64>, faults: Faults) -> (Vec<(u64, String)>, Met) {
    let threads =
        number("ONECRON_THREADS").unwrap_or_else(|| std::thread::available_parallelism().map_or(2, |n| n.get() as u64));
    let next = AtomicU64::new(seeds.start);
    let found = Mutex::new((Vec::new(), Met::new()));
    let (begun, count) = (std::time::Instant::now(), seeds.end - seeds.start);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    let world = World::play(seed, faults);
                    let what = check::all(&world).err();
                    tell(&world);
                    let (failures, met) = &mut *found.lock().unwrap();
                    count_rare(&world, met);
                    if let Some(what) = what {
                        println!("seed {seed}: {what}");
                        failures.push((seed, what));
                    }
                    let done = seed + 1 - seeds.start;
                    if count >= 1_000 && done.is_multiple_of(count.div_ceil(20)) {
                        println!("{done} of {count} seeds, {} failed, {:?}", failures.len(), begun.elapsed());
                    }
                }
            });
        }
    });
    let (mut failures, met) = found.into_inner().unwrap();
    failures.sort();
    println!("seeds {seeds:?}: {} failed, {:?}; met {met:?}", failures.len(), begun.elapsed());
    (failures, met)
}

/// `ONECRON_STORY=quick-forbid` says all that replicas said of that job, and when the store forgot.
fn tell(world: &World) {
    let Ok(of) = std::env::var("ONECRON_STORY") else { return };
    println!(
        "the store forgot at {:?}, dropped records at {:?}, since {:?}",
        world.forgot, world.evicted, world.sinces
    );
    for line in world.lines.iter().map(|line| format!("{line:?}")).filter(|line| line.contains(&of)) {
        println!("{line}");
    }
}

fn count_rare(world: &World, met: &mut Met) {
    for (what, count) in &world.met {
        *met.entry(what).or_default() += count;
    }
    for line in &world.lines {
        let what = match &line.notice {
            Notice::RunLost { .. } => "run_lost",
            Notice::RunMissed { .. } => "run_missed",
            Notice::TicksPassed { .. } => "ticks passed",
            Notice::LeaseLost { .. } => "lease_lost",
            Notice::JobRescheduled { .. } => "rescheduled",
            _ => continue,
        };
        *met.entry(what).or_default() += 1;
    }
    *met.entry("start").or_default() += world.children.len() as u64;
    *met.entry("event").or_default() += world.events;
    *met.entry("line").or_default() += world.lines.len() as u64;
}

/// The same, and none may fail.
pub fn campaign(seeds: Range<u64>, faults: Faults) -> Met {
    let (failures, met) = failures(seeds, faults);
    let first: Vec<_> = failures.iter().take(30).collect();
    assert!(failures.is_empty(), "{} seeds failed; the first: {first:#?}", failures.len());
    met
}
