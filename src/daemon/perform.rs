//! One effect of the engine becomes work. Whatever comes of it returns as an event.

use super::guard::Guard;
use super::recovery::LookBacks;
use super::report::Reporter;
use super::runs::Control;
use super::runs::Launcher;
use super::runs::Stop;
use super::store_watch::StoreWatch;
use crate::engine::Effect;
use crate::engine::Event;
use crate::engine::Notice;
use crate::engine::RequestId;
use crate::engine::StartOrder;
use crate::engine::StoreFailure;
use crate::job::JobName;
use crate::job::Presence;
use crate::job::RunKey;
use crate::job::Step;
use crate::server::Board;
use crate::server::StoreState;
use crate::store::Error;
use crate::store::Store;
use crate::store::doing;
use crate::telemetry::events;
use crate::telemetry::metrics::Metrics;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// A request that has no answer after this, or after a quarter of the lease, has none: the engine asks again.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// How long reading all jobs may take. No lease waits for it.
const SURVEY_WITHIN: Duration = Duration::from_secs(10);
/// How long the end of a daemon waits until its presence is written as left.
const LEAVE_WITHIN: Duration = Duration::from_secs(1);

/// How the engine ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drained {
    /// Runs that had to be stopped.
    pub stopped: u32,
    /// Runs that ended without the store knowing how.
    pub unrecorded: u32,
}

/// Everything that effects need.
pub struct Hands {
    /// What is shown of the daemon.
    pub board: Arc<Board>,
    pub store: Arc<dyn Store>,
    pub store_watch: Arc<StoreWatch>,
    pub ask_limit: Duration,
    pub launcher: Launcher,
    pub reporter: Reporter,
    pub metrics: Arc<Metrics>,
    /// Where jobs live: threads of their own.
    pub jobs: Handle,
    /// Runs from order to end.
    pub controls: BTreeMap<RunKey, Control>,
    /// Runs that ended since the drain began.
    pub finished: usize,
    /// Requests to the store, on the scheduler's own thread: no output of a job holds up a renewal. Each gives an event.
    pub asking: JoinSet<Event>,
    /// Runs, among the jobs.
    pub running: JoinSet<()>,
    /// What is said about the store, on the scheduler's thread.
    pub chores: JoinSet<()>,
    /// Looks into the past of jobs that have succeeded, on the same thread.
    pub looks: LookBacks,
}

impl Hands {
    /// Does it, or has it done. Never waits.
    pub fn perform(&mut self, effect: Effect) -> Option<Drained> {
        match effect {
            Effect::Ask { request, steps } => self.ask(request, steps),
            Effect::Meet { mine, gone } => self.meet(mine, gone),
            Effect::Survey => self.survey(),
            Effect::Start(order) => self.start(order),
            Effect::Extend { run, lease_end } => {
                if let Some(control) = self.controls.get(&run) {
                    control.extend(&run, lease_end, self.guard());
                }
            }
            Effect::Terminate { run } => self.stop(&run, Stop::Terminate),
            Effect::Kill { run } => self.stop(&run, Stop::Kill),
            Effect::LookBack { facts, known } => {
                let spec = self.reporter.spec(&facts.run.job).cloned();
                self.looks.begin(Arc::clone(&self.store), (facts, spec), known);
            }
            Effect::Notice(notice) => self.notice(notice),
            Effect::Drained { stopped, unrecorded } => return Some(Drained { stopped, unrecorded }),
        }
        None
    }

    /// To be told of each event before the engine is.
    pub fn hear(&mut self, event: &Event) {
        match event {
            Event::Ended { run, .. } | Event::NotStarted { run, .. } => {
                self.controls.remove(run);
                self.count_running(&run.job);
            }
            Event::TableChanged(table) => {
                self.board.table_changed(Arc::clone(table));
                self.reporter.follow(table);
                self.ask_limit = ask_limit(table.scheduler.lock_lease);
                self.launcher.redaction = table.scheduler.redact.clone();
                let running: BTreeSet<&JobName> = self.controls.keys().map(|run| &run.job).collect();
                running.into_iter().for_each(|job| self.count_running(job));
            }
            _ => {}
        }
    }

    fn count_running(&self, job: &JobName) {
        self.metrics.running(job, self.controls.keys().filter(|run| run.job == *job).count());
    }

    fn guard(&self) -> &Guard {
        &self.launcher.guard
    }

    fn ask(&mut self, request: RequestId, steps: Arc<Vec<Step>>) {
        let (store, limit) = (Arc::clone(&self.store), self.ask_limit);
        self.asking.spawn(async move {
            let what = doing::steps(&steps);
            let result = within(limit, (&what, store.url()), store.apply(&steps)).await;
            Event::Answered { request, result }
        });
    }

    fn meet(&mut self, mine: Box<Presence>, gone: Vec<Presence>) {
        if let Some(offset_ms) = mine.offset_ms {
            self.metrics.clock_offset(offset_ms);
        }
        let (store, clock, limit) = (Arc::clone(&self.store), Arc::clone(&self.launcher.clock), self.ask_limit);
        self.asking.spawn(async move {
            let sent = clock.now().boot;
            let result = within(limit, (doing::MEET, store.url()), store.meet(Some(&mine), &gone)).await;
            Event::Met { sent, result }
        });
    }

    fn survey(&mut self) {
        let store = Arc::clone(&self.store);
        self.asking.spawn(async move {
            let result = within(SURVEY_WITHIN, (doing::JOBS, store.url()), store.jobs()).await;
            Event::Surveyed { result }
        });
    }

    /// Whoever is to be told of something is told, if that is possible soon, and before `hurry` says that there is no time.
    pub async fn finish_post(&mut self, hurry: watch::Receiver<bool>) {
        let hurried = |mut hurry: watch::Receiver<bool>| async move { _ = hurry.wait_for(|is_over| *is_over).await };
        for found in self.looks.finish(hurried(hurry.clone())).await {
            self.reporter.say_recovered(found);
        }
        self.reporter.post.finish(hurried(hurry)).await;
    }

    /// Says in the store that we are not there any more, if that is possible soon: others see it earlier than by our
    /// silence, and people see it later.
    pub async fn leave(&self, farewell: &Presence) {
        let _ = tokio::time::timeout(LEAVE_WITHIN, self.store.meet(Some(farewell), &[])).await;
    }

    fn start(&mut self, order: Box<StartOrder>) {
        let (control, orders) = Control::new(&order);
        self.controls.insert(order.run.clone(), control);
        self.count_running(&order.run.job);
        let trace = self.reporter.spans.context(&order.run);
        let launcher = Launcher { trace, ..self.launcher.clone() };
        self.running.spawn_on(launcher.carry_out(order, orders), &self.jobs);
    }

    fn stop(&self, run: &RunKey, how: Stop) {
        if let Some(control) = self.controls.get(run) {
            control.stop(how);
        }
    }

    fn notice(&mut self, notice: Notice) {
        let mut ceases = false;
        match &notice {
            Notice::StoreConnected { outage } => {
                self.board.store_changed(StoreState::Up);
                self.chores.spawn(Arc::clone(&self.store_watch).greet(*outage));
            }
            Notice::StoreLost { detail, .. } => {
                let since = self.launcher.clock.now().wall;
                ceases = self.board.store_changed(StoreState::Away { since, detail: detail.clone() });
            }
            Notice::RunFinished { .. } => self.finished += 1,
            _ => {}
        }
        self.reporter.say(notice);
        if ceases {
            events::daemon_not_ready("store_away");
        }
    }
}

/// How long a request may take.
pub fn ask_limit(lease: Duration) -> Duration {
    ANSWER_WITHIN.min(lease / 4)
}

/// The answer to a question, or why there is none.
pub(super) async fn within<T>(
    limit: Duration,
    (what, store): (&str, &str),
    question: impl Future<Output = Result<T, Error>>,
) -> Result<T, StoreFailure> {
    match tokio::time::timeout(limit, question).await {
        Ok(answered) => answered.map_err(|error| failure(&error)),
        Err(_) => {
            let detail = format!("{what} on {store}: no answer within {limit:?}");
            Err(StoreFailure { kind: StoreFailure::MAYBE_APPLIED, detail })
        }
    }
}

fn failure(error: &Error) -> StoreFailure {
    StoreFailure { kind: error.kind.as_str(), detail: error.to_string() }
}
