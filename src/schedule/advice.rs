//! Texts that are no schedule as a whole, but say what was meant: a crontab's line, English, a zone, a list with blanks.

use super::calendar::Fields;
use super::days::DayRule;
use super::error::Piece;
use super::error::ScheduleError;
use super::every;
use super::field::DAY_OF_MONTH;
use super::field::DAY_OF_WEEK;
use super::field::Field;
use super::field::Values;
use super::field::number;
use super::print;
use super::summary;
use super::zone_data;
use super::zone_error;

/// Words that commands do not begin with, though they are no names of a field either.
const FULL_NAMES: [&str; 19] = [
    "SUNDAYS",
    "MONDAYS",
    "TUESDAYS",
    "WEDNESDAYS",
    "THURSDAYS",
    "FRIDAYS",
    "SATURDAYS",
    "JANUARY",
    "FEBRUARY",
    "MARCH",
    "APRIL",
    "MAY",
    "JUNE",
    "JULY",
    "AUGUST",
    "SEPTEMBER",
    "OCTOBER",
    "NOVEMBER",
    "DECEMBER",
];

/// `"0 2 * * *"` with the quotes as part of the text. `is_schedule` is asked about the text without them.
pub(super) fn quoted(whole: Piece, is_schedule: impl Fn(&str) -> bool) -> Option<ScheduleError> {
    let is_quote = |c: char| matches!(c, '"' | '\'' | '`');
    let inner = whole.text.trim_matches(|c: char| is_quote(c) || c.is_ascii_whitespace());
    if inner.len() == whole.text.len() || inner.is_empty() {
        return None;
    }
    let both = whole.text.starts_with(is_quote) && whole.text.ends_with(is_quote);
    let message = if both { "the schedule is quoted twice" } else { "a quote stands inside the schedule" };
    let write = if is_schedule(inner) { format!(": write `{inner}`") } else { String::new() };
    Some(whole.wrong(message, format!("remove the inner quotes{write}")))
}

/// `1-5, 7`: a blank where a list goes on. `is_schedule` says whether the text without it would be one.
pub(super) fn blank_in_list(whole: Piece, is_schedule: impl Fn(&str) -> bool) -> Option<ScheduleError> {
    let is_blank = |c: char| c == ' ' || c == '\t';
    let commas = whole.text.match_indices(',').map(|(at, _)| at);
    let around =
        |at: usize| (whole.text[..at].trim_end_matches(is_blank), whole.text[at + 1..].trim_start_matches(is_blank));
    let at = commas.into_iter().find(|at| {
        let (before, after) = around(*at);
        before.len() < *at && !before.is_empty() || after.len() < whole.text.len() - at - 1 && !after.is_empty()
    })?;
    let (before, after) = around(at);
    if before.ends_with(['*', '?']) || after.starts_with(['*', '?']) {
        return None; // more likely a comma too many
    }
    let parts: Vec<_> = whole.text.split(',').map(|part| part.trim_matches(is_blank)).collect();
    let joined = parts.join(",");
    let place = if before.len() < at { "before" } else { "after" };
    let hint = if is_schedule(&joined) {
        format!("remove the blank {place} the comma: write `{joined}`")
    } else if matches!(joined.split_ascii_whitespace().count(), 5 | 6) {
        format!("remove the blank {place} the comma")
    } else {
        return None;
    };
    let gap = whole.part(before.len(), whole.text.len() - after.len());
    Some(gap.wrong("a blank stands inside a list, and blanks separate fields", hint))
}

/// `rate(5 minutes)` and `cron(0 2 * * ? *)` of EventBridge, `*-*-* 02:00:00` of systemd.
pub(super) fn dialect(whole: Piece, is_schedule: impl Fn(&str) -> bool) -> Option<ScheduleError> {
    let inside = |name: &str| {
        let (begins, rest) = (whole.text.get(..name.len())?, whole.text.get(name.len()..)?);
        rest.strip_suffix(')').filter(|_| begins.eq_ignore_ascii_case(name)).map(str::trim)
    };
    if let Some(rate) = inside("rate(") {
        let hint = every::hint(rate).unwrap_or_else(|| FIVE.to_owned());
        return Some(whole.wrong("`rate(…)` is how EventBridge writes a distance", hint));
    }
    if let Some(cron) = inside("cron(") {
        let words: Vec<&str> = cron.split_ascii_whitespace().collect();
        // Its sixth field is the year, and its week begins with Sunday = 1.
        let meant = words.get(..5).map(|five| five.join(" ")).filter(|five| {
            let days_agree = words[4].contains(['*', '?']) || !words[4].contains(|c: char| c.is_ascii_digit());
            days_agree && words.get(5).is_none_or(|year| *year == "*") && is_schedule(five)
        });
        let hint = meant.map_or_else(
            || format!("{FIVE}, without a year, and weekdays from Sunday = 0"),
            |meant| format!("write `{meant}`"),
        );
        return Some(whole.wrong("`cron(…)` is how EventBridge writes a schedule", hint));
    }
    if let Some(error) = iso(whole) {
        return Some(error);
    }
    let words = whole.words();
    let date = words.iter().position(|word| word.text.contains('*') && word.text.matches('-').count() == 2)?;
    let daily = match words.as_slice() {
        [date, time] if date.text == "*-*-*" => time_of_day(&[time.text]),
        _ => None,
    };
    let hint = daily.map_or_else(|| FIVE.to_owned(), |meant| format!("write `{meant}`"));
    let message = format!("`{}` is how systemd writes a date", words[date].text);
    Some(whole.wrong(message, hint))
}

/// `PT5M`, `R/PT1H`, `R3/2026-03-01T00:00:00Z/P1D` of ISO 8601.
fn iso(whole: Piece) -> Option<ScheduleError> {
    let upper = whole.text.to_ascii_uppercase();
    let (repeats, period) = upper.rsplit_once('/').unwrap_or(("", &upper));
    let is_period = period.starts_with("PT") && period.len() > 2
        || period.strip_prefix('P').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    let is_repeat = |text: &str| {
        let count = text.split('/').next().unwrap_or_default();
        count.strip_prefix('R').is_some_and(|count| count.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-'))
    };
    if !is_period || upper.contains(char::is_whitespace) || !(repeats.is_empty() || is_repeat(repeats)) {
        return None;
    }
    let ends = if matches!(repeats, "" | "R" | "R-1") { "" } else { ", which has neither a first run nor a last" };
    let meant = match period {
        "P1M" => Some("@monthly".to_owned()),
        "P1Y" => Some("@yearly".to_owned()),
        _ => every::mend(period),
    };
    let hint = meant.map_or_else(|| FIVE.to_owned(), |meant| format!("write `{meant}`{ends}"));
    Some(whole.wrong(format!("`{}` is how ISO 8601 writes a distance", whole.text), hint))
}

/// Several schedules in one text: `0 9 * * MON-FRI; 0 10 * * SAT`. `is_schedule` is asked about each.
pub(super) fn several(whole: Piece, is_schedule: impl Fn(&str) -> bool) -> Option<ScheduleError> {
    // The longer ones first: `|` is a part of `||`.
    for separator in [";", "||", "|", "&&", "&", " and ", " or ", " + ", ",\t", ", "] {
        let Some(at) = whole.text.find(separator) else { continue };
        if let Some(hint) = list_hint(whole.text.split(separator), &is_schedule) {
            let found = whole.part(at, at + separator.len());
            let message = format!("`{}` stands between two schedules, and one text is one schedule", separator.trim());
            return Some(found.wrong(message, hint));
        }
    }
    None
}

/// How several schedules are written. `None`: these are none.
fn list_hint<'a>(parts: impl Iterator<Item = &'a str>, is_schedule: impl Fn(&str) -> bool) -> Option<String> {
    let parts: Vec<String> = parts.map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect();
    let (good, others): (Vec<_>, Vec<_>) = parts.iter().partition(|part| is_schedule(part));
    let is_meant = |part: &&String| part.starts_with('@') || matches!(part.split_whitespace().count(), 5 | 6);
    match parts.as_slice() {
        [] | [_] => None,
        all if others.is_empty() => Some(format!("several are a list: {}", every::list(all))),
        _ if !good.is_empty() && others.iter().all(is_meant) => {
            Some("several are a list of texts: `[\"0 9 * * MON-FRI\", \"0 10 * * SAT\"]`".to_owned())
        }
        _ => None,
    }
}

/// What to write for a text of several lines: a list of schedules, or one line.
pub(super) fn lines(text: &str, is_schedule: impl Fn(&str) -> bool) -> String {
    let joined = text.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
    let one = || is_schedule(&joined).then(|| format!("write one schedule as one line: write `{joined}`"));
    let general = "write one schedule as one line; several are a list of texts";
    list_hint(text.split(['\n', '\r']), &is_schedule).or_else(one).unwrap_or_else(|| general.to_owned())
}

/// `0 9 * * MON-FRI 0 10 * * SAT`, as a block of YAML is that makes one line of several.
pub(super) fn one_behind_another(words: &[Piece], is_schedule: impl Fn(&str) -> bool) -> Option<String> {
    let text = |words: &[Piece]| words.iter().map(|word| word.text).collect::<Vec<_>>().join(" ");
    [5, 6].into_iter().find_map(|size| {
        let texts: Vec<String> = words.chunks(size).map(text).collect();
        texts.iter().all(|text| is_schedule(text)).then(|| format!("several are a list: {}", every::list(&texts)))
    })
}

/// `*****`, `*/5****`: stars without the blanks around them.
pub(super) fn without_blanks(words: &[Piece], is_schedule: impl Fn(&str) -> bool) -> Option<String> {
    let text = words.iter().map(|word| word.text).collect::<Vec<_>>().join(" ");
    let is_star = |c: char| matches!(c, '*' | '?');
    let mut apart = String::new();
    let mut before = ' ';
    for c in text.chars() {
        if is_star(c) && before != ',' || is_star(before) && !matches!(c, '/' | ',') {
            apart.push(' ');
        }
        apart.push(c);
        before = c;
    }
    let meant = apart.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
    is_schedule(&meant).then(|| format!("blanks separate fields: write `{meant}`"))
}

/// The months of `*`.
const EVERY_MONTH: u64 = ((1 << 12) - 1) << 1;

const FIVE: &str = "write five fields: minute, hour, day of month, month, day of week";

/// `0 2 * * * # nightly`.
pub(super) fn comment(whole: Piece) -> Option<ScheduleError> {
    let at = whole.text.find(" #").or_else(|| whole.text.find("\t#"))?;
    let comment = whole.part(at, whole.text.len());
    Some(comment.wrong("a comment stands inside the schedule", "remove it; a job has `description` for such words"))
}

/// `Europe/Berlin` in front of the fields or behind them, or nearly so.
pub(super) fn zone(words: &[Piece]) -> Option<ScheduleError> {
    let ends = [*words.first()?, *words.last()?];
    let (word, name) = ends.into_iter().find_map(|word| zone_meant(word.text).map(|name| (word, name)))?;
    Some(word.wrong("a zone stands inside the schedule", format!("write it as the job's `timeZone: {name}`")))
}

fn zone_meant(text: &str) -> Option<String> {
    if !text.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return None; // as most fields: there are many names to compare with
    }
    if let Some(name) = zone_data::names().find(|name| name.eq_ignore_ascii_case(text)) {
        return Some(name.to_owned());
    }
    let (region, _) = text.split_once('/')?;
    let is_region = |name: &str| name.split_once('/').is_some_and(|(known, _)| known.eq_ignore_ascii_case(region));
    if !zone_data::names().any(is_region) {
        return None;
    }
    Some(zone_error::nearest(text).into_iter().next().unwrap_or_else(|| "UTC".into()))
}

/// `0 2 * * * /usr/bin/backup`, as in a crontab.
pub(super) fn command(whole: Piece, words: &[Piece]) -> Option<ScheduleError> {
    let is_path = |word: &Piece| {
        let (base, rest) = word.text.split_once('/').unwrap_or_default();
        word.text.starts_with(['/', '.', '~', '$']) && word.text.len() > 1
            || !is_made_of_names(base) && rest.starts_with(|c: char| c.is_ascii_alphabetic())
    };
    let is_command = |word: &Piece| is_path(word) || !word.text.starts_with(['*', '?']) && !is_made_of_names(word.text);
    let at = match words.len() {
        0..=4 => return None,
        5 => Some(4).filter(|at| is_path(&words[*at])),
        count => (5..count.min(7)).find(|at| is_command(&words[*at])),
    }?;
    let rest = whole.part(words[at].column - whole.column, whole.text.len());
    let hint = "a schedule has no place for a command or its user: put the command into `command`";
    Some(rest.wrong(format!("`{}` is no part of a schedule", rest.text), hint))
}

/// Every word in it could be a weekday's or a month's, or is a letter that has a meaning.
fn is_made_of_names(text: &str) -> bool {
    let upper = text.to_ascii_uppercase();
    let mut words = upper.split(|c: char| !c.is_ascii_alphabetic());
    words.all(|word| {
        let day = if word.len() > 3 { word.strip_suffix('L').unwrap_or(word) } else { word };
        word.len() < 2 || matches!(word, "LW" | "WL") || FULL_NAMES.iter().any(|name| name.starts_with(day))
    })
}

/// What to write for fewer than five words: English, or one distance.
pub(super) fn meant_in_words(words: &[Piece]) -> Option<String> {
    let lower: Vec<_> = words.iter().map(|word| word.text.to_ascii_lowercase()).collect();
    let text = lower.join(" ");
    if text.contains(',') {
        return every::hint(&text);
    }
    let text: Vec<_> = lower.iter().map(String::as_str).collect();
    known_words(&text).map(|meant| format!("write `{meant}`"))
}

fn known_words(text: &[&str]) -> Option<String> {
    let known = match text {
        ["every", "second"] => Some("* * * * * *"),
        ["every", "minute"] | ["minutely"] => Some("* * * * *"),
        ["every", "hour"] => Some("@hourly"),
        ["every", "day"] | ["every", "night"] => Some("@daily"),
        ["every", "week"] => Some("@weekly"),
        ["every", "month"] => Some("@monthly"),
        ["every", "year"] => Some("@yearly"),
        _ => None,
    };
    if let Some(known) = known {
        return Some(known.into());
    }
    if let Some(daily) = time_of_day(text) {
        return Some(daily);
    }
    match text {
        ["every"] => Some("@every 5m".into()),
        ["every", rest @ ..] => every::mend(&rest.join(" ")),
        _ => every::mend(&text.join(" ")).filter(|_| text.concat().contains(|c: char| c.is_ascii_alphabetic())),
    }
}

/// `02:30`, `every day at 02:30`, `02:30 * * *`.
pub(super) fn time_of_day(words: &[&str]) -> Option<String> {
    let (times, others): (Vec<&str>, Vec<&str>) = words.iter().partition(|word| word.contains(':'));
    let [time] = times.as_slice() else { return None };
    if !others.iter().all(|word| matches!(*word, "*" | "every" | "day" | "daily" | "at" | "@")) {
        return None;
    }
    let parts: Option<Vec<u32>> = time.split(':').map(number).collect();
    match parts?.as_slice() {
        [hour @ 0..=23, minute @ 0..=59] | [hour @ 0..=23, minute @ 0..=59, 0] => {
            Some(format!("{minute} {hour} * * *"))
        }
        [hour @ 0..=23, minute @ 0..=59, second @ 0..=59] => Some(format!("{second} {minute} {hour} * * *")),
        _ => None,
    }
}

/// `*/90 * * * *`: a distance that no field can say, if nothing else in the text would be lost.
pub(super) fn distance(words: &[Piece], at: usize, field: &Field) -> Option<String> {
    let step = words[at].text.strip_prefix("*/").and_then(number).filter(|step| *step > field.high)?;
    let finer_is_zero = words[..at].iter().all(|word| matches!(word.text, "*" | "0" | "00"));
    let coarser_is_any = words[at + 1..].iter().all(|word| matches!(word.text, "*" | "?"));
    let distance = every::mend(&format!("{step}{}", field.unit?))?;
    (finer_is_zero && coarser_is_any)
        .then(|| format!("for such a distance write `{distance}`, which is counted in UTC"))
}

/// Why fields that are right never meet, and what to write instead.
pub(super) fn never(words: &[Piece], fields: &Fields, is_schedule: impl Fn(&str) -> bool) -> String {
    match fields.days.has_day_of_month(fields.months) {
        true => both_days(words, fields, is_schedule),
        false => last_day(words, is_schedule),
    }
}

/// For days that no chosen month has: the last day instead; of any weekday, if the chosen ones leave none.
fn last_day(words: &[Piece], is_schedule: impl Fn(&str) -> bool) -> String {
    let (at, week) = (words.len() - 3, words.len() - 1);
    let of_workday = words[at].text.contains(['w', 'W']);
    let (day, mark) = if of_workday { ("last workday", "LW") } else { ("last day", "L") };
    let with = |changes: &[(usize, &str)]| replaced(words, changes);
    for (changes, which) in [(&[(at, mark)][..], ""), (&[(at, mark), (week, "*")], ", whatever its weekday,")] {
        let meant = with(changes);
        if is_schedule(&meant) {
            return format!("no chosen month has such a day; for the {day} of a month{which} write `{meant}`");
        }
    }
    "no chosen month has such a day".to_owned()
}

/// For two day fields that must both match, as one begins with a star, and of which each alone does: one of them, or either.
fn both_days(words: &[Piece], fields: &Fields, is_schedule: impl Fn(&str) -> bool) -> String {
    let (at, week) = (words.len() - 3, words.len() - 1);
    let DayRule { of_month, of_week } = &fields.days;
    let named = [(&DAY_OF_MONTH, of_month, words[at].text), (&DAY_OF_WEEK, of_week, words[week].text)];
    let starred: Vec<_> = named
        .iter()
        .filter(|(_, values, _)| values.starred)
        .filter_map(|(field, _, text)| Some((field.name, text.chars().next()?)))
        .collect();
    // The same days in a text that begins with no star.
    let [by_month, by_week] = named.map(|(field, values, text)| match values.starred {
        true => print::days(field, &Values { starred: false, ..values.clone() }),
        false => text.to_owned(),
    });
    let alternatives = [
        ("for one of the two", replaced(words, &[(week, "*")])),
        ("or", replaced(words, &[(at, "*")])),
        ("for days that either names", replaced(words, &[(at, by_month.as_str()), (week, by_week.as_str())])),
    ];
    let which = if fields.months == EVERY_MONTH { "no day" } else { "no day of the chosen months" };
    let (one, other) = (words[at].text, words[week].text);
    let mut hint = format!(
        "{}, so both day fields must match, and {which} is both `{one}` and `{other}`",
        summary::beginnings(&starred)
    );
    let mut mark = "; ";
    for (what, meant) in alternatives.iter().filter(|(_, meant)| is_schedule(meant)) {
        hint.push_str(&format!("{mark}{what} write `{meant}`"));
        mark = if *what == "for one of the two" { " " } else { "; " };
    }
    hint
}

/// The words with others at some places.
fn replaced(words: &[Piece], changes: &[(usize, &str)]) -> String {
    let text = |(index, word): (usize, &Piece)| {
        let change = changes.iter().find(|(at, _)| *at == index);
        change.map_or(word.text, |(_, text)| *text).to_owned()
    };
    words.iter().enumerate().map(text).collect::<Vec<_>>().join(" ")
}
