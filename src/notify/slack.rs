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
const SHOWN_MOST: usize = 1200;
/// How many lines are in a block, where they fit.
const LINES_MOST: usize = 5;

/// What has a meaning of its own there.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Never inside of an escape, nor of a link, which is all that has a bare `<`.
fn cut(text: &str) -> String {
    let mut cut: String = text.chars().take(BLOCK_MOST).collect();
    if cut.len() < text.len() {
        for (begin, end) in [('&', ';'), ('<', '>')] {
            if let Some(at) = cut.rfind(begin).filter(|at| !cut[*at..].contains(end)) {
                cut.truncate(at);
            }
        }
        cut.push('…');
    }
    cut
}

/// The end of an output between marks that keep its form. It is shortened before it has them, so that both stay.
fn quoted(tail: &str) -> String {
    let room = BLOCK_MOST - "```\n\n```".len();
    let mut tail = tail;
    loop {
        // Three of them would end it.
        let text = escaped(&tail.replace("```", "'''"));
        let over = text.chars().count().saturating_sub(room);
        if over == 0 {
            return format!("```\n{text}\n```");
        }
        // One character becomes five at most.
        tail = end_of(tail, tail.len().saturating_sub(over.div_ceil(5)));
    }
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

/// The same among others, where nothing else says which run it was.
fn line_of_many(letter: &Letter) -> String {
    match letter.facts.run_id.as_str() {
        "" => line(letter),
        run => format!("{} · `{}`", line(letter), escaped(run)),
    }
}

/// Lines in as few blocks as hold them, so that none is cut where it could stand in another.
fn packed(lines: Vec<String>) -> Vec<String> {
    let mut blocks: Vec<(usize, String)> = Vec::new();
    for line in lines {
        match blocks.last_mut() {
            Some((count, block))
                if *count < LINES_MOST && block.chars().count() + 1 + line.chars().count() <= BLOCK_MOST =>
            {
                *count += 1;
                block.push('\n');
                block.push_str(&line);
            }
            _ => blocks.push((1, line)),
        }
    }
    blocks.into_iter().map(|(_, block)| block).collect()
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
    let tail = end_of(facts.output_tail.trim_end(), SHOWN_MOST);
    if !tail.is_empty() {
        blocks.push(section(&quoted(tail)));
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
        let lines: Vec<String> = message.letters.iter().map(|letter| line_of_many(letter)).collect();
        blocks.extend(packed(lines).iter().map(|lines| section(lines)));
        if message.count > message.letters.len() {
            blocks.push(section(&format!("and {} more", message.count - message.letters.len())));
        }
    }
    let from = format!("onecron · {} · {}", sender.namespace, sender.replica);
    blocks.push(json!({"type": "context", "elements": [{"type": "mrkdwn", "text": escaped(&from)}]}));
    json!({"text": cut(&escaped(&summary)), "blocks": blocks}).to_string()
}
