//! The processes of runs, and the guardian that ends those whose lease is over.

use super::Micros;
use super::SECOND;
use super::What;
use super::Without;
use super::World;
use onecron::clock::Boot;
use onecron::engine::Event;
use onecron::engine::Exit;
use onecron::engine::StartOrder;
use onecron::job::*;
use std::sync::Arc;

/// A started process: the ledger that is checked.
#[derive(Debug, Clone)]
pub struct Child {
    pub run: RunKey,
    pub start: u32,
    pub token: u64,
    pub replica: usize,
    pub incarnation: u32,
    pub began: Micros,
    pub ended: Option<Micros>,
    /// It was ended by a signal.
    pub killed: bool,
    pub code: i32,
    pub rerun: bool,
    pub exclusive: bool,
    /// Whether the guardian watches it.
    pub guarded: bool,
    pub spec: Arc<JobSpec>,
    /// The guardian's deadline, on the true clock.
    lease_end: Option<Micros>,
}

impl World {
    pub(super) fn extend(&mut self, (replica, incarnation): (usize, u32), run: &RunKey, lease_end: Boot) {
        let at = self.true_time(replica, lease_end);
        for index in self.alive.clone() {
            let child = &mut self.children[index];
            if child.run == *run && child.replica == replica && child.incarnation == incarnation {
                child.lease_end = child.lease_end.map(|_| at);
            }
        }
    }

    /// Whether a process is about to be started.
    pub fn is_spawning(&self) -> bool {
        self.queue.values().any(|what| matches!(**what, What::Spawn { .. }))
    }

    /// How long a run takes, and its exit code: as its description says.
    fn fate(&mut self, spec: &JobSpec) -> (Micros, i32) {
        let random = &mut self.random;
        if let Some(seconds) = spec.description.strip_prefix("lasts ") {
            return (seconds.parse::<u64>().unwrap() * SECOND, 0);
        }
        let lasts = match spec.description.as_str() {
            "long" => random.between(4 * SECOND, 30 * SECOND),
            "fails" => return (SECOND, 1),
            _ => random.between(10_000, 2 * SECOND),
        };
        (lasts, i32::from(random.chance(200)))
    }

    pub(super) fn spawn(&mut self, replica: usize, order: StartOrder) {
        let now = self.clocks(replica);
        let incarnation = self.replicas[replica].incarnation;
        let asked = (replica, incarnation, order.run.clone());
        let looks = self.faults.without != Some(Without::LookBeforeSpawn);
        if looks && (self.stopped_early.remove(&asked) || now.boot >= order.lease_end) {
            self.meet("spawn too late");
            let event = Event::NotStarted { run: order.run, too_late: true, error: String::new() };
            return self.tell(replica, event);
        }
        let (lasts, code) = self.fate(&order.spec);
        let child = self.children.len();
        let lease_end = order.guarded.then(|| self.true_time(replica, order.lease_end));
        self.alive.push(child);
        self.children.push(Child {
            run: order.run.clone(),
            start: order.start,
            token: order.token,
            replica,
            incarnation,
            began: self.now,
            ended: None,
            killed: false,
            code,
            rerun: order.spec.lost_run_policy == LostRunPolicy::Rerun,
            exclusive: order.spec.is_exclusive(),
            guarded: order.guarded,
            spec: Arc::clone(&order.spec),
            lease_end,
        });
        self.put(self.now + lasts, What::ChildEnds { child, killed: false });
        if let Some(at) = lease_end {
            self.guard(child, at);
        }
        self.tell(replica, Event::Started { run: order.run, pid: Some(child as u32) });
    }

    /// The guardian: looks at the deadline, and again if it was extended. A child may take its whole grace to end.
    fn guard(&mut self, child: usize, at: Micros) {
        if self.faults.without != Some(Without::Guardian) {
            self.put(at.max(self.now), What::ChildEnds { child, killed: true });
        }
    }

    pub(super) fn signal(&mut self, replica: usize, run: &RunKey, kill: bool) {
        let incarnation = self.replicas[replica].incarnation;
        let is_it = |index: &usize| {
            let child = &self.children[*index];
            child.run == *run && child.replica == replica && child.incarnation == incarnation
        };
        let Some(index) = self.alive.iter().copied().find(is_it) else {
            self.stopped_early.insert((replica, incarnation, run.clone()));
            return;
        };
        let grace = self.children[index].spec.lease_loss_grace().as_micros() as u64;
        let takes = if kill { 1_000 } else { self.random.between(1_000, grace + 2_000) };
        let child = &mut self.children[index];
        child.killed = true;
        child.lease_end = Some(self.now.min(child.lease_end.unwrap_or(self.now)));
        self.put(self.now + takes, What::ChildEnds { child: index, killed: false });
    }

    pub(super) fn child_ends(&mut self, index: usize, by_guardian: bool) {
        let now = self.now;
        let child = &mut self.children[index];
        if child.ended.is_some() {
            return;
        }
        if by_guardian {
            let Some(at) = child.lease_end else { return };
            if at > now {
                return self.guard(index, at);
            }
            // TERM now; KILL at the end of the grace. It takes as long as it may.
            child.killed = true;
            let grace = child.spec.lease_loss_grace().as_micros() as u64;
            return self.put(now + grace, What::ChildEnds { child: index, killed: false });
        }
        child.ended = Some(now);
        let (code, signal) = if child.killed { (None, Some(15)) } else { (Some(child.code), None) };
        let (replica, incarnation, run) = (child.replica, child.incarnation, child.run.clone());
        self.alive.retain(|other| *other != index);
        if self.is_current(replica, incarnation) {
            let exit = Exit { code, signal, ..Exit::default() };
            let at = now.max(self.replicas[replica].paused_until);
            self.put(at, What::Ended { replica, incarnation, run, exit });
        }
    }
}
