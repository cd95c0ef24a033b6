//! Days that depend on the month: `L`, `L-3`, `LW`, `15W` in day-of-month; `5L`, `FRI#2` in day-of-week.

use super::days::DayMark;
use super::error::Piece;
use super::error::ScheduleError;
use super::field::Around;
use super::field::Field;
use super::field::number;

impl Field {
    /// `None`: nothing of the kind, and to be read as numbers.
    pub fn mark(&self, item: Piece) -> Result<Option<DayMark>, ScheduleError> {
        let upper = item.text.to_ascii_uppercase();
        if upper.starts_with(['*', '?']) {
            return Ok(None);
        }
        match self.name {
            "day-of-month" => self.mark_of_month(item, &upper),
            "day-of-week" => self.mark_of_week(item, &upper),
            _ if looks_like_mark(&upper) => Err(item.wrong(
                format!("`{}` stands in the {} field", item.text, self.title()),
                "`L`, `W` and `#` belong in the two day fields",
            )),
            _ => Ok(None),
        }
    }

    fn mark_of_month(&self, item: Piece, upper: &str) -> Result<Option<DayMark>, ScheduleError> {
        let end = item.text.len();
        let begins_with_digit = upper.starts_with(|c: char| c.is_ascii_digit());
        match upper {
            "L" => Ok(Some(DayMark::Last { before: 0 })),
            "LW" => Ok(Some(DayMark::LastWorkday)),
            text if text.starts_with("L-") => before_last(item).map(Some),
            text if text.ends_with('W') && begins_with_digit => {
                let near = self.one_day(item, item.part(0, end - 1), "W")?;
                Ok(Some(DayMark::Workday { near }))
            }
            text if text.strip_suffix("-L").is_some_and(|first| number(first).is_some()) => {
                let first = item.part(0, end - 2);
                self.value(first)?;
                let hint = format!(
                    "the longest month ends with 31, and a day that a month does not have is left out: write `{}-31`",
                    first.text
                );
                Err(item.wrong(format!("day-of-month `{}` is not a range", item.text), hint))
            }
            text if text.contains('#') || text.ends_with('L') && begins_with_digit => Err(item.wrong(
                format!("day-of-month `{}` is not a day", item.text),
                "`5L` and `5#2` belong in the day-of-week field; here there are `L`, `L-3`, `LW` and `15W`",
            )),
            text if looks_like_mark(text) => {
                let known = "there are `L`, `L-3`, `LW` and `15W`";
                let hint = nearest_mark(text).map_or(known.into(), |mark| format!("write `{mark}`; {known}"));
                Err(item.wrong(format!("day-of-month `{}` is not a day", item.text), hint))
            }
            _ => Ok(None),
        }
    }

    fn mark_of_week(&self, item: Piece, upper: &str) -> Result<Option<DayMark>, ScheduleError> {
        if let Some((weekday, nth)) = item.split_once('#') {
            return self.nth(item, weekday, nth).map(Some);
        }
        if upper == "L" {
            let hint = "for the last Friday of the month write `5L`, for every Saturday write `6`";
            return Err(item.wrong("`L` alone is no weekday", hint));
        }
        if upper.contains('W') && looks_like_mark(upper) {
            return Err(item.wrong("`W` stands in the day-of-week field", "it belongs in the day-of-month field"));
        }
        let is_weekday = |piece: Piece| self.value(piece).is_ok();
        let instead = |day: Piece| {
            let hint = format!("the last one of the month is written behind the weekday: write `{}L`", day.text);
            Err(item.wrong(format!("day-of-week `{}` is not a day", item.text), hint))
        };
        if upper.starts_with('L') && is_weekday(item.part(1, item.text.len())) {
            return instead(item.part(1, item.text.len()));
        }
        if let Some(at) = upper.find("L/").or_else(|| upper.find("L-"))
            && is_weekday(item.part(0, at))
        {
            return instead(item.part(0, at));
        }
        let Some(head) = upper.strip_suffix('L') else { return Ok(None) };
        let weekday = item.part(0, head.len());
        if !head.starts_with(|c: char| c.is_ascii_digit()) && self.meant(head).is_none() {
            return Ok(None); // `APRIL`
        }
        Ok(Some(DayMark::LastOf { weekday: self.one_day(item, weekday, "L")? % 7 }))
    }

    /// The day before `#1`, `L` or `W`, which takes no range.
    fn one_day(&self, item: Piece, day: Piece, end: &str) -> Result<u32, ScheduleError> {
        if !day.text.contains('-') {
            return self.value(day);
        }
        let single = day.part(0, day.text.trim_end_matches('-').len());
        let list = if self.value(single).is_ok() {
            format!("write `{}{end}`", single.text)
        } else if let Ok(span) = self.span(day, Around::Hash) {
            format!("list them: write `{}`", self.listed(&self.unrolled(span, 1), day.text, end))
        } else {
            format!("list them, as in `1{end},2{end}`")
        };
        let hint = format!("`#`, `L` and `W` take one day; {list}");
        Err(item.wrong(format!("{} `{}` is not one day", self.name, item.text), hint))
    }

    fn nth(&self, item: Piece, weekday: Piece, nth: Piece) -> Result<DayMark, ScheduleError> {
        let Some(count @ 1..=5) = number(nth.text) else {
            let message = match nth.text {
                "" => "a number is missing after `#`".to_owned(),
                text => format!("`{text}` does not count a weekday of the month"),
            };
            let day = weekday.text;
            let hint = if self.value(weekday).is_ok() {
                format!("write `{day}#1` up to `{day}#5`, or `{day}L` for the last one")
            } else {
                "`5#1` to `5#5` are Fridays of the month, `5L` is the last one".to_owned()
            };
            return Err(item.wrong(message, hint));
        };
        let weekday = self.one_day(item, weekday, &format!("#{count}"))? % 7;
        Ok(DayMark::Nth { weekday, nth: count })
    }
}

/// Letters of marks and no others.
fn looks_like_mark(upper: &str) -> bool {
    let only = upper.bytes().all(|byte| byte.is_ascii_digit() || b"LW-/".contains(&byte));
    upper.contains('#') || only && upper.contains(['L', 'W'])
}

/// The mark of day-of-month that was probably meant.
fn nearest_mark(upper: &str) -> Option<String> {
    let head = upper.split(['/', '-']).next().unwrap_or_default();
    let count = |text: &str, most: u32| number(text).filter(|count| (1..=most).contains(count));
    if upper.starts_with("LW") || upper == "WL" {
        Some("LW".into())
    } else if head == "L" {
        Some("L".into())
    } else if let Some(day) = head.strip_suffix('W').or(head.strip_prefix('W')).and_then(|day| count(day, 31)) {
        Some(format!("{day}W"))
    } else {
        upper.strip_prefix('L').and_then(|before| count(before, 30)).map(|before| format!("L-{before}"))
    }
}

/// `L-3`.
fn before_last(item: Piece) -> Result<DayMark, ScheduleError> {
    let count = &item.text[2..];
    let before = number(count);
    if let Some(before @ 1..=30) = before {
        return Ok(DayMark::Last { before });
    }
    if before == Some(0) {
        return Err(item.wrong(format!("`{}` is the last day itself", item.text), "write `L`"));
    }
    let message = match count {
        "" => "a number is missing after `L-`".to_owned(),
        _ => format!("`{count}` is not a number of days before the last of the month"),
    };
    Err(item.wrong(message, "write `L-1` up to `L-30`"))
}
