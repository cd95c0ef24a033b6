//! `/`: the fleet at a glance.

use super::Look;
use super::ago;
use super::how;
use super::moment;
use super::open_runs;
use super::outcome;
use super::page;
use super::short;
use super::took;
use crate::admin::Condition;
use crate::admin::ReplicaView;
use crate::admin::RunView;
use crate::admin::silence;
use crate::job::JobTable;
use crate::job::Tick;
use crate::plural::counted;
use crate::server::Site;
use crate::server::api::query;
use crate::server::problem::Problem;
use crate::server::view::Job;
use crate::server::view::parse;
use axum::extract::RawQuery;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use chrono::DateTime;
use chrono::Utc;
use maud::Markup;
use maud::html;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

/// How many jobs a page has; the others are found by name or state.
const JOBS_MOST: usize = 200;
/// How many coming ticks over all jobs it has.
const COMING: usize = 20;
/// How many of them are of one job: one of every second would hide all others.
const COMING_OF_ONE: usize = 3;

/// Which jobs are wanted.
struct Filter {
    name: String,
    state: Option<Condition>,
}

impl Filter {
    fn takes(&self, job: &Job) -> bool {
        job.name.contains(&self.name) && self.state.is_none_or(|state| job.condition() == state)
    }

    const fn is_set(&self) -> bool {
        !self.name.is_empty() || self.state.is_some()
    }
}

/// `GET /`
pub async fn fleet(State(site): State<Arc<Site>>, raw: RawQuery) -> Result<Response, Problem> {
    let mut query = query(raw, &["name", "state"])?;
    let state = query.remove("state").unwrap_or_default();
    let state = Condition::ALL.into_iter().find(|condition| condition.as_str() == state);
    let filter = Filter { name: query.remove("name").unwrap_or_default(), state };
    let look = site.look().await;
    let table = site.parts.board.standing().table;
    let open: Vec<RunView> = look.jobs.iter().flat_map(|job| job.running.clone()).collect();
    let now = look.now.wall;
    let body = html! {
        (verdict(&look))
        (jobs(&look, &filter))
        (open_runs(&open, now, true))
        section aria-labelledby="coming" {
            h2 #coming { "Coming up" }
            (coming(&look, &table, now))
        }
        (strip(&look))
    };
    Ok(page(StatusCode::OK, &look.status.summary, &look, &body))
}

fn verdict(look: &Look) -> Markup {
    let (class, word) = if look.status.in_order { ("ok", "In order") } else { ("bad", "Needs a look") };
    html! {
        h1 { (look.status.summary) }
        p.verdict { span.tag.(class) { (word) } " "
            @match look.status.replicas {
                0 => { "No replica has been heard of." }
                1 => { "1 replica is there" (silence(&look.replicas)) "." }
                more => { (more) " replicas are there" (silence(&look.replicas)) "." }
            }
        }
    }
}

fn jobs(look: &Look, filter: &Filter) -> Markup {
    let now = look.now.wall;
    let mut found: Vec<&Job> = look.jobs.iter().filter(|job| filter.takes(job)).collect();
    found.sort_by_key(|job| (job.condition(), Reverse(job.consecutive_failures)));
    let shown = &found[..found.len().min(JOBS_MOST)];
    html! {
        section aria-labelledby="jobs" {
            h2 #jobs { "Jobs" }
            form method="get" action="/" role="search" {
                label { "Name has " input type="search" name="name" value=(filter.name) autocomplete="off"; }
                label { "State "
                    select name="state" {
                        option value="" { "any" }
                        @for state in Condition::ALL {
                            option value=(state.as_str()) selected[filter.state == Some(state)] { (state.as_str()) }
                        }
                    }
                }
                button { "Show" }
                @if filter.is_set() { a href="/" { "Show all" } }
            }
            @if shown.is_empty() {
                p { @if filter.is_set() { "No job is like that." } @else { "There are no jobs." } }
            } @else {
                table {
                    caption {
                        "Worst first" @if found.len() > shown.len() { ": " (shown.len()) " of " (found.len()) ", the others are found by name or state" }
                    }
                    thead { tr {
                        th scope="col" { "Job" }
                        th scope="col" { "State" }
                        th scope="col" { "Schedule" }
                        th scope="col" { "Last run" }
                        th scope="col" { "Latest" }
                        th scope="col" { "Next" }
                    } }
                    tbody { @for job in shown { (line(job, now)) } }
                }
            }
        }
    }
}

fn line(job: &Job, now: DateTime<Utc>) -> Markup {
    html! {
        tr {
            th scope="row" data-label="Job" { a href={ "/jobs/" (job.name) } { (job.name) } }
            td data-label="State" { (condition(job)) @if job.consecutive_failures > 1 { span.when { (job.consecutive_failures) " in a row" } } }
            td data-label="Schedule" {
                @if !job.schedule_text.is_empty() { (job.schedule_text) " " }
                span.when { code { (job.schedule) } " " (job.time_zone) }
            }
            td data-label="Last run" {
                @match job.last_run() {
                    None => { "none yet" }
                    Some(run) => {
                        (how(run))
                        span.when {
                            @if let Some(at) = &run.finished_at { (ago(at, now)) }
                            @if run.duration_seconds.is_some() { " after " (took(run)) }
                        }
                    }
                }
            }
            td data-label="Latest" { (marks(&job.last_runs)) }
            td data-label="Next" {
                @match job.next.first() {
                    Some(next) if job.state == "active" => { (moment(next, now)) }
                    Some(_) => { "not while " (job.state) }
                    None => { "never" }
                }
            }
        }
    }
}

/// How a job is, with a colour and a word.
pub fn condition(job: &Job) -> Markup {
    let condition = job.condition();
    let class = match condition {
        Condition::Failing => "bad",
        Condition::Missed | Condition::Stale | Condition::Paused => "late",
        Condition::Running => "run",
        Condition::Good => "ok",
        Condition::Suspended | Condition::Gone => "mute",
    };
    html! { span.tag.(class) { (condition.as_str()) } }
}

/// The newest ticks as small marks, oldest first, and the same in words.
fn marks(runs: &[RunView]) -> Markup {
    let words: Vec<&str> = runs.iter().map(|run| outcome(run).2).collect();
    if words.is_empty() {
        return html! {};
    }
    let words = format!("newest first: {}", words.join(", "));
    html! {
        span.marks role="img" aria-label=(words) title=(words) {
            @for run in runs.iter().rev() { @let (class, mark, _) = outcome(run); i.(class) { (mark) } }
        }
    }
}

/// The next ticks over all jobs, a few of each.
fn coming(look: &Look, table: &JobTable, now: DateTime<Utc>) -> Markup {
    let is_due = |name: &str| look.job(name).is_some_and(|job| job.state == "active");
    let jobs: Vec<_> = table.jobs.iter().filter(|spec| is_due(spec.name.as_str())).collect();
    let first = |(index, spec): (usize, &&Arc<crate::job::JobSpec>)| Some(Reverse((spec.schedule.after(now)?, index)));
    let mut heap: BinaryHeap<_> = jobs.iter().enumerate().filter_map(first).collect();
    let mut taken = vec![0; jobs.len()];
    // Those of one instant stand together.
    let mut ticks: Vec<(DateTime<Utc>, Vec<&str>)> = Vec::new();
    for _ in 0..COMING {
        let Some(Reverse((at, index))) = heap.pop() else { break };
        let name = jobs[index].name.as_str();
        match ticks.last_mut().filter(|(last, _)| *last == at) {
            Some((_, names)) => names.push(name),
            None => ticks.push((at, vec![name])),
        }
        taken[index] += 1;
        if taken[index] < COMING_OF_ONE {
            heap.extend(jobs[index].schedule.after(at).map(|next| Reverse((next, index))));
        }
    }
    html! {
        @if ticks.is_empty() { p { "Nothing is due." } } @else {
            p.note { "At most " (COMING_OF_ONE) " ticks of each job" }
            ol.plain {
                @for (at, names) in ticks {
                    li {
                        (moment(&Tick::from_datetime(at).to_string(), now))
                        span { @for (place, name) in names.iter().enumerate() { @if place > 0 { ", " } a href={ "/jobs/" (name) } { (name) } } }
                    }
                }
            }
        }
    }
}

/// Replicas, store and table.
fn strip(look: &Look) -> Markup {
    let (status, now) = (&look.status, look.now.wall);
    html! {
        section aria-labelledby="fleet" {
            h2 #fleet { "Fleet" }
            @if !look.replicas.is_empty() {
                table {
                    caption { "Replicas that were heard of lately" }
                    thead { tr {
                        th scope="col" { "Replica" } th scope="col" { "Version" } th scope="col" { "Table" }
                        th scope="col" { "Up since" } th scope="col" { "Running" } th scope="col" { "Clock" }
                    } }
                    tbody { @for replica in &look.replicas { (member(replica, now)) } }
                }
            }
            @if !look.past.is_empty() {
                details {
                    summary { "Replicas that are not there any more, and the tables that they had" }
                    table {
                        caption { "The last ones, those that were there last first" }
                        thead { tr {
                            th scope="col" { "Replica" } th scope="col" { "From" } th scope="col" { "Until" } th scope="col" { "Tables" }
                        } }
                        tbody { @for replica in &look.past { (past(replica, now)) } }
                    }
                }
            }
            dl {
                dt { "Store" } dd { (status.store.state) ", " code { (status.store.url) } }
                dt { "Table" } dd { code { (short(&status.table.revision)) } ", " (counted(status.table.jobs, "job")) ", loaded " (moment(&status.table.loaded_at, now)) }
                dt { "Zone data" } dd { (status.table.zone_data) }
            }
        }
    }
}

fn past(replica: &ReplicaView, now: DateTime<Utc>) -> Markup {
    let at = |text: &str| html! { @if parse(text).is_some() { (moment(text, now)) } };
    html! {
        tr {
            th scope="row" data-label="Replica" { (replica.name) }
            td data-label="From" { (at(&replica.up_since)) }
            td data-label="Until" { (at(&replica.seen_at)) @if !replica.left { ", then silent" } }
            td data-label="Tables" {
                @for table in &replica.tables {
                    p { code { (short(&table.revision)) } " (" (counted(table.jobs, "job")) ") since " (at(&table.since)) }
                }
            }
        }
    }
}

fn member(replica: &ReplicaView, now: DateTime<Utc>) -> Markup {
    html! {
        tr {
            th scope="row" data-label="Replica" { (replica.name) @if replica.draining { " (draining)" } }
            td data-label="Version" { (replica.version) }
            td data-label="Table" { code { (short(&replica.revision)) } }
            td data-label="Up since" { @if parse(&replica.up_since).is_some() { (moment(&replica.up_since, now)) } }
            td data-label="Running" { (replica.running.len()) }
            td data-label="Clock" { @if let Some(ahead) = replica.clock_offset_seconds { (format!("{ahead:+.3} s")) } }
        }
    }
}
