//! One start of a job, here and now, for a person who waits for it: what `onecron exec` does.
//!
//! No engine decides: there are no ticks, no attempts, and nobody to wait for. What is left of a run's rules is here:
//!
//! * signals are passed on; the run has its `terminationGracePeriod` then, and KILL follows;
//! * its `timeout` holds;
//! * one that has a claim is renewed every third of its lease. Without a renewal for a whole lease it is stopped, if
//!   somebody else may start it then, or its job must not overlap; a guardian does that where this process cannot;
//! * how it ended is told to the store, again and again for a while.
//!
//! Invariant: as with a daemon, the lease counts from the first sending of what was confirmed last, and the guardian knows
//! of a guarded run before its process exists.

use super::perform::ask_limit;
use crate::admin::Begun;
use crate::causes::chain;
use crate::clock::Boot;
use crate::clock::Clock;
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
use crate::executor::http::Unsent;
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

const STOPPED_FOR_ITS_LEASE: &str =
    "the store has not confirmed for a whole lease that this process has the run: it is stopped";

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

/// What came of it.
#[derive(Default)]
struct Exit {
    code: Option<i32>,
    signal: Option<i32>,
    status: Option<u16>,
    error: String,
    /// The beginning of an answer.
    said: String,
    /// Nothing was executed, and nothing sent.
    not_started: bool,
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

type Asking = Pin<Box<dyn Future<Output = (Boot, Option<Answer>)>>>;

/// A run while it goes on.
struct Watch<'a> {
    run: &'a Foreground,
    guardian: Option<Handle>,
    started: Boot,
    /// See [`Claimed`]: until when nobody else can have been given the run.
    lease_end: watch::Sender<Boot>,
    renew_at: Boot,
    lease_lost: bool,
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
                Exit { error: self.context.redaction.text(&error).into_owned(), not_started: true, ..Exit::default() }
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
                    Verdict::Unregistered => "no replica has registered the job since the store restarted".to_owned(),
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
    async fn ask(&self, step: Step) -> Result<Answer, String> {
        let within = ask_limit(self.lease);
        match timeout(within, self.store.apply(&[step])).await {
            Ok(Ok(answers)) => answers.into_iter().next().ok_or_else(|| "no answer to a step".to_owned()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!("{} has not answered within {within:?}", self.store.url())),
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
            renew_at: sent + lease / 3,
            lease_lost: false,
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
                let told = |exit: executor::Exit| {
                    let is_known = exit.code.is_some() || exit.signal.is_some();
                    let error = if is_known { "" } else { "how its process ended is not known" };
                    Exit { code: exit.code, signal: exit.signal, error: error.to_owned(), ..Exit::default() }
                };
                told(self.until_over(running.wait(), &reach, signals).await)
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
                self.answered(performed, is_sent)
            }
        }
    }

    fn answered(&self, performed: Result<Reply, Unsent>, is_sent: bool) -> Exit {
        let not_started = performed.is_err() && !is_sent;
        let reply = performed.unwrap_or_else(|unsent| Reply::failed(&unsent));
        let error = self.run.context.redaction.text(&reply.error).into_owned();
        Exit { status: reply.status, error, said: reply.body_head, not_started, ..Exit::default() }
    }

    /// Waits for the end, and does meanwhile what is due.
    async fn until_over<T>(&mut self, ended: impl Future<Output = T>, reach: &Reach, signals: &mut Signals) -> T {
        let mut ended = pin!(ended);
        let mut asking: Option<Asking> = None;
        loop {
            let now = self.run.clock.now().boot;
            self.look(now, reach);
            if asking.is_none() && self.renews(now) {
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

    fn renews(&self, now: Boot) -> bool {
        self.run.claim.is_some() && !self.lease_lost && now >= self.renew_at
    }

    fn renewal(&self, sent: Boot) -> Option<Asking> {
        let claim = self.run.claim.as_ref()?;
        let begun = &claim.begun;
        let step = Step::Renew { run: begun.run.clone(), owner: claim.owner.clone(), start: begun.start };
        let (store, within) = (Arc::clone(&claim.store), ask_limit(claim.lease));
        Some(Box::pin(async move {
            let answered = timeout(within, store.apply(&[step])).await;
            let answer = answered.ok().and_then(Result::ok).and_then(|answers| answers.into_iter().next());
            (sent, answer)
        }))
    }

    fn renewed(&mut self, sent: Boot, answer: Option<Answer>, reach: &Reach) {
        let Some(claim) = &self.run.claim else { return };
        let Some(answer) = answer else {
            self.renew_at = self.run.clock.now().boot + RENEW_AGAIN;
            return;
        };
        match answer.verdict {
            Verdict::Renewed => {
                let lease_end = sent + claim.lease;
                self.renew_at = sent + claim.lease / 3;
                self.lease_end.send_replace(lease_end);
                if let Some(guardian) = &self.guardian {
                    // Where it cannot be told, it stops the run: that is what it is for.
                    let _ = guardian.extend(&claim.begun.run, claim.begun.start, lease_end);
                }
                let asked = answer.run.and_then(|run| Some((run.stop_asked?, run.stop_asked_by)));
                if let Some((reason, by)) = asked.filter(|_| self.stop.is_none()) {
                    self.stop(Cause::Asked(reason, by), self.run.spec.termination_grace_period, reach);
                }
            }
            // A replica registers the job again.
            Verdict::Unregistered => self.renew_at = self.run.clock.now().boot + RENEW_AGAIN,
            _ => self.lose_lease(reach),
        }
    }

    fn lose_lease(&mut self, reach: &Reach) {
        if std::mem::replace(&mut self.lease_lost, true) {
            return;
        }
        if self.run.is_guarded() {
            (self.tell)(STOPPED_FOR_ITS_LEASE);
            self.stop(Cause::LeaseLost, self.run.spec.lease_loss_grace(), reach);
        } else {
            (self.tell)("the store has not confirmed for a whole lease that this process has the run: it goes on");
        }
    }

    /// Does what is due by the clock.
    fn look(&mut self, now: Boot, reach: &Reach) {
        if self.run.claim.is_some() && now >= *self.lease_end.borrow() {
            self.lose_lease(reach);
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
        let renewal = self.run.claim.as_ref().filter(|_| !self.lease_lost).map(|_| self.renew_at);
        let kill = self.stop.as_ref().filter(|_| !self.killed).map(|(_, at)| *at);
        let lease_end = renewal.map(|_| *self.lease_end.borrow());
        let timeout = self.timeout_at().filter(|_| self.stop.is_none());
        // A renewal that is under way is past, and its answer comes by itself.
        let next = [renewal, lease_end, kill, timeout].into_iter().flatten().filter(|at| *at > now).min();
        next.map_or(SLEEP_MOST, |at| at.since(now)).min(SLEEP_MOST)
    }

    /// The guardian may be faster at the end of the lease: what it stops, is stopped for that.
    fn credit_guardian(&mut self, exit: &Exit) {
        let is_past = self.run.clock.now().boot >= *self.lease_end.borrow();
        if self.stop.is_none() && self.guardian.is_some() && is_past && exit.signal.is_some() {
            (self.tell)(STOPPED_FOR_ITS_LEASE);
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
        let failed = !exit.error.is_empty() || !self.run.spec.action.is_success(exit.code, exit.status);
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
            None if exit.not_started => (Outcome::NotStarted, String::new()),
            None if failed => (Outcome::Failed, String::new()),
            None => (Outcome::Succeeded, String::new()),
        };
        let error = [why, exit.error].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(": ");
        let took = self.run.clock.now().boot.since(self.started);
        Ending {
            outcome,
            exit_code: exit.code,
            signal: exit.signal,
            http_status: exit.status,
            duration_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            error,
            output_tail: exit.said,
        }
    }
}

async fn answer_of(asking: &mut Option<Asking>) -> (Boot, Option<Answer>) {
    match asking {
        Some(asking) => asking.await,
        None => std::future::pending().await,
    }
}

fn joined<T>(result: Result<Result<T, SpawnError>, tokio::task::JoinError>) -> Result<T, String> {
    result.expect("nothing in there panics, and nobody cancels it").map_err(|error| chain(&error))
}
