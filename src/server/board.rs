//! What the daemon is doing, for whoever shows it. Writing never waits for a reader for longer than a copy takes.

use crate::clock::Boot;
use crate::job::JobTable;
use chrono::DateTime;
use chrono::Utc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::sync::watch;

/// The loop sleeps for a second at most; after so long without a turn something is wrong with it.
const STUCK_AFTER: Duration = Duration::from_secs(30);

/// The files of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Files {
    /// When the table in force came into force.
    pub loaded_at: DateTime<Utc>,
    /// They cannot be used as they are now.
    pub refused: Option<Refused>,
}

/// Files that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Since when it is known.
    pub since: DateTime<Utc>,
    /// How many problems there are.
    pub problems: usize,
    /// The first of them, as it may be seen: `file:line:col: code message`.
    pub first: String,
    /// What to write instead of it; empty where nothing is known.
    pub hint: String,
}

/// How it stands with the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreState {
    /// It has not answered since the start.
    Unseen,
    /// It answers.
    Up,
    /// It answered, and does not now.
    Away {
        /// Since when.
        since: DateTime<Utc>,
        /// In words.
        detail: String,
    },
}

/// What changes now and then.
#[derive(Debug, Clone)]
pub struct Standing {
    /// The table in force.
    pub table: Arc<JobTable>,
    /// Its files.
    pub files: Files,
    /// The store.
    pub store: StoreState,
    /// The store has answered once.
    pub store_seen: bool,
    /// The daemon is ending.
    pub draining: bool,
}

/// See the module.
#[derive(Debug)]
pub struct Board {
    /// When the loop last went round: nanoseconds of the boot clock.
    turned: AtomicU64,
    standing: watch::Sender<Standing>,
    /// Somebody wants the files of the table to be read.
    reload: Notify,
    /// And somebody hears it.
    can_reload: AtomicBool,
    is_strict: bool,
}

/// What readiness consists of: a name, and whether it is so.
pub(super) type Checks = Vec<(&'static str, bool)>;

impl Board {
    /// For a daemon that starts with a table. `is_strict`: it is not ready while the store is away.
    pub fn new(table: Arc<JobTable>, (wall, boot): (DateTime<Utc>, Boot), is_strict: bool) -> Self {
        let files = Files { loaded_at: wall, refused: None };
        let standing = Standing { table, files, store: StoreState::Unseen, store_seen: false, draining: false };
        let (standing, _) = watch::channel(standing);
        Self {
            turned: AtomicU64::new(boot.nanos()),
            standing,
            reload: Notify::new(),
            can_reload: AtomicBool::new(false),
            is_strict,
        }
    }

    /// The loop goes round.
    pub fn turned(&self, at: Boot) {
        self.turned.store(at.nanos(), Ordering::Relaxed);
    }

    /// Another table is in force.
    pub fn table_changed(&self, table: Arc<JobTable>) {
        self.standing.send_modify(|standing| standing.table = table);
    }

    /// The files of the table were looked at.
    pub fn files_changed(&self, files: Files) {
        self.standing.send_modify(|standing| standing.files = files);
    }

    /// The store answers, or does not. Whether the daemon has ceased to be ready by that.
    pub fn store_changed(&self, store: StoreState) -> bool {
        let before = self.is_ready();
        self.standing.send_modify(|standing| standing.store = store);
        before && !self.is_ready()
    }

    /// The store has answered what the daemon wanted to know of it. Whether the daemon has become ready by that.
    pub fn store_seen(&self) -> bool {
        let mut becomes_ready = false;
        self.standing.send_modify(|standing| {
            becomes_ready = !standing.draining && (!standing.store_seen || self.is_strict);
            standing.store_seen = true;
        });
        becomes_ready
    }

    /// Waits until somebody wants the files of the table to be read now.
    pub async fn reload_asked(&self) {
        self.can_reload.store(true, Ordering::Relaxed);
        self.reload.notified().await;
    }

    /// Asks for that. Whether anybody does it.
    pub(super) fn ask_reload(&self) -> bool {
        let can = self.can_reload.load(Ordering::Relaxed);
        if can {
            self.reload.notify_one();
        }
        can
    }

    /// The daemon is ending.
    pub fn draining(&self) {
        self.standing.send_modify(|standing| standing.draining = true);
    }

    /// How it is now.
    pub fn standing(&self) -> Standing {
        self.standing.borrow().clone()
    }

    /// How long ago the loop went round, where that is too long.
    pub(super) fn stuck_for(&self, now: Boot) -> Option<Duration> {
        let since = now.since(Boot::from_nanos(self.turned.load(Ordering::Relaxed)));
        (since > STUCK_AFTER).then_some(since)
    }

    /// What a daemon must have done, or not done, to be ready.
    pub(super) fn checks(&self) -> Checks {
        let standing = self.standing.borrow();
        let store_up = self.is_strict.then(|| ("store_up", standing.store == StoreState::Up));
        // A daemon without a table does not start.
        let checks = [("table", true), ("store_seen", standing.store_seen), ("not_draining", !standing.draining)];
        checks.into_iter().chain(store_up).collect()
    }

    /// Whether all of that is so.
    pub(super) fn is_ready(&self) -> bool {
        self.checks().iter().all(|(_, holds)| *holds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn board(is_strict: bool) -> Board {
        let table = JobTable { revision: "abc".into(), ..JobTable::default() };
        Board::new(Arc::new(table), (DateTime::UNIX_EPOCH, Boot::from_nanos(0)), is_strict)
    }

    fn away() -> StoreState {
        StoreState::Away { since: DateTime::UNIX_EPOCH, detail: "no answer".into() }
    }

    #[test]
    fn an_outage_of_the_store_changes_nothing_once_it_was_seen() {
        let board = board(false);
        assert!(!board.is_ready());
        board.store_changed(StoreState::Up);
        assert!(!board.is_ready(), "it has not answered everything");
        assert!(board.store_seen() && board.is_ready());
        assert!(!board.store_changed(away()) && board.is_ready());
        board.store_changed(StoreState::Up);
        assert!(!board.store_seen(), "it was ready all the time");
        board.draining();
        assert!(!board.is_ready() && !board.store_seen());
    }

    #[test]
    fn a_strict_daemon_is_ready_while_the_store_answers() {
        let board = board(true);
        board.store_changed(StoreState::Up);
        assert!(board.store_seen() && board.is_ready());
        assert!(board.store_changed(away()) && !board.is_ready());
        assert!(!board.store_changed(away()), "it was not ready before");
        board.store_changed(StoreState::Up);
        assert!(board.store_seen() && board.is_ready());
    }

    #[test]
    fn a_loop_that_stands_still_for_half_a_minute_is_stuck() {
        let board = board(false);
        let at = |seconds: u64| Boot::from_nanos(seconds * 1_000_000_000);
        assert_eq!(board.stuck_for(at(30)), None);
        assert_eq!(board.stuck_for(at(31)), Some(Duration::from_secs(31)));
        board.turned(at(20));
        assert_eq!(board.stuck_for(at(50)), None);
    }
}
