//! The spans of this replica's runs, as its notices tell their story: each begins with the claim and ends with the run.

use crate::clock::Clock;
use crate::engine::Notice;
use crate::engine::RunFacts;
use crate::job::Ending;
use crate::job::Outcome;
use crate::job::RunKey;
use crate::job::TraceContext;
use crate::telemetry::events::RunFields;
use crate::telemetry::traces::Detail;
use crate::telemetry::traces::RunSpan;
use crate::telemetry::traces::Tracer;
use chrono::DateTime;
use chrono::Utc;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The spans that are open. Where nothing is traced there are none.
pub struct RunSpans {
    tracer: Option<Tracer>,
    clock: Arc<dyn Clock>,
    open: BTreeMap<RunKey, RunSpan>,
}

impl RunSpans {
    /// None yet.
    pub fn new(tracer: Option<Tracer>, clock: Arc<dyn Clock>) -> Self {
        Self { tracer, clock, open: BTreeMap::new() }
    }

    /// Opens the span of a run, tells it what happened, or ends it. Gives its place in its trace, for the line that says
    /// the same.
    pub fn hear(&mut self, notice: &Notice, fields: impl FnOnce(RunFacts) -> RunFields) -> Option<TraceContext> {
        let tracer = self.tracer.as_ref()?;
        let facts = facts_of(notice)?;
        let now = self.clock.now().wall;
        if matches!(notice, Notice::RunClaimed { .. }) {
            let span = tracer.open(&fields(facts.clone()), now);
            if let Some(former) = self.open.insert(facts.run.clone(), span) {
                given_back(former, now);
            }
        }
        let mut span = self.open.remove(&facts.run)?;
        let context = span.context();
        if let Some(failure) = tell(&mut span, notice, now) {
            span.end(now, failure);
        } else {
            self.open.insert(facts.run.clone(), span);
        }
        Some(context)
    }

    /// The place in its trace of a run that is open.
    pub fn context(&self, run: &RunKey) -> Option<TraceContext> {
        self.open.get(run).map(RunSpan::context)
    }

    /// Whether jobs are told it.
    pub fn is_handed_on(&self) -> bool {
        self.tracer.as_ref().is_some_and(Tracer::is_handed_on)
    }

    /// Ends the spans of runs that are not this replica's any more: they were given back without a word. `owned`: how many
    /// it has, so that nothing is searched where nothing can be found.
    pub fn keep(&mut self, owned: usize, is_owned: impl Fn(&RunKey) -> bool) {
        if self.open.len() <= owned {
            return;
        }
        let now = self.clock.now().wall;
        let gone: Vec<RunKey> = self.open.keys().filter(|run| !is_owned(run)).cloned().collect();
        for run in gone {
            if let Some(span) = self.open.remove(&run) {
                given_back(span, now);
            }
        }
    }
}

/// A run that another replica, or this one, may take again.
fn given_back(mut span: RunSpan, now: DateTime<Utc>) {
    span.tell([("onecron.outcome", Some("given_back".into()))]);
    span.end(now, None);
}

fn facts_of(notice: &Notice) -> Option<&RunFacts> {
    match notice {
        Notice::RunClaimed { facts, .. }
        | Notice::RunCancelled { facts, .. }
        | Notice::RunSkipped { facts, .. }
        | Notice::RunMissed { facts, .. }
        | Notice::RunStarted { facts, .. }
        | Notice::RunRetried { facts, .. }
        | Notice::RunStopping { facts, .. }
        | Notice::RunKilled { facts, .. }
        | Notice::RunFinished { facts, .. }
        | Notice::RunUnrecorded { facts, .. }
        | Notice::LeaseLost { facts, .. } => Some(facts),
        // About a run of another replica, or of nobody.
        _ => None,
    }
}

/// Tells a span what happened. Something comes back when that was its end: what went wrong, where something did.
fn tell(span: &mut RunSpan, notice: &Notice, now: DateTime<Utc>) -> Option<Option<String>> {
    match notice {
        Notice::RunStarted { facts, start_delay_ms, pid } => {
            let start = attempt(facts);
            span.tell([start.clone(), token(facts), ("process.pid", pid.map(|pid| i64::from(pid).into()))]);
            span.note("run_started", now, [start, ("onecron.start_delay_ms", Some((*start_delay_ms).into()))]);
        }
        Notice::RunRetried { facts, ending, next_in } => {
            let next = ("onecron.next_attempt_ms", Some(millis(*next_in).into()));
            span.note("run_retried", now, [attempt(facts), next].into_iter().chain(details(ending)));
        }
        Notice::RunStopping { cause, .. } => {
            span.note("run_stopping", now, [("onecron.cause", Some(cause.as_str().into()))]);
        }
        Notice::RunKilled { cause, .. } => {
            span.note("run_killed", now, [("onecron.cause", Some(cause.as_str().into()))])
        }
        Notice::RunCancelled { by, .. } => span.note("run_cancelled", now, [("onecron.by", Some(by.clone().into()))]),
        Notice::LeaseLost { holder, .. } => {
            let holder = holder.as_ref().map(|holder| holder.as_str().to_owned().into());
            span.note("lease_lost", now, [("onecron.holder", holder)]);
        }
        Notice::RunFinished { facts, ending, attempts, .. } => {
            let outcome = ("onecron.outcome", Some(ending.outcome.as_str().into()));
            let attempts = ("onecron.attempts", Some(i64::from(*attempts).into()));
            span.tell([attempt(facts), token(facts), attempts, outcome].into_iter().chain(details(ending)));
            let is_failure = !matches!(ending.outcome, Outcome::Succeeded | Outcome::Replaced | Outcome::Cancelled);
            if is_failure {
                span.tell([("error.type", Some(ending.outcome.as_str().into()))]);
            }
            return Some(is_failure.then(|| failure(ending)));
        }
        Notice::RunSkipped { reason, .. } => {
            let reason = ("onecron.reason", Some(reason.as_str().into()));
            span.tell([("onecron.outcome", Some("skipped".into())), reason]);
            return Some(None);
        }
        Notice::RunMissed { reason, .. } => {
            span.tell([
                ("onecron.outcome", Some("missed".into())),
                ("onecron.reason", Some(reason.as_str().into())),
                ("error.type", Some("missed".into())),
            ]);
            return Some(Some(format!("missed: {}", reason.as_str())));
        }
        Notice::RunUnrecorded { detail, .. } => {
            span.tell([("error.type", Some("unrecorded".into()))]);
            return Some(Some(detail.clone()));
        }
        _ => {}
    }
    None
}

fn attempt(facts: &RunFacts) -> Detail {
    ("onecron.attempt", Some(i64::from(facts.start).into()))
}

fn token(facts: &RunFacts) -> Detail {
    let token = super::report::claimed(facts.clone()).token;
    ("onecron.token", token.and_then(|token| i64::try_from(token).ok()).map(Into::into))
}

/// What is known of the end of an attempt.
fn details(ending: &Ending) -> [Detail; 3] {
    [
        ("process.exit.code", ending.exit_code.map(|code| i64::from(code).into())),
        ("onecron.signal", ending.signal.map(|signal| i64::from(signal).into())),
        ("http.response.status_code", ending.http_status.map(|status| i64::from(status).into())),
    ]
}

/// In words, as the log has it.
fn failure(ending: &Ending) -> String {
    let code = ending.exit_code.map(|code| format!("exit code {code}"));
    let signal = ending.signal.map(|signal| format!("signal {signal}"));
    let error = Some(ending.error.clone()).filter(|error| !error.is_empty());
    let found: Vec<String> = [code, signal, error].into_iter().flatten().collect();
    let outcome = ending.outcome.as_str();
    if found.is_empty() { outcome.to_owned() } else { format!("{outcome}: {}", found.join(", ")) }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
