//! The process group of a run, and how it is stopped.
//!
//! The danger is the recycled number: `kill(-group)` after the group is gone may hit another run. The kernel gives a
//! number out again only when no process, dead or alive, has it as its own or as its group. So the leader, once dead,
//! stays unreaped as long as anybody may signal the group, and reaping and signalling exclude each other.

use super::children;
use super::proc;
use nix::sys::signal::Signal;
use nix::sys::signal::killpg;
use nix::unistd::Pid;
use std::process::Child;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::time::Duration;

/// Stops a run. Harmless after its end: then, both do nothing.
#[derive(Debug, Clone)]
pub struct Stopper(Arc<Group>);

impl Stopper {
    /// TERM to the whole group. The run then ends when its leader *and* all that is left of the group have ended, so
    /// that what a shell started has the same grace as the shell itself: follow it up with [`Self::kill`], or the run
    /// may stay as long as it likes.
    pub fn terminate(&self) {
        self.0.ask(Signal::SIGTERM);
    }

    /// The same with another signal that asks to end: one that came from a terminal, as it came.
    pub fn pass_on(&self, signal: Signal) {
        self.0.ask(signal);
    }

    /// KILL to the whole group.
    pub fn kill(&self) {
        self.0.kill();
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stop {
    No,
    Terminating,
    Killed,
}

#[derive(Debug)]
struct State {
    stop: Stop,
    /// `None` once it is reaped, or left to somebody else to reap: from then on the group's number means nothing.
    leader: Option<Child>,
}

/// A run's process group, with its leader.
#[derive(Debug)]
pub(super) struct Group {
    id: Pid,
    state: Mutex<State>,
}

impl Group {
    /// The group that a child leads (it was started with `process_group(0)`).
    pub(super) fn led_by(leader: Child) -> Arc<Self> {
        let id = children::pid_of(&leader);
        Arc::new(Self { id, state: Mutex::new(State { stop: Stop::No, leader: Some(leader) }) })
    }

    /// Its number, which is its leader's.
    pub(super) fn id(&self) -> Pid {
        self.id
    }

    /// What stops it.
    pub(super) fn stopper(self: &Arc<Self>) -> Stopper {
        Stopper(Arc::clone(self))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Errors mean that nobody is left (ESRCH) or that all have become another user's (EPERM): nothing to be done.
    fn signal(&self, stop: Stop, signals: &[Signal]) {
        let mut state = self.state();
        if state.leader.is_none() {
            return;
        }
        state.stop = state.stop.max(stop);
        for signal in signals {
            let _ = killpg(self.id, *signal);
        }
    }

    fn ask(&self, signal: Signal) {
        // A stopped process would hear of it only when somebody continues it.
        self.signal(Stop::Terminating, &[signal, Signal::SIGCONT]);
    }

    fn kill(&self) {
        self.signal(Stop::Killed, &[Signal::SIGKILL]);
    }

    /// Whether somebody asked to stop it.
    pub(super) fn is_stopping(&self) -> bool {
        self.state().stop > Stop::No
    }

    /// Waits until no member lives, or for a second after a KILL (a process that is stuck in the kernel dies later,
    /// and does nothing any more). To be called when the leader has ended. Cancel safety: may be dropped.
    pub(super) async fn emptied(&self) {
        const AFTER_KILL: Duration = Duration::from_secs(1);
        let mut pause = Duration::from_millis(5);
        let mut since_kill = Duration::ZERO;
        while since_kill < AFTER_KILL {
            let id = self.id;
            // All of /proc is read: not on a thread that renews leases.
            if matches!(tokio::task::spawn_blocking(move || proc::group_lives(id)).await, Ok(false)) {
                return;
            }
            tokio::time::sleep(pause).await;
            if self.state().stop == Stop::Killed {
                since_kill += pause;
            }
            pause = (pause * 2).min(Duration::from_millis(100));
        }
    }

    /// Reaps the leader, which has ended: nothing is signalled from now on. How it ended, where that was not asked before
    /// and nobody else reaped it.
    pub(super) fn close(&self) -> Option<ExitStatus> {
        let mut leader = self.state().leader.take()?;
        if children::reap(&mut leader) {
            return leader.try_wait().ok().flatten(); // remembered
        }
        children::abandon(leader);
        None
    }

    /// Kills the group and leaves its leader to be reaped.
    pub(super) fn discard(&self) {
        self.kill();
        let _ = self.close();
    }
}
