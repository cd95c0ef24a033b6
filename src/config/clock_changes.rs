//! What is worth a warning about the days on which a job's zone sets its clocks.

use crate::schedule::DstRule;
use crate::schedule::Schedule;
use crate::schedule::Shift;
use chrono::DateTime;
use chrono::Months;
use chrono::NaiveTime;
use chrono::TimeDelta;
use chrono::Timelike;
use chrono::Utc;

/// So many days are named.
const DAYS_MOST: usize = 3;

/// What a job's `dst` says: who has written it has thought of it, and is not warned.
#[derive(Debug, Clone, Copy)]
pub(super) struct Decided {
    /// `dst.gap` is written.
    pub gap: bool,
    /// `dst.fold` is written.
    pub fold: bool,
}

/// Message and hint about a schedule with fixed times that its zone's clocks skip or repeat within a year from `now`.
/// Jobs that follow elapsed time do what their text says, and are warned of only where a day is left without any run.
pub(super) fn warning(schedule: &Schedule, decided: Decided, now: DateTime<Utc>) -> Option<(String, String)> {
    let until = now.checked_add_months(Months::new(12))?;
    let shifts = schedule.zone().shifts(now, until);
    if schedule.follows_elapsed_time() {
        if decided.gap {
            return None; // that it has no effect is said elsewhere
        }
        return shifts.iter().find_map(|shift| lost_day(schedule, shift));
    }
    let (mut days, mut windows, mut words) = (Vec::new(), Vec::new(), Vec::new());
    for shift in shifts.iter().filter(|shift| !(if shift.is_gap() { decided.gap } else { decided.fold })) {
        let Some(effect) = schedule.effects(shift).into_iter().find(|effect| effect.is_of_fixed_times) else {
            continue;
        };
        days.push(format!("on {} {}", shift.to.date(), effect.text));
        push_new(&mut windows, window(shift));
        let DstRule { gap, fold } = schedule.dst();
        push_new(
            &mut words,
            if shift.is_gap() { format!("gap: {}", gap.as_str()) } else { format!("fold: {}", fold.as_str()) },
        );
    }
    if days.is_empty() {
        return None;
    }
    let more = if days.len() > DAYS_MOST { "; and on later days" } else { "" };
    days.truncate(DAYS_MOST);
    let message = format!("the clocks of {} are set: {}{more}", schedule.zone().name(), days.join("; "));
    let hint = format!(
        "write a time that is not from {}, or, if it is right as it is, `dst: {{{}}}`",
        windows.join(" and "),
        words.join(", ")
    );
    Some((message, hint))
}

/// The clocks skip all the times that the schedule names on a day, as those of `*/15 2 * * *` where 02:00 to 03:00 does
/// not exist.
fn lost_day(schedule: &Schedule, shift: &Shift) -> Option<(String, String)> {
    if !shift.is_gap() {
        return None;
    }
    let seconds = |time: NaiveTime| TimeDelta::seconds(time.num_seconds_from_midnight().into());
    let midnight = shift.at - seconds(shift.from.time());
    let next_midnight = shift.at + TimeDelta::days(1) - seconds(shift.to.time());
    if schedule.between(midnight, next_midnight).next().is_some() {
        return None;
    }
    let effect = schedule.effects(shift).into_iter().next()?;
    let message = format!(
        "the clocks of {} are set: on {} {}, and nothing else is due on that day",
        schedule.zone().name(),
        shift.to.date(),
        effect.text
    );
    let hint = format!(
        "write a time that is not from {}, or list the minutes and hours without `*`: those run right after the gap",
        window(shift)
    );
    Some((message, hint))
}

fn push_new(list: &mut Vec<String>, text: String) {
    if !list.contains(&text) {
        list.push(text);
    }
}

/// The local times that must not be written: `02:00 to 03:00`.
fn window(shift: &Shift) -> String {
    let (from, to) = if shift.is_gap() { (shift.from, shift.to) } else { (shift.to, shift.from) };
    let clock = |time: NaiveTime| time.format("%H:%M").to_string();
    format!("{} to {}", clock(from.time()), clock(to.time()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::Zone;

    #[test]
    fn a_day_without_any_run_is_warned_of_even_where_elapsed_time_is_followed() {
        let zone = Zone::find("Europe/Berlin").unwrap();
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        let warned =
            |text: &str| warning(&Schedule::parse(text, &zone, "").unwrap(), Decided { gap: false, fold: false }, now);
        let (message, hint) = warned("*/15 2 * * *").unwrap();
        assert_eq!(
            message,
            "the clocks of Europe/Berlin are set: on 2026-03-29 02:00, 02:15 and 2 others do not exist: left out \
             (elapsed time is followed), and nothing else is due on that day"
        );
        assert!(hint.starts_with("write a time that is not from 02:00 to 03:00, or list"), "{hint}");
        assert_eq!(warned("*/15 2,4 * * *"), None, "some run");
        assert_eq!(warned("*/15 3 * * *"), None, "none is lost");
        assert_eq!(warned("*/15 2 1 * *"), None, "not due on that day");
        assert_eq!(warned("* * * * *"), None);
    }

    #[test]
    fn three_days_are_named_at_most() {
        // Morocco, 2014: summer time was interrupted for Ramadan.
        let zone = Zone::find("Africa/Casablanca").unwrap();
        let schedule = Schedule::parse("30 2 * * *", &zone, "").unwrap();
        let now = "2014-01-01T00:00:00Z".parse().unwrap();
        let undecided = Decided { gap: false, fold: false };
        let (message, hint) = warning(&schedule, undecided, now).unwrap();
        assert_eq!(
            message,
            "the clocks of Africa/Casablanca are set: on 2014-03-30 02:30 does not exist: runs at 03:00; on 2014-06-28 \
             02:30 comes twice: runs the first time only; on 2014-08-02 02:30 does not exist: runs at 03:00; and on \
             later days"
        );
        assert_eq!(hint.matches("02:00 to 03:00").count(), 1, "{hint}");
        let (message, _) = warning(&schedule, Decided { gap: true, fold: false }, now).unwrap();
        assert!(!message.contains("later days"), "{message}");
        assert_eq!(warning(&schedule, Decided { gap: true, fold: true }, now), None);
    }
}
