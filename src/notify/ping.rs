//! A URL that is called after each run, as healthchecks.io has it: as it is for a success, with `/fail` behind it for
//! anything else, and with `/start` when a run starts. The body is what such services keep as a log.

use super::About;
use super::Message;
use super::Sender;
use super::end_of;
use crate::job::Occasion;

/// Where to call: what stands in the table, a variable or a file, made into that of a job.
pub fn address(written: &str, job: &str, about: About) -> String {
    let written = written.trim().replace("{job}", job);
    let end = match about {
        About::Start => "/start",
        About::Told(Occasion::Success | Occasion::Recovery) => return written,
        About::Told(Occasion::Failure | Occasion::Missed | Occasion::Lost | Occasion::Stale) => "/fail",
    };
    let at = written.find(['?', '#']).unwrap_or(written.len());
    let (path, query) = written.split_at(at);
    format!("{}{end}{query}", path.trim_end_matches('/'))
}

pub(super) fn text(message: &Message, sender: &Sender) -> String {
    let (facts, spec) = (&message.first().facts, &message.first().spec);
    let line = |what: &str, text: &str| if text.is_empty() { String::new() } else { format!("{what} {text}\n") };
    let (run, runbook) = (line("run", &facts.run_id), line("runbook", &spec.runbook_url));
    let from = format!("told by {} of {}", sender.replica, sender.namespace);
    format!("{}\n{run}{from}\n{runbook}{}", message.summary(), end_of(&facts.output_tail, message.tail_most()))
}
