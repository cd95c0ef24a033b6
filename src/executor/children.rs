//! Hears that children end, for all runs at once, and reaps those that nobody waits for.
//!
//! Why not tokio's or std's `wait`: they reap as soon as a child has ended, and its number is free for another
//! process from then on. A run keeps its dead leader until nothing of it will be signalled any more (see
//! `group.rs`), so here a child's end is *looked at* (`WNOWAIT`) and reaped later.

use super::proc;
use nix::errno::Errno;
use nix::sys::wait::Id;
use nix::sys::wait::WaitPidFlag;
use nix::sys::wait::WaitStatus;
use nix::sys::wait::waitid;
use nix::sys::wait::waitpid;
use nix::unistd::Pid;
use signal_hook::consts::SIGCHLD;
use signal_hook::iterator::Signals;
use std::collections::BTreeSet;
use std::io;
use std::process::Child;
use std::process::Command;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::OnceLock;
use std::sync::PoisonError;
use std::sync::RwLock;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::watch;

/// How a child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ended {
    pub(super) code: Option<i32>,
    pub(super) signal: Option<i32>,
}

/// A signal that got lost costs this much, not a run.
const LOOK_AT_LEAST_EVERY: Duration = Duration::from_secs(1);

/// Children that were started here and not reaped yet.
static OURS: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());
/// Children that nobody waits for any more.
static ABANDONED: Mutex<Vec<Child>> = Mutex::new(Vec::new());
/// Held for reading from before a child exists until it is listed in [`OURS`]; the reaper of orphans needs it alone.
static SPAWNING: RwLock<()> = RwLock::new(());
static ORPHANS_ARE_OURS: AtomicBool = AtomicBool::new(false);

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Grows whenever some child may have ended. The thread behind it is started once and lives as long as the process.
fn signals() -> watch::Receiver<u64> {
    static HEARD: OnceLock<watch::Sender<u64>> = OnceLock::new();
    let heard = HEARD.get_or_init(|| {
        let heard = watch::Sender::new(0_u64);
        let (tell, signals) = (heard.clone(), Signals::new([SIGCHLD]));
        // Where the handler or the thread cannot be had, ends are found by looking every second.
        let _ = std::thread::Builder::new().name("children".into()).spawn(move || {
            for _ in signals.ok().iter_mut().flatten() {
                tell.send_modify(|count| *count = count.wrapping_add(1));
                sweep();
            }
        });
        heard
    });
    heard.subscribe()
}

/// Starts a child that [`reap_orphans`] leaves alone.
pub(super) fn spawn(command: &mut Command) -> io::Result<Child> {
    let _ = signals();
    let _spawning = SPAWNING.read().unwrap_or_else(PoisonError::into_inner);
    let child = command.spawn()?;
    locked(&OURS).insert(pid_of(&child).as_raw());
    Ok(child)
}

/// The child's number.
pub(super) fn pid_of(child: &Child) -> Pid {
    // Linux numbers processes below 2^22.
    Pid::from_raw(i32::try_from(child.id()).unwrap_or(i32::MAX))
}

/// Reaps a child that has ended. Its number may be another process's from now on.
pub(super) fn reap(child: &mut Child) -> bool {
    let ended = !matches!(child.try_wait(), Ok(None));
    if ended {
        locked(&OURS).remove(&pid_of(child).as_raw());
    }
    ended
}

/// Leaves it to the thread here to reap a child when it ends.
pub(super) fn abandon(child: Child) {
    locked(&ABANDONED).push(child);
    sweep();
}

/// Whether a child has ended, without reaping it. One that somebody else reaped has ended in an unknown way.
fn peek(child: Pid) -> Option<Ended> {
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    match waitid(Id::Pid(child), flags) {
        Ok(WaitStatus::Exited(_, code)) => Some(Ended { code: Some(code), signal: None }),
        Ok(WaitStatus::Signaled(_, signal, _)) => Some(Ended { code: None, signal: Some(signal as i32) }),
        // A real-time signal has a number and no name: nix then finds the status strange. Whoever reaps is told.
        Err(Errno::EINVAL | Errno::ECHILD) => Some(Ended { code: None, signal: None }),
        Ok(_) | Err(_) => None,
    }
}

/// Waits until a child has ended and leaves it unreaped. Cancel safety: may be dropped and called again.
pub(super) async fn ended(child: Pid) -> Ended {
    let mut signals = signals();
    loop {
        // Invariant: first note what was heard, then look. The other way round, an end in between is slept over.
        signals.borrow_and_update();
        if let Some(ended) = peek(child) {
            return ended;
        }
        let _ = tokio::time::timeout(LOOK_AT_LEAST_EVERY, signals.changed()).await;
    }
}

/// From now on, processes that lost their parent and were handed to this one are reaped when they end. For a daemon
/// that is PID 1 of a container; the exit codes of runs are not touched. Children that other code of this process
/// starts would be: call it only where nobody else does.
pub fn reap_orphans() {
    ORPHANS_ARE_OURS.store(true, Ordering::Relaxed);
    let _ = signals();
    sweep();
}

/// Reaps what nobody waits for.
fn sweep() {
    locked(&ABANDONED).retain_mut(|child| !reap(child));
    if !ORPHANS_ARE_OURS.load(Ordering::Relaxed) {
        return;
    }
    // Waiting for "any child" would always show the same dead leader of a run that still reads its output, and hide
    // the orphans behind it. So: look for dead children by name.
    // While a child is being started it is not listed yet: what ends meanwhile is found at the next signal.
    let Ok(_alone) = SPAWNING.try_write() else { return };
    let me = std::process::id();
    let ours = locked(&OURS).clone();
    for process in proc::all().filter(|process| process.is_dead && !ours.contains(&process.pid)) {
        if u32::try_from(process.parent) == Ok(me) {
            let _ = waitpid(Pid::from_raw(process.pid), Some(WaitPidFlag::WNOHANG));
        }
    }
}
