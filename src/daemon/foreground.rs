//! One start of a job, here and now, for a person who waits for it: what `onecron exec` does.
//!
//! No engine decides: there are no ticks, no attempts, and nobody to wait for. What is left of a run's rules is here:
//!
//! * signals are passed on; the run has its `terminationGracePeriod` then, and KILL follows;
//! * its `timeout` holds;
//! * one that has a claim is renewed every third of its lease. Without a renewal for a whole lease it is stopped, if
//!   somebody else may start it then, or its job must not overlap; a guardian does that where this process cannot. Any
//!   other goes on, and is renewed again as soon as the store answers;
//! * how it ended is told to the store, again and again for a while.
//!
//! Invariant: as with a daemon, the lease counts from the first sending of what was confirmed last, and the guardian knows
//! of a guarded run before its process exists.

use super::perform::ask_limit;
use super::perform::within;
use super::requests;
use super::runs;
use crate::admin::Begun;
use crate::causes::chain;
use crate::clock::Boot;
use crate::clock::Clock;
use crate::engine::Exit;
use crate::executor;
use crate::executor::Deadline;
use crate::executor::RunContext;
use crate::executor::Running;
use crate::executor::SpawnError;
use crate::executor::Stopper;
use crate::executor::guardian::Handle;
use crate::executor::guardian::Until;
use crate::executor::http::Gate;
use crate::executor::http::Reply;
use crate::executor::http::Request;
use crate::job::Action;
use crate::job::Answer;
use crate::job::CommandSpec;
use crate::job::Ending;
use crate::job::HttpSpec;
use crate::job::JobSpec;
use crate::job::Outcome;
use crate::job::ReplicaId;
use crate::job::RunRecord;
use crate::job::Step;
use crate::job::StopReason;
use crate::job::Verdict;
use crate::store::Store;
use crate::store::doing;
use futures_util::FutureExt;
use futures_util::StreamExt;
use nix::sys::signal::Signal;
use signal_hook_tokio::Signals;
use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tokio::time::timeout;

/// The longest sleep: the boot clock goes on while the machine is suspended, and that is seen only by looking.
const SLEEP_MOST: Duration = Duration::from_secs(1);
/// How soon a renewal that came to nothing is sent again.
const RENEW_AGAIN: Duration = Duration::from_millis(500);
/// How long the store is told how it ended, where it does not answer.
const TELL_FOR: Duration = Duration::from_secs(120);
/// The longest pause in between.
const TELL_AGAIN_MOST: Duration = Duration::from_secs(5);

/// A replica does that soon.
const UNREGISTERED: &str = "no replica has registered the job since the store restarted";
const UNCONFIRMED: &str = "the store has not confirmed for a whole lease that this process has the run";

/// A run to be carried out.
pub struct Foreground {
    /// Its job.
    pub spec: Arc<JobSpec>,
    /// What the job is told.
    pub context: RunContext,
    /// The claim under which it runs, if it does.
    pub claim: Option<Claimed>,
    /// What tells the time.
    pub clock: Arc<dyn Clock>,
    /// The program that is started as the guardian.
    pub guardian: PathBuf,
}

/// A run that has begun in a store.
pub struct Claimed {
    /// Where.
    pub store: Arc<dyn Store>,
    /// Who has it.
    pub owner: ReplicaId,
    /// The begin.
    pub begun: Begun,
    /// How long it lasts without a renewal.
    pub lease: Duration,
}

/// How it ended.
#[derive(Debug)]
pub struct Ended {
    /// As records have it.
    pub ending: Ending,
    /// Why the store does not know that, where it should.
    pub unrecorded: Option<String>,
}

/// Takes over the signals that are passed on: from here on none of them ends this process. To be called inside a tokio
/// runtime.
///
/// # Errors
/// The handlers cannot be installed.
pub fn listen() -> io::Result<Signals> {
    super::signals::listen()
}

/// Waits for what comes before a run.
///
/// # Errors
/// A signal that came first: then it was dropped.
pub async fn unless_signalled<T>(signals: &mut Signals, wanted: impl Future<Output = T>) -> Result<T, i32> {
    tokio::select! {
        biased;
        Some(signal) = signals.next() => Err(signal),
        found = wanted => Ok(found),
    }
}

/// Why it is being stopped. A later one does not take the place of the first.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Cause {
    Signal(Signal),
    Timeout,
    LeaseLost,
    Asked(StopReason, String),
}

impl Cause {
    /// Of one of the signals that are listened for.
    fn of(signal: i32) -> Self {
        Self::Signal(Signal::try_from(signal).unwrap_or(Signal::SIGTERM))
    }

    /// What the process is told.
    const fn signal(&self) -> Signal {
        match self {
            Self::Signal(signal) => *signal,
            Self::Timeout | Self::LeaseLost | Self::Asked(..) => Signal::SIGTERM,
        }
    }
}

/// What is going.
enum Work {
    Process(Box<Running>),
    Request(Box<Request>),
}

/// Reaches what is going.
enum Reach {
    Process(Stopper),
    Request(watch::Sender<bool>),
}

impl Reach {
    fn ask(&self, signal: Signal) {
        match self {
            Self::Process(stopper) => stopper.pass_on(signal),
            Self::Request(stop) => drop(stop.send_replace(true)),
        }
    }

    fn kill(&self) {
        match self {
            Self::Process(stopper) => stopper.kill(),
            Self::Request(stop) => drop(stop.send_replace(true)),
        }
    }
}

/// A renewal that is under way: when it was sent, and what the store says.
type Asking = Pin<Box<dyn Future<Output = (Boot, Result<Answer, String>)>>>;

/// A run while it goes on.
struct Watch<'a> {
    run: &'a Foreground,
    guardian: Option<Handle>,
    started: Boot,
    /// See [`Claimed`]: until when nobody else can have been given the run.
    lease_end: watch::Sender<Boot>,
    /// `None`: the store has said that there is nothing to renew any more.
    renew_at: Option<Boot>,
    lease_lost: bool,
    /// Why the last renewal came to nothing, if it did.
    unconfirmed: String,
    /// Nothing was executed, and nothing sent.
    not_started: bool,
    stop: Option<(Cause, Boot)>,
    killed: bool,
    /// Says something to whoever waits.
    tell: &'a mut dyn FnMut(&str),
}

impl Foreground {
    /// Carries it out, and says with `tell` what else happens to it.
    pub async fn carry_out(self, mut signals: Signals, tell: &mut dyn FnMut(&str)) -> Ended {
        // PID 1 of a container inherits every process whose parent has ended.
        if std::process::id() == 1 {
            executor::reap_orphans();
        }
        let started = self.clock.now().boot;
        let mut watch = Watch::new(&self, started, tell);
        let begun = match signals.next().now_or_never().flatten() {
            // Nothing is started that is to stop.
            Some(signal) => {
                watch.stopping(Cause::of(signal), Duration::ZERO);
                Err("asked to stop before it was started".to_owned())
            }
            None => watch.start().await,
        };
        let exit = match begun {
            Ok(work) => {
                let exit = watch.see_through(work, &mut signals).await;
                watch.credit_guardian(&exit);
                exit
            }
            Err(error) => {
                watch.not_started = true;
                Exit { error: self.context.redaction.text(&error).into_owned(), ..Exit::default() }
            }
        };
        watch.disarm();
        let ending = watch.ending(exit);
        let unrecorded = self.record(&ending, (&mut signals, tell)).await.err();
        Ended { ending, unrecorded }
    }

    /// Whether it has to stop when its lease is lost.
    fn is_guarded(&self) -> bool {
        self.claim.is_some() && self.spec.stops_when_lease_is_lost()
    }

    /// Tells the store how it ended, until that has it, for a while, or until a signal comes.
    async fn record(
        &self,
        ending: &Ending,
        (signals, tell): (&mut Signals, &mut dyn FnMut(&str)),
    ) -> Result<(), String> {
        let Some(claim) = &self.claim else { return Ok(()) };
        let since = self.clock.now().boot;
        let mut pause = RENEW_AGAIN;
        loop {
            let (owner, ending) = (claim.owner.clone(), ending.clone());
            let step = Step::Complete { run: claim.begun.run.clone(), owner, start: claim.begun.start, ending };
            let why = match claim.ask(step).await {
                Ok(answer) => match answer.verdict {
                    Verdict::Recorded | Verdict::RecordedLate => {
                        // What it was announced with goes away by itself, too.
                        let _ = timeout(ask_limit(claim.lease), claim.store.leave(&claim.owner)).await;
                        return Ok(());
                    }
                    Verdict::Unregistered => UNREGISTERED.to_owned(),
                    Verdict::Fenced => return Err(format!("the run is {} now", had_by(answer.run.as_ref()))),
                    _ => return Err("the store does not know the run any more".to_owned()),
                },
                Err(error) => error,
            };
            if self.clock.now().boot.since(since) >= TELL_FOR {
                return Err(why);
            }
            if pause == RENEW_AGAIN {
                tell(&format!("the store has not recorded how it ended, and is asked again for a while: {why}"));
            }
            tokio::select! {
                Some(_) = signals.next() => return Err(why),
                () = sleep(pause) => pause = (pause * 2).min(TELL_AGAIN_MOST),
            }
        }
    }
}

fn had_by(record: Option<&RunRecord>) -> String {
    record.map_or_else(|| "somebody else's".to_owned(), |record| format!("that of {}", record.owner))
}

impl Claimed {
    /// One step, and the answer; or why there is none.
    fn ask(&self, step: Step) -> impl Future<Output = Result<Answer, String>> + use<> {
        let (store, limit) = (Arc::clone(&self.store), ask_limit(self.lease));
        async move {
            let answers = within(limit, (doing::step(&step), store.url()), store.apply(&[step])).await;
            let answers = answers.map_err(|failure| failure.detail)?;
            answers.into_iter().next().ok_or_else(|| "no answer to a step".to_owned())
        }
    }
}

impl<'a> Watch<'a> {
    fn new(run: &'a Foreground, started: Boot, tell: &'a mut dyn FnMut(&str)) -> Self {
        let (sent, lease) =
            run.claim.as_ref().map_or((started, Duration::MAX), |claim| (claim.begun.sent, claim.lease));
        Self {
            run,
            guardian: None,
            started,
            lease_end: watch::channel(sent + lease).0,
            renew_at: run.claim.as_ref().map(|_| sent + lease / 3),
            lease_lost: false,
            unconfirmed: String::new(),
            not_started: false,
            stop: None,
            killed: false,
            tell,
        }
    }

    async fn start(&mut self) -> Result<Work, String> {
        match &self.run.spec.action {
            Action::Command(command) => self.execute(command).await,
            Action::Http(http) => self.prepare(http).await,
        }
    }

    async fn execute(&mut self, command: &CommandSpec) -> Result<Work, String> {
        let (command, context) = (command.clone(), self.run.context.clone());
        let not_after = self.run.claim.as_ref().map(|_| *self.lease_end.borrow());
        if self.run.is_guarded() {
            let until = Until { term_at: *self.lease_end.borrow(), kill_after: self.run.spec.lease_loss_grace() };
            let guarded = Handle::spawn(&self.run.guardian).and_then(|handle| {
                handle.arm(&context.run, context.start, &context.holder, until)?;
                Ok(handle)
            });
            self.guardian = Some(guarded.map_err(|error| format!("guard the run: {error}"))?);
        }
        let clock = Arc::clone(&self.run.clock);
        // It blocks, for as long as the file system of the program likes.
        let spawned =
            spawn_blocking(move || Deadline { not_after, clock: &*clock }.start_in_foreground(&command, &context));
        let running = joined(spawned.await)?;
        if let Some(guardian) = &self.guardian {
            // The guardian finds it without that, too.
            let _ = guardian.adopt(&self.run.context.run, self.run.context.start, running.pid());
        }
        Ok(Work::Process(Box::new(running)))
    }

    async fn prepare(&self, http: &HttpSpec) -> Result<Work, String> {
        let (spec, context, keep) = (http.clone(), self.run.context.clone(), self.run.spec.output.keep_tail);
        let prepared = spawn_blocking(move || Request::prepare(&spec, &context, keep)).await;
        joined(prepared).map(|request| Work::Request(Box::new(request)))
    }

    async fn see_through(&mut self, work: Work, signals: &mut Signals) -> Exit {
        match work {
            Work::Process(running) => {
                let reach = Reach::Process(running.stopper());
                runs::told(self.until_over(running.wait(), &reach, signals).await)
            }
            Work::Request(request) => {
                let (stop, mut stopped) = watch::channel(false);
                let (clock, lease_end) = (Arc::clone(&self.run.clock), self.lease_end.subscribe());
                let gate = Gate::new(move || clock.now().boot <= *lease_end.borrow());
                let connections = gate.connections();
                let asked = async move {
                    // Nobody drops the other end before this one.
                    let _ = stopped.wait_for(|stop| *stop).await;
                };
                let performed = self.until_over(request.perform(gate, asked), &Reach::Request(stop), signals).await;
                let is_sent = *connections.borrow() > 0;
                self.not_started = performed.is_err() && !is_sent;
                let reply = performed.unwrap_or_else(|unsent| Reply::failed(&unsent));
                requests::answered(reply, &self.run.context.redaction)
            }
        }
    }

    /// Waits for the end, and does meanwhile what is due.
    async fn until_over<T>(&mut self, ended: impl Future<Output = T>, reach: &Reach, signals: &mut Signals) -> T {
        let mut ended = pin!(ended);
        let mut asking: Option<Asking> = None;
        loop {
            let now = self.run.clock.now().boot;
            self.look(now, reach);
            if asking.is_none() && self.renew_at.is_some_and(|at| now >= at) {
                asking = self.renewal(now);
            }
            tokio::select! {
                biased;
                what = &mut ended => return what,
                Some(signal) = signals.next() => {
                    let cause = Cause::of(signal);
                    reach.ask(cause.signal());
                    self.stopping(cause, self.run.spec.termination_grace_period);
                }
                (sent, answer) = answer_of(&mut asking) => {
                    asking = None;
                    self.renewed(sent, answer, reach);
                }
                () = sleep(self.pause(now)) => {}
            }
        }
    }

    fn renewal(&self, sent: Boot) -> Option<Asking> {
        let claim = self.run.claim.as_ref()?;
        let begun = &claim.begun;
        let step = Step::Renew { run: begun.run.clone(), owner: claim.owner.clone(), start: begun.start };
        let asked = claim.ask(step);
        Some(Box::pin(async move { (sent, asked.await) }))
    }

    /// As with a daemon: only a store that says that the run is not ours any more ends the asking.
    fn renewed(&mut self, sent: Boot, answered: Result<Answer, String>, reach: &Reach) {
        let Some(claim) = &self.run.claim else { return };
        self.renew_at = Some(self.run.clock.now().boot + RENEW_AGAIN);
        let answer = match answered {
            Ok(answer) => answer,
            Err(why) => {
                self.unconfirmed = why;
                return;
            }
        };
        match answer.verdict {
            Verdict::Renewed => {
                let lease_end = sent + claim.lease;
                self.renew_at = Some(sent + claim.lease / 3);
                self.unconfirmed.clear();
                self.lease_end.send_replace(lease_end);
                if let Some(guardian) = &self.guardian {
                    // Where it cannot be told, it stops the run: that is what it is for.
                    let _ = guardian.extend(&claim.begun.run, claim.begun.start, lease_end);
                }
                if !self.run.is_guarded() && std::mem::take(&mut self.lease_lost) {
                    (self.tell)("the store has confirmed again that this process has the run");
                }
                let asked = answer.run.and_then(|run| Some((run.stop_asked?, run.stop_asked_by)));
                if let Some((reason, by)) = asked.filter(|_| self.stop.is_none()) {
                    self.stop(Cause::Asked(reason, by), self.run.spec.termination_grace_period, reach);
                }
            }
            Verdict::Lost | Verdict::Done | Verdict::Gone | Verdict::Fenced => {
                self.renew_at = None;
                let why = match (answer.verdict, &answer.run) {
                    (Verdict::Gone, _) => "the store does not know the run any more".to_owned(),
                    (Verdict::Fenced, record) => format!("the run is {} now", had_by(record.as_ref())),
                    _ => "the run was called lost".to_owned(),
                };
                self.lose_lease(&why, reach);
            }
            Verdict::Unregistered => self.unconfirmed = UNREGISTERED.to_owned(),
            _ => self.unconfirmed = "its records are not understood".to_owned(),
        }
    }

    fn lose_lease(&mut self, why: &str, reach: &Reach) {
        if std::mem::replace(&mut self.lease_lost, true) {
            return;
        }
        if self.run.is_guarded() {
            (self.tell)(&format!("{why}: it is stopped"));
            self.stop(Cause::LeaseLost, self.run.spec.lease_loss_grace(), reach);
        } else {
            (self.tell)(&format!("{why}: it goes on"));
        }
    }

    /// That a whole lease is over, and why, where that is known.
    fn unconfirmed(&self) -> String {
        if self.unconfirmed.is_empty() {
            UNCONFIRMED.to_owned()
        } else {
            format!("{UNCONFIRMED} ({})", self.unconfirmed)
        }
    }

    /// Does what is due by the clock.
    fn look(&mut self, now: Boot, reach: &Reach) {
        if self.run.claim.is_some() && now >= *self.lease_end.borrow() {
            self.lose_lease(&self.unconfirmed(), reach);
        }
        if self.stop.is_none() && self.timeout_at().is_some_and(|at| now >= at) {
            (self.tell)("the job's `timeout` is over: it is stopped");
            self.stop(Cause::Timeout, self.run.spec.termination_grace_period, reach);
        }
        if let Some((_, kill_at)) = &self.stop
            && now >= *kill_at
            && !std::mem::replace(&mut self.killed, true)
        {
            (self.tell)("it has not ended in its `terminationGracePeriod`: it is killed");
            reach.kill();
        }
    }

    fn stop(&mut self, cause: Cause, grace: Duration, reach: &Reach) {
        if let Cause::Asked(reason, by) = &cause {
            let what = if *reason == StopReason::Replace { "has a later run" } else { "asked for its end" };
            (self.tell)(&format!("{by} {what}: it is stopped"));
        }
        reach.ask(cause.signal());
        self.stopping(cause, grace);
    }

    /// From here on it has so long. One that is stopping already may have less time left now.
    fn stopping(&mut self, cause: Cause, grace: Duration) {
        let kill_at = self.run.clock.now().boot + grace;
        match &mut self.stop {
            Some((_, earlier)) => *earlier = kill_at.min(*earlier),
            None => self.stop = Some((cause, kill_at)),
        }
    }

    fn timeout_at(&self) -> Option<Boot> {
        Some(self.started + self.run.spec.timeout?)
    }

    /// How long there is nothing to do by the clock.
    fn pause(&self, now: Boot) -> Duration {
        let kill = self.stop.as_ref().filter(|_| !self.killed).map(|(_, at)| *at);
        let lease_end = self.run.claim.as_ref().map(|_| *self.lease_end.borrow());
        let timeout = self.timeout_at().filter(|_| self.stop.is_none());
        // A renewal that is under way is past, and its answer comes by itself.
        let next = [self.renew_at, lease_end, kill, timeout].into_iter().flatten().filter(|at| *at > now).min();
        next.map_or(SLEEP_MOST, |at| at.since(now)).min(SLEEP_MOST)
    }

    /// The guardian may be faster at the end of the lease: what it stops, is stopped for that.
    fn credit_guardian(&mut self, exit: &Exit) {
        let is_past = self.run.clock.now().boot >= *self.lease_end.borrow();
        if self.stop.is_none() && self.guardian.is_some() && is_past && exit.signal.is_some() {
            let why = self.unconfirmed();
            (self.tell)(&format!("{why}: it is stopped"));
            self.stopping(Cause::LeaseLost, Duration::ZERO);
        }
    }

    /// It has ended. Where that was after its lease, the guardian has the last word about what it left behind.
    fn disarm(&self) {
        let is_in_time = self.run.clock.now().boot < *self.lease_end.borrow();
        if let Some(guardian) = self.guardian.as_ref().filter(|_| is_in_time) {
            let _ = guardian.disarm(&self.run.context.run, self.run.context.start);
        }
    }

    fn ending(&self, exit: Exit) -> Ending {
        let failed = !exit.error.is_empty() || !self.run.spec.action.is_success(exit.code, exit.http_status);
        let (outcome, why) = match self.stop.as_ref().map(|(cause, _)| cause) {
            Some(Cause::Signal(signal)) => {
                (Outcome::Interrupted, format!("stopped by {signal}, as who started it wanted"))
            }
            Some(Cause::Timeout) => (Outcome::TimedOut, "stopped at its timeout".to_owned()),
            Some(Cause::LeaseLost) => (Outcome::Interrupted, "stopped when its lease was lost".to_owned()),
            Some(Cause::Asked(StopReason::Replace, by)) => {
                (Outcome::Replaced, format!("stopped for a later run, which {by} has"))
            }
            Some(Cause::Asked(StopReason::Cancel, by)) => (Outcome::Cancelled, format!("stopped, as {by} asked")),
            None if self.not_started => (Outcome::NotStarted, String::new()),
            None if failed => (Outcome::Failed, String::new()),
            None => (Outcome::Succeeded, String::new()),
        };
        let error = [why, exit.error].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(": ");
        let took = self.run.clock.now().boot.since(self.started);
        Ending {
            outcome,
            exit_code: exit.code,
            signal: exit.signal,
            http_status: exit.http_status,
            duration_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            error,
            output_tail: exit.output_tail,
        }
    }
}

async fn answer_of(asking: &mut Option<Asking>) -> (Boot, Result<Answer, String>) {
    match asking {
        Some(asking) => asking.await,
        None => std::future::pending().await,
    }
}

fn joined<T>(result: Result<Result<T, SpawnError>, tokio::task::JoinError>) -> Result<T, String> {
    result.expect("nothing in there panics, and nobody cancels it").map_err(|error| chain(&error))
}

#[cfg(test)]
mod tests;
