//! `onecron next --transitions`: the coming changes of a zone's clocks, and what a schedule does there.

use super::schedules::Run;
use super::table_args;
use super::table_args::Format;
use crate::schedule::Schedule;
use crate::schedule::Shift;
use chrono::DateTime;
use chrono::NaiveDateTime;
use chrono::Utc;
use serde::Serialize;
use std::io;
use std::io::Write;

/// One change of clocks, and one schedule.
#[derive(Debug, Serialize)]
struct Transition<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    job: Option<&'a str>,
    schedule: &'a str,
    zone: &'a str,
    /// `gap` or `fold`
    kind: &'static str,
    utc: String,
    /// What the clocks would have shown, and what they show: local times without an offset.
    clocks_from: String,
    clocks_to: String,
    /// Empty: the shift touches none of its times.
    effects: Vec<Effect>,
    /// The runs around it.
    runs: Vec<Run<'static>>,
}

#[derive(Debug, Serialize)]
struct Effect {
    action: &'static str,
    times: Vec<String>,
    text: String,
}

fn local(time: NaiveDateTime) -> String {
    time.format("%Y-%m-%dT%H:%M:%S").to_string()
}

impl<'a> Transition<'a> {
    fn new(job: Option<&'a str>, schedule: &'a Schedule, shift: &Shift) -> Self {
        let effect = |effect: crate::schedule::Effect| Effect {
            action: effect.action.as_str(),
            times: effect.times.into_iter().map(local).collect(),
            text: effect.text,
        };
        Self {
            job,
            schedule: schedule.text(),
            zone: schedule.zone().name(),
            kind: if shift.is_gap() { "gap" } else { "fold" },
            utc: table_args::utc(shift.at),
            clocks_from: local(shift.from),
            clocks_to: local(shift.to),
            effects: schedule.effects(shift).into_iter().map(effect).collect(),
            runs: schedule.ticks_around(shift).into_iter().map(|tick| Run::new(None, schedule, tick)).collect(),
        }
    }
}

/// Writes the changes later than `from`, up to `until`, of each schedule's zone.
pub(super) fn write(
    out: &mut dyn Write,
    schedules: &[(Option<&str>, &Schedule)],
    (from, until): (DateTime<Utc>, DateTime<Utc>),
    format: Format,
) -> io::Result<()> {
    if format == Format::Json {
        let mut all = Vec::new();
        for (job, schedule) in schedules {
            let shifts = schedule.zone().shifts(from, until);
            all.extend(shifts.iter().map(|shift| Transition::new(*job, schedule, shift)));
        }
        serde_json::to_writer_pretty(&mut *out, &all)?;
        return writeln!(out);
    }
    for (index, (job, schedule)) in schedules.iter().enumerate() {
        if index > 0 {
            writeln!(out)?;
        }
        let name = job.map_or(String::new(), |name| format!("{name}: "));
        let zone = schedule.zone();
        writeln!(out, "{name}{} in {}", schedule.text(), zone.name())?;
        let shifts = zone.shifts(from, until);
        if shifts.is_empty() {
            writeln!(out, "  no clocks are set in this zone up to {}", table_args::utc(until))?;
        }
        shifts.iter().try_for_each(|shift| write_one(out, schedule, shift))?;
    }
    Ok(())
}

fn write_one(out: &mut dyn Write, schedule: &Schedule, shift: &Shift) -> io::Result<()> {
    writeln!(out, "  {}: {shift}", shift.to.date())?;
    let effects = schedule.effects(shift);
    if effects.is_empty() {
        writeln!(out, "    no time of this schedule is {}", if shift.is_gap() { "skipped" } else { "repeated" })?;
    }
    for effect in effects {
        writeln!(out, "    {}", effect.text)?;
    }
    let row = |tick: DateTime<Utc>| vec!["     ".to_owned(), table_args::local(schedule, tick), table_args::utc(tick)];
    let rows: Vec<_> = schedule.ticks_around(shift).into_iter().map(row).collect();
    table_args::write_aligned(out, &rows)
}
