//! The fields that a job and `defaults` have in common. Read once for `defaults`, where mistakes in them are
//! reported once, and once for each job; then laid over one another.

use super::host::Need;
use super::notify;
use super::reader::Field;
use super::reader::Fields;
use super::reader::Item;
use super::reader::Reader;
use super::text::quoted;
use super::units;
use super::variables;
use super::words::Level;
use super::yaml::Value;
use crate::job::CatchUp;
use crate::job::ConcurrencyPolicy;
use crate::job::EnvValue;
use crate::job::HistoryLimits;
use crate::job::LostRunPolicy;
use crate::job::Notify;
use crate::job::Occasion;
use crate::job::OutputLimits;
use crate::job::OutputMode;
use crate::job::RetryPolicy;
use crate::schedule::DstRule;
use crate::schedule::Fold;
use crate::schedule::Gap;
use crate::schedule::Zone;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// One layer of fields.
#[derive(Debug, Clone)]
pub(super) struct Shared {
    pub time_zone: Field<Zone>,
    pub shell: Field<Vec<String>>,
    pub working_dir: Field<PathBuf>,
    pub env: Field<BTreeMap<String, EnvValue>>,
    pub inherit_env: Field<bool>,
    pub success_exit_codes: Field<BTreeSet<u8>>,
    /// `Written(None)`: `none`.
    pub timeout: Field<Option<Duration>>,
    pub termination_grace_period: Field<Duration>,
    pub concurrency_policy: Field<ConcurrencyPolicy>,
    pub catch_up: Field<CatchUp>,
    pub suspend: Field<bool>,
    pub dst_gap: Field<Gap>,
    pub dst_fold: Field<Fold>,
    pub jitter: Field<Duration>,
    pub starting_deadline: Field<Duration>,
    pub stale_after: Field<Duration>,
    pub lost_run_policy: Field<LostRunPolicy>,
    pub retry_limit: Field<u32>,
    pub retry_backoff: Field<Duration>,
    pub retry_max_backoff: Field<Duration>,
    pub output_mode: Field<OutputMode>,
    pub output_max_line_bytes: Field<usize>,
    pub output_keep_tail: Field<usize>,
    pub history_ticks: Field<u32>,
    pub history_successful: Field<u32>,
    pub history_failed: Field<u32>,
    pub labels: Field<BTreeMap<String, String>>,
    /// In the order of [`Occasion::ALL`].
    pub notify: [Field<Vec<String>>; OCCASIONS],
}

/// How many keys `notify` has.
pub(super) const OCCASIONS: usize = Occasion::ALL.len();

impl Shared {
    /// A layer that says nothing.
    pub fn silent() -> Self {
        Self {
            time_zone: Field::Absent,
            shell: Field::Absent,
            working_dir: Field::Absent,
            env: Field::Absent,
            inherit_env: Field::Absent,
            success_exit_codes: Field::Absent,
            timeout: Field::Absent,
            termination_grace_period: Field::Absent,
            concurrency_policy: Field::Absent,
            catch_up: Field::Absent,
            suspend: Field::Absent,
            dst_gap: Field::Absent,
            dst_fold: Field::Absent,
            jitter: Field::Absent,
            starting_deadline: Field::Absent,
            stale_after: Field::Absent,
            lost_run_policy: Field::Absent,
            retry_limit: Field::Absent,
            retry_backoff: Field::Absent,
            retry_max_backoff: Field::Absent,
            output_mode: Field::Absent,
            output_max_line_bytes: Field::Absent,
            output_keep_tail: Field::Absent,
            history_ticks: Field::Absent,
            history_successful: Field::Absent,
            history_failed: Field::Absent,
            labels: Field::Absent,
            notify: [const { Field::Absent }; OCCASIONS],
        }
    }

    /// Reads a layer that lies over `below`.
    pub fn read(reader: &mut Reader<'_>, fields: &Fields<'_>, below: &Self) -> Self {
        let found = reader.findings.count();
        let mut layer = Self {
            time_zone: reader.field(fields, "timeZone", zone),
            shell: reader.field(fields, "shell", Reader::texts),
            working_dir: reader.field(fields, "workingDir", working_dir),
            env: reader.field(fields, "env", variables::env),
            inherit_env: reader.field(fields, "inheritEnv", Reader::boolean),
            success_exit_codes: reader.field(fields, "successExitCodes", exit_codes),
            timeout: reader.field(fields, "timeout", timeout),
            termination_grace_period: reader.field(fields, "terminationGracePeriod", |reader, item| {
                reader.duration(item, Duration::ZERO..=Duration::from_secs(HOUR))
            }),
            concurrency_policy: reader.field(fields, "concurrencyPolicy", |reader, item| {
                reader.choice(item, &by_word(ConcurrencyPolicy::ALL, ConcurrencyPolicy::as_str))
            }),
            catch_up: reader
                .field(fields, "catchUp", |reader, item| reader.choice(item, &by_word(CatchUp::ALL, CatchUp::as_str))),
            suspend: reader.field(fields, "suspend", Reader::boolean),
            jitter: reader.field(fields, "jitter", |reader, item| {
                reader.duration(item, Duration::ZERO..=Duration::from_secs(30 * DAY))
            }),
            starting_deadline: reader.field(fields, "startingDeadline", |reader, item| {
                reader.duration(item, Duration::from_secs(1)..=Duration::from_secs(30 * DAY))
            }),
            stale_after: reader.field(fields, "staleAfter", |reader, item| {
                reader.duration(item, Duration::from_secs(1)..=Duration::from_secs(3660 * DAY))
            }),
            lost_run_policy: reader.field(fields, "lostRunPolicy", |reader, item| {
                reader.choice(item, &by_word(LostRunPolicy::ALL, LostRunPolicy::as_str))
            }),
            labels: reader.field(fields, "labels", notify::labels),
            notify: notify::read(reader, fields),
            ..Self::silent()
        };
        layer.read_dst(reader, fields);
        layer.read_retry(reader, fields);
        layer.read_output(reader, fields);
        layer.read_history(reader, fields);
        // What was not understood would be compared as if it was absent.
        if reader.findings.count() == found {
            layer.check(below, reader);
        }
        layer
    }

    fn read_dst(&mut self, reader: &mut Reader<'_>, fields: &Fields<'_>) {
        match reader.field(fields, "dst", |reader, item| reader.fields(item, Level::Dst)) {
            Field::Absent => {}
            Field::Reset => {
                self.dst_gap = Field::Reset;
                self.dst_fold = Field::Reset;
            }
            Field::Written(dst, _) => {
                let word = |gap: Gap| (gap.as_str(), gap);
                let gaps = [Gap::RunAfter, Gap::Skip].map(word);
                self.dst_gap = reader.field(&dst, "gap", |reader, item| reader.choice(item, &gaps));
                let word = |fold: Fold| (fold.as_str(), fold);
                let folds = [Fold::First, Fold::Both].map(word);
                self.dst_fold = reader.field(&dst, "fold", |reader, item| reader.choice(item, &folds));
            }
        }
    }

    fn read_retry(&mut self, reader: &mut Reader<'_>, fields: &Fields<'_>) {
        let wait = Duration::from_millis(100)..=Duration::from_secs(DAY);
        match reader.field(fields, "retry", |reader, item| reader.fields(item, Level::Retry)) {
            Field::Absent => {}
            Field::Reset => {
                self.retry_limit = Field::Reset;
                self.retry_backoff = Field::Reset;
                self.retry_max_backoff = Field::Reset;
            }
            Field::Written(retry, _) => {
                self.retry_limit = reader.field(&retry, "limit", |reader, item| reader.number(item, 0..=100));
                self.retry_backoff =
                    reader.field(&retry, "backoff", |reader, item| reader.duration(item, wait.clone()));
                self.retry_max_backoff = reader.field(&retry, "maxBackoff", |reader, item| reader.duration(item, wait));
            }
        }
    }

    fn read_output(&mut self, reader: &mut Reader<'_>, fields: &Fields<'_>) {
        match reader.field(fields, "output", |reader, item| reader.fields(item, Level::Output)) {
            Field::Absent => {}
            Field::Reset => {
                self.output_mode = Field::Reset;
                self.output_max_line_bytes = Field::Reset;
                self.output_keep_tail = Field::Reset;
            }
            Field::Written(output, _) => {
                let modes = [
                    ("Log", OutputMode::Log),
                    ("Passthrough", OutputMode::Passthrough),
                    ("Discard", OutputMode::Discard),
                ];
                self.output_mode = reader.field(&output, "mode", |reader, item| reader.choice(item, &modes));
                self.output_max_line_bytes =
                    reader.field(&output, "maxLineBytes", |reader, item| reader.size(item, 64..=1 << 20));
                self.output_keep_tail =
                    reader.field(&output, "keepTail", |reader, item| reader.size(item, 0..=1 << 20));
            }
        }
    }

    fn read_history(&mut self, reader: &mut Reader<'_>, fields: &Fields<'_>) {
        match reader.field(fields, "history", |reader, item| reader.fields(item, Level::History)) {
            Field::Absent => {}
            Field::Reset => {
                self.history_ticks = Field::Reset;
                self.history_successful = Field::Reset;
                self.history_failed = Field::Reset;
            }
            Field::Written(history, _) => {
                self.history_ticks = reader.field(&history, "ticks", |reader, item| reader.number(item, 1..=10_000));
                self.history_successful =
                    reader.field(&history, "successful", |reader, item| reader.number(item, 0..=1000));
                self.history_failed = reader.field(&history, "failed", |reader, item| reader.number(item, 0..=1000));
            }
        }
    }

    /// This layer over another: what it does not say, the other says. Maps are laid over key by key.
    pub fn over(&self, below: &Self) -> Self {
        Self {
            time_zone: self.time_zone.or(&below.time_zone),
            shell: self.shell.or(&below.shell),
            working_dir: self.working_dir.or(&below.working_dir),
            env: variables::merged(&self.env, &below.env),
            inherit_env: self.inherit_env.or(&below.inherit_env),
            success_exit_codes: self.success_exit_codes.or(&below.success_exit_codes),
            timeout: self.timeout.or(&below.timeout),
            termination_grace_period: self.termination_grace_period.or(&below.termination_grace_period),
            concurrency_policy: self.concurrency_policy.or(&below.concurrency_policy),
            catch_up: self.catch_up.or(&below.catch_up),
            suspend: self.suspend.or(&below.suspend),
            dst_gap: self.dst_gap.or(&below.dst_gap),
            dst_fold: self.dst_fold.or(&below.dst_fold),
            jitter: self.jitter.or(&below.jitter),
            starting_deadline: self.starting_deadline.or(&below.starting_deadline),
            stale_after: self.stale_after.or(&below.stale_after),
            lost_run_policy: self.lost_run_policy.or(&below.lost_run_policy),
            retry_limit: self.retry_limit.or(&below.retry_limit),
            retry_backoff: self.retry_backoff.or(&below.retry_backoff),
            retry_max_backoff: self.retry_max_backoff.or(&below.retry_max_backoff),
            output_mode: self.output_mode.or(&below.output_mode),
            output_max_line_bytes: self.output_max_line_bytes.or(&below.output_max_line_bytes),
            output_keep_tail: self.output_keep_tail.or(&below.output_keep_tail),
            history_ticks: self.history_ticks.or(&below.history_ticks),
            history_successful: self.history_successful.or(&below.history_successful),
            history_failed: self.history_failed.or(&below.history_failed),
            labels: variables::merged(&self.labels, &below.labels),
            notify: std::array::from_fn(|at| self.notify[at].or(&below.notify[at])),
        }
    }

    /// Who is told what.
    pub fn told(&self) -> Notify {
        let lists = Occasion::ALL.iter().zip(&self.notify);
        lists.fold(Notify::default(), |all, (occasion, names)| all.with(*occasion, names.value_or(Vec::new())))
    }

    /// What the job does where clocks are set.
    pub fn dst(&self) -> DstRule {
        let built_in = DstRule::default();
        DstRule { gap: self.dst_gap.value_or(built_in.gap), fold: self.dst_fold.value_or(built_in.fold) }
    }

    /// Attempts after the first, and the waits before them.
    pub fn retry(&self) -> RetryPolicy {
        let built_in = RetryPolicy::default();
        RetryPolicy {
            limit: self.retry_limit.value_or(built_in.limit),
            backoff: self.retry_backoff.value_or(built_in.backoff),
            max_backoff: self.retry_max_backoff.value_or(built_in.max_backoff),
        }
    }

    /// How much of the output is kept.
    pub fn output(&self) -> OutputLimits {
        let built_in = OutputLimits::default();
        OutputLimits {
            mode: self.output_mode.value_or(built_in.mode),
            max_line_bytes: self.output_max_line_bytes.value_or(built_in.max_line_bytes),
            keep_tail: self.output_keep_tail.value_or(built_in.keep_tail),
        }
    }

    /// How much of the past is kept.
    pub fn history(&self) -> HistoryLimits {
        let built_in = HistoryLimits::default();
        HistoryLimits {
            ticks: self.history_ticks.value_or(built_in.ticks),
            successful: self.history_successful.value_or(built_in.successful),
            failed: self.history_failed.value_or(built_in.failed),
        }
    }

    /// What this layer over `below` contradicts itself in, reported where this layer says it.
    fn check(&self, below: &Self, reader: &mut Reader<'_>) {
        let said = self.retry_backoff.span().or(self.retry_max_backoff.span());
        if let Some(span) = said {
            let retry = self.over(below).retry();
            if retry.backoff > retry.max_backoff {
                let (first, most) = (units::duration_text(retry.backoff), units::duration_text(retry.max_backoff));
                let message =
                    format!("`retry.backoff` is {first}, and the longest wait, `retry.maxBackoff`, is {most}");
                reader.find("E305", span, message, &format!("raise `maxBackoff` to {first} or more"));
            }
        }
        let policy = || self.concurrency_policy.or(&below.concurrency_policy).value_or(ConcurrencyPolicy::Forbid);
        if let Field::Written(None, span) = self.timeout
            && policy().waits_for_ends()
        {
            let message = "without a timeout a run that hangs blocks all later ones".to_owned();
            reader.find(
                "W504",
                span,
                message,
                "write a generous one, `timeout: 12h`, or allow overlap: `concurrencyPolicy: Allow`",
            );
        }
    }
}

/// An IANA time zone.
pub(super) fn zone(reader: &mut Reader<'_>, item: &Item<'_>) -> Option<Zone> {
    let scalar = reader.scalar(item, "a time zone", "write its IANA name: Europe/Madrid, America/New_York, UTC")?;
    match Zone::find(&scalar.text) {
        Ok(zone) => Some(zone),
        Err(error) => {
            reader.find("E304", item.node.span, format!("`{}`: {error}", item.name), &error.hint());
            None
        }
    }
}

/// Each of a closed set, by its word.
fn by_word<T: Copy>(all: &[T], word: fn(T) -> &'static str) -> Vec<(&'static str, T)> {
    all.iter().map(|one| (word(*one), *one)).collect()
}

fn working_dir(reader: &mut Reader<'_>, item: &Item<'_>) -> Option<PathBuf> {
    let path = reader.absolute_path(item)?;
    reader.need(item.node.span, Need::Folder(path.clone()));
    Some(path)
}

fn timeout(reader: &mut Reader<'_>, item: &Item<'_>) -> Option<Option<Duration>> {
    if matches!(&item.node.value, Value::Scalar(scalar) if scalar.text.eq_ignore_ascii_case("none")) {
        return Some(None);
    }
    let (least, most) = (Duration::from_millis(100), Duration::from_secs(366 * DAY));
    // What others write for none.
    let words = ["0", "-1", "off", "never", "false", "infinite", "infinity", "unlimited"];
    if let Value::Scalar(scalar) = &item.node.value
        && (words.contains(&scalar.text.to_lowercase().as_str()) || units::duration(&scalar.text) == Ok(Duration::ZERO))
    {
        let message = format!("`{}` is {}, and the range is 100ms to 366d", item.name, quoted(&scalar.text));
        reader.find("E305", item.node.span, message, "a run without limit has `timeout: none`");
        return None;
    }
    reader.duration(item, least..=most).map(Some)
}

/// A list of exit codes.
fn exit_codes(reader: &mut Reader<'_>, item: &Item<'_>) -> Option<BTreeSet<u8>> {
    const HINT: &str = "write a list: `successExitCodes: [0, 3]`";
    let Value::List(nodes) = &item.node.value else {
        let message = format!("`{}` is not a list of exit codes", item.name);
        reader.find("E203", item.node.span, message, HINT);
        return None;
    };
    if nodes.is_empty() {
        let message = format!("`{}` is an empty list: no run could succeed", item.name);
        reader.find("E203", item.node.span, message, HINT);
        return None;
    }
    let code = |(index, node)| {
        let item = Item { name: format!("{}[{index}]", item.name), node };
        reader.number(&item, 0..=u8::MAX.into()).and_then(|code| u8::try_from(code).ok())
    };
    let codes: Vec<Option<u8>> = nodes.iter().enumerate().map(code).collect();
    codes.into_iter().collect()
}
