//! What is allowed and probably not meant, in commands and in the texts of schedules.

use super::reader::Reader;
use super::text::Span;
use super::text::quoted;
use super::text::short;
use super::yaml::Node;
use super::yaml::Scalar;
use super::yaml::Style;
use super::yaml::Value;
use crate::job::EnvValue;
use std::collections::BTreeMap;

/// What to say of a text that some other program was to fill in.
pub(super) fn template(text: &str) -> Option<&'static str> {
    if text.contains("{{") {
        return Some("`{{ … }}` is for Helm and the like to fill in: render the file first");
    }
    text.contains("${")
        .then_some("`${ … }` is not filled in here: write the value, or render the file first (`envsubst`)")
}

/// The words of a command.
pub(super) fn of_command(reader: &mut Reader<'_>, node: &Node) {
    match &node.value {
        Value::Scalar(scalar) => swallowed(reader, scalar),
        Value::List(nodes) => {
            let texts: Vec<&str> = nodes.iter().filter_map(text_of).collect();
            if let ([only], [node]) = (texts.as_slice(), nodes.as_slice())
                && only.trim().contains(' ')
            {
                let message = format!("the program of this list is called {}, blanks included", quoted(only));
                let words = only.split_whitespace().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(", ");
                let hint = format!(
                    "write each word by itself: `[{}]`, or a text without brackets for the shell",
                    short(&words)
                );
                reader.find("W519", node.span, message, &hint);
            }
            // What follows `-c` is for a shell, which fills it in.
            let has_shell =
                texts.iter().any(|text| text.starts_with('-') && !text.starts_with("--") && text.ends_with('c'));
            if let Some(node) =
                nodes.iter().find(|node| !has_shell && text_of(node).is_some_and(|text| text.contains("${")))
            {
                let message = format!("{} stays as it is: a command that is a list has no shell", kept(node));
                reader.find("W517", node.span, message, "write the command as one text, which a shell runs");
            }
            for scalar in nodes
                .iter()
                .filter_map(|node| if let Value::Scalar(scalar) = &node.value { Some(scalar) } else { None })
            {
                swallowed(reader, scalar);
            }
        }
        Value::Map(_) => {}
    }
}

fn kept(node: &Node) -> String {
    let text = text_of(node).unwrap_or_default();
    let from = text.find("${").unwrap_or_default();
    let to = text[from..].find('}').map_or(text.len(), |at| from + at + 1);
    quoted(&text[from..to])
}

fn text_of(node: &Node) -> Option<&str> {
    match &node.value {
        Value::Scalar(scalar) => Some(&scalar.text),
        _ => None,
    }
}

/// `echo #5`: the rest is a comment. One that begins with a blank was meant as one.
fn swallowed(reader: &mut Reader<'_>, scalar: &Scalar) {
    if scalar.style != Style::Plain {
        return;
    }
    let source = reader.source;
    let line = source.line_range(source.line_index(scalar.written.end.saturating_sub(1)));
    let rest = source.text.get(scalar.written.end..line.end).unwrap_or_default();
    let comment = rest.trim_start();
    let is_close =
        comment.strip_prefix('#').is_some_and(|after| after.starts_with(|c: char| !c.is_whitespace() && c != '#'));
    if is_close {
        let start = line.end - comment.len();
        let message = format!("{} is a comment, and no part of the command", quoted(comment.trim_end()));
        let hint = "quote the command if it is meant as a part of it; a comment is written `# …`";
        reader.find("W518", Span::new(start, line.end), message, hint);
    }
}

/// Values of variables are given to the job as they are.
pub(super) fn of_variables(reader: &mut Reader<'_>, variables: &BTreeMap<String, EnvValue>, span: Span) {
    let found = variables.iter().find_map(|(name, value)| match value {
        EnvValue::Text(text) if text.contains("${") => Some(name),
        _ => None,
    });
    if let Some(name) = found {
        let message = format!("`env.{}` has `${{…}}` in it, and the job gets it as it is written", short(name));
        let hint = "take a variable of the daemon with `{fromEnv: NAME}`, or put the pieces together in the command";
        reader.find("W517", span, message, hint);
    }
}

/// `"fromFile: /path"`: a text that looks like the map which was meant.
pub(super) fn of_text(reader: &mut Reader<'_>, name: &str, scalar: &Scalar, span: Span) {
    let text = scalar.text.trim().trim_start_matches('{').trim_start();
    if let Some(key) = ["fromFile", "fromEnv"]
        .into_iter()
        .find(|key| text.strip_prefix(key).is_some_and(|rest| rest.trim_start().starts_with(':')))
    {
        let message = format!("`{name}` is the text `{key}: …` itself, and not what that names");
        reader.find("W523", span, message, &format!("write a map, without quotes around it: `{{{key}: …}}`"));
    }
}

/// One expression of a schedule, in five or six words.
pub(super) fn of_schedule(reader: &mut Reader<'_>, text: &str, span: Span) {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let times = match words.len() {
        5 => &words[..2],
        6 => &words[..3],
        _ => return,
    };
    each_of_the_finer(reader, (&words, times), span);
    uneven_steps(reader, (&words, times), span);
    let (day_of_month, weekdays) = (words[words.len() - 3], words[words.len() - 1]);
    let before_step = weekdays.split(['/', '#']).next().unwrap_or_default();
    if day_of_month == "?" && before_step.contains(|c: char| c.is_ascii_digit()) {
        let message = format!(
            "the weekdays of `{text}` are numbers, and 1 is Monday here; Quartz, which writes `?`, begins with Sunday as 1"
        );
        reader.find("W520", span, message, "write names, which mean the same everywhere: `MON`, `TUE-SAT`");
    }
}

fn is_star(word: &str) -> bool {
    matches!(word, "*" | "?")
}

/// `*/40` in the minutes: at 0 and at 40, and not every forty minutes. A step of days is uneven in most months, which
/// everybody knows.
fn uneven_steps(reader: &mut Reader<'_>, (words, times): (&[&str], &[&str]), span: Span) {
    let units: &[(&str, u32, &str)] = &[("second", 60, "s"), ("minute", 60, "m"), ("hour", 24, "h")];
    let units = &units[units.len() - times.len()..];
    for (index, (word, (unit, size, letter))) in times.iter().zip(units).enumerate() {
        let step = word.split_once('/').filter(|(base, _)| matches!(*base, "*" | "?" | "0"));
        let Some(step) = step.and_then(|(_, step)| step.parse::<u32>().ok()).filter(|step| *step > 0) else { continue };
        if size % step == 0 || step >= *size {
            continue;
        }
        let last = (size - 1) / step * step;
        let message =
            format!("`{word}` is not every {step} {unit}s: after {unit} {last} comes {unit} 0, {} later", size - last);
        let is_bare =
            words[..index].iter().all(|word| *word == "0") && words[index + 1..].iter().all(|word| is_star(word));
        let even = (1..=step).rev().find(|step| size % step == 0).unwrap_or(1);
        let every = if is_bare { format!("for even distances write `@every {step}{letter}`; ") } else { String::new() };
        let times: Vec<String> = (0..*size).step_by(step as usize).map(|time| time.to_string()).collect();
        let hint = format!("{every}`*/{even}` is even; if just that is meant, write `{}`", times.join(","));
        reader.find("W522", span, message, &hint);
    }
}

/// `* 2 * * *`: sixty runs, where mostly one is meant.
fn each_of_the_finer(reader: &mut Reader<'_>, (words, times): (&[&str], &[&str]), span: Span) {
    let names: &[&str] = if times.len() == 2 { &["minute", "hour"] } else { &["second", "minute", "hour"] };
    let stars = times.iter().take_while(|word| is_star(word)).count();
    let is_numbers =
        |word: &str| word.split(',').all(|part| !part.is_empty() && part.chars().all(|c| c.is_ascii_digit()));
    if stars == 0 || times.get(stars).is_none_or(|word| !is_numbers(word)) {
        return;
    }
    let (finest, at) = (names[0], times[stars]);
    let meant: Vec<&str> =
        words.iter().enumerate().map(|(index, word)| if index < stars { "0" } else { word }).collect();
    let each: Vec<&str> = words.iter().enumerate().map(|(index, word)| if index == 0 { "*/1" } else { word }).collect();
    let message = format!("`{}` runs in each {finest} of {} {at}, and not once", words.join(" "), names[stars]);
    let hint = format!("for one run write `{}`; if each is meant, write `{}`", meant.join(" "), each.join(" "));
    reader.find("W521", span, message, &hint);
}
