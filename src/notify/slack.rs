//! Slack's incoming webhooks: `text` for notifications and for what knows no blocks, and blocks for people. Mattermost and
//! others take the same.
//!
//! Limits are Slack's: 50 blocks, 3000 characters in one.

use super::Letter;
use super::Message;
use super::Sender;
use super::end_of;
use super::line_of;
use super::summary;
use serde_json::Value;
use serde_json::json;

/// How long the text of a block is, characters: escaping makes one of up to five.
const BLOCK_MOST: usize = 2900;
/// How much of an output is shown, bytes, before it is escaped.
const TAIL_MOST: usize = 1200;

/// What has a meaning of its own there.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn cut(text: &str) -> String {
    let mut cut: String = text.chars().take(BLOCK_MOST).collect();
    if cut.len() < text.len() {
        // No half of an escape.
        if let Some(at) = cut.rfind('&').filter(|at| !cut[*at..].contains(';')) {
            cut.truncate(at);
        }
        cut.push('…');
    }
    cut
}

fn section(text: &str) -> Value {
    json!({"type": "section", "text": {"type": "mrkdwn", "text": cut(text)}})
}

/// A link: what would end it is written otherwise.
fn link(url: &str, words: &str) -> String {
    let url = url.replace('<', "%3C").replace('>', "%3E").replace('|', "%7C").replace('&', "&amp;");
    format!("<{url}|{}>", escaped(words))
}

/// The line of one job, with its name in bold.
fn line(letter: &Letter) -> String {
    let summary = summary::one(letter);
    let rest = summary.strip_prefix(letter.job()).unwrap_or(&summary);
    let runbook = match letter.spec.runbook_url.as_str() {
        "" => String::new(),
        url => format!(" · {}", link(url, "runbook")),
    };
    format!("*{}*{}{runbook}", letter.job(), escaped(rest))
}

/// What else there is to say of one job.
fn details(letter: &Letter) -> Vec<Value> {
    let mut blocks = Vec::new();
    let facts = &letter.facts;
    let mut lines: Vec<String> = Vec::new();
    if !letter.spec.description.is_empty() {
        lines.push(escaped(&line_of(&letter.spec.description, 500)));
    }
    if !facts.run_id.is_empty() {
        lines.push(format!("run `{}`", escaped(&facts.run_id)));
    }
    let labels: Vec<String> = letter.spec.labels.iter().map(|(name, text)| format!("{name}: {text}")).collect();
    if !labels.is_empty() {
        lines.push(escaped(&labels.join(", ")));
    }
    if !lines.is_empty() {
        blocks.push(section(&lines.join("\n")));
    }
    let tail = end_of(facts.output_tail.trim_end(), TAIL_MOST);
    if !tail.is_empty() {
        // Three of them would end it.
        blocks.push(section(&format!("```\n{}\n```", escaped(&tail.replace("```", "'''")))));
    }
    blocks
}

pub(super) fn text(message: &Message, sender: &Sender) -> String {
    let summary = message.summary();
    let mut blocks = Vec::new();
    if let (1, [letter]) = (message.count, message.letters.as_slice()) {
        blocks.push(section(&line(letter)));
        blocks.extend(details(letter));
    } else {
        blocks.push(section(&format!("*{}*", escaped(&summary))));
        let lines: Vec<String> = message.letters.iter().map(|letter| line(letter)).collect();
        // A block for some lines: none is cut where many are short.
        blocks.extend(lines.chunks(5).map(|lines| section(&lines.join("\n"))));
        if message.count > message.letters.len() {
            blocks.push(section(&format!("and {} more", message.count - message.letters.len())));
        }
    }
    let from = format!("onecron · {} · {}", sender.namespace, sender.replica);
    blocks.push(json!({"type": "context", "elements": [{"type": "mrkdwn", "text": escaped(&from)}]}));
    json!({"text": cut(&escaped(&summary)), "blocks": blocks}).to_string()
}
