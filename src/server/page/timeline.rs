//! The last runs of a job as a picture: a bar for each, the oldest at the left, as high as it took long. What it shows
//! stands in words beside it.

use super::outcome;
use super::took;
use crate::admin::RunView;
use crate::plural::counted;
use maud::Markup;
use maud::html;
use std::collections::BTreeMap;

const WIDTH: usize = 10;
const HEIGHT: f64 = 48.0;
/// A bar is never lower: one that took no time is there, too.
const LEAST: f64 = 8.0;

/// A picture of runs, which are given newest first.
pub fn timeline(runs: &[RunView]) -> Markup {
    let longest = runs.iter().filter_map(|run| run.duration_seconds).fold(0.001, f64::max);
    let longest_run = runs.iter().find(|run| run.duration_seconds.is_some_and(|took| took >= longest)).map(took);
    let height = |run: &RunView| run.duration_seconds.map_or(LEAST, |took| LEAST + (HEIGHT - LEAST) * took / longest);
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for run in runs {
        *counts.entry(outcome(run).2).or_default() += 1;
    }
    let words: Vec<String> = counts.iter().map(|(word, count)| format!("{count} {word}")).collect();
    let (Some(newest), Some(oldest)) = (runs.first(), runs.last()) else { return html! {} };
    let words = format!(
        "{} from {} to {}: {}",
        counted(runs.len(), "run"),
        oldest.scheduled_for,
        newest.scheduled_for,
        words.join(", ")
    );
    html! {
        figure {
            svg.timeline role="img" aria-label=(words) viewBox={ "0 0 " (runs.len() * WIDTH) " " (HEIGHT + 2.0) } width=(runs.len() * WIDTH) height=(HEIGHT + 2.0) {
                @for (place, run) in runs.iter().rev().enumerate() {
                    @let (class, _, word) = outcome(run);
                    @let high = height(run);
                    rect.(class) x=(place * WIDTH + 1) y=(format!("{:.1}", HEIGHT - high + 1.0)) width=(WIDTH - 2) height=(format!("{high:.1}")) {
                        title { (run.scheduled_for) ": " (word) " " (took(run)) }
                    }
                }
            }
            figcaption { (words) ". A bar is as high as its run took long" @if let Some(longest) = longest_run { ", at most " (longest) } "." }
        }
    }
}
