//! A whole expression: macros, `@every`, five or six fields; and everything that is none of these.

use super::advice;
use super::calendar::Fields;
use super::days::DayRule;
use super::error::Piece;
use super::error::ScheduleError;
use super::every;
use super::field::DAY_OF_MONTH;
use super::field::DAY_OF_WEEK;
use super::field::Field;
use super::field::HOUR;
use super::field::MINUTE;
use super::field::MONTH;
use super::field::SECOND;
use super::field::Values;
use super::print;

/// The longest text that is looked at. A canonical one may be longer, since it can name one by one what `H/7,H/11` or a
/// list of overlapping steps names; nobody writes such a text.
const BYTES_MAX: usize = 256;

const FIELDS: &str = "write five fields (minute hour day-of-month month day-of-week), or six with seconds first";

/// Names and what they stand for.
const MACROS: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

/// What a text says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Expression {
    /// Every so many seconds, counted from the Unix epoch.
    Every(i64),
    /// Five or six fields.
    Fields(Fields),
}

/// Reads `text`; `salt` is the job's name, for `H`.
pub(super) fn parse(text: &str, salt: &str) -> Result<Expression, ScheduleError> {
    let whole = clean(text, |text| is_read(text, salt))?;
    // Asked about a text without quotes at its ends, so this goes one level deep.
    let is_accepted = |text: &str| parse(text, salt).is_ok();
    if let Some(error) = advice::quoted(whole, is_accepted).or_else(|| advice::comment(whole)) {
        return Err(error);
    }
    if whole.text.starts_with('@') {
        let is_schedule = |text: &str| is_read(text, salt);
        return named(whole).map_err(|error| advice::several(whole, is_schedule).unwrap_or(error));
    }
    let words = whole.words();
    // What is wholly understood needs no advice, and some of it looks through all names of zones.
    if let 5 | 6 = words.len()
        && let Ok(fields) = fields(&words, salt)
        && fields.ever_match()
    {
        return Ok(Expression::Fields(fields));
    }
    refused(whole, &words, salt)
}

/// Why `whole` is no expression of fields. It may turn out to be one only if it is one.
fn refused(whole: Piece, words: &[Piece], salt: &str) -> Result<Expression, ScheduleError> {
    if let Some((name, zone)) = words[0].split_once('=')
        && name.text.to_ascii_uppercase().ends_with("TZ")
    {
        let hint =
            format!("write it as the job's `timeZone: {}`", if zone.text.is_empty() { "UTC" } else { zone.text });
        return Err(words[0].wrong("a zone stands inside the schedule", hint));
    }
    let is_schedule = |text: &str| is_read(text, salt);
    if let Some(error) = advice::several(whole, is_schedule) {
        return Err(error);
    }
    if let Some(error) = advice::dialect(whole, is_schedule) {
        return Err(error);
    }
    let misplaced = || advice::zone(words).or_else(|| advice::command(whole, words));
    if let Some(error) = advice::blank_in_list(whole, is_schedule).or_else(misplaced) {
        return Err(error);
    }
    let fields = match words.len() {
        5 | 6 => fields(words, salt)?,
        0..=4 => return Err(too_few(whole, words, is_schedule)),
        count => {
            let from = words[6].column - whole.column;
            let rest = whole.part(from, whole.text.len());
            let none = || format!("{FIELDS}; there is none for the year or for a command");
            let hint = advice::one_behind_another(words, is_schedule).unwrap_or_else(none);
            return Err(rest.wrong(format!("{count} fields are too many"), hint));
        }
    };
    if !fields.ever_match() {
        return Err(whole.wrong(format!("`{}` never fires", whole.text), advice::never(words, &fields, is_schedule)));
    }
    Ok(Expression::Fields(fields))
}

/// Whether a text is a schedule; no advice is sought for one that is none.
fn is_read(text: &str, salt: &str) -> bool {
    let whole = Piece { text, column: 0 };
    let words = whole.words();
    // Pieces are of ASCII.
    text.is_ascii()
        && text.len() <= BYTES_MAX
        && match words.len() {
            _ if text.starts_with('@') => named(whole).is_ok(),
            5 | 6 => fields(&words, salt).is_ok_and(|fields| fields.ever_match()),
            _ => false,
        }
}

/// The fields that a name such as `@daily` stands for.
pub(super) fn meaning_of_name(text: &str) -> Option<&'static str> {
    let lower = text.to_ascii_lowercase();
    MACROS.iter().find(|(known, _)| *known == lower).map(|(_, meaning)| *meaning)
}

/// Without the blanks around it, and only what a keyboard in ASCII can type. `is_schedule` is asked about single lines.
fn clean(text: &str, is_schedule: impl Fn(&str) -> bool) -> Result<Piece<'_>, ScheduleError> {
    if text.len() > BYTES_MAX && !is_canonical(text) {
        return Err(ScheduleError {
            column: 0,
            length: text.chars().count(),
            message: format!("a schedule of {} bytes is longer than {BYTES_MAX}", text.len()),
            hint: Some("write ranges and steps instead of long lists, or two schedules".into()),
        });
    }
    let is_blank = |c: char| c.is_ascii_whitespace();
    let column = text.chars().take_while(|c| is_blank(*c)).count();
    let whole = Piece { text: text.trim_matches(is_blank), column };
    let strange = |c: &char| !c.is_ascii() || c.is_ascii_control() && *c != '\t';
    if let Some((index, found)) = whole.text.chars().enumerate().find(|(_, c)| strange(c)) {
        let (message, hint) = match found {
            '\n' | '\r' => {
                let hint = advice::lines(whole.text, is_schedule);
                return Err(
                    Piece { text: " ", column: column + index }.wrong("a line break stands inside the schedule", hint)
                );
            }
            c if c.is_numeric() => (format!("`{c}` is not an ASCII digit"), "write the digits 0 to 9"),
            '\u{2010}'..='\u{2015}' | '\u{2212}' => (format!("`{found}` is not a hyphen"), "write `-`"),
            c if c.is_whitespace() => ("a blank of another kind stands here".into(), "write an ordinary blank"),
            '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}' => {
                (format!("the invisible character U+{:04X} stands here", u32::from(found)), "remove it")
            }
            c => (
                format!("`{}` has no place in a schedule", c.escape_debug()),
                "write digits, `* , - /` and English names",
            ),
        };
        return Err(ScheduleError { column: column + index, length: 1, message, hint: Some(hint.into()) });
    }
    if whole.text.is_empty() {
        return Err(whole.wrong("the schedule is empty", FIELDS));
    }
    Ok(whole)
}

/// Whether `text` is how its own meaning is printed.
fn is_canonical(text: &str) -> bool {
    if text.len() > print::BYTES_MAX || !text.is_ascii() {
        return false;
    }
    let words = Piece { text, column: 0 }.words();
    matches!(words.len(), 5 | 6) && fields(&words, "").is_ok_and(|fields| print::fields(&fields) == text)
}

/// `@daily`, `@every 5m`.
fn named(whole: Piece) -> Result<Expression, ScheduleError> {
    let at = whole.text.find([' ', '\t']).unwrap_or(whole.text.len());
    let (name, rest) = (whole.part(0, at), whole.part(at, whole.text.len()));
    let blanks = rest.text.len() - rest.text.trim_start().len();
    let rest = rest.part(blanks, rest.text.len());
    let lower = name.text.to_ascii_lowercase();
    if lower == "@every" {
        return every::parse(rest).map(Expression::Every);
    }
    if lower == "@reboot" {
        let hint = "write when it is due, or `@every 1h`; what must precede a start belongs in an init container";
        return Err(name.wrong("`@reboot` names no instant that all replicas could agree on", hint));
    }
    let Some((_, meaning)) = MACROS.iter().find(|(known, _)| *known == lower) else {
        let known = "write @yearly, @monthly, @weekly, @daily, @hourly or `@every 5m`";
        let hint = lower.strip_prefix("@every").and_then(every::hint).unwrap_or_else(|| known.into());
        return Err(name.wrong(format!("`{}` is not a known name", name.text), hint));
    };
    if !rest.text.is_empty() {
        if let Some(error) = advice::zone(&[rest]) {
            return Err(error);
        }
        let rest_words = rest.words();
        let time = rest_words.iter().map(|word| word.text).collect::<Vec<_>>();
        let hint = match advice::time_of_day(&time).filter(|_| meaning == &"0 0 * * *") {
            Some(daily) => format!("write `{daily}`"),
            None => "remove it; a command belongs into `command`".into(),
        };
        return Err(rest.wrong(format!("`{}` stands after `{}`", rest.text, name.text), hint));
    }
    fields(&Piece { text: meaning, column: 0 }.words(), "").map(Expression::Fields)
}

fn fields(words: &[Piece], salt: &str) -> Result<Fields, ScheduleError> {
    let with_seconds = words.len() == 6;
    let read = |at: usize, field: &Field| {
        field.parse(words[at], salt).map_err(|mut error| {
            // If the whole word is underlined, `*/60`, the field itself has a better answer.
            let is_step = error.length < words[at].text.len();
            error.hint = advice::distance(words, at, field).filter(|_| is_step).or(error.hint);
            error
        })
    };
    let second = if with_seconds { read(0, &SECOND)? } else { Values { bits: 1, ..Values::default() } };
    let first = usize::from(with_seconds);
    let (minute, hour) = (read(first, &MINUTE)?, read(first + 1, &HOUR)?);
    let (of_month, month) = (read(first + 2, &DAY_OF_MONTH)?, read(first + 3, &MONTH)?);
    let of_week = read(first + 4, &DAY_OF_WEEK).map_err(|mut error| {
        let hint = error.hint.clone().unwrap_or_default();
        if with_seconds && !hint.contains("write `") {
            error.hint = Some(format!("{hint} (of six fields the first is seconds and the last is day-of-week)"));
        }
        error
    })?;
    Ok(Fields {
        seconds: second.bits,
        minutes: minute.bits,
        hours: hour.bits,
        months: month.bits,
        days: DayRule { of_month, of_week },
        elapsed: minute.starred || hour.starred,
    })
}

fn too_few(whole: Piece, words: &[Piece], is_schedule: impl Fn(&str) -> bool) -> ScheduleError {
    let first = words[0].text.to_ascii_lowercase();
    let hint = if MACROS.iter().any(|(name, _)| name[1..] == first) {
        format!("write `@{first}`")
    } else if let Some(hint) = advice::meant_in_words(words).or_else(|| advice::without_blanks(words, is_schedule)) {
        hint
    } else {
        FIELDS.into()
    };
    let message = match words.len() {
        1 => "1 field is too few".to_owned(),
        count => format!("{count} fields are too few"),
    };
    whole.wrong(message, hint)
}
