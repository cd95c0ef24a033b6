//! A second reading of `docs/schedules.md`, slow and independent: it reads the text item by item, walks from instant to
//! instant, asks `jiff` what the zone's clock shows there, and whether the text names that time. It shares no code with
//! the product; the zone files are the same.
//!
//! It would look at every second. What it leaves out are seconds up to the next minute, hour or day that the text does
//! not name, and never across a shift of the zone's clocks.

use crate::schedule::DstRule;
use crate::schedule::Fold;
use crate::schedule::Gap;
use jiff::SignedDuration;
use jiff::Timestamp;
use jiff::ToSpan;
use jiff::civil::Date;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use std::collections::BTreeMap;
use std::collections::BTreeSet;

/// A clock that was set further back is past that again.
const LONGEST_FOLD: i64 = 50 * 3600;

/// Name, lowest and highest number, names of the numbers.
type Shape = (&'static str, u32, u32, &'static [&'static str]);

const SHAPES: [Shape; 6] = [
    ("second", 0, 59, &[]),
    ("minute", 0, 59, &[]),
    ("hour", 0, 23, &[]),
    ("day-of-month", 1, 31, &[]),
    ("month", 1, 12, &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]),
    ("day-of-week", 0, 7, &["sun", "mon", "tue", "wed", "thu", "fri", "sat"]),
];

/// One field as the text has it: the numbers that it names, and the items that only a date can answer.
struct Named {
    numbers: BTreeSet<u32>,
    marks: Vec<String>,
    starred: bool,
}

/// The number behind `H`, from the description in the docs.
fn hash(text: &str) -> u128 {
    let mut hash = 14_695_981_039_346_656_037_u128;
    for byte in text.bytes() {
        hash = ((hash ^ u128::from(byte)) * 1_099_511_628_211) % (1 << 64);
    }
    hash ^ (hash / (1 << 32))
}

fn value(text: &str, (_, low, _, names): Shape) -> u32 {
    let index = names.iter().position(|name| *name == text);
    index.map_or_else(|| text.parse().unwrap(), |index| low + u32::try_from(index).unwrap())
}

fn ends(text: &str, shape: Shape) -> (u32, u32) {
    let (_, low, high, _) = shape;
    let Some((first, last)) = text.split_once('-') else {
        return if text == "*" || text == "?" { (low, high) } else { (value(text, shape), value(text, shape)) };
    };
    (value(first, shape), if last == "sun" { 7 } else { value(last, shape) })
}

fn item(text: &str, shape: Shape, job: &str) -> BTreeSet<u32> {
    let (name, low, high, _) = shape;
    let (base, step) = text.split_once('/').map_or((text, None), |(base, step)| (base, Some(step.parse().unwrap())));
    if let Some(inner) = base.strip_prefix('h') {
        let most = [("day-of-month", 28), ("day-of-week", 6)].iter().find(|(field, _)| *field == name);
        let whole = (low, most.map_or(high, |(_, most)| *most));
        let (first, last) = if inner.is_empty() { whole } else { ends(inner.trim_matches(['(', ')']), shape) };
        let all: Vec<u32> = (first..=last).collect();
        let choices = step.map_or(all.len(), |step: usize| step.min(all.len()));
        let chosen = usize::try_from(hash(&format!("{job}/{name}")) % choices as u128).unwrap();
        let from_there = all[chosen..].iter().copied();
        return step
            .map_or_else(|| from_there.clone().take(1).collect(), |step| from_there.clone().step_by(step).collect());
    }
    let (first, mut last) = ends(base, shape);
    if step.is_some() && !base.contains('-') {
        last = high;
    }
    // All of the week is seven days, and a step begins anew with Sunday.
    let whole = base == "*" || base == "?";
    let last = if whole && name == "day-of-week" { 6 } else { last };
    (first..=last).filter(|number| (number - first).is_multiple_of(u32::try_from(step.unwrap_or(1)).unwrap())).collect()
}

fn field(text: &str, shape: Shape, job: &str) -> Named {
    let text = text.to_ascii_lowercase();
    let mut named = Named { numbers: BTreeSet::new(), marks: Vec::new(), starred: text.starts_with(['*', '?']) };
    for part in text.split(',') {
        let is_mark = shape.0.starts_with("day")
            && !part.starts_with('h')
            && (part.contains('#') || part.ends_with('l') || part.starts_with('l') || part.ends_with('w'));
        if is_mark {
            named.marks.push(part.to_owned());
        } else {
            named.numbers.extend(item(part, shape, job));
        }
    }
    if shape.2 == 7 && named.numbers.remove(&7) {
        named.numbers.insert(0);
    }
    named
}

fn weekday(date: Date) -> u32 {
    u32::try_from(date.weekday().to_sunday_zero_offset()).unwrap()
}

fn days_of_month(date: Date) -> Vec<Date> {
    (1..=31).filter_map(|day| Date::new(date.year(), date.month(), day).ok()).collect()
}

fn mark(text: &str, date: Date) -> bool {
    let days = days_of_month(date);
    let workdays = || days.iter().copied().filter(|day| (1..=5).contains(&weekday(*day)));
    let later = |count: i32| date.checked_add(count.days()).unwrap();
    if text == "lw" {
        return workdays().next_back() == Some(date);
    }
    if let Some(before) = text.strip_prefix('l') {
        let before = before.strip_prefix('-').map_or(0, |before| before.parse().unwrap());
        return later(before).month() == date.month() && later(before + 1).month() != date.month();
    }
    if let Some(wanted) = text.strip_suffix('w') {
        let wanted: i32 = wanted.parse().unwrap();
        let distance = |day: &Date| (i32::from(day.day()) - wanted).abs();
        let exists = days.iter().any(|day| i32::from(day.day()) == wanted);
        return exists && workdays().min_by_key(distance) == Some(date);
    }
    let is_weekday = |text: &str| value(text, SHAPES[5]) % 7 == weekday(date);
    match text.split_once('#') {
        Some((day, nth)) => is_weekday(day) && (date.day() + 6) / 7 == nth.parse::<i8>().unwrap(),
        None => is_weekday(text.trim_end_matches('l')) && later(7).month() != date.month(),
    }
}

/// `1h30m`
fn distance_seconds(text: &str) -> i64 {
    let (mut sum, mut number) = (0, 0);
    for c in text.chars() {
        match c.to_digit(10) {
            Some(digit) => number = number * 10 + i64::from(digit),
            None => {
                sum += number
                    * [('s', 1), ('m', 60), ('h', 3600), ('d', 86_400)].iter().find(|unit| unit.0 == c).unwrap().1;
                number = 0;
            }
        }
    }
    sum
}

enum Text {
    Every(i64),
    Fields(Box<[Named; 6]>),
}

pub struct Oracle {
    text: Text,
    zone: TimeZone,
    days: BTreeMap<Date, bool>,
}

impl Oracle {
    /// `text` must be one that the product accepts.
    pub fn new(text: &str, job: &str, zone: TimeZone) -> Self {
        let text = match text.to_ascii_lowercase().as_str() {
            "@yearly" | "@annually" => "0 0 1 1 *".to_owned(),
            "@monthly" => "0 0 1 * *".to_owned(),
            "@weekly" => "0 0 * * 0".to_owned(),
            "@daily" | "@midnight" => "0 0 * * *".to_owned(),
            "@hourly" => "0 * * * *".to_owned(),
            other => other.to_owned(),
        };
        if let Some(distance) = text.strip_prefix("@every ") {
            return Self { text: Text::Every(distance_seconds(distance)), zone, days: BTreeMap::new() };
        }
        let mut words: Vec<&str> = text.split_whitespace().collect();
        if words.len() == 5 {
            words.insert(0, "0");
        }
        let fields = std::array::from_fn(|at| field(words[at], SHAPES[at], job));
        Self { text: Text::Fields(Box::new(fields)), zone, days: BTreeMap::new() }
    }

    fn day_matches(&mut self, date: Date) -> bool {
        let Text::Fields(fields) = &self.text else { return true };
        *self.days.entry(date).or_insert_with(|| {
            let has = |at: usize, number: u32| {
                fields[at].numbers.contains(&number) || fields[at].marks.iter().any(|text| mark(text, date))
            };
            let of_month = has(3, u32::try_from(date.day()).unwrap());
            let of_week = has(5, weekday(date));
            let both = fields[3].starred || fields[5].starred;
            let day = if both { of_month && of_week } else { of_month || of_week };
            day && has(4, u32::try_from(date.month()).unwrap())
        })
    }

    /// Whether no date from 2000 to 2040 matches, a time in which each date has had each weekday.
    pub fn never_fires(&mut self) -> bool {
        let dates = Date::constant(2000, 1, 1).series(1.day()).take_while(|date| date.year() < 2041);
        dates.into_iter().all(|date| !self.day_matches(date))
    }

    /// Whether field `at` has this number.
    fn has(&self, at: usize, number: i8) -> bool {
        let Text::Fields(fields) = &self.text else { return true };
        fields[at].numbers.contains(&u32::try_from(number).unwrap())
    }

    /// The seconds until the clock may show a time that is named; 0: it does now.
    fn distance(&mut self, clock: DateTime) -> i64 {
        let (hour, minute, second) = (i64::from(clock.hour()), i64::from(clock.minute()), i64::from(clock.second()));
        if !self.day_matches(clock.date()) {
            86_400 - hour * 3600 - minute * 60 - second
        } else if !self.has(2, clock.hour()) {
            3600 - minute * 60 - second
        } else if !self.has(1, clock.minute()) {
            60 - second
        } else {
            i64::from(!self.has(0, clock.second()))
        }
    }

    fn clock(&self, instant: i64) -> DateTime {
        self.zone.to_datetime(Timestamp::from_second(instant).unwrap())
    }

    /// Whether a time from `first` up to before `end` is named.
    fn any_between(&mut self, mut first: DateTime, end: DateTime) -> bool {
        while first < end {
            match self.distance(first) {
                0 => return true,
                distance => first += SignedDuration::from_secs(distance),
            }
        }
        false
    }

    /// The first ticks later than `from`, at most `count`, and none later than `until`.
    pub fn ticks(&mut self, rule: DstRule, (from, until): (i64, i64), count: usize) -> Vec<i64> {
        let fields = match &self.text {
            Text::Every(seconds) => {
                let (seconds, next) = (*seconds, from + 1);
                let first = next + (seconds - next.rem_euclid(seconds)) % seconds;
                return (first..=until).step_by(usize::try_from(seconds).unwrap()).take(count).collect();
            }
            Text::Fields(fields) => fields,
        };
        let elapsed = fields[1].starred || fields[2].starred;
        let mut instant = from - LONGEST_FOLD;
        let mut shown = self.clock(instant - 1); // the latest time shown before `instant`
        let zone = self.zone.clone();
        let shifts = zone.following(Timestamp::from_second(instant).unwrap());
        let mut shifts = shifts.map(|shift| shift.timestamp().as_second()).peekable();
        let mut ticks = Vec::new();
        while instant <= until && ticks.len() < count {
            let clock = self.clock(instant);
            let distance = self.distance(clock);
            let mut due = distance == 0 && (elapsed || clock > shown || rule.fold == Fold::Both);
            let is_shift = shifts.next_if(|shift| *shift <= instant).is_some();
            if is_shift && !elapsed && rule.gap == Gap::RunAfter {
                // Times between the last one shown and this one were skipped.
                let before = self.clock(instant - 1);
                let last = if rule.fold == Fold::Both { before } else { shown.max(before) };
                due |= self.any_between(last + SignedDuration::from_secs(1), clock);
            }
            if due && instant > from {
                ticks.push(instant);
            }
            // Not beyond the next shift, where the clock is another.
            let next = instant + distance.max(1);
            instant = shifts.peek().map_or(next, |shift| next.min(*shift));
            shown = shown.max(self.clock(instant - 1));
        }
        ticks
    }
}
