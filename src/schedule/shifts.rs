//! What a schedule does where its zone's clocks are set, in words: the rule itself is in `dst`.

use super::DstRule;
use super::Fold;
use super::Gap;
use super::Plan;
use super::Schedule;
use super::calendar::Calendar;
use super::summary::joined;
use super::zone::Zone;
use chrono::DateTime;
use chrono::NaiveDate;
use chrono::NaiveDateTime;
use chrono::Timelike;
use chrono::Utc;
use std::fmt;
use std::ops::Range;

/// So many local times are counted; a schedule can name each second of a gap.
const TIMES_MOST: usize = 100;
/// So many local times are named in a text.
const TIMES_NAMED: usize = 3;
/// So many ticks between the first that a shift touches and the last are shown one by one.
const TICKS_SHOWN: usize = 6;

/// One change of a zone's clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shift {
    /// The first instant at which they show the new time.
    pub at: DateTime<Utc>,
    /// What they would have shown then.
    pub from: NaiveDateTime,
    /// What they show instead.
    pub to: NaiveDateTime,
}

impl Shift {
    /// Local times from `from` up to `to` do not exist; otherwise those from `to` up to `from` come twice.
    pub fn is_gap(&self) -> bool {
        self.to > self.from
    }

    fn size(&self) -> i64 {
        (self.to - self.from).num_seconds().abs()
    }

    /// The local times that are skipped or repeated, in seconds.
    fn range(&self) -> Range<i64> {
        let (from, to) = (self.from.and_utc().timestamp(), self.to.and_utc().timestamp());
        from.min(to)..from.max(to)
    }
}

impl fmt::Display for Shift {
    /// `clocks go from 02:00 to 03:00`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let way = if self.is_gap() { "go from" } else { "go back from" };
        let day = self.to.date();
        let is_one_day = self.from.date() == day;
        let shown = |time| if is_one_day { clock(time, day) } else { clock(time, NaiveDate::MIN) };
        write!(f, "clocks {way} {} to {}", shown(self.from), shown(self.to))
    }
}

/// What becomes of the local times that a shift touches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// One skipped time: it runs right after the gap.
    Moved,
    /// Skipped times that become one run, or join a run that is due right after the gap anyway.
    Merged,
    /// Skipped times without a run.
    LeftOut,
    /// Repeated times that run on the first pass only.
    RunOnce,
    /// Repeated times that run on both passes.
    RunTwice,
}

impl Action {
    /// For programs: `moved`, `merged`, `left_out`, `run_once`, `run_twice`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Moved => "moved",
            Self::Merged => "merged",
            Self::LeftOut => "left_out",
            Self::RunOnce => "run_once",
            Self::RunTwice => "run_twice",
        }
    }
}

/// What a schedule does at one shift.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effect {
    /// The local times that it names and that are skipped or repeated, the first hundred.
    pub times: Vec<NaiveDateTime>,
    /// What becomes of them.
    pub action: Action,
    /// The same in words: `02:30 does not exist: runs at 03:00`.
    pub text: String,
    /// Whether it is about fixed times; otherwise about a part that follows elapsed time.
    pub is_of_fixed_times: bool,
}

impl Zone {
    /// The shifts of its clocks later than `from`, up to `until`.
    pub fn shifts(&self, from: DateTime<Utc>, until: DateTime<Utc>) -> Vec<Shift> {
        let next = |after: i64| self.stretch_at(after).end.filter(|end| *end <= until.timestamp());
        std::iter::successors(next(from.timestamp()), |shift| next(*shift))
            .filter_map(|shift| self.shift_at(shift))
            .collect()
    }

    /// The shift that begins with this second.
    fn shift_at(&self, at: i64) -> Option<Shift> {
        let shown = |offset: i64| Some(DateTime::from_timestamp(at + offset, 0)?.naive_utc());
        let (before, after) = (self.stretch_at(at - 1).offset, self.stretch_at(at).offset);
        Some(Shift { at: DateTime::from_timestamp(at, 0)?, from: shown(before)?, to: shown(after)? })
    }
}

impl Schedule {
    /// Whether nothing in it has fixed times, so that no rule for the days on which clocks are set concerns it.
    pub fn follows_elapsed_time(&self) -> bool {
        self.near_shifts().fixed.is_empty()
    }

    /// What an operator should know about this tick because the zone's clocks are set near it; `None` for most, and
    /// for all that follow elapsed time.
    pub fn note(&self, tick: DateTime<Utc>) -> Option<String> {
        self.near_shifts().note(tick.timestamp())
    }

    /// What it does at a shift of its zone: nothing, or one thing with its fixed times and another with what follows
    /// elapsed time.
    pub fn effects(&self, shift: &Shift) -> Vec<Effect> {
        let near = self.near_shifts();
        near.of_fixed(shift).into_iter().chain(near.of_elapsed(shift)).collect()
    }

    /// The ticks that a shift touches, with the last one before and the first one after; of many only those next to
    /// the shift.
    pub fn ticks_around(&self, shift: &Shift) -> Vec<DateTime<Utc>> {
        let at = shift.at.timestamp();
        let (first, last) = if shift.is_gap() { (at, at) } else { (at - shift.size(), at + shift.size() - 1) };
        let touched = self.between_seconds(first, last);
        let (first, last, around) = if touched.len() > TICKS_SHOWN { (at, at - 1, 2) } else { (first, last, 1) };
        let mut ticks = self.before(first, around);
        ticks.extend(self.between_seconds(first, last).into_iter().take(TICKS_SHOWN));
        ticks.extend(DateTime::from_timestamp(last, 0).map(|last| self.occurrences(last, around)).unwrap_or_default());
        ticks
    }

    /// Ticks from second `first` to second `last`, one more than are shown.
    fn between_seconds(&self, first: i64, last: i64) -> Vec<DateTime<Utc>> {
        let at = |second| DateTime::from_timestamp(second, 0);
        let (Some(from), Some(until)) = (at(first), at(last + 1)) else { return Vec::new() };
        self.between(from, until).take(TICKS_SHOWN + 1).collect()
    }

    /// The last `count` ticks before a second. The search only runs forwards, so it begins further and further back.
    fn before(&self, second: i64, count: usize) -> Vec<DateTime<Utc>> {
        const YEARS: i64 = 12 * 366 * 86_400;
        let mut back = 64;
        loop {
            let Some(start) = DateTime::from_timestamp(second - back, 0) else { return Vec::new() };
            let ticks = std::iter::successors(self.after(start), |tick| self.after(*tick));
            let mut found: Vec<_> = ticks.take_while(|tick| tick.timestamp() < second).collect();
            if found.len() >= count || back > YEARS {
                return found.split_off(found.len().saturating_sub(count));
            }
            back *= 4;
        }
    }

    fn near_shifts(&self) -> NearShifts<'_> {
        let inner = &*self.0;
        let mut near = NearShifts {
            zone: &inner.zone,
            rule: inner.dst,
            fixed: Vec::new(),
            elapsed: Vec::new(),
            every: Vec::new(),
        };
        for part in &inner.parts {
            match &part.plan {
                Plan::Every(seconds) => near.every.push(*seconds),
                Plan::Calendar(calendar) if calendar.fields().elapsed => near.elapsed.push(calendar),
                Plan::Calendar(calendar) => near.fixed.push(calendar),
            }
        }
        near
    }
}

/// The parts of a schedule, by what they do where clocks are set.
struct NearShifts<'a> {
    zone: &'a Zone,
    rule: DstRule,
    fixed: Vec<&'a Calendar>,
    elapsed: Vec<&'a Calendar>,
    /// Distances in seconds.
    every: Vec<i64>,
}

impl NearShifts<'_> {
    fn note(&self, tick: i64) -> Option<String> {
        if self.fixed.is_empty() {
            return None;
        }
        let stretch = self.zone.stretch_at(tick);
        let local = tick + stretch.offset;
        let on_this_day = |times: &[NaiveDateTime], shift: &Shift, verb: [&str; 2]| {
            let day = shift.to.date();
            let place = if times.iter().all(|time| time.date() == day) { " on this day" } else { "" };
            format!("{}{place} ({shift})", sentence(times, day, verb))
        };
        let begins = stretch.start.filter(|start| *start == tick).and_then(|start| self.zone.shift_at(start));
        if let Some(shift) = begins.filter(|shift| shift.is_gap() && self.rule.gap == Gap::RunAfter) {
            let times = self.skipped(&shift);
            if !times.is_empty() {
                let what = match times.len() {
                    _ if self.names(tick, local) => "merged into this run",
                    1 => "runs right after the gap",
                    _ => "one run right after the gap",
                };
                return Some(format!("{}: {what}", on_this_day(&times, &shift, SKIPPED)));
            }
        }
        if !self.fixed.iter().any(|calendar| names(calendar, local)) || self.elapses_at(tick, local) {
            return None;
        }
        let fold = |shift: &Shift| !shift.is_gap() && shift.range().contains(&local);
        let shift_at = |at: Option<i64>| at.and_then(|at| self.zone.shift_at(at)).filter(fold);
        let (shift, what) = match (shift_at(stretch.end), shift_at(stretch.start), self.rule.fold) {
            (Some(shift), _, Fold::First) => (shift, "runs the first time only"),
            (Some(shift), _, Fold::Both) => (shift, "the first of two runs"),
            (None, Some(shift), Fold::Both) => (shift, "the second of two runs"),
            _ => return None,
        };
        let time = DateTime::from_timestamp(local, 0)?.naive_utc();
        Some(format!("{}: {what}", on_this_day(&[time], &shift, REPEATED)))
    }

    fn of_fixed(&self, shift: &Shift) -> Option<Effect> {
        let times = if shift.is_gap() { self.skipped(shift) } else { self.repeated(shift) };
        let after = clock(shift.to, shift.to.date());
        let to = shift.to.and_utc().timestamp();
        let (action, what) = match (shift.is_gap(), self.rule) {
            (true, DstRule { gap: Gap::Skip, .. }) => (Action::LeftOut, "left out".to_owned()),
            (true, _) if self.names(shift.at.timestamp(), to) => {
                (Action::Merged, format!("merged into the run at {after}"))
            }
            (true, _) if times.len() > 1 => (Action::Merged, format!("one run at {after}")),
            (true, _) => (Action::Moved, format!("runs at {after}")),
            (false, DstRule { fold: Fold::First, .. }) => {
                let verb = if times.len() == 1 { "runs" } else { "run" };
                (Action::RunOnce, format!("{verb} the first time only"))
            }
            (false, _) => (Action::RunTwice, format!("{} both times", if times.len() == 1 { "runs" } else { "run" })),
        };
        effect(shift, times, (action, &what))
    }

    fn of_elapsed(&self, shift: &Shift) -> Option<Effect> {
        let makes_up = shift.is_gap() && self.rule.gap == Gap::RunAfter;
        // What fixed times make up for is not left out.
        let made_up_for = |time| makes_up && self.fixed.iter().any(|calendar| names(calendar, time));
        let times = times(&self.elapsed, shift.range(), |time| !made_up_for(time));
        let (action, what) = match (shift.is_gap(), times.len()) {
            (true, _) => (Action::LeftOut, "left out (elapsed time is followed)"),
            (false, 1) => (Action::RunTwice, "runs both times (elapsed time is followed)"),
            (false, _) => (Action::RunTwice, "run both times (elapsed time is followed)"),
        };
        let effect = effect(shift, times, (action, what))?;
        Some(Effect { is_of_fixed_times: false, ..effect })
    }

    /// The fixed times in a gap.
    fn skipped(&self, shift: &Shift) -> Vec<NaiveDateTime> {
        times(&self.fixed, shift.range(), |_| true)
    }

    /// The fixed times that come twice, without those that a part which follows elapsed time runs twice anyway.
    fn repeated(&self, shift: &Shift) -> Vec<NaiveDateTime> {
        let runs_anyway = |time| self.elapsed.iter().any(|calendar| names(calendar, time));
        times(&self.fixed, shift.range(), |time| !runs_anyway(time))
    }

    /// Whether some part has this tick by itself, whatever the rule says.
    fn names(&self, tick: i64, local: i64) -> bool {
        self.fixed.iter().any(|calendar| names(calendar, local)) || self.elapses_at(tick, local)
    }

    /// Whether a part that follows elapsed time has this tick.
    fn elapses_at(&self, tick: i64, local: i64) -> bool {
        self.elapsed.iter().any(|calendar| names(calendar, local))
            || self.every.iter().any(|seconds| tick % seconds == 0)
    }
}

const SKIPPED: [&str; 2] = ["does not exist", "do not exist"];
const REPEATED: [&str; 2] = ["comes twice", "come twice"];

fn effect(shift: &Shift, mut times: Vec<NaiveDateTime>, (action, what): (Action, &str)) -> Option<Effect> {
    if times.is_empty() {
        return None;
    }
    let verb = if shift.is_gap() { SKIPPED } else { REPEATED };
    let text = format!("{}: {what}", sentence(&times, shift.to.date(), verb));
    times.truncate(TIMES_MOST);
    Some(Effect { times, action, text, is_of_fixed_times: true })
}

fn names(calendar: &Calendar, local: i64) -> bool {
    calendar.next(local - 1) == Some(local)
}

/// The local times of a range that any calendar names and that are wanted, in order, one more than [`TIMES_MOST`] if
/// there are more. The unwanted are left out first: what is cut off is not looked at again.
fn times(calendars: &[&Calendar], range: Range<i64>, is_wanted: impl Fn(i64) -> bool) -> Vec<NaiveDateTime> {
    let of = |calendar: &&Calendar| {
        std::iter::successors(calendar.next(range.start - 1), |time| calendar.next(*time))
            .take_while(|time| *time < range.end)
            .filter(|time| is_wanted(*time))
            .take(TIMES_MOST + 1)
            .collect::<Vec<_>>()
    };
    let mut times: Vec<i64> = calendars.iter().flat_map(of).collect();
    times.sort_unstable();
    times.dedup();
    times.truncate(TIMES_MOST + 1);
    times.into_iter().filter_map(|time| Some(DateTime::from_timestamp(time, 0)?.naive_utc())).collect()
}

/// `02:30 does not exist`, `02:00, 02:01 and 58 others do not exist`.
fn sentence(times: &[NaiveDateTime], day: NaiveDate, [one, many]: [&str; 2]) -> String {
    let named = if times.len() > TIMES_NAMED { TIMES_NAMED - 1 } else { times.len() };
    let mut words: Vec<String> = times.iter().take(named).map(|time| clock(*time, day)).collect();
    match times.len() - named {
        0 => {}
        _ if times.len() > TIMES_MOST => words.push(format!("more than {} others", TIMES_MOST - named)),
        others => words.push(format!("{others} others")),
    }
    format!("{} {}", joined(&words, "and"), if times.len() == 1 { one } else { many })
}

/// `02:30`, with seconds if it has any, and with its date if that is another than `day`.
pub(super) fn clock(time: NaiveDateTime, day: NaiveDate) -> String {
    let time_of_day = if time.second() == 0 { "%H:%M" } else { "%H:%M:%S" };
    let format = if time.date() == day { time_of_day.to_owned() } else { format!("%Y-%m-%d {time_of_day}") };
    time.format(&format).to_string()
}
