//! The canonical text.

use super::super::print;
use super::Schedule;
use super::Zone;
use super::at;
use super::schedule;
use proptest::prelude::*;

fn canonical(text: &str) -> String {
    schedule(text, "UTC").canonical()
}

#[test]
fn a_schedule_has_one_canonical_text() {
    for (text, printed) in [
        ("* * * * *", "* * * * *"),
        ("? ? ? ? ?", "* * * * *"),
        ("@daily", "0 0 * * *"),
        ("@hourly", "0 * * * *"),
        ("@weekly", "0 0 * * 0"),
        ("00  02\t* JAN-DEC MON-FRI", "0 2 * * 1-5"),
        ("0 0 2 * * *", "0 2 * * *"),
        ("* * * * * *", "* * * * * *"),
        ("*/15 30 2 * * *", "*/15 30 2 * * *"),
        ("5,4,3,3 1-2 * * *", "3-5 1,2 * * *"),
        ("0-59/15 2 * * *", "0-45/15 2 * * *"),
        ("5/15 2 * * 5/1", "5-50/15 2 * * 0,5,6"),
        // A star of the minute or the hour says that the job follows elapsed time; here either says it.
        ("*/15 * * * *", "*/15 * * * *"),
        ("0/15 * * * *", "*/15 * * * *"),
        ("0,30 * * * *", "0,30 * * * *"),
        ("*/30 9-17 * * *", "*/30 9-17 * * *"),
        ("0-59 9 * * *", "0-59 9 * * *"),
        ("* 9 * * *", "* 9 * * *"),
        ("1 */23,5 * * *", "1 */23,5 * * *"),
        // A star of a day field says that both must match.
        ("0 0 */2 * 1", "0 0 */2 * 1"),
        ("0 0 1-31 * 1", "0 0 1-31 * 1"),
        ("0 0 1-31/2 * 1", "0 0 1-31/2 * 1"),
        ("0 0 13 * */1", "0 0 13 * *"),
        ("0 0 13 * SUN-SAT", "0 0 13 * 0-6"),
        ("0 0 * * */7,3,2", "0 0 * * */7,2,3"),
        ("0 0 15w,l,L,lw,3,l-2 * *", "0 0 3,L,L-2,LW,15W * *"),
        ("0 0 * * fril,7#2,SUN#1,2", "0 0 * * 2,5L,0#1,0#2"),
        ("@every 90m", "@every 1h30m"),
        ("@every 86401s", "@every 1d1s"),
        ("@every 366d", "@every 366d"),
    ] {
        assert_eq!(canonical(text), printed, "{text}");
        assert_eq!(canonical(printed), printed, "the canonical text of {text}");
    }
}

#[test]
fn the_canonical_text_of_several_expressions_has_each_once() {
    let several = ["@daily", "0 9 * * MON-FRI", "0 0 * * ?"].map(|text| schedule(text, "UTC"));
    let [first, second, third] = &several;
    let one = first.clone().or(second).or(third);
    assert_eq!(one.canonical(), "0 0 * * *; 0 9 * * 1-5");
    assert_eq!(third.clone().or(second).canonical(), one.canonical());
    let (from, until) = (at("2026-01-02T00:00:00Z"), at("2026-01-05T09:00:00Z"));
    let ticks: Vec<_> = one.between(from, until).map(|tick| tick.format("%d %H:%M").to_string()).collect();
    assert_eq!(ticks, ["02 00:00", "02 09:00", "03 00:00", "04 00:00", "05 00:00"]);
}

#[test]
fn the_number_that_h_chose_stays_under_another_name() {
    let of = |text: &str, job: &str| Schedule::parse(text, &Zone::utc(), job).unwrap();
    let chosen = of("H H(0-7) * * *", "nightly-sales").canonical();
    assert_eq!(chosen, "53 2 * * *");
    assert_eq!(of(&chosen, "another").canonical(), chosen);
}

#[test]
fn a_canonical_text_may_be_longer_than_a_written_one() {
    let many = "H/7,H/13,H/17,H/19,H/23,H/29";
    let text = format!(
        "{many} {many} H/9,H/11 L,L-1,L-2,L-3,L-4,L-5,L-6,L-7,L-8,1W,2W,3W,4W,5W,6W,7W,8W,9W,10W,11W,12W,13W H/5,H/7 \
                        1#1,1#2,1#3,1#4,2#1,2#2,2#3,2#4,3#1,3#2,3#3,3#4,4#1,4#2,4#3,4#4,5#1,5#2,5#3"
    );
    assert!(text.len() < 256);
    let printed = canonical(&text);
    assert!((257..print::BYTES_MAX).contains(&printed.len()), "{} bytes: {printed}", printed.len());
    assert_eq!(canonical(&printed), printed);
    // Any other text of that length is refused: a blank, an order, a name of its own.
    for other in [printed.replace(' ', "  "), printed.replace("L,L-1", "L-1,L"), printed.replace("1#1", "MON#1")] {
        assert_ne!(other, printed);
        let error = Schedule::parse(&other, &Zone::utc(), "job").unwrap_err();
        assert!(error.message.contains("longer than 256"), "{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_canonical_text_is_the_same_schedule(
        text in "(([*?](/[1-7])?|[1-9](-9)?(/[1-7])?|H(/[2-5])?|H[(]1-9[)])(,[1-9](-9)?(/[2-5])?){0,3}[ \t]{1,2}){5,6}"
    ) {
        if let Ok(schedule) = Schedule::parse(&text, &Zone::utc(), "job") {
            let printed = schedule.canonical();
            let again = Schedule::parse(&printed, &Zone::utc(), "another").unwrap();
            prop_assert!(again.0.parts[0].plan == schedule.0.parts[0].plan, "{} and {}", text, printed);
            prop_assert_eq!(again.canonical(), printed);
        }
    }
}
