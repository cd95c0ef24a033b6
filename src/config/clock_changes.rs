//! What is worth a warning about the days on which a job's zone sets its clocks.

use crate::schedule::DstRule;
use crate::schedule::Schedule;
use crate::schedule::Shift;
use chrono::DateTime;
use chrono::Months;
use chrono::NaiveTime;
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
/// None for jobs that follow elapsed time: they do what their text says.
pub(super) fn warning(schedule: &Schedule, decided: Decided, now: DateTime<Utc>) -> Option<(String, String)> {
    if schedule.follows_elapsed_time() {
        return None;
    }
    let until = now.checked_add_months(Months::new(12))?;
    let shifts = schedule.zone().shifts(now, until);
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
