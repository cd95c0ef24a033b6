//! Crontabs, as crontab(5) of Vixie cron and its descendants (cronie, Debian's cron) describes them.

use super::Converted;
use super::NothingToConvert;
use super::draft::Draft;
use super::draft::Table;
use super::draft::list;
use super::draft::quoted;
use crate::config::is_variable;
use crate::schedule::Schedule;
use crate::schedule::Zone;
use std::collections::BTreeMap;

/// Words in front of the program that a command is about.
const WRAPPERS: [&str; 12] =
    ["cd", "exec", "nice", "ionice", "nohup", "sudo", "env", "flock", "timeout", "chronic", "test", "["];

/// What is known of a crontab besides its text.
#[derive(Debug, Clone)]
pub struct Crontab<'a> {
    /// Whether each line names a user between schedule and command, as in `/etc/crontab`.
    pub has_users: bool,
    /// The zone of the machine that it was for; cron itself has no other.
    pub zone: &'a str,
}

/// Settings that lines of a crontab make for the lines below.
#[derive(Debug, Clone, Default)]
struct Settings {
    env: BTreeMap<String, String>,
    shell: Option<String>,
    zone: Option<String>,
}

/// Makes a table of a crontab.
///
/// # Errors
/// It has no line that could be a job.
pub fn crontab(text: &str, about: &Crontab<'_>) -> Result<Converted, NothingToConvert> {
    let mut table = Table::default();
    table.head(
        "Made from a crontab. cron lets a job's runs overlap and never ends one, and so does this table: without the",
    );
    table.head(
        "two lines in `defaults`, a run is skipped while the one before it goes on, and is stopped after an hour.",
    );
    table.scheduler(format!("timeZone: {}", about.zone));
    table.defaults("concurrencyPolicy: Allow");
    table.defaults("timeout: none");
    let text = text.trim_start_matches('\u{feff}');
    let (mut settings, mut comments, mut found) = (Settings::default(), Vec::new(), false);
    if !text.lines().filter_map(|line| assignment(line.trim())).any(|(name, _)| name == "HOME") {
        table.head("cron starts a command in its user's home folder, onecron where it was started itself: write `workingDir` where");
        table.head("a command counts on that.");
    }
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() {
            comments.clear();
        } else if let Some(comment) = line.strip_prefix('#') {
            comments.push(comment.trim().to_owned());
        } else if let Some((name, value)) = assignment(line) {
            settings.take(&mut table, number + 1, (name, value));
        } else {
            found = true;
            read_line(&mut table, (number + 1, line), (&settings, about), std::mem::take(&mut comments));
        }
    }
    if found { Ok(table.finish()) } else { Err(NothingToConvert("the crontab has no line with a schedule".into())) }
}

/// `NAME = value`, with quotes around either if need be.
fn assignment(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once('=')?;
    let bare = |text: &'_ str| -> Option<(usize, usize)> {
        let inner = text.trim();
        let quotes = ['"', '\''].into_iter().any(|q| inner.len() > 1 && inner.starts_with(q) && inner.ends_with(q));
        let start = text.len() - text.trim_start().len();
        let cut = usize::from(quotes);
        Some((start + cut, start + inner.len() - cut))
    };
    let ((a, b), (c, d)) = (bare(name)?, bare(value)?);
    let (name, value) = (&name[a..b], &value[c..d]);
    let starts = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    (starts && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')).then_some((name, value))
}

impl Settings {
    fn take(&mut self, table: &mut Table, line: usize, (name, value): (&str, &str)) {
        match name {
            "SHELL" => self.shell = Some(value.to_owned()),
            "CRON_TZ" | "TZ" => {
                self.zone = Some(value.to_owned());
                if name == "TZ" {
                    self.env.insert(name.into(), value.into());
                }
            }
            "MAILTO" | "MAILFROM" => {
                if !value.is_empty() {
                    table.tell(&format!(
                        "line {line}: {name} is left out: nothing is mailed, what jobs print is in the log"
                    ));
                }
            }
            "RANDOM_DELAY" => {
                table.tell(&format!(
                    "line {line}: RANDOM_DELAY is left out: `jitter: {value}m` in `defaults` is near to it"
                ));
            }
            _ if !is_variable(name) => {
                table.tell(&format!(
                    "line {line}: {name} is left out: in such variables onecron tells a run about itself"
                ));
            }
            _ => {
                self.env.insert(name.into(), value.into());
            }
        }
    }
}

/// The schedule, and what follows it.
fn split_schedule(line: &str) -> Option<(String, &str)> {
    let fields = if line.starts_with('@') { 1 } else { 5 };
    let mut rest = line;
    let mut texts = Vec::with_capacity(fields);
    for _ in 0..fields {
        let end = rest.find(char::is_whitespace)?;
        texts.push(&rest[..end]);
        rest = rest[end..].trim_start();
    }
    Some((texts.join(" "), rest))
}

/// What cron hands to the shell, and to its standard input: `%` is a line end there, and the first one begins the input.
fn split_percents(command: &str) -> (String, Option<String>) {
    let (mut parts, mut escaped) = (vec![String::new()], false);
    for c in command.chars() {
        let last = parts.len() - 1;
        match c {
            '%' if escaped => {
                parts[last].pop();
                parts[last].push('%');
            }
            '%' => parts.push(String::new()),
            _ => parts[last].push(c),
        }
        escaped = c == '\\' && !escaped;
    }
    let command = parts.remove(0).trim_end().to_owned();
    let input = (!parts.is_empty()).then(|| parts.join("\n"));
    (command, input)
}

fn read_line(
    table: &mut Table,
    (number, line): (usize, &str),
    (settings, about): (&Settings, &Crontab<'_>),
    comments: Vec<String>,
) {
    let whole = [line.to_owned()];
    // A dash keeps some crons from logging the command.
    let Some((schedule, rest)) = split_schedule(line.strip_prefix('-').unwrap_or(line)) else {
        return table.leave_out(&format!("line {number} is no schedule with a command"), &whole);
    };
    if schedule.eq_ignore_ascii_case("@reboot") {
        let note = format!("line {number}: @reboot: onecron has no start of a machine; let the init system run it");
        return table.leave_out(&note, &whole);
    }
    let (user, command) = match about.has_users {
        true => rest.split_once(char::is_whitespace).map_or((Some(rest), ""), |(user, rest)| (Some(user), rest.trim())),
        false => (None, rest),
    };
    let (command, input) = split_percents(command);
    if command.is_empty() {
        return table.leave_out(&format!("line {number} has no command"), &whole);
    }
    if command.contains('\0') {
        return table.leave_out(&format!("line {number} has a NUL character"), &whole);
    }
    if let Err(error) = Schedule::parse(&schedule, &Zone::utc(), "job") {
        let hint = error.hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
        return table.leave_out(&format!("line {number}: schedule `{schedule}`: {}{hint}", error.message), &whole);
    }
    let mut notes = Vec::new();
    let mut draft = Draft { comments, ..Draft::default() };
    draft.set("schedule", quoted(&schedule));
    if let Some(zone) = &settings.zone {
        match Zone::find(zone) {
            Ok(found) => draft.set("timeZone", found.name()),
            Err(error) => notes.push(format!("the zone `{zone}` is left out: {error}")),
        }
    }
    let shell = settings.shell.as_deref().unwrap_or("/bin/sh");
    draft.set("command", quoted(&with_input(&command, shell, input.as_deref())));
    if settings.shell.is_some() {
        draft.set("shell", list(&[shell.to_owned(), "-c".into()]));
    }
    match settings.env.get("HOME") {
        Some(home) if home.starts_with('/') => draft.set("workingDir", quoted(home)),
        Some(home) => {
            notes.push(format!("HOME is `{home}`, and `workingDir` has to be an absolute path: it is left out"))
        }
        None => {}
    }
    draft.env = settings.env.iter().map(|(name, value)| (name.clone(), quoted(value))).collect();
    match user {
        Some(user) => notes.push(format!("it ran as user {user}: here the daemon's user runs all jobs")),
        None if command.split_whitespace().next() == Some("root") => {
            notes.push("its first word is `root`: is that a user? For a system crontab add --users".into());
        }
        None => {}
    }
    if let Some(policy) = flock_policy(&command) {
        draft.set("concurrencyPolicy", policy);
        notes.push(format!("flock holds on one machine only: `concurrencyPolicy: {policy}` holds for all replicas"));
    }
    table.add(&subject(&command), &notes, &draft);
}

/// What flock(1) does where somebody has the lock: it gives up with `-n`, and waits otherwise.
fn flock_policy(command: &str) -> Option<&'static str> {
    let mut words = command.split_whitespace().skip_while(|word| *word != "flock" && !word.ends_with("/flock"));
    words.next()?;
    let gives_up = |word: &str| {
        let short = word.starts_with('-') && !word.starts_with("--") && word.contains('n');
        short || ["--nb", "--nonblock", "--nonblocking"].contains(&word)
    };
    Some(if words.take_while(|word| word.starts_with('-')).any(gives_up) { "Forbid" } else { "Queue" })
}

/// A text that a shell takes as one word, whatever is in it.
fn word(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// A command that reads its input from a text, as cron hands it over: whatever the command is, nothing of the text is
/// read by the shell.
fn with_input(command: &str, shell: &str, input: Option<&str>) -> String {
    match input {
        None => command.to_owned(),
        Some(input) => format!("printf '%s\\n' {} | {} -c {}", word(input), word(shell), word(command)),
    }
}

/// The program that a command is about, without path and ending, for a name.
fn subject(command: &str) -> String {
    let words =
        command.split_whitespace().map(|word| word.trim_matches(['(', ')', '{', '}', ';', '&', '|', '"', '\'']));
    let stem = |word: &str| {
        let base = word.rsplit('/').next().unwrap_or(word);
        base.split('.').next().unwrap_or(base).to_owned()
    };
    let mut is_argument = false;
    for word in words.filter(|word| !word.is_empty()) {
        if word.starts_with('-') || word.contains('=') {
            continue;
        }
        let base = stem(word);
        let is_skipped = is_argument || WRAPPERS.contains(&base.as_str());
        is_argument = base == "cd" || base == "flock";
        if !is_skipped && base.starts_with(|c: char| c.is_ascii_alphabetic()) {
            return base;
        }
    }
    "job".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(text: &str) -> Converted {
        crontab(text, &Crontab { has_users: false, zone: "Europe/Berlin" }).unwrap()
    }

    #[test]
    fn a_percent_begins_the_input_and_an_escaped_one_is_itself() {
        let none = |text: &str| (text.to_owned(), None);
        assert_eq!(split_percents("date +\\%F"), none("date +%F"));
        assert_eq!(split_percents("mail -s hi root%Dear%all"), ("mail -s hi root".into(), Some("Dear\nall".into())));
        assert_eq!(split_percents("echo \\\\n"), none("echo \\\\n"));
        let piped = with_input("read a; cat # it's", "/bin/sh", Some("a\n'; touch x"));
        assert_eq!(piped, "printf '%s\\n' 'a\n'\\''; touch x' | '/bin/sh' -c 'read a; cat # it'\\''s'");
    }

    #[test]
    fn a_job_is_named_after_its_program() {
        for (command, name) in [
            ("/usr/local/bin/backup.sh --full", "backup"),
            ("cd /srv && ./report.py", "report"),
            ("flock -n /tmp/lock /opt/sync", "sync"),
            ("nice -n 19 updatedb", "updatedb"),
            ("[ -x /usr/bin/certbot ] && certbot renew", "certbot"),
            ("LANG=C sort", "sort"),
            ("/1/2", "job"),
        ] {
            assert_eq!(subject(command), name, "{command}");
        }
    }

    #[test]
    fn variables_hold_for_the_lines_below_them() {
        let text = "0 1 * * * one\nSHELL=/bin/bash\nPATH = \"/opt/bin:/bin\"\n0 2 * * * two\nCRON_TZ=Asia/Tokyo\n0 3 * * * three\n";
        let table = made(text).table;
        let of = |name: &str| table.split("- name: ").find(|part| part.starts_with(name)).unwrap().to_owned();
        assert!(!of("one").contains("shell") && !of("one").contains("PATH"), "{table}");
        assert!(of("two").contains("shell: [\"/bin/bash\", \"-c\"]") && of("two").contains("PATH: \"/opt/bin:/bin\""));
        assert!(of("three").contains("timeZone: Asia/Tokyo") && !of("two").contains("timeZone"));
    }

    #[test]
    fn what_cannot_be_carried_over_is_said_and_kept_as_a_comment() {
        let converted = made(
            "MAILTO=ops@x\n@reboot /opt/start\n61 * * * * /opt/never\n* * * * *\n5 4 * * * /opt/ok\n5 4 * * * /opt/ok\n",
        );
        assert_eq!(converted.jobs, 2);
        assert_eq!(converted.notes.len(), 4, "{:?}", converted.notes);
        for left in ["# @reboot /opt/start", "# 61 * * * * /opt/never", "# * * * * *"] {
            assert!(converted.table.contains(left), "{left}: {}", converted.table);
        }
        assert!(converted.table.contains("- name: ok\n") && converted.table.contains("- name: ok-2\n"));
    }

    #[test]
    fn users_of_a_system_crontab_are_told() {
        let about = Crontab { has_users: true, zone: "UTC" };
        let converted =
            crontab("17 * * * * root cd / && run-parts /etc/cron.hourly\n5 0 * * * www php x.php\n", &about);
        let converted = converted.unwrap();
        assert!(converted.table.contains("command: \"cd / && run-parts /etc/cron.hourly\""), "{}", converted.table);
        assert_eq!(converted.notes.len(), 2, "{:?}", converted.notes);
        assert_eq!(converted.notes[1], "job php: it ran as user www: here the daemon's user runs all jobs");
        let forgotten = made("17 * * * * root cd / && run-parts /etc/cron.hourly\n");
        assert!(forgotten.notes[0].contains("--users"), "{:?}", forgotten.notes);
    }

    #[test]
    fn a_lock_of_one_machine_becomes_a_policy_for_all() {
        for (command, policy) in [
            ("flock -n /tmp/l x", Some("Forbid")),
            ("/usr/bin/flock -xn /tmp/l x", Some("Forbid")),
            ("flock --nonblock /tmp/l x", Some("Forbid")),
            ("cd /srv && flock -w 30 /tmp/l x -n", Some("Queue")),
            ("flock /tmp/l x", Some("Queue")),
            ("x --flock", None),
        ] {
            assert_eq!(flock_policy(command), policy, "{command}");
        }
    }

    #[test]
    fn whatever_a_line_holds_the_table_is_one_that_is_read() {
        let long = "x".repeat(120);
        let hostile = [
            "* * * * * echo a\u{7f}b\u{80}\u{9f}\u{feff}\u{ffff}\u{2028}\u{202e}",
            "# \u{ffff} \u{1b}[31m\n* * * * * /opt/\u{1b}[31m",
            "HOME=Europe/Berlin\n* * * * * pwd",
            "A=\": {}\n* * * * * env",
            "ONECRON_JOB=x\nonecron_store=y\nnull=1\nNO=1\n* * * * * env",
            "* * * * * cat # note %touch /tmp/x\n* * * * * a%'%\"%$(x)",
            "\u{feff}* * * * * first",
        ];
        let same = format!("* * * * * {long}\n").repeat(101);
        for text in hostile.into_iter().chain([same.as_str()]) {
            let converted = made(text);
            let source = crate::config::Source::new("made", converted.table.clone().into_bytes());
            let loaded = crate::config::load(&[source], chrono::DateTime::UNIX_EPOCH);
            let jobs =
                loaded.unwrap_or_else(|problems| panic!("{text:?}: {}", crate::config::render(&problems))).table.jobs;
            assert_eq!(jobs.len(), converted.jobs, "{text:?}");
            assert!(converted.notes.iter().all(|note| !note.contains('\u{1b}')), "{text:?}");
        }
    }

    #[test]
    fn a_text_without_a_line_for_a_job_is_refused() {
        let nothing = crontab("# hello\nPATH=/bin\n", &Crontab { has_users: false, zone: "UTC" });
        assert!(nothing.unwrap_err().to_string().contains("no line with a schedule"));
    }
}
