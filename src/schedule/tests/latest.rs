//! The latest tick up to an instant.

use super::at;
use super::schedule;
use chrono::DateTime;
use chrono::TimeDelta;
use chrono::Utc;

#[test]
fn the_latest_tick_is_found_however_far_back_it_lies() {
    for (text, until, wanted) in [
        ("* * * * * *", "2026-03-01T10:00:07.5Z", "2026-03-01T10:00:07Z"),
        ("* * * * *", "2026-03-01T10:00:00Z", "2026-03-01T10:00:00Z"),
        ("0 * * * *", "2026-03-01T10:59:59Z", "2026-03-01T10:00:00Z"),
        ("0 3 * * *", "2026-03-01T02:00:00Z", "2026-02-28T03:00:00Z"),
        ("0 3 1 * *", "2026-02-28T02:00:00Z", "2026-02-01T03:00:00Z"),
        ("@yearly", "2026-12-01T00:00:00Z", "2026-01-01T00:00:00Z"),
        ("* * * 1 1 *", "2026-12-01T00:00:00Z", "2026-01-01T23:59:59Z"),
        ("0 0 29 2 *", "2027-12-01T00:00:00Z", "2024-02-29T00:00:00Z"),
    ] {
        assert_eq!(schedule(text, "UTC").latest(at(until)), Some(at(wanted)), "{text}");
    }
    assert_eq!(schedule("* * * * *", "UTC").latest(DateTime::<Utc>::MIN_UTC), None);
}

/// Over both changes of clocks of a year.
#[test]
fn it_is_a_tick_until_the_next_one_is_due() {
    for text in ["30 1,2,3 * 3,10 *", "*/7 2 25-31 3,10 *", "@every 45m", "@monthly"] {
        let schedule = schedule(text, "Europe/Berlin");
        for pair in schedule.occurrences(at("2026-03-01T00:00:00Z"), 300).windows(2) {
            assert_eq!(schedule.latest(pair[0]), Some(pair[0]), "{text}");
            assert_eq!(schedule.latest(pair[1] - TimeDelta::nanoseconds(1)), Some(pair[0]), "{text}");
        }
    }
}
