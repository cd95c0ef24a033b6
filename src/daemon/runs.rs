//! One start of a run, from the order to its end: a task among the jobs, never on the scheduler's thread.

use super::driver::Message;
use super::guard::Guard;
use super::report;
use crate::causes::chain;
use crate::clock::Boot;
use crate::clock::Clock;
use crate::engine::Event;
use crate::engine::Exit;
use crate::engine::StartOrder;
use crate::executor;
use crate::executor::Deadline;
use crate::executor::OutputLine;
use crate::executor::RunContext;
use crate::executor::Running;
use crate::executor::SpawnError;
use crate::executor::guardian::Until;
use crate::job::Action;
use crate::job::CommandSpec;
use crate::job::OutputMode;
use crate::job::ReplicaId;
use crate::job::RunKey;
use crate::job::TraceContext;
use crate::secret::Redaction;
use crate::telemetry::events;
use crate::telemetry::events::RunFields;
use crate::telemetry::events::RunOutput;
use crate::telemetry::logging;
use crate::telemetry::metrics::Metrics;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::sync::oneshot;
use tokio::sync::watch;

/// Lines of one run that wait for the log.
const LINES_WAITING: usize = 256;
/// How long a run that something is missing for is held before it is given back: another try comes at once otherwise.
pub(super) const SHORT_WAIT: Duration = Duration::from_secs(1);
/// How long the guardian may take to act.
const ENOUGH_TO_ACT: Duration = Duration::from_secs(1);

/// How a run is to be stopped. Only grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stop {
    No,
    Terminate,
    Kill,
}

/// What the scheduler may still want of a start.
#[derive(Debug)]
pub struct Control {
    start: u32,
    guarded: bool,
    stop: watch::Sender<Stop>,
    lease_end: watch::Sender<Boot>,
}

/// The task's side of it.
#[derive(Debug)]
pub struct Orders {
    pub(super) stop: watch::Receiver<Stop>,
    pub(super) lease_end: watch::Receiver<Boot>,
}

impl Orders {
    /// Nothing is started that is to stop.
    ///
    /// # Errors
    /// A stop was asked for.
    pub(super) fn check(&self) -> Result<(), Refusal> {
        let is_stopped = *self.stop.borrow() != Stop::No;
        let error = || Refusal { too_late: true, error: "asked to stop before it was started".to_owned() };
        if is_stopped { Err(error()) } else { Ok(()) }
    }
}

impl Control {
    /// For an order. What is asked before the process is there is kept until it is.
    pub fn new(order: &StartOrder) -> (Self, Orders) {
        let (stop, stopping) = watch::channel(Stop::No);
        let (lease_end, extended) = watch::channel(order.lease_end);
        let control = Self { start: order.start, guarded: order.guarded, stop, lease_end };
        (control, Orders { stop: stopping, lease_end: extended })
    }

    /// Asks to stop.
    pub fn stop(&self, how: Stop) {
        self.stop.send_modify(|stop| *stop = (*stop).max(how));
    }

    /// The lease lasts until then.
    pub fn extend(&self, run: &RunKey, lease_end: Boot, guard: &Guard) {
        self.lease_end.send_replace(lease_end);
        if self.guarded {
            guard.extend((run.clone(), self.start), lease_end);
        }
    }
}

/// What every start needs.
#[derive(Clone)]
pub struct Launcher {
    pub me: ReplicaId,
    pub clock: Arc<dyn Clock>,
    pub guard: Guard,
    pub inbox: mpsc::Sender<Message>,
    /// What must not be seen of what jobs say, for the runs that start from now on.
    pub redaction: Redaction,
    pub metrics: Arc<Metrics>,
    /// The run's place in its trace, where it is traced: for its lines, and for its job.
    pub trace: Option<TraceContext>,
    /// Whether the job is told.
    pub is_trace_handed_on: bool,
}

/// Why there is no process, and no request.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) too_late: bool,
    pub(super) error: String,
}

impl Launcher {
    /// Carries out an order: reports either `NotStarted`, or `Started` and then, once, `Ended`.
    pub async fn carry_out(self, order: Box<StartOrder>, orders: Orders) {
        match &order.spec.action {
            Action::Command(command) => self.execute(&order, command, orders).await,
            Action::Http(http) => self.request(&order, http, orders).await,
        }
    }

    async fn execute(&self, order: &StartOrder, command: &CommandSpec, orders: Orders) {
        let run = order.run.clone();
        match self.start(order, command, &orders).await {
            Ok((running, lines)) => self.see_through(order, orders, (running, lines)).await,
            Err(refusal) => {
                self.disarm(order).await;
                let Refusal { too_late, error } = refusal;
                let error = self.redaction.text(&error).into_owned();
                self.report(Event::NotStarted { run, too_late, error }).await;
            }
        }
    }

    /// Invariant: the guardian knows of a guarded run before its process exists. The other way round, a daemon that is
    /// killed in between leaves a process that nobody ends.
    async fn start(
        &self,
        order: &StartOrder,
        command: &CommandSpec,
        orders: &Orders,
    ) -> Result<(Running, mpsc::Receiver<OutputLine>), Refusal> {
        if order.guarded {
            // It may have been renewed since the order.
            let term_at = *orders.lease_end.borrow();
            let until = Until { term_at, kill_after: order.spec.lease_loss_grace() };
            if let Err(error) = self.guard.arm((order.run.clone(), order.start), until).await {
                tokio::time::sleep(SHORT_WAIT).await;
                // Nothing is wrong with the job: it is given back, and another replica may be better off.
                return Err(Refusal { too_late: true, error: format!("guard the run: {error}") });
            }
        }
        orders.check()?;
        let (sender, lines) = mpsc::channel(LINES_WAITING);
        let (context, command, limits) = (self.context(order), command.clone(), order.spec.output);
        let (clock, not_after) = (Arc::clone(&self.clock), Some(order.lease_end));
        // It blocks, for as long as the file system of the program likes.
        let spawned = tokio::task::spawn_blocking(move || {
            let deadline = Deadline { not_after, clock: &*clock };
            deadline.start(&command, limits, &context, sender)
        });
        match spawned.await.expect("nothing in a spawn panics, and nobody cancels it") {
            Ok(running) => Ok((running, lines)),
            Err(error) => {
                let shortage = error.is_shortage();
                if shortage {
                    events::run_deferred(&self.fields(order), &self.redaction.text(&chain(&error)));
                    tokio::time::sleep(SHORT_WAIT).await;
                }
                Err(Refusal { too_late: shortage || matches!(error, SpawnError::TooLate), error: chain(&error) })
            }
        }
    }

    /// What lines about a start say.
    pub(super) fn fields(&self, order: &StartOrder) -> RunFields {
        RunFields { trace: self.trace.clone(), ..report::fields_of(order) }
    }

    pub(super) fn context(&self, order: &StartOrder) -> RunContext {
        RunContext {
            run: order.run.clone(),
            scheduled_for: order.scheduled_for,
            start: order.start,
            token: order.token,
            trigger: order.trigger.as_str().to_owned(),
            holder: self.me.clone(),
            last_success: order.last_success,
            redaction: self.redaction.clone(),
            trace: self.trace.clone().filter(|_| self.is_trace_handed_on),
        }
    }

    async fn see_through(
        &self,
        order: &StartOrder,
        orders: Orders,
        (running, lines): (Running, mpsc::Receiver<OutputLine>),
    ) {
        let run = order.run.clone();
        let pid = running.pid();
        if order.guarded {
            self.guard.adopt((run.clone(), order.start), pid).await;
        }
        let (said, is_said) = oneshot::channel();
        let started =
            Message::Happened { event: Event::Started { run: run.clone(), pid: Some(pid) }, said: Some(said) };
        // Fails only when the scheduler is gone; so also below.
        let _ = self.inbox.send(started).await;
        let Orders { stop, lease_end } = orders;
        let fields = self.fields(order);
        let taken = self.forward((lines, order.spec.output.mode), is_said, &fields);
        let (exit, ()) = tokio::join!(until_it_ends(running, stop), taken);
        if exit.dropped_lines > 0 {
            self.metrics.output_truncated(&fields.run.job, exit.dropped_lines);
            events::run_output_dropped(&fields, exit.dropped_lines);
        }
        let lease_end = *lease_end.borrow();
        let is_in_time = self.clock.now().boot < lease_end;
        if is_in_time {
            self.disarm(order).await;
        }
        self.report(Event::Ended { run, exit: told(exit) }).await;
        if !is_in_time && order.guarded {
            // What such a run has left outside its group is the guardian's until it has struck a last time.
            let struck = lease_end + order.spec.lease_loss_grace() + ENOUGH_TO_ACT;
            tokio::time::sleep(struck.since(self.clock.now().boot)).await;
            self.disarm(order).await;
        }
    }

    async fn disarm(&self, order: &StartOrder) {
        if order.guarded {
            self.guard.disarm((order.run.clone(), order.start)).await;
        }
    }

    /// Takes lines as they come, but none before the line that says that the run was started.
    async fn forward(
        &self,
        (mut lines, mode): (mpsc::Receiver<OutputLine>, OutputMode),
        is_said: oneshot::Receiver<()>,
        fields: &RunFields,
    ) {
        let _ = is_said.await;
        while let Some(line) = lines.recv().await {
            let OutputLine { stream, line, truncated, .. } = line;
            if truncated {
                self.metrics.output_truncated(&fields.run.job, 1);
            }
            match mode {
                OutputMode::Log => {
                    events::run_output(fields, RunOutput { stream: stream.as_str(), line: &line, truncated });
                }
                OutputMode::Passthrough => logging::passthrough(&line),
                OutputMode::Discard => {}
            }
        }
    }

    pub(super) async fn report(&self, event: Event) {
        let _ = self.inbox.send(Message::Happened { event, said: None }).await;
    }
}

/// Waits for the end of a process, and stops it when asked to.
async fn until_it_ends(running: Running, mut stop: watch::Receiver<Stop>) -> executor::Exit {
    let stopper = running.stopper();
    let mut ended = pin!(running.wait());
    let mut may_be_asked = true;
    loop {
        let asked = *stop.borrow_and_update();
        match asked {
            Stop::No => {}
            Stop::Terminate => stopper.terminate(),
            Stop::Kill => stopper.kill(),
        }
        tokio::select! {
            exit = &mut ended => return exit,
            changed = stop.changed(), if may_be_asked => may_be_asked = changed.is_ok(),
        }
    }
}

/// How a process ended, as the engine has it.
pub(super) fn told(exit: executor::Exit) -> Exit {
    let executor::Exit { code, signal, output_tail, output_bytes, .. } = exit;
    let is_known = code.is_some() || signal.is_some();
    let error = if is_known { "" } else { "how its process ended is not known: something else took its exit status" };
    Exit { code, signal, output_tail, output_bytes, error: error.to_owned(), ..Exit::default() }
}
