//! Schedules in words.

use crate::schedule::Explanation;
use crate::schedule::explain;

fn words(text: &str) -> Explanation {
    explain(text, "report").unwrap_or_else(|error| panic!("{text}: {error:?}"))
}

#[test]
fn each_form_has_a_sentence() {
    for (text, summary) in [
        ("30 2 * * *", "At 02:30 every day."),
        ("30 2 ? * ?", "At 02:30 every day."),
        ("15 30 2 * * *", "At 02:30:15 every day."),
        ("0 30 2 * * *", "At 02:30 every day."),
        ("* * * * *", "Every minute."),
        ("*/1 * * * *", "Every minute."),
        ("* * * * * *", "Every second."),
        ("*/10 * * * * *", "Every 10 seconds."),
        ("15 * * * * *", "At second 15 of every minute."),
        ("*/25 * * * * *", "At seconds 0, 25 and 50 of every minute."),
        ("5,20 3-9 * * * *", "At seconds 5 and 20 of minutes 3 to 9 of every hour."),
        ("*/10 0-5 * * * *", "Every 10 seconds during minutes 0 to 5 of every hour."),
        ("* * 3 * * *", "Every second from 03:00:00 to 03:59:59 every day."),
        ("*/5 * * * *", "Every 5 minutes."),
        ("0/30 8,12,18,20 * * *", "Every 30 minutes during the hours 8, 12, 18 and 20 every day."),
        ("7/30 8,12,18,20 * * *", "Every 30 minutes from minute 7 on during the hours 8, 12, 18 and 20 every day."),
        ("7/15 * * * *", "Every 15 minutes, the first at minute 7 of each hour."),
        ("H/15 * * * *", "Every 15 minutes, the first at minute 5 of each hour."),
        ("*/25 * * * *", "At minutes 0, 25 and 50 of every hour."),
        ("0 * * * *", "Every hour, on the hour."),
        ("@hourly", "Every hour, on the hour."),
        ("5 * * * *", "At minute 5 of every hour."),
        ("0 9-17 * * MON-FRI", "Every hour from 09:00 to 17:00, Monday to Friday."),
        ("5 */2 * * *", "Every 2 hours from 00:05 to 22:05 every day."),
        ("0 */5 * * *", "At 00:00, 05:00, 10:00, 15:00 and 20:00 every day."),
        ("0,25,50 8-10,14 * * *", "At minutes 0, 25 and 50 of the hours 8 to 10 and 14 every day."),
        ("* 2 * * *", "Every minute from 02:00 to 02:59 every day."),
        ("* 1,3,7 * * *", "Every minute during the hours 1, 3 and 7 every day."),
        ("*/5 8-17 * * 1,3,5", "Every 5 minutes from 08:00 to 17:55, on Mondays, Wednesdays and Fridays."),
        ("0 12 * * FRI-SUN", "At 12:00, Friday to Sunday."),
        ("0 12 * * SAT-7", "At 12:00 on Saturdays and Sundays."),
        ("0 12 * * 1-6", "At 12:00, Monday to Saturday."),
        ("0 12 * 1-3,11 MON-FRI", "At 12:00, Monday to Friday, in January to March and November."),
        ("@daily", "At 00:00 every day."),
        ("@weekly", "At 00:00 on Sundays."),
        ("@monthly", "At 00:00 on day 1 of the month."),
        ("@yearly", "At 00:00 on 1 January."),
        ("0 0 29 2 *", "At 00:00 on 29 February."),
        ("0 0 1,15 * *", "At 00:00 on days 1 and 15 of the month."),
        ("0 0 1,15,L 6-8 *", "At 00:00 on days 1 and 15 and the last day of the months June to August."),
        ("0 0 1 */3 *", "At 00:00 on day 1 of January, April, July and October."),
        ("0 0 * 6 *", "At 00:00 every day in June."),
        ("* * * 6-8 *", "Every minute from June to August."),
        ("0 0 L * *", "At 00:00 on the last day of the month."),
        ("0 0 L-1 * *", "At 00:00 on the day before the last of the month."),
        ("0 0 L-3 * *", "At 00:00 on the 3rd day before the last of the month."),
        ("0 0 L-12 * *", "At 00:00 on the 12th day before the last of the month."),
        ("0 0 LW 12 *", "At 00:00 on the last working day (Monday to Friday) of December."),
        ("0 0 15W * *", "At 00:00 on the working day (Monday to Friday) nearest to day 15 of the month."),
        ("0 0 * * FRI#2", "At 00:00 on the second Friday of the month."),
        ("0 0 * * 7#5", "At 00:00 on the fifth Sunday of the month."),
        ("0 0 * 2 5L", "At 00:00 on the last Friday in February."),
        ("0 0 * * MON,FRI#2", "At 00:00 on Mondays and the second Friday of the month."),
        ("0 0 13 * 5", "At 00:00 on day 13 of the month, and also on Fridays."),
        ("0 0 1-31 * 5", "At 00:00 every day."),
        ("0 0 */2 * 1", "At 00:00 on Mondays, but only on day 1, 3, 5, … or 31 of the month."),
        (
            "0 0 L * */2",
            "At 00:00 on the last day of the month, but only if that is a Tuesday, Thursday, Saturday or Sunday.",
        ),
        ("@every 1s", "Every second, counted from 1970-01-01T00:00:00Z."),
        ("@every 90s", "Every 90 seconds, counted from 1970-01-01T00:00:00Z."),
        ("@every 1h30m", "Every 90 minutes, counted from 1970-01-01T00:00:00Z."),
        ("@every 24h", "Every day, counted from 1970-01-01T00:00:00Z."),
    ] {
        assert_eq!(words(text).summary, summary, "{text}");
    }
}

#[test]
fn fields_say_what_they_hold_and_what_surprises() {
    for (text, at, meaning) in [
        ("30 2 * * *", 0, "30"),
        ("30 2 * * *", 2, "every day"),
        ("30 2 * * *", 3, "every month"),
        ("30 2 ? * *", 2, "every day; `?` is `*`"),
        ("*/15 * * * *", 0, "0, 15, 30 and 45"),
        ("*/25 * * * *", 0, "0, 25 and 50; it begins again with each hour: 50 is followed by 0 after 10 minutes"),
        ("0 */5 * * *", 1, "0, 5, 10, 15 and 20; it begins again with each day: 20 is followed by 0 after 4 hours"),
        ("0 9-17/5 * * *", 1, "9 and 14"),
        ("0 0 */10 * *", 2, "1, 11, 21 and 31; it begins again with each month; not every month has all of them"),
        (
            "0 0 1 */5 *",
            3,
            "January, June and November; it begins again with each year: November is followed by January after 2 months",
        ),
        (
            "0 0 * * */3",
            4,
            "Wednesday, Saturday and Sunday; it begins again with each week: Saturday is followed by Sunday after 1 day",
        ),
        ("H * * * *", 0, "5; `H` is drawn from the name `report`"),
        ("0 0 31 * *", 2, "31; a month without such a day has no run"),
        ("0 0 1,31 * *", 2, "1 and 31; not every month has all of them"),
        (
            "0 0 15W * *",
            2,
            "the working day (Monday to Friday) nearest to day 15 of the month; it never leaves the month",
        ),
        ("0 0 L-3 * *", 2, "the 3rd day before the last of the month"),
        ("0 0 * * FRI#5", 4, "the fifth Friday of the month; a month with only four of them has none"),
        ("0 0 * * MON-FRI", 4, "Monday to Friday"),
        ("0 0 * * 0-7", 4, "every day"),
        ("*/20 * * * * *", 0, "0, 20 and 40"),
        ("@every 90s", 0, "all multiples of 90 seconds since 1970-01-01T00:00:00Z"),
    ] {
        assert_eq!(words(text).fields[at].meaning, meaning, "{text}");
    }
    let names: Vec<&str> = words("0 0 0 1 1 *").fields.iter().map(|field| field.name).collect();
    assert_eq!(names, ["second", "minute", "hour", "day-of-month", "month", "day-of-week"]);
    assert_eq!(words("@every 90s").fields[0].text, "90s");
    let nameless = explain("H * * * *", "").unwrap().fields.remove(0).meaning;
    assert_eq!(nameless, "48; `H` is drawn from the job's name, and none is given here");
}

#[test]
fn notes_say_how_fields_go_together() {
    let first = |text: &str| words(text).notes.into_iter().next().unwrap_or_default();
    assert_eq!(first("0 0 1 * *"), "");
    assert_eq!(first(" @Daily"), "`@Daily` stands for `0 0 * * *`");
    assert!(first("0 0 13 * 5").contains("either of the two"));
    assert!(first("0 0 */2 * 1").starts_with("the day-of-month field begins with `*`, so a day matches only if both"));
    assert!(first("0 0 1 * ?/2").starts_with("the day-of-week field begins with `?`, so"));
    assert!(first("0 0 29 2 *").contains("leap years"));
    let never = |text: &str| words(text).notes.iter().any(|note| note.contains("no chosen month has such a day"));
    for (text, wanted) in [
        ("0 0 31 6 MON", true),
        ("0 0 30,31 2 MON", true),
        ("0 0 31W 4,6 MON", true),
        ("0 0 L-30 9 MON", true),
        ("0 0 29 2 MON", false),
        ("0 0 31 6,7 MON", false),
        ("0 0 L-29 9 MON", false),
    ] {
        assert_eq!(never(text), wanted, "{text}");
    }
}

#[test]
fn what_follows_elapsed_time_says_why() {
    for (text, follows, why) in [
        ("30 2 * * *", false, "neither the minute nor the hour field begins with `*`"),
        ("*/5 2 * * *", true, "the minute field begins with `*`"),
        ("0 ? * * *", true, "the hour field begins with `?`"),
        ("?/5 2 * * *", true, "the minute field begins with `?`"),
        ("? * * * *", true, "the minute field begins with `?` and the hour field with `*`"),
        ("? ? * * *", true, "the minute and the hour fields begin with `?`"),
        ("* * * * *", true, "the minute and the hour fields begin with `*`"),
        ("@hourly", true, "the hour field begins with `*`"),
        ("@every 1d", true, "counted in UTC"),
    ] {
        let found = words(text);
        assert_eq!((found.follows_elapsed_time, found.clock_changes.contains(why)), (follows, true), "{found:?}");
    }
}

#[test]
fn what_is_refused_is_not_explained() {
    for text in ["", "61 * * * *", "0 0 31 2 *", "@reboot", "@every", "0 2 * * * *  *"] {
        assert!(explain(text, "").is_err(), "{text}");
    }
}
