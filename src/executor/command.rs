//! Starts a run's process.

use super::children;
use super::group::Group;
use super::output::Output;
use super::output::OutputLine;
use super::running::Running;
use super::spawn_error::SpawnError;
use super::variables;
use super::variables::Wanted;
use crate::clock::Boot;
use crate::clock::Clock;
use crate::job::BASIC_ENV;
use crate::job::CommandSpec;
use crate::job::OutputLimits;
use crate::job::ReplicaId;
use crate::job::RunKey;
use crate::job::Tick;
use crate::job::TraceContext;
use crate::secret::Redaction;
use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::process::Stdio;
use tokio::sync::mpsc;

/// What a start is made with: what the job is told about its run, and what is hidden of what it says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunContext {
    /// The run.
    pub run: RunKey,
    /// The instant that it runs for.
    pub scheduled_for: Tick,
    /// Its start, from 1.
    pub start: u32,
    /// Its fencing token.
    pub token: u64,
    /// Why it was started.
    pub trigger: String,
    /// The replica that owns it.
    pub holder: ReplicaId,
    /// The latest tick of the job that succeeded.
    pub last_success: Option<Tick>,
    /// What must not be seen of the output: hidden in lines and in the tail.
    pub redaction: Redaction,
    /// The span that what the job does is a part of, where the run is traced.
    pub trace: Option<TraceContext>,
}

/// Until when a process may be started.
#[derive(Clone, Copy)]
pub struct Deadline<'a> {
    /// Not later than this, where there is a limit: after it, somebody else may have the run.
    pub not_after: Option<Boot>,
    /// What tells the time.
    pub clock: &'a dyn Clock,
}

/// Starts a process for a run, without a limit of time. See [`Deadline::start`].
///
/// # Errors
/// The process could not be started; nothing was executed.
pub fn start(
    command: &CommandSpec,
    limits: OutputLimits,
    context: &RunContext,
    lines: mpsc::Sender<OutputLine>,
) -> Result<Running, SpawnError> {
    Deadline { not_after: None, clock: &crate::clock::SystemClock }.start(command, limits, context, lines)
}

impl Deadline<'_> {
    /// Starts a process for a run: in a process group of its own, with nothing to read on its standard input, and with
    /// its output read line by line. To be called inside a tokio runtime. It blocks until the program is executing:
    /// well below a millisecond, unless its file is on a file system that does not answer.
    ///
    /// The deadline is looked at last thing before the start, and once more right after it: the process may have stood
    /// still for longer than a lease between the two.
    ///
    /// # Errors
    /// [`SpawnError::TooLate`] when the deadline has passed, everything else when the process could not be started.
    pub fn start(
        self,
        command: &CommandSpec,
        limits: OutputLimits,
        context: &RunContext,
        lines: mpsc::Sender<OutputLine>,
    ) -> Result<Running, SpawnError> {
        let mut process = prepare(command, context)?;
        self.check()?;
        let mut child = children::spawn(&mut process).map_err(|error| SpawnError::diagnose(command, error))?;
        let output = Output::of(&mut child, limits, context, lines);
        let group = Group::led_by(child);
        let checked = self.check().and_then(|()| output.map_err(|error| SpawnError::diagnose(command, error)));
        match checked {
            Ok(output) => Ok(Running { group, output }),
            Err(error) => {
                group.discard();
                Err(error)
            }
        }
    }

    fn check(self) -> Result<(), SpawnError> {
        let is_late = self.not_after.is_some_and(|not_after| self.clock.now().boot > not_after);
        if is_late { Err(SpawnError::TooLate) } else { Ok(()) }
    }
}

/// The system call's input. Invariant: no `pre_exec` and no `env_clear`: with either, std gives up `posix_spawn` for
/// `fork`, which copies the daemon's page tables for every job.
fn prepare(command: &CommandSpec, context: &RunContext) -> Result<Command, SpawnError> {
    let argv = command.program.argv();
    let (program, arguments) = argv.split_first().map_or(("", [].as_slice()), |(first, rest)| (*first, rest));
    let mut process = Command::new(program);
    process.args(arguments).process_group(0);
    process.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    if let Some(folder) = &command.working_dir {
        process.current_dir(folder);
    }
    for (name, _) in std::env::vars_os().filter(|(name, _)| !is_inherited(command, name)) {
        process.env_remove(name);
    }
    // The daemon's own span is not the job's parent; what the table says wins, as ever.
    if let Some(trace) = &context.trace {
        process.env("TRACEPARENT", trace.traceparent());
        if trace.state.is_empty() {
            process.env_remove("TRACESTATE")
        } else {
            process.env("TRACESTATE", &trace.state)
        };
    }
    for (name, value) in &command.env {
        let subject = format!("variable `{name}`");
        let wanted = Wanted { subject: &subject, most: variables::BYTES_MOST };
        process.env(name, variables::value_of(wanted, value)?);
    }
    process.envs(told(context));
    Ok(process)
}

/// The daemon's own settings never are: they hold the store's password, among others.
fn is_inherited(command: &CommandSpec, name: &OsStr) -> bool {
    let is_basic = || BASIC_ENV.iter().any(|basic| name == *basic);
    !name.as_encoded_bytes().starts_with(b"ONECRON_") && (command.inherit_env || is_basic())
}

/// The variables that tell a job about its run. The guardian finds a run's processes by two of them.
fn told(context: &RunContext) -> [(&'static str, String); 8] {
    [
        ("ONECRON_JOB", context.run.job.to_string()),
        (super::guardian::RUN_ID, context.run.to_string()),
        ("ONECRON_SCHEDULED_FOR", context.scheduled_for.to_string()),
        ("ONECRON_ATTEMPT", context.start.to_string()),
        ("ONECRON_TRIGGER", context.trigger.clone()),
        ("ONECRON_FENCING_TOKEN", context.token.to_string()),
        (super::guardian::REPLICA, context.holder.to_string()),
        ("ONECRON_LAST_SUCCESS", context.last_success.map_or_else(String::new, |tick| tick.to_string())),
    ]
}
