//! onecron: a cron daemon for several servers. Every replica reads the same job table; at each tick one of them runs
//! the job, and the others say who does.
//!
//! # The way of one tick
//!
//! ```text
//!            daemon                      engine                              store
//!   timer ──► Woke ────────────────► agenda: a tick is due
//!                                    ticks: claim ── Effect::Ask ──► Step::Claim ─┐ one record per
//!             Answered ◄───────────────────────────────── Won, Held, Done, … ◄────┘ tick, for all
//!                                      │
//!                 Held, Done ──────────┤ RunSkipped{holder}; watches: looks until that run is over
//!                                      │
//!                 Won ─► runs: begin ──┴─ Effect::Ask ──► Step::Begin: the fence, takes the slot
//!             Answered ◄────────────────────────────────── Begun
//!   guardian, ◄── Effect::Start
//!   executor
//!     │           renew every third of a lease ─────────► Step::Renew: number + 1
//!     └─► Ended ──► attempts: again, or ────────────────► Step::Complete: the outcome; frees the slot
//!
//!   A watcher that sees no renewal for a lease: Settle(Lost); then Settle(Drained), or Step::Claim for a rerun.
//!   A tick that nobody had by its starting deadline: owed: Step::Settle(Missed), once for all replicas.
//! ```
//!
//! [`engine`] decides what this replica does, [`store::transition`] decides between replicas. Both are pure functions
//! of what they are handed, time included. Everything else carries things to and from these two.
//!
//! # Reading order
//!
//! 1. [`job`]: the words. A [`Step`](job::Step) is asked of a store, an [`Answer`](job::Answer) comes back.
//! 2. [`store::transition`]: what each step does to the records.
//! 3. [`engine`]: from an event to effects. Begin with its `agenda`, `ticks`, `runs` and `watches`.
//! 4. [`daemon`]: effects become work. Its `driver` is the loop, its `runs` the life of a process.
//! 5. [`executor`]: processes, their output, and the guardian that stops them when the daemon cannot.
//! 6. [`store`]: the drivers.
//! 7. [`schedule`], [`config`], [`convert`]: from texts to ticks and tables. They know nothing of the above.
//! 8. [`admin`]: what people ask of a fleet, through its store. [`notify`]: what those are told whom jobs name.
//! 9. [`server`]: what a daemon answers over HTTP.
//! 10. [`clock`], [`secret`], [`telemetry`], [`cli`]: time, passwords, log lines, arguments. [`causes`], [`chance`], [`file`],
//!     [`percent`], [`plural`], [`shell`]: one thing each that several of the others need.
//!
//! A module uses modules of lower rank only (`tests/tidy.rs`). `docs/architecture.md` has more, `docs/guarantees.md`
//! says what comes of it.

pub mod admin;
pub mod causes;
pub mod chance;
pub mod cli;
pub mod clock;
pub mod config;
pub mod convert;
pub mod daemon;
pub mod engine;
pub mod executor;
pub mod file;
pub mod job;
pub mod notify;
pub mod percent;
pub mod plural;
pub mod schedule;
pub mod secret;
pub mod server;
pub mod shell;
pub mod store;
pub mod telemetry;
