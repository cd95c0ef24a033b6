//! The spans of this replica's runs, as its notices tell their story: each begins with the claim and ends with the run.

use super::report::claimed;
use crate::clock::Clock;
use crate::engine::Notice;
use crate::engine::RunFacts;
use crate::job::Ending;
use crate::job::RunKey;
use crate::job::TraceContext;
use crate::telemetry::traces::Detail;
use crate::telemetry::traces::RunSpan;
use crate::telemetry::traces::Tracer;
use chrono::DateTime;
use chrono::Utc;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The spans of this replica's runs. Where nothing is traced there are none.
pub struct RunSpans {
    tracer: Option<Tracer>,
    clock: Arc<dyn Clock>,
    ours: BTreeMap<RunKey, Place>,
}

/// A run's place in its trace: kept while the run is this replica's, since more may be said of one that has ended.
struct Place {
    context: TraceContext,
    /// None after its end.
    open: Option<RunSpan>,
}

impl RunSpans {
    /// None yet.
    pub fn new(tracer: Option<Tracer>, clock: Arc<dyn Clock>) -> Self {
        Self { tracer, clock, ours: BTreeMap::new() }
    }

    /// Opens the span of a run, tells it what happened, or ends it. Gives its place in its trace, for the line that says
    /// the same.
    pub fn hear(&mut self, notice: &Notice) -> Option<TraceContext> {
        let tracer = self.tracer.as_ref()?;
        let facts = facts_of(notice)?;
        let now = self.clock.now().wall;
        if matches!(notice, Notice::RunClaimed { .. }) {
            let span = tracer.open(&claimed(facts.clone()), now);
            let place = Place { context: span.context(), open: Some(span) };
            if let Some(former) = self.ours.insert(facts.run.clone(), place) {
                former.give_back(now);
            }
        }
        let place = self.ours.get_mut(&facts.run)?;
        if let Some(mut span) = place.open.take() {
            match tell(&mut span, notice, now) {
                Some(failure) => span.end(now, failure),
                None => place.open = Some(span),
            }
        }
        Some(place.context.clone())
    }

    /// The place in its trace of a run that is this replica's.
    pub fn context(&self, run: &RunKey) -> Option<TraceContext> {
        self.ours.get(run).map(|place| place.context.clone())
    }

    /// Whether jobs are told it.
    pub fn is_handed_on(&self) -> bool {
        self.tracer.as_ref().is_some_and(Tracer::is_handed_on)
    }

    /// Forgets the runs that are not this replica's any more, and ends their spans where that has not been done: they were
    /// given back without a word. `owned`: how many it has, so that nothing is searched where nothing can be found.
    pub fn keep(&mut self, owned: usize, is_owned: impl Fn(&RunKey) -> bool) {
        if self.ours.len() <= owned {
            return;
        }
        let now = self.clock.now().wall;
        for (_, place) in self.ours.extract_if(.., |run, _| !is_owned(run)) {
            place.give_back(now);
        }
    }
}

impl Place {
    /// Of a run that another replica, or this one, may take again; if it has not ended before.
    fn give_back(self, now: DateTime<Utc>) {
        if let Some(mut span) = self.open {
            span.tell([("onecron.outcome", Some("given_back".into()))]);
            span.end(now, None);
        }
    }
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
            let is_failure = ending.outcome.is_failure();
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
    let token = claimed(facts.clone()).token;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SystemClock;
    use crate::job::JobName;
    use crate::job::Outcome;
    use crate::job::Tick;
    use crate::job::Trigger;
    use crate::telemetry::traces;

    fn facts(seconds: i64) -> RunFacts {
        let run = RunKey::new(JobName::new("nightly").unwrap(), Tick::from_seconds(seconds));
        RunFacts { run, trigger: Trigger::Schedule, start: 1, token: None }
    }

    fn claim(facts: &RunFacts) -> Notice {
        Notice::RunClaimed { facts: facts.clone(), took: Duration::ZERO }
    }

    fn end(facts: &RunFacts, outcome: Outcome) -> Notice {
        let ending = Ending {
            outcome,
            exit_code: None,
            signal: None,
            http_status: None,
            duration_ms: 0,
            error: String::new(),
            output_tail: String::new(),
        };
        Notice::RunFinished { facts: facts.clone(), ending, attempts: 1, output_bytes: 0, again: false }
    }

    #[test]
    fn what_is_said_of_a_run_after_its_end_has_its_trace_and_then_it_is_forgotten() {
        let (tracer, mut ended) = traces::gathered();
        let mut spans = RunSpans::new(Some(tracer), Arc::new(SystemClock));
        let facts = facts(60);
        let trace = spans.hear(&claim(&facts)).unwrap();
        assert_eq!(spans.hear(&end(&facts, Outcome::Succeeded)), Some(trace.clone()));
        assert!(ended().is_some(), "the span ends with the run");
        spans.keep(1, |_| true);
        let unrecorded = Notice::RunUnrecorded { facts: facts.clone(), detail: "the store is away".into() };
        assert_eq!(spans.hear(&unrecorded), Some(trace));
        spans.keep(0, |_| false);
        assert_eq!((spans.hear(&unrecorded), spans.context(&facts.run)), (None, None));
        assert!(ended().is_none(), "it has one end");
    }

    #[test]
    fn a_run_that_is_not_ours_any_more_was_given_back_and_the_others_go_on() {
        let (tracer, mut ended) = traces::gathered();
        let mut spans = RunSpans::new(Some(tracer), Arc::new(SystemClock));
        let (gone, kept) = (facts(60), facts(120));
        let lost = spans.hear(&claim(&gone)).unwrap();
        spans.hear(&claim(&kept)).unwrap();
        spans.keep(1, |run| *run == kept.run);
        let span = ended().unwrap();
        assert_eq!(u128::from_be_bytes(span.span_context.trace_id().to_bytes()), lost.trace);
        let is_given_back = |span: &opentelemetry_sdk::trace::SpanData| {
            span.attributes
                .iter()
                .any(|pair| pair.key.as_str() == "onecron.outcome" && pair.value.as_str() == "given_back")
        };
        assert!(is_given_back(&span) && ended().is_none(), "{span:?}");
        assert!(spans.context(&gone.run).is_none() && spans.context(&kept.run).is_some());
        // Claimed again before anybody heard that it was given back.
        spans.hear(&claim(&kept)).unwrap();
        assert!(is_given_back(&ended().unwrap()));
    }

    #[test]
    fn a_span_is_an_error_where_the_outcome_is_a_failure() {
        for &outcome in Outcome::ALL {
            let (tracer, mut ended) = traces::gathered();
            let mut spans = RunSpans::new(Some(tracer), Arc::new(SystemClock));
            spans.hear(&claim(&facts(60)));
            spans.hear(&end(&facts(60), outcome));
            let is_error = matches!(ended().unwrap().status, opentelemetry::trace::Status::Error { .. });
            assert_eq!(is_error, outcome.is_failure(), "{outcome}");
        }
    }
}
