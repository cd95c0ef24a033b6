//! One item of `jobs`.

use super::clock_changes;
use super::clock_changes::Decided;
use super::doubts;
use super::hash;
use super::host;
use super::http;
use super::notify;
use super::reader::Field;
use super::reader::Fields;
use super::reader::Item;
use super::reader::Reader;
use super::reader::kind;
use super::shared::Shared;
use super::text::Span;
use super::text::quoted;
use super::units;
use super::words::Level;
use super::yaml::Node;
use super::yaml::Value;
use crate::job::Action;
use crate::job::CommandSpec;
use crate::job::ConcurrencyPolicy;
use crate::job::HttpSpec;
use crate::job::JobName;
use crate::job::JobSpec;
use crate::job::NameError;
use crate::job::Program;
use crate::schedule::Schedule;
use crate::schedule::Zone;
use chrono::DateTime;
use chrono::Utc;
use std::collections::BTreeMap;
use std::time::Duration;

/// Where a job's name stands, for finding it twice.
#[derive(Debug)]
pub(super) struct Named {
    /// The name as written.
    pub name: String,
    /// Where.
    pub span: Span,
    /// The position in `jobs`, from 0.
    pub index: usize,
}

/// What the jobs of a file are read with.
#[derive(Debug)]
pub(super) struct Surroundings {
    /// `defaults`
    pub defaults: Shared,
    /// `scheduler.timeZone`
    pub zone: Zone,
    /// From when on clock changes are of interest.
    pub now: DateTime<Utc>,
}

/// Reads item `index` of `jobs`. The spec is `None` where something was reported.
pub(super) fn read(
    reader: &mut Reader<'_>,
    index: usize,
    node: &Node,
    around: &Surroundings,
) -> (Option<Named>, Option<JobSpec>) {
    reader.path = format!("jobs[{index}]");
    let errors = reader.findings.errors();
    let item = Item { name: "job".to_owned(), node };
    if let Some(name) = peek_name(node) {
        reader.path.push_str(&format!(" {}", quoted(&name).replace('`', "\"")));
    }
    if Fields::open(node, Level::Job).is_none() {
        let message = format!("a job is a map, and here is {}", kind(node));
        reader.find(
            "E203",
            node.span,
            message,
            "write `- name: …`, and below `name` the keys `schedule` and `command`",
        );
        return (None, None);
    }
    let Some(fields) = reader.fields(&item, Level::Job) else { return (None, None) };
    let name = read_name(reader, &fields);
    let named = name.as_ref().map(|(name, span)| Named { name: name.clone(), span: *span, index });
    let spec = read_fields(reader, &fields, name, around);
    (named, spec.filter(|_| reader.findings.errors() == errors))
}

/// The name before it is checked, so that all reports about the job carry it.
fn peek_name(node: &Node) -> Option<String> {
    let Value::Map(entries) = &node.value else { return None };
    let entry = entries.iter().find(|entry| &*entry.key == "name")?;
    match &entry.node.value {
        Value::Scalar(scalar) => Some(scalar.text.to_string()),
        _ => None,
    }
}

fn read_name(reader: &mut Reader<'_>, fields: &Fields<'_>) -> Option<(String, Span)> {
    let item = reader.required(fields, "name", "the name is the job's identity: `name: nightly-report`")?;
    let scalar = reader.scalar(&item, "a text", "")?;
    if let Err(error) = JobName::new(&scalar.text) {
        let span = match error {
            NameError::Character { at, .. } => reader.piece(scalar, at, 1),
            _ => item.node.span,
        };
        let tidy = tidy_name(&scalar.text);
        let is_close = scalar.text.is_ascii() && !tidy.is_empty();
        let hint = if is_close { format!("write `{tidy}`") } else { "write a-z, 0-9 and -".to_owned() };
        reader.find("E301", span, format!("the name {}: {error}", quoted(&scalar.text)), &hint);
    }
    Some((scalar.text.to_string(), item.node.span))
}

/// The name that was probably meant.
fn tidy_name(text: &str) -> String {
    let replaced = text.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' });
    let joined: String = replaced.take(63).collect();
    joined.split('-').filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-")
}

fn read_fields(
    reader: &mut Reader<'_>,
    fields: &Fields<'_>,
    name: Option<(String, Span)>,
    around: &Surroundings,
) -> Option<JobSpec> {
    let description = reader.field(fields, "description", description);
    let runbook_url = reader.field(fields, "runbookUrl", notify::runbook_url);
    let own = Shared::read(reader, fields, &around.defaults);
    let all = own.over(&around.defaults);
    let zone = all.time_zone.value_or(around.zone.clone());
    let schedule = read_schedule(reader, fields, (&zone, name.as_ref().map_or("", |(name, _)| name)));
    let action = read_action(reader, fields, &own, &all);
    let (schedule, spans) = schedule?;
    let schedule = schedule.with_dst(all.dst());
    check_jitter(reader, &schedule, (&own, &all));
    warn(reader, &schedule, &spans, &own, &all);
    let decided = Decided { gap: all.dst_gap.span().is_some(), fold: all.dst_fold.span().is_some() };
    if let Some((message, hint)) = clock_changes::warning(&schedule, decided, around.now) {
        let of_part = |part: &Schedule| clock_changes::warning(part, decided, around.now).is_some();
        reader.find("W501", span_of(&schedule, &spans, of_part), message, &hint);
    }
    if let Some(entry) = fields.get("command") {
        doubts::of_command(reader, &entry.node);
    }
    if let Some(Action::Command(command)) = &action {
        let named_at = all.shell.span().filter(|_| matches!(command.program, Program::Shell { .. }));
        if let Some(span) = named_at.or_else(|| fields.get("command").map(|entry| entry.node.span)) {
            host::note_program(reader, span, command);
        }
    }
    let built_in = JobSpec::of(JobName::new(&name?.0).ok()?, schedule, action?);
    let is_request = built_in.action.http().is_some();
    let grace = all.termination_grace_period.value_or(built_in.termination_grace_period);
    let mut spec = JobSpec {
        description: description.value_or(String::new()),
        runbook_url: runbook_url.value_or(String::new()),
        labels: all.labels.value_or(BTreeMap::new()),
        notify: all.told(),
        concurrency_policy: all.concurrency_policy.value_or(built_in.concurrency_policy),
        catch_up: all.catch_up.value_or(built_in.catch_up),
        suspend: all.suspend.value_or(built_in.suspend),
        lost_run_policy: all.lost_run_policy.value_or(built_in.lost_run_policy),
        timeout: all.timeout.value_or(built_in.timeout),
        termination_grace_period: if is_request { HttpSpec::GRACE } else { grace },
        jitter: all.jitter.value_or(built_in.jitter),
        starting_deadline: all.starting_deadline.value().copied(),
        stale_after: all.stale_after.value().copied(),
        retry: all.retry(),
        output: all.output(),
        history: all.history(),
        ..built_in
    };
    spec.spec_hash = hash::spec_hash(&spec);
    Some(spec)
}

/// Where the first part of a schedule stands that is so; the first part of all, if only the whole is.
fn span_of(schedule: &Schedule, spans: &[Span], is_so: impl Fn(&Schedule) -> bool) -> Span {
    let at = schedule.parts().position(|part| is_so(&part)).unwrap_or(0);
    spans.get(at).or(spans.first()).copied().unwrap_or_default()
}

fn description(reader: &mut Reader<'_>, item: &Item<'_>) -> Option<String> {
    const MOST: usize = 500;
    let text = reader.text(item)?;
    let found = text.chars().count();
    if found > MOST {
        let message = format!("`description` has {found} characters, at most {MOST} are allowed");
        reader.find("E305", item.node.span, message, "say it shorter");
        return None;
    }
    Some(text)
}

/// How many expressions one job may have: each is asked for each tick.
const SCHEDULES_MOST: usize = 20;

/// One expression, or a list of them.
/// And where the text of each stands.
fn read_schedule(
    reader: &mut Reader<'_>,
    fields: &Fields<'_>,
    meaning: (&Zone, &str),
) -> Option<(Schedule, Vec<Span>)> {
    let item = reader.required(fields, "schedule", "say when: `schedule: \"15 2 * * *\"`")?;
    let span = item.node.span;
    let Value::List(nodes) = &item.node.value else {
        return read_expression(reader, &item, meaning).map(|(schedule, text)| (schedule, vec![text]));
    };
    if nodes.is_empty() || nodes.len() > SCHEDULES_MOST {
        let message = format!("`schedule` is a list of {}, and 1 to {SCHEDULES_MOST} are allowed", nodes.len());
        reader.find("E203", span, message, "say when: `schedule: [\"0 9 * * *\", \"30 17 * * FRI\"]`");
        return None;
    }
    let mut spans = Vec::with_capacity(nodes.len());
    let mut read: Vec<Option<Schedule>> = Vec::with_capacity(nodes.len());
    for (index, node) in nodes.iter().enumerate() {
        let expression = read_expression(reader, &Item { name: format!("schedule[{index}]"), node }, meaning);
        let schedule = expression.map(|(schedule, text)| {
            spans.push(text);
            schedule
        });
        let canonical = schedule.as_ref().map(Schedule::canonical);
        if canonical.is_some() && read.iter().any(|other| other.as_ref().map(Schedule::canonical) == canonical) {
            let message = format!("`schedule[{index}]` says again what stands before it in the list");
            reader.find("E302", node.span, message, "remove it");
            return None;
        }
        read.push(schedule);
    }
    let all = read.into_iter().collect::<Option<Vec<Schedule>>>()?;
    all.into_iter().reduce(|schedule, other| schedule.or(&other)).map(|schedule| (schedule, spans))
}

fn read_expression(reader: &mut Reader<'_>, item: &Item<'_>, (zone, salt): (&Zone, &str)) -> Option<(Schedule, Span)> {
    let texts = "write one schedule as a text, several as a list of texts";
    let written = match &item.node.value {
        // GitHub's form.
        Value::Map(entries) => entries.iter().find(|entry| &*entry.key == "cron").map(|entry| kind(&entry.node)),
        _ => None,
    };
    let hint = written.map_or_else(|| texts.to_owned(), |cron| format!("{texts}: {cron} without `cron:`"));
    let scalar = reader.scalar(item, "a text", &hint)?;
    // A block ends with a line end that nobody means.
    let text = scalar.text.trim_end();
    match Schedule::parse(text, zone, salt) {
        Ok(schedule) => {
            let span = reader.piece(scalar, 0, text.chars().count());
            doubts::of_schedule(reader, text, span);
            Some((schedule, span))
        }
        Err(error) => {
            let span = reader.piece(scalar, error.column, error.length);
            let hint = error.hint.unwrap_or_default();
            if error.message.ends_with("never fires") {
                reader.find("E303", span, format!("the schedule {}", error.message), &hint);
            } else {
                let message = match text {
                    "" => error.message,
                    text => format!("schedule {}: {}", headline(text), error.message),
                };
                reader.find("E302", span, message, &hint);
            }
            None
        }
    }
}

/// The text of a schedule inside a message; of several lines the first.
fn headline(text: &str) -> String {
    match text.trim_start().split_once(['\n', '\r']) {
        Some((first, _)) => quoted(&format!("{}…", first.trim_end())),
        None => quoted(text),
    }
}

/// Two ticks of a job must not change places.
fn check_jitter(reader: &mut Reader<'_>, schedule: &Schedule, (own, all): (&Shared, &Shared)) {
    let Field::Written(jitter, span) = own.jitter.or(&all.jitter) else { return };
    let Some(shortest) = shortest_gap(schedule, jitter).filter(|shortest| jitter >= *shortest) else { return };
    let (jitter, shortest) = (units::duration_text(jitter), units::duration_text(shortest));
    let message = format!("`jitter` is {jitter}, and ticks are as close as {shortest}: runs could change places");
    reader.find("E403", span, message, &format!("write a jitter below {shortest}, or let the job run less often"));
}

/// `command` or `http`.
fn read_action(reader: &mut Reader<'_>, fields: &Fields<'_>, own: &Shared, all: &Shared) -> Option<Action> {
    match (fields.get("command"), fields.get("http")) {
        (Some(_), Some(http)) => {
            let message = "the job has both `command` and `http`, and a run does one thing".to_owned();
            reader.find("E205", http.key_span, message, "remove one of the two, or make two jobs of it");
            None
        }
        (None, None) if ["command", "http"].iter().any(|key| reader.is_meant(fields, key)) => None,
        (None, None) => {
            let message = "the job has neither `command` nor `http`".to_owned();
            let hint = "say what: `command: echo hello`, or `http: {url: \"http://host/path\"}`";
            reader.find("E205", fields.span, message, hint);
            None
        }
        (None, Some(_)) => http::read(reader, fields, all).map(Action::from),
        (Some(_), None) => {
            let built_in = CommandSpec::of(read_command(reader, fields, own, all)?);
            Some(Action::Command(CommandSpec {
                working_dir: all.working_dir.value().cloned(),
                env: all.env.value().cloned().unwrap_or_default(),
                inherit_env: all.inherit_env.value_or(built_in.inherit_env),
                success_exit_codes: all.success_exit_codes.value().cloned().unwrap_or(built_in.success_exit_codes),
                program: built_in.program,
            }))
        }
    }
}

fn read_command(reader: &mut Reader<'_>, fields: &Fields<'_>, own: &Shared, all: &Shared) -> Option<Program> {
    let item = reader.required(fields, "command", "say what: `command: echo hello`")?;
    if matches!(item.node.value, Value::List(_)) {
        if let Some(span) = own.shell.span() {
            let message = "`shell` has no effect on a command that is a list: a list runs without a shell".to_owned();
            reader.find("E205", span, message, "remove `shell`, or write the command as one text");
        }
        return reader.texts(&item).map(Program::Direct);
    }
    let scalar = reader.scalar(&item, "a text for the shell or a list", "write `command: [program, argument]`")?;
    let line = reader.text(&item)?;
    if line.trim().is_empty() {
        let message = "`command` is an empty text".to_owned();
        reader.find("E204", scalar.written, message, "say what to run; `command: \"true\"` does nothing");
        return None;
    }
    let shell = all.shell.value_or(vec!["/bin/sh".to_owned(), "-c".to_owned()]);
    Some(Program::Shell { shell, line })
}

/// What is allowed and probably not meant.
fn warn(reader: &mut Reader<'_>, schedule: &Schedule, spans: &[Span], own: &Shared, all: &Shared) {
    if let Some(span) = own.dst_gap.span().or(own.dst_fold.span()).filter(|_| schedule.follows_elapsed_time()) {
        let text = schedule.text();
        let message = format!(
            "`dst` has no effect on `{text}`: a job whose minute or hour begins with `*` or `?` follows elapsed time"
        );
        reader.find("W510", span, message, "remove it, or write the minutes and hours as numbers, lists or ranges");
    }
    if let Some(either) = schedule.parts().find(Schedule::either_day_field_matches) {
        let text = either.text();
        let message =
            format!("day of month and day of week are both set in `{text}`: the job runs when either matches");
        let either = one_day_field(text).map(|[by_month, by_week]| format!("`{by_month}` or `{by_week}`"));
        let hint = format!("unless that is meant, write {}", either.unwrap_or("`*` for one of the two".to_owned()));
        reader.find("W502", span_of(schedule, spans, Schedule::either_day_field_matches), message, &hint);
    }
    let span = spans.first().copied().unwrap_or_default();
    let is_dense = schedule.distance_at_least() == Duration::from_secs(1);
    if is_dense && gaps(schedule).take_while(|gap| *gap == Duration::from_secs(1)).count() == GAPS {
        let message = "the job fires every second, and every replica asks the store each time".to_owned();
        let hint = "write a longer period, such as `*/10 * * * * *`, or a command that loops by itself";
        reader.find("W503", span, message, hint);
    }
    warn_of_history(reader, schedule, (own, all));
    let waits = all.concurrency_policy.value_or(ConcurrencyPolicy::Forbid).waits_for_ends();
    let Field::Written(Some(timeout), span) = own.timeout else { return };
    let shortest = shortest_gap(schedule, timeout).filter(|period| waits && *period < timeout);
    if let Some(period) = shortest {
        let (timeout, period) = (units::duration_text(timeout), units::duration_text(period));
        let message = format!(
            "`timeout` is {timeout}, and ticks are as close as {period}: those in a long run are skipped or wait"
        );
        reader.find(
            "W508",
            span,
            message,
            &format!("write `timeout: {period}` or a shorter one, or let the job run less often"),
        );
    }
}

/// `staleAfter` that every pause of the schedule passes, and records of more runs than anybody reads.
fn warn_of_history(reader: &mut Reader<'_>, schedule: &Schedule, (own, all): (&Shared, &Shared)) {
    if let Field::Written(stale, span) = own.stale_after.or(&all.stale_after)
        && let Some(longest) = gaps(schedule).max().filter(|longest| stale < *longest)
    {
        let (stale, longest) = (units::duration_text(stale), units::duration_text(longest));
        let message = format!(
            "`staleAfter` is {stale}, and between two ticks lie up to {longest}: the job is stale though all is well"
        );
        reader.find("W505", span, message, &format!("write more than {longest}, and leave room for the run itself"));
    }
    if let Field::Written(kept, span) = own.history_successful.or(&all.history_successful)
        && kept > 100
        && schedule.distance_at_least() <= Duration::from_secs(60)
        && shortest_gap(schedule, Duration::from_secs(60)).is_some_and(|gap| gap <= Duration::from_secs(60))
    {
        let message = format!(
            "`history.successful` is {kept}, and the job runs every minute or more often: the store grows by that"
        );
        reader.find("W506", span, message, "write 100 or less; outcomes of more ticks are kept by `history.ticks`");
    }
}

/// An expression with only its day of month, and with only its day of week.
fn one_day_field(text: &str) -> Option<[String; 2]> {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let without = |at: usize| {
        let kept: Vec<&str> =
            words.iter().enumerate().map(|(index, word)| if index == at { "*" } else { word }).collect();
        kept.join(" ")
    };
    let of_week = words.len().checked_sub(1)?;
    Some([without(of_week), without(of_week.checked_sub(2)?)])
}

/// How many distances between ticks are looked at: more than a minute has seconds, and two months have days.
const GAPS: usize = 63;

/// The shortest of these distances, if there can be one of at most `most`: tables have many jobs, and the walk is long.
fn shortest_gap(schedule: &Schedule, most: Duration) -> Option<Duration> {
    if schedule.distance_at_least() > most { None } else { gaps(schedule).min() }
}

/// The distances between the first ticks of a fixed year: the same on each replica and in each report.
fn gaps(schedule: &Schedule) -> impl Iterator<Item = Duration> {
    const START: i64 = 1_767_225_600; // 2026-01-01T00:00:00Z
    let first = DateTime::<Utc>::from_timestamp(START, 0).and_then(|start| schedule.after(start));
    let next = |tick: DateTime<Utc>| Some((tick, schedule.after(tick)?));
    std::iter::successors(first.and_then(next), move |(_, tick)| next(*tick))
        .take(GAPS)
        .filter_map(|(tick, after)| (after - tick).to_std().ok())
}
