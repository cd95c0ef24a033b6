//! `next`, `explain` and `validate`: what they say about schedules, and about the days on which clocks are set.

use crate::config::onecron;
use serde_json::Value;
use serde_json::json;
use std::fs;

fn json_of(line: &[&str]) -> Value {
    let (code, out, err) = onecron(&[line, &["-o", "json"]].concat());
    assert_eq!((code, err.as_str()), (0, ""), "{line:?}");
    serde_json::from_str(&out).unwrap()
}

const BERLIN: [&str; 5] = ["next", "--schedule", "30 2 * * *", "--timezone", "Europe/Berlin"];

/// A table with these lines as `jobs`, in a folder of its own.
fn table(jobs: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("jobs.yaml");
    fs::write(&file, format!("jobs:\n{jobs}")).unwrap();
    let path = file.to_str().unwrap().to_owned();
    (folder, path)
}

#[test]
fn next_says_which_runs_were_moved() {
    let runs = json_of(&[&BERLIN[..], &["--from", "2026-03-28T12:00:00Z", "-n", "2"]].concat());
    let note = "02:30 does not exist on this day (clocks go from 02:00 to 03:00): runs right after the gap";
    let expected = json!([
        {"scheduled_for": "2026-03-29T03:00:00+02:00", "utc": "2026-03-29T01:00:00Z", "note": note},
        {"scheduled_for": "2026-03-30T02:30:00+02:00", "utc": "2026-03-30T00:30:00Z", "note": null},
    ]);
    assert_eq!(runs, expected);
}

#[test]
fn next_shows_all_runs_up_to_an_instant_or_as_many_as_are_asked_for() {
    let hourly = |more: &[&str]| onecron(&[&["next", "--schedule", "@hourly"], more].concat());
    let lines = |text: &str| text.lines().count() - 1;
    let until = ["--until", "2026-03-01T10:00:00Z"];
    assert_eq!(lines(&hourly(&until).1), 10, "the last instant is included");
    assert_eq!(lines(&hourly(&["--until", "2026-03-01T11:00:00+01:00"]).1), 10);
    assert_eq!(lines(&hourly(&[&until[..], &["-n", "3"]].concat()).1), 3);
    assert_eq!(lines(&hourly(&[&until[..], &["-n", "30"]].concat()).1), 10);
    assert_eq!(lines(&hourly(&[]).1), 5);

    let (code, out, err) = hourly(&["--until", "2026-03-01T00:30:00Z"]);
    assert_eq!((code, out.as_str(), err.as_str()), (0, "no further run up to 2026-03-01T00:30:00Z\n", ""));
    let (code, out, err) = hourly(&["--until", "2026-03-01T00:00:00Z"]);
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(err.contains("is not later than 2026-03-01T00:00:00Z"), "{err}");
}

#[test]
fn next_says_when_it_shows_only_the_first_ten_thousand_runs() {
    let line = ["next", "--schedule", "* * * * * *", "--until"];
    let (code, out, err) = onecron(&[&line[..], &["2026-03-01T02:46:41Z"]].concat());
    assert_eq!((code, out.lines().count()), (0, 10_001));
    assert_eq!(err, "only the first 10000 runs are shown: go on with --from 2026-03-01T02:46:40Z\n");
    let (code, out, err) = onecron(&[&line[..], &["2026-03-01T02:46:40Z"]].concat());
    assert_eq!((code, out.lines().count(), err.as_str()), (0, 10_001, ""), "these are all");

    let (_folder, file) = table("- {name: a, schedule: '* * * * * *', command: x}\n");
    let (code, _, err) = onecron(&["next", "--jobs", &file, "--until", "2026-03-02T00:00:00Z", "-o", "json"]);
    assert_eq!((code, err.split(':').next()), (0, Some("a")), "{err}");
}

#[test]
fn several_schedules_are_those_of_one_job() {
    let line = ["next", "--schedule", "0 9 * * MON-FRI", "--schedule", "0 10 * * SAT", "-n", "7"];
    let runs = json_of(&line);
    let utc: Vec<&str> = runs.as_array().unwrap().iter().map(|run| run["utc"].as_str().unwrap()).collect();
    assert_eq!((utc[4], utc[5], utc[6]), ("2026-03-06T09:00:00Z", "2026-03-07T10:00:00Z", "2026-03-09T09:00:00Z"));
}

#[test]
fn transitions_are_the_coming_changes_of_clocks_with_what_becomes_of_runs() {
    let (code, out, err) = onecron(&[&BERLIN[..], &["--transitions"]].concat());
    assert_eq!((code, err.as_str()), (0, ""));
    assert_eq!(
        out,
        "\
30 2 * * * in Europe/Berlin
  2026-03-29: clocks go from 02:00 to 03:00
    02:30 does not exist: runs at 03:00
       2026-03-28T02:30:00+01:00  2026-03-28T01:30:00Z
       2026-03-29T03:00:00+02:00  2026-03-29T01:00:00Z
       2026-03-30T02:30:00+02:00  2026-03-30T00:30:00Z
  2026-10-25: clocks go back from 03:00 to 02:00
    02:30 comes twice: runs the first time only
       2026-10-24T02:30:00+02:00  2026-10-24T00:30:00Z
       2026-10-25T02:30:00+02:00  2026-10-25T00:30:00Z
       2026-10-26T02:30:00+01:00  2026-10-26T01:30:00Z
"
    );
    let all = json_of(&[&BERLIN[..], &["--transitions", "--until", "2026-06-01T00:00:00Z"]].concat());
    let note = "02:30 does not exist on this day (clocks go from 02:00 to 03:00): runs right after the gap";
    let expected = json!([{
        "schedule": "30 2 * * *",
        "zone": "Europe/Berlin",
        "kind": "gap",
        "utc": "2026-03-29T01:00:00Z",
        "clocks_from": "2026-03-29T02:00:00",
        "clocks_to": "2026-03-29T03:00:00",
        "effects": [
            {"action": "moved", "times": ["2026-03-29T02:30:00"], "text": "02:30 does not exist: runs at 03:00"},
        ],
        "runs": [
            {"scheduled_for": "2026-03-28T02:30:00+01:00", "utc": "2026-03-28T01:30:00Z", "note": null},
            {"scheduled_for": "2026-03-29T03:00:00+02:00", "utc": "2026-03-29T01:00:00Z", "note": note},
            {"scheduled_for": "2026-03-30T02:30:00+02:00", "utc": "2026-03-30T00:30:00Z", "note": null},
        ],
    }]);
    assert_eq!(all, expected);
}

#[test]
fn transitions_of_a_table_name_the_job_and_its_own_rule() {
    let jobs = "\
- {name: a, schedule: '30 2 * * *', timeZone: Europe/Berlin, dst: {gap: Skip, fold: Both}, command: x}
- {name: b, schedule: '@daily', command: x}
";
    let (_folder, file) = table(jobs);
    let (code, out, err) = onecron(&["next", "--jobs", &file, "--transitions"]);
    assert_eq!((code, err.as_str()), (0, ""));
    for found in [
        "a: 30 2 * * * in Europe/Berlin\n",
        "    02:30 does not exist: left out\n",
        "    02:30 comes twice: runs both times\n",
        "\nb: @daily in UTC\n  no clocks are set in this zone up to 2027-03-01T00:00:00Z\n",
    ] {
        assert!(out.contains(found), "{found}: {out}");
    }
    let all = json_of(&["next", "--jobs", &file, "--transitions"]);
    let jobs: Vec<&Value> = all.as_array().unwrap().iter().map(|change| &change["job"]).collect();
    assert_eq!(jobs, ["a", "a"]);
    assert_eq!(json_of(&["next", "--jobs", &file, "--transitions", "b"]), json!([]));
}

#[test]
fn explain_says_a_schedule_in_words() {
    let (code, out, err) = onecron(&["explain", "0 9-17 * * MON-FRI", "--timezone", "Europe/Berlin"]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert_eq!(
        out,
        "\
0 9-17 * * MON-FRI in Europe/Berlin
  Every hour from 09:00 to 17:00, Monday to Friday.

  minute        0        0
  hour          9-17     9 to 17
  day-of-month  *        every day
  month         *        every month
  day-of-week   MON-FRI  Monday to Friday

  it has fixed times, because neither the minute nor the hour field begins with `*`: times that do not exist are one \
run right after the gap, and a time that comes twice runs the first time only

  SCHEDULED FOR              UTC
  2026-03-02T09:00:00+01:00  2026-03-02T08:00:00Z
  2026-03-02T10:00:00+01:00  2026-03-02T09:00:00Z
  2026-03-02T11:00:00+01:00  2026-03-02T10:00:00Z
"
    );
}

#[test]
fn explain_takes_several_schedules_and_writes_json() {
    let all = json_of(&["explain", "H 2 * * *", "@every 90s", "--job", "report"]);
    let keys: Vec<&String> = all[0].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["clock_changes", "fields", "follows", "next", "notes", "schedule", "summary", "zone"]);
    assert_eq!(all[0]["fields"][0]["meaning"], "5; `H` is drawn from the name `report`");
    assert_eq!(
        all[0]["next"][0],
        json!({"scheduled_for": "2026-03-01T02:05:00Z", "utc": "2026-03-01T02:05:00Z", "note": null})
    );
    assert_eq!((&all[0]["follows"], &all[1]["follows"]), (&"fixed_times".into(), &"elapsed_time".into()));
    assert!(all[0]["clock_changes"].as_str().unwrap().ends_with("(within a year no clocks are set in UTC)"));
    assert_eq!(all[1]["next"].as_array().unwrap().len(), 3);
}

#[test]
fn explain_refuses_what_next_refuses() {
    let (code, out, err) = onecron(&["explain", "@daily", "61 * * * *"]);
    assert_eq!((code, out.as_str()), (78, ""));
    assert_eq!(err, onecron(&["next", "--schedule", "61 * * * *"]).2.replace("--schedule", "schedule"));
    let (code, _, err) = onecron(&["explain", "@daily", "--timezone", "Europe/Berln"]);
    assert_eq!((code, err.contains("Europe/Berlin")), (78, true), "{err}");
    let (code, _, err) = onecron(&["explain", "0", "2", "Cargo.toml", "src"]);
    assert_eq!((code, err.contains("in quotes: onecron explain \"0 2 * * *\"")), (78, true), "{err}");
}

#[test]
fn all_that_is_wrong_with_several_schedules_is_said_at_once() {
    let (code, out, err) =
        onecron(&["next", "--schedule", "61 * * * *", "--schedule", "@daily", "--schedule", "@dayly"]);
    assert_eq!((code, out.as_str()), (78, ""));
    assert!(err.contains("error: --schedule: minute 61") && err.contains("error: --schedule: `@dayly`"), "{err}");
    assert_eq!(err.matches("error: ").count(), 2, "{err}");
    let (code, _, err) = onecron(&["explain", "61 * * * *", "0 99 * * *", "--timezone", "Factory"]);
    assert_eq!((code, err.matches("error: ").count()), (78, 3), "{err}");
    assert!(err.starts_with("error: --timezone: `Factory`"), "{err}");
    // A shell has made many of one: once is enough.
    let (_, _, err) = onecron(&["explain", "0", "2", "Cargo.toml", "src"]);
    assert_eq!((err.matches("error: ").count(), err.matches("in quotes").count()), (1, 1), "{err}");
}

#[test]
fn schedules_that_say_the_same_are_refused_as_in_a_table() {
    let (code, out, err) = onecron(&["next", "--schedule", "0 0 * * *", "--schedule", "@daily"]);
    assert_eq!((code, out.as_str()), (78, ""));
    assert_eq!(err, "error: --schedule: `@daily` says again what `0 0 * * *` says before it\nhint: remove it\n");
    let (_folder, file) = table("- {name: a, schedule: ['0 0 * * *', '@daily'], command: x}\n");
    assert_eq!(onecron(&["validate", &file]).0, 78);
    assert_eq!(onecron(&["next", "--schedule", "0 0 * * *", "--schedule", "0 0 ? * 1"]).0, 0);
}

#[test]
fn a_refused_schedule_neither_turns_its_line_nor_hides_a_character() {
    for text in ["0 2\u{202e} * * *", "\u{feff}0 2 * * *", "0 2\u{200b} * * *", "0 2\n* * *", "0\u{1b}[2J 2 * * *"] {
        for line in [&["next", "--schedule", text][..], &["explain", text]] {
            let (code, _, err) = onecron(line);
            let (shown, carets) = (err.lines().nth(1).unwrap(), err.lines().nth(2).unwrap());
            assert_eq!((code, shown.matches('\u{fffd}').count()), (78, 1), "{err:?}");
            let under = |c: char, text: &str| text.chars().position(|found| found == c);
            assert_eq!(under('\u{fffd}', shown), under('^', carets), "{err}");
            assert!(!err.chars().any(|c| c != '\n' && onecron::config::steers(c)), "{err:?}");
        }
    }
}

#[test]
fn an_instant_that_does_not_exist_is_told_from_a_wrong_form() {
    let next = |flag: &str, at: &str| onecron(&["next", "--schedule", "@daily", flag, at]);
    for flag in ["--from", "--until"] {
        let (code, _, err) = next(flag, "2026-02-30T00:00:00Z");
        assert!(code == 2 && err.contains("there is no day 2026-02-30: that month has 28 days"), "{err}");
        let (code, _, err) = next(flag, "2026-03-01T24:00:00Z");
        assert!(code == 2 && err.contains("there is no hour 24: midnight is 00:00:00 of the next day"), "{err}");
        let (code, _, err) = next(flag, "2026-02-30");
        assert!(code == 2 && err.contains("an instant is written as 2026-03-01T02:00:00Z"), "{err}");
    }
}

#[test]
fn next_says_where_the_years_of_runs_begin_and_end() {
    let yearly = |more: &[&str]| onecron(&[&["next", "--schedule", "@yearly"], more].concat());
    let early = "runs are computed from 1900 on: of the time from 1800-01-01T00:00:00Z to then none is shown\n";
    let late = "runs are computed before 2200: of the time from then to 2300-01-01T00:00:00Z none is shown\n";
    let (code, out, err) = yearly(&["--from", "1800-01-01T00:00:00Z", "-n", "1"]);
    assert_eq!((code, out.contains("1900-01-01T00:00:00Z"), err.as_str()), (0, true, early));
    let (code, _, err) = yearly(&["--from", "1800-01-01T00:00:00Z", "--until", "2300-01-01T00:00:00Z", "-o", "json"]);
    assert_eq!((code, err), (0, format!("{early}{late}")));
    let (_, _, err) = yearly(&["--from", "1800-01-01T00:00:00Z", "--until", "1990-01-01T00:00:00Z", "--transitions"]);
    assert_eq!(err, early);
    let (code, out, err) = yearly(&["--from", "2195-06-01T00:00:00Z", "-n", "9"]);
    assert_eq!((code, out.lines().count(), err.as_str()), (0, 5, "no further run before 2200\n"));
    assert_eq!(yearly(&["--from", "1899-12-31T23:59:59Z", "--until", "2199-12-31T23:59:59Z"]).2, "");
    assert_eq!(yearly(&["--from", "2200-01-01T00:00:00Z"]).1, "no further run before 2200\n");
}

#[test]
fn validate_warns_of_days_on_which_clocks_are_set() {
    let warned = |job: &str| {
        let (_folder, file) = table(&format!("- {{name: a, {job}, command: x}}\n"));
        let problems = json_of(&["validate", &file]);
        let all = problems.as_array().unwrap().clone();
        all.iter().filter(|problem| problem["code"] == "W501").cloned().collect::<Vec<_>>()
    };
    let found = warned("schedule: '30 2 * * *', timeZone: Europe/Berlin");
    let message = "the clocks of Europe/Berlin are set: on 2026-03-29 02:30 does not exist: runs at 03:00; \
                   on 2026-10-25 02:30 comes twice: runs the first time only";
    let hint = "write a time that is not from 02:00 to 03:00, or, if it is right as it is, \
                `dst: {gap: RunAfter, fold: First}`";
    assert_eq!((found.len(), &found[0]["message"], &found[0]["hint"]), (1, &message.into(), &hint.into()));
    assert_eq!((&found[0]["severity"], &found[0]["line"]), (&"warning".into(), &2.into()));

    // A rule that is written answers the question that it is about, and only that.
    let half = warned("schedule: '30 2 * * *', timeZone: Europe/Berlin, dst: {gap: RunAfter}");
    assert!(half[0]["message"].as_str().unwrap().starts_with("the clocks of Europe/Berlin are set: on 2026-10-25"));
    for quiet in [
        "schedule: '30 2 * * *'",
        "schedule: '30 4 * * *', timeZone: Europe/Berlin",
        "schedule: '*/30 2,4 * * *', timeZone: Europe/Berlin",
        "schedule: '@every 1h', timeZone: Europe/Berlin",
        "schedule: '30 2 * 6 *', timeZone: Europe/Berlin",
        "schedule: '30 2 * * MON-FRI', timeZone: Europe/Berlin",
        "schedule: '30 2 * * *', timeZone: Europe/Berlin, dst: {gap: Skip, fold: First}",
    ] {
        assert_eq!(warned(quiet), [Value::Null; 0], "{quiet}");
    }
    let lost = warned("schedule: '*/30 2 * * *', timeZone: Europe/Berlin");
    assert!(lost[0]["message"].as_str().unwrap().ends_with("and nothing else is due on that day"), "{lost:?}");
    let several = warned("schedule: ['30 2 * * *', '45 2 * * SUN'], timeZone: Europe/Berlin");
    assert_eq!(several.len(), 1, "one for each job");
    assert!(several[0]["message"].as_str().unwrap().contains("02:30 and 02:45 do not exist: one run at 03:00"));
}

#[test]
fn validate_shows_each_schedule_of_a_job() {
    let (_folder, file) = table("- {name: a, schedule: ['0 9 * * MON-FRI', '0 10 * * SAT'], command: x}\n");
    let (code, out, err) = onecron(&["validate", &file]);
    assert_eq!((code, err.as_str()), (0, ""));
    let (runs, _) = out.trim_end().rsplit_once('\n').unwrap();
    assert_eq!(
        runs,
        "\
JOB  SCHEDULE         ZONE  NEXT RUNS
a    0 9 * * MON-FRI  UTC   2026-03-02T09:00:00Z
     0 10 * * SAT           2026-03-03T09:00:00Z
                            2026-03-04T09:00:00Z"
    );
}
