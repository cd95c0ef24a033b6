//! The fleet as pages for people: without scripts, for a narrow screen as well as a wide one, by keyboard, in light and dark.

mod commands;
mod fleet;
mod job;
mod run;
mod timeline;

pub use fleet::fleet;
pub use job::job;
pub use run::run;

use super::site::Look;
use super::view::parse;
use crate::admin::RunView;
use crate::config;
use axum::http::HeaderValue;
use axum::http::StatusCode;
use axum::http::header;
use axum::response::IntoResponse;
use axum::response::Response;
use chrono::DateTime;
use chrono::TimeDelta;
use chrono::Utc;
use maud::DOCTYPE;
use maud::Markup;
use maud::html;
use std::time::Duration;

/// Seconds after which a browser asks again.
const REFRESH: &str = "15";
const STYLE: &str = include_str!("style.css");

/// `GET /style.css`
pub async fn style() -> Response {
    let headers = [(header::CONTENT_TYPE, "text/css; charset=utf-8"), (header::CACHE_CONTROL, "max-age=300")];
    (headers, STYLE).into_response()
}

/// A whole page, with what is to be known first on each.
fn page(status: StatusCode, title: &str, look: &Look, body: &Markup) -> Response {
    let text = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · onecron" }
                link rel="stylesheet" href="/style.css";
            }
            body {
                a.skip href="#main" { "Skip to the content" }
                header {
                    a.home href="/" { "onecron" }
                    span { "namespace " (look.status.namespace) }
                }
                main #main {
                    (banners(look))
                    (body)
                }
                footer {
                    p { "As " (look.status.replica) " (" (look.status.version) ") sees it at " (clock(look)) (age(look)) ". This page is read again every " (REFRESH) " s." }
                }
            }
        }
    };
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8")),
        (header::REFRESH, HeaderValue::from_static(REFRESH)),
    ];
    (status, headers, text.into_string()).into_response()
}

fn clock(look: &Look) -> Markup {
    html! { time datetime=(look.status.at) { (look.now.wall.format("%Y-%m-%d %H:%M:%S UTC")) } }
}

/// How old is what it shows of the fleet: some seconds, and more while the store cannot be read.
fn age(look: &Look) -> Markup {
    html! { @if let Some(at) = &look.status.view.read_at { ", by the fleet's records as they were read " (ago(at, look.now.wall)) } }
}

/// What is wrong with more than a job.
fn banners(look: &Look) -> Markup {
    let (status, now) = (&look.status, look.now.wall);
    html! {
        @if let Some(refused) = &status.table.refused {
            section.banner.bad aria-label="Jobs file" {
                p { strong { "The jobs file is refused." } " The table before it stays in force (" code { (short(&status.table.revision)) } ", loaded " (ago(&status.table.loaded_at, now)) ")." }
                pre { (refused.first) }
                @if !refused.hint.is_empty() { p { "Hint: " (refused.hint) } }
                p {
                    @if refused.problems > 1 { (refused.problems) " problems, the first is shown. " }
                    "Known since " (ago(&refused.since, now)) ". " code { "onecron validate" } " shows all."
                }
            }
        }
        @if status.store.state != "up" {
            section.banner.bad aria-label="Store" {
                p {
                    strong { @if status.store.state == "away" { "The store is away." } @else { "The store has not answered yet." } }
                    @if let Some(since) = &status.store.since { " Since " (ago(since, now)) "." }
                    " Nothing new is started until it answers. Runs that are going go on for as long as their leases last."
                }
                @if let Some(error) = &status.store.error { pre { (error) } }
            }
        }
        @if status.view.stale {
            section.banner.warn aria-label="Age of the data" {
                p {
                    @match &status.view.read_at {
                        Some(at) => { strong { "This is how it was " (ago(at, now)) "." } " The fleet's records cannot be read now." }
                        None => { strong { "Only this replica's table is shown." } " The fleet's records have not been read yet." }
                    }
                }
                @if let Some(error) = status.view.error.as_ref().filter(|_| status.store.state == "up") { pre { (error) } }
            }
        }
        @if status.draining {
            section.banner.warn aria-label="End" { p { strong { "This replica is ending." } " It lets its runs finish, and starts none." } }
        }
        @if let Some(pause) = &status.paused {
            section.banner.warn aria-label="Pause" {
                p {
                    strong { "All jobs are paused," } " by " (pause.by) ", since " (ago(&pause.since, now)) "."
                    @if !pause.comment.is_empty() { " “" (pause.comment) "”" }
                    @if commands::reach(look) { " " (commands::command(look, "resume --all")) " lets them go on." }
                }
            }
        }
    }
}

/// The beginning of a hash.
fn short(hash: &str) -> String {
    hash.chars().take(12).collect()
}

/// How far an instant is from now, in words.
fn ago(instant: &str, now: DateTime<Utc>) -> String {
    let Some(at) = parse(instant) else { return instant.to_owned() };
    let delta = now - at;
    let whole = Duration::from_secs(delta.num_seconds().unsigned_abs());
    // Of a long time the small parts are of no interest.
    let unit = [86_400, 3_600, 60].into_iter().find(|unit| whole.as_secs() >= unit * 10).unwrap_or(1);
    let text = config::duration_text(Duration::from_secs(whole.as_secs() / unit * unit));
    match () {
        () if whole.is_zero() => "now".to_owned(),
        () if delta < TimeDelta::zero() => format!("in {text}"),
        () => format!("{text} ago"),
    }
}

/// An instant for people: how far it is, and which.
fn moment(instant: &str, now: DateTime<Utc>) -> Markup {
    html! { time datetime=(instant) { (ago(instant, now)) span.when { (plain(instant)) } } }
}

/// Without what no one reads.
fn plain(instant: &str) -> String {
    parse(instant).map_or_else(|| instant.to_owned(), |at| at.format("%Y-%m-%d %H:%M:%S UTC").to_string())
}

/// How a tick stands: its class, a mark that needs no colour, and a word.
fn outcome(run: &RunView) -> (&'static str, &'static str, &str) {
    match run.outcome.as_deref() {
        Some("succeeded") => ("ok", "✓", "succeeded"),
        Some("missed") => ("late", "!", "missed"),
        Some(word @ ("skipped" | "cancelled" | "replaced")) => ("mute", "–", word),
        Some(word) => ("bad", "✗", word),
        None if run.is_going() => ("run", "▸", run.word()),
        // Its outcome is open where it is started again.
        None if run.state == "lost" => ("bad", "✗", run.state),
        None => ("mute", "▹", run.state),
    }
}

/// That, with why.
fn how(run: &RunView) -> Markup {
    let (class, mark, word) = outcome(run);
    html! {
        span.tag.(class) { span aria-hidden="true" { (mark) } " " (word) }
        @if !run.reason.is_empty() { " " (run.reason) }
        @if let Some(code) = run.exit_code.filter(|code| *code != 0) { " " span.whole { "exit code " (code) } }
        @if let Some(signal) = run.signal { " signal " (signal) }
        @if let Some(status) = run.http_status { " status " (status) }
        @if run.range_count > 1 { " " (run.range_count) " ticks since " (plain(&run.range_first)) }
    }
}

fn took(run: &RunView) -> String {
    let milliseconds =
        |seconds: f64| Duration::try_from_secs_f64((seconds * 1000.0).round() / 1000.0).unwrap_or_default();
    run.duration_seconds.map(|seconds| format!("{:?}", milliseconds(seconds))).unwrap_or_default()
}

/// Those that are going, and those of which nothing is known to be going.
fn open_runs(open: &[RunView], now: DateTime<Utc>, with_job: bool) -> Markup {
    let (going, others): (Vec<_>, Vec<_>) = open.iter().cloned().partition(RunView::is_going);
    html! {
        section aria-labelledby="running" {
            h2 #running { "Running now" }
            @if going.is_empty() { p { "Nothing is running." } } @else { (runs("Runs that have begun", &going, now, with_job)) }
        }
        @if !others.is_empty() {
            section aria-labelledby="open" {
                h2 #open { "Open, and not running" }
                p.note { "Ordered or claimed: about to begin, or waiting. Lost: the replica that had it is gone, and what it started may not have ended." }
                (runs("Runs that have not begun, or have no replica any more", &others, now, with_job))
            }
        }
    }
}

/// Runs, one in each line.
fn runs(caption: &str, runs: &[RunView], now: DateTime<Utc>, with_job: bool) -> Markup {
    html! {
        table {
            caption { (caption) }
            thead { tr {
                th scope="col" { "Run" }
                th scope="col" { "How" }
                th scope="col" { "Took" }
                th scope="col" { "Began or ended" }
                th scope="col" { "Replica" }
            } }
            tbody {
                @for run in runs {
                    tr {
                        th scope="row" data-label="Run" {
                            a href={ "/runs/" (run.run_id) } { @if with_job { (run.run_id) } @else { (run.scheduled_for) } }
                        }
                        td data-label="How" { (how(run)) }
                        td data-label="Took" { (took(run)) }
                        td data-label="Began or ended" {
                            @if let Some(at) = run.finished_at.as_ref().or(run.started_at.as_ref()) { (moment(at, now)) }
                        }
                        td data-label="Replica" { (run.replica) }
                    }
                }
            }
        }
    }
}

/// There is no such page.
fn nothing(status: StatusCode, title: &str, detail: &str, look: &Look) -> Response {
    page(status, title, look, &html! { h1 { (title) } p { (detail) } p { a href="/" { "All jobs" } } })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::JobName;
    use crate::job::Outcome;
    use crate::job::ReplicaId;
    use crate::job::RunRecord;
    use crate::job::RunState;
    use crate::job::Tick;

    fn open(second: i64, state: RunState, outcome: Option<Outcome>) -> RunView {
        let claimed = RunRecord::claimed(Tick::from_seconds(second), &ReplicaId::new("web", "1"));
        RunView::of_record(&JobName::new("a").unwrap(), &RunRecord { state, outcome, ..claimed })
    }

    #[test]
    fn what_is_lost_or_has_not_begun_stands_apart_from_what_is_running() {
        let lost = [open(0, RunState::Lost, Some(Outcome::Lost)), open(1, RunState::Lost, None)];
        let others = [open(2, RunState::Begun, None), open(3, RunState::Claimed, None)];
        let all = [&lost[..], &others[..]].concat();
        let shown = open_runs(&all, DateTime::UNIX_EPOCH, true).into_string();
        let (running, open) = shown.split_once("Open, and not running").unwrap();
        for (at, run) in all.iter().enumerate() {
            assert_eq!(running.contains(&run.run_id), at == 2, "{shown}");
            assert_eq!(open.contains(&run.run_id), at != 2, "{shown}");
        }
        let words = all.iter().map(|run| (outcome(run).0, outcome(run).2)).collect::<Vec<_>>();
        assert_eq!(words, [("bad", "lost"), ("bad", "lost"), ("run", "running"), ("mute", "claimed")]);
        let none = open_runs(&lost, DateTime::UNIX_EPOCH, true).into_string();
        assert!(none.contains("Nothing is running."), "{none}");
    }

    #[test]
    fn a_distance_in_time_is_told_in_few_words() {
        let now = DateTime::from_timestamp(1_772_330_400, 0).unwrap();
        for (seconds, text) in [(-1, "in 1s"), (0, "now"), (75, "1m15s ago"), (601, "10m ago")] {
            let at = (now - TimeDelta::seconds(seconds)).to_rfc3339();
            assert_eq!(ago(&at, now), text, "{seconds}");
        }
    }
}
