//! An expression in words: a sentence, what each field holds, and what surprises people.

use super::calendar::Fields;
use super::days::DayMark;
use super::error::Piece;
use super::error::ScheduleError;
use super::field::DAY_OF_MONTH;
use super::field::DAY_OF_WEEK;
use super::field::Field;
use super::field::HOUR;
use super::field::MINUTE;
use super::field::MONTH;
use super::field::SECOND;
use super::field::Values;
use super::field::number;
use super::parse;
use super::parse::Expression;
use super::summary;

/// An expression in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// The expression, without the blanks around it.
    pub text: String,
    /// One sentence: `At 02:30 every day.`
    pub summary: String,
    /// Its fields, as they are written; of `@daily` those that it stands for, of `@every` its distance.
    pub fields: Vec<ExplainedField>,
    /// What follows from the fields together, one sentence each, without a full stop.
    pub notes: Vec<String>,
    /// Whether it follows elapsed time where clocks are set; otherwise it has fixed times.
    pub follows_elapsed_time: bool,
    /// What that means, and why it is so, without a full stop.
    pub clock_changes: String,
}

/// One field of an expression in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExplainedField {
    /// `minute`, `day-of-month` …, as in error messages; `distance` of `@every`.
    pub name: &'static str,
    /// As it is written.
    pub text: String,
    /// What it holds.
    pub meaning: String,
}

/// Explains an expression. `salt` is the job's name, from which `H` takes its number.
///
/// # Errors
/// Those of [`Schedule::parse`](super::Schedule::parse).
pub fn explain(text: &str, salt: &str) -> Result<Explanation, ScheduleError> {
    let expression = parse::parse(text, salt)?;
    let text = text.trim_matches(|c: char| c.is_ascii_whitespace());
    match expression {
        Expression::Every(seconds) => Ok(of_distance(text, seconds)),
        Expression::Fields(fields) => of_fields(text, &fields, salt),
    }
}

fn of_distance(text: &str, seconds: i64) -> Explanation {
    let distance = text.split_ascii_whitespace().next_back().unwrap_or_default().to_owned();
    let meaning = format!(
        "all multiples of {} since 1970-01-01T00:00:00Z",
        match summary::distance(seconds) {
            unit if unit.contains(' ') => unit,
            unit => format!("one {unit}"),
        }
    );
    Explanation {
        text: text.to_owned(),
        summary: summary::of_distance(seconds),
        fields: vec![ExplainedField { name: "distance", text: distance, meaning }],
        notes: vec!["it counts in UTC, and nothing depends on when a daemon was started".to_owned()],
        follows_elapsed_time: true,
        clock_changes: "it follows elapsed time, counted in UTC: clocks that are set do not concern it".to_owned(),
    }
}

fn of_fields(text: &str, fields: &Fields, salt: &str) -> Result<Explanation, ScheduleError> {
    let mut notes = Vec::new();
    let meaning = parse::meaning_of_name(text);
    if let Some(meaning) = meaning {
        notes.push(format!("`{text}` stands for `{meaning}`"));
    }
    let words = Piece { text: meaning.unwrap_or(text), column: 0 }.words();
    let kinds: [&Field; 6] = [&SECOND, &MINUTE, &HOUR, &DAY_OF_MONTH, &MONTH, &DAY_OF_WEEK];
    let mut explained = Vec::new();
    let (mut starred_times, mut starred_days) = (Vec::new(), Vec::new());
    for (field, word) in kinds.iter().skip(6 - words.len()).zip(&words) {
        let values = field.parse(*word, salt)?;
        let star = word.text.chars().next().filter(|_| values.starred);
        match field.name {
            "minute" | "hour" => starred_times.extend(star.map(|star| (field.name, star))),
            "day-of-month" | "day-of-week" => starred_days.extend(star.map(|star| (field.name, star))),
            _ => {}
        }
        let meaning = meaning_of(field, *word, &values, salt);
        explained.push(ExplainedField { name: field.name, text: word.text.to_owned(), meaning });
    }
    notes.extend(day_notes(fields, &starred_days));
    let clock_changes = match starred_times.as_slice() {
        [] => "it has fixed times, because neither the minute nor the hour field begins with `*`: times that do not \
               exist are one run right after the gap, and a time that comes twice runs the first time only"
            .to_owned(),
        starred => format!(
            "it follows elapsed time, because {}: times that do not exist are left out, and times that come twice run \
             twice",
            summary::beginnings(starred),
        ),
    };
    Ok(Explanation {
        text: text.to_owned(),
        summary: summary::of_fields(fields),
        fields: explained,
        notes,
        follows_elapsed_time: fields.elapsed,
        clock_changes,
    })
}

/// How the two day fields go together, and days that come in some years only.
fn day_notes(fields: &Fields, starred: &[(&'static str, char)]) -> Vec<String> {
    let rule = &fields.days;
    let (of_month, of_week) = (&rule.of_month, &rule.of_week);
    let both = !summary::is_any_day(of_month) && !summary::is_any_weekday(of_week);
    let mut notes = Vec::new();
    if rule.either_matches() {
        let note = "day-of-month and day-of-week are both written: a day matches if either of the two names it";
        notes.push(note.to_owned());
        if !rule.has_day_of_month(fields.months) {
            notes.push("no chosen month has such a day of month, so the day of week alone decides".to_owned());
        }
    } else if both {
        let why = summary::beginnings(starred);
        notes.push(format!("{why}, so a day matches only if both day fields name it"));
    }
    if fields.months == 1 << 2 && of_month.bits == 1 << 29 && of_month.marks.is_empty() && !rule.either_matches() {
        notes.push("29 February exists in leap years only".to_owned());
    }
    notes
}

fn meaning_of(field: &Field, word: Piece, values: &Values, salt: &str) -> String {
    let is_full = match field.name {
        "day-of-month" => summary::is_any_day(values),
        "day-of-week" => summary::is_any_weekday(values),
        _ => values.bits.count_ones() == field.high - field.low + 1,
    };
    let mut meaning = match field.name {
        "day-of-week" | "day-of-month" if is_full => "every day".to_owned(),
        name if is_full => format!("every {name}"),
        "month" => summary::months(values.bits),
        "day-of-week" => summary::weekdays(values),
        "day-of-month" if values.bits == 0 => format!("{} of the month", summary::month_days(values)),
        "day-of-month" => summary::month_days(values),
        _ => summary::listed(values.bits),
    };
    for remark in remarks(field, word, values, salt) {
        meaning.push_str("; ");
        meaning.push_str(&remark);
    }
    meaning
}

fn remarks(field: &Field, word: Piece, values: &Values, salt: &str) -> Vec<String> {
    let mut remarks = Vec::new();
    let items: Vec<Piece> = word.split(',').collect();
    if items.iter().any(|item| item.text.starts_with('?')) {
        remarks.push("`?` is `*`".to_owned());
    }
    if items.iter().any(|item| item.text.starts_with(['h', 'H'])) {
        remarks.push(match salt {
            "" => "`H` is drawn from the job's name, and none is given here".to_owned(),
            name => format!("`H` is drawn from the name `{}`", name.escape_debug()),
        });
    }
    if let [item] = items.as_slice() {
        remarks.extend(restart(field, *item, values));
    }
    if field.name == "day-of-month" && !summary::is_any_day(values) {
        let is_late = |mark: &DayMark| match mark {
            DayMark::Last { before } => *before > 27,
            DayMark::Workday { near } => *near > 28,
            _ => false,
        };
        let late_days = (values.bits | 1) >> 29;
        if values.bits & 0x1fff_ffff == 0 && values.marks.iter().all(is_late) {
            remarks.push("a month without such a day has no run".to_owned());
        } else if late_days != 0 && values.bits.count_ones() > 1 || values.marks.iter().any(is_late) {
            remarks.push("not every month has all of them".to_owned());
        }
    }
    if values.marks.iter().any(|mark| matches!(mark, DayMark::Workday { .. })) {
        remarks.push("it never leaves the month".to_owned());
    }
    if values.marks.iter().any(|mark| matches!(mark, DayMark::Nth { nth: 5, .. })) {
        remarks.push("a month with only four of them has none".to_owned());
    }
    remarks
}

/// Steps count from the lowest value and begin again with the field, which people take for a distance.
fn restart(field: &Field, item: Piece, values: &Values) -> Option<String> {
    let (base, step) = item.split_once('/')?;
    let step = number(step.text)?;
    let is_open = !base.text.contains('-');
    let numbers = summary::numbers(values.bits);
    let (first, last) = (*numbers.first()?, *numbers.last()?);
    if !is_open || first == last || numbers.windows(2).any(|pair| pair[1] - pair[0] != step) {
        return None;
    }
    let (round, size, unit) = match field.name {
        "second" => ("minute", 60, "second"),
        "minute" => ("hour", 60, "minute"),
        "hour" => ("day", 24, "hour"),
        "month" => ("year", 12, "month"),
        "day-of-week" => ("week", 7, "day"),
        _ => return (step > 1).then(|| "it begins again with each month".to_owned()),
    };
    let gap = first + size - last;
    let plural = if gap == 1 { "" } else { "s" };
    let (first, last) = match field.name {
        "month" => (summary::months(1 << first), summary::months(1 << last)),
        "day-of-week" => {
            let name = |day: u32| summary::weekdays(&Values { bits: 1 << day, ..Values::default() });
            (name(first), name(last))
        }
        _ => (first.to_string(), last.to_string()),
    };
    (gap != step)
        .then(|| format!("it begins again with each {round}: {last} is followed by {first} after {gap} {unit}{plural}"))
}
