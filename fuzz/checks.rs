//! What must be true of any input at all. Each function panics where it is not: the fuzzer calls them with what it makes
//! up, and `tests/it/fuzz_corpus.rs` with what the fuzzer found worth keeping.

use chrono::DateTime;
use chrono::TimeDelta;
use chrono::Utc;
use onecron::config;
use onecron::config::Source;
use onecron::schedule::DstRule;
use onecron::schedule::Fold;
use onecron::schedule::Gap;
use onecron::schedule::Schedule;
use onecron::schedule::Zone;

const ZONES: [&str; 8] = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "Africa/Casablanca",
    "Antarctica/Troll",
    "America/Sao_Paulo",
];

/// The parser, asked with any text.
pub fn schedule(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match Schedule::parse(text, &Zone::utc(), "job") {
        Ok(schedule) => canonical(text, &schedule),
        Err(error) => {
            assert!(error.column + error.length <= text.chars().count(), "{text:?}: points outside: {error:?}");
            assert!(!error.message.is_empty(), "{text:?}: no message");
            let hint = error.hint.as_deref().unwrap_or_default();
            assert!(!hint.is_empty(), "{text:?}: no hint");
            for rest in hint.split("write `").skip(1) {
                let written = rest.split('`').next().unwrap_or_default();
                followed(text, written, (error.column, error.length));
            }
        }
    }
}

/// The canonical text is its own canonical text and names the same ticks, under another job's name too.
fn canonical(text: &str, schedule: &Schedule) {
    let printed = schedule.canonical();
    let again = Schedule::parse(&printed, schedule.zone(), "another")
        .unwrap_or_else(|error| panic!("{text:?}: its canonical text {printed:?} is refused: {error:?}"));
    assert_eq!(again.canonical(), printed, "{text:?}: the canonical text is not canonical");
    assert_eq!(again.either_day_field_matches(), schedule.either_day_field_matches(), "{text:?} {printed:?}");
    let zone = Zone::find("Australia/Lord_Howe").expect("the database has it");
    let [one, other] = [(text, "job"), (printed.as_str(), "another")]
        .map(|(text, job)| Schedule::parse(text, &zone, job).expect("it was accepted above"));
    for start in [1_775_310_000, 1_791_040_500, -1_000_000_000] {
        let start = DateTime::from_timestamp(start, 0).expect("a year between 1900 and 2100");
        assert_eq!(one.occurrences(start, 3), other.occurrences(start, 3), "{text:?} {printed:?}");
    }
}

/// What a hint says to write is accepted, alone or in place of what is underlined, unless something else is wrong with
/// the text too.
fn followed(text: &str, written: &str, (column, length): (usize, usize)) {
    let parse = |text: &str| Schedule::parse(text, &Zone::utc(), "job");
    let chars: Vec<char> = text.chars().collect();
    let (before, after): (String, String) =
        (chars[..column].iter().collect(), chars[column + length..].iter().collect());
    let mended = format!("{before}{written}{after}");
    if parse(written).is_ok() {
        return;
    }
    if let Err(error) = parse(&mended) {
        let end = column + written.chars().count();
        let is_about_the_hint = error.column >= column && error.column + error.length <= end && error.length > 0;
        let was_whole = before.trim().is_empty() && after.trim().is_empty();
        assert!(!is_about_the_hint && !was_whole, "{text:?}: the hint's {written:?} makes {mended:?}: {error:?}");
    }
}

/// Ticks: an instant (8 bytes), a distance (2), zone and rule (1), and the expression.
pub fn ticks(data: &[u8]) {
    let Some((head, text)) = data.split_at_checked(11) else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    let seconds = i64::from_le_bytes(head[..8].try_into().expect("eight bytes"));
    let distance = TimeDelta::seconds(i64::from(u16::from_le_bytes([head[8], head[9]])));
    let zone = Zone::find(ZONES[usize::from(head[10] & 7)]).expect("the database has it");
    let rule = DstRule {
        gap: if head[10] & 8 == 0 { Gap::RunAfter } else { Gap::Skip },
        fold: if head[10] & 16 == 0 { Fold::First } else { Fold::Both },
    };
    let Ok(schedule) = Schedule::parse(text, &zone, "job") else { return };
    let schedule = schedule.with_dst(rule);
    // Any instant there is; and, as most of those are far outside of all years, one in the years that have ticks.
    let any = DateTime::from_timestamp(seconds, 0);
    let extreme = if seconds < 0 { DateTime::<Utc>::MIN_UTC } else { DateTime::<Utc>::MAX_UTC };
    let within = DateTime::from_timestamp(seconds.rem_euclid(9_600_000_000) - 2_300_000_000, 7 * u32::from(head[8]))
        .expect("a year between 1890 and 2210");
    for instant in [any.unwrap_or(extreme), within] {
        from(&schedule, instant, distance);
    }
}

fn from(schedule: &Schedule, instant: DateTime<Utc>, distance: TimeDelta) {
    let Some(tick) = schedule.after(instant) else {
        assert!(schedule.occurrences(instant, 2).is_empty());
        return;
    };
    assert!(tick > instant, "{schedule:?}: {tick} after {instant}");
    let _ = schedule.note(tick);
    let _ = schedule.zone().offset_at(tick);
    let list = schedule.occurrences(instant, 4);
    assert_eq!(list[0], tick);
    assert!(list.windows(2).all(|pair| pair[0] < pair[1]), "{schedule:?}: {list:?} after {instant}");
    // Whoever asks from between two ticks hears the same.
    let just_before = tick - TimeDelta::seconds(1);
    if just_before >= instant {
        assert_eq!(schedule.after(just_before), Some(tick), "{schedule:?} after {just_before}");
    }
    if let Some(later) = instant.checked_add_signed(distance) {
        let next = schedule.after(later);
        assert!(next.is_none_or(|next| next >= tick), "{schedule:?}: {next:?} after {later}, {tick} after {instant}");
        let between: Vec<_> = schedule.between(instant, later).take(4).collect();
        let before = instant.checked_sub_signed(TimeDelta::seconds(1));
        let is_tick = instant.timestamp_subsec_nanos() == 0
            && before.is_some_and(|before| schedule.after(before) == Some(instant));
        let first = is_tick.then_some(instant);
        let wanted: Vec<_> = first.into_iter().chain(list).filter(|tick| *tick < later).take(4).collect();
        assert_eq!(between, wanted, "{schedule:?} between {instant} and {later}");
    }
}

/// The reader of `jobs.yaml`, with any bytes.
pub fn table(data: &[u8]) {
    let now = DateTime::from_timestamp(1_796_000_000, 0).expect("an instant");
    match config::load(&[Source::new("jobs.yaml", data.to_vec())], now) {
        Ok(loaded) => {
            for job in &loaded.table.jobs {
                assert!(job.schedule.after(DateTime::UNIX_EPOCH).is_some(), "{}: never due", job.name);
            }
            config::render(&loaded.warnings);
        }
        Err(problems) => {
            assert!(!problems.is_empty(), "refused without a reason");
            let lines = data.split(|byte| matches!(byte, b'\n' | b'\r')).count();
            for problem in &problems {
                assert!(problem.line <= lines, "{problem:?} is behind the end of the file");
            }
            config::render(&problems);
        }
    }
}
