//! `onecron exec --dry-run`: what would be run, for people, and without what looks like a secret.

use crate::cli::table_args;
use crate::config::duration_text;
use crate::job::Action;
use crate::job::BASIC_ENV;
use crate::job::CommandSpec;
use crate::job::EnvValue;
use crate::job::HttpSpec;
use crate::job::JobSpec;
use crate::job::ProxySpec;
use crate::secret::Redaction;
use crate::secret::is_secret_key;
use crate::secret::without_given;
use crate::secret::without_password;
use crate::shell;
use std::io;
use std::io::Write;

/// Rows of a name and what it has; without a name, one more of the same.
struct Rows<'a> {
    all: Vec<Vec<String>>,
    redaction: &'a Redaction,
}

impl Rows<'_> {
    fn add(&mut self, name: &str, text: impl Into<String>) {
        let before = self.all.iter().rev().find(|row| !row[0].is_empty()).map(|row| row[0].as_str());
        let name = if before == Some(name) { "" } else { name };
        let text = text.into();
        self.all.push(vec![name.to_owned(), self.redaction.text(&text).into_owned()]);
    }
}

/// Writes it.
pub(super) fn write(out: &mut dyn Write, (spec, redaction): (&JobSpec, &Redaction), claims: bool) -> io::Result<()> {
    let mut rows = Rows { all: Vec::new(), redaction };
    rows.add("job", spec.name.as_str());
    match &spec.action {
        Action::Command(command) => of_command(&mut rows, command),
        Action::Http(http) => of_http(&mut rows, http),
    }
    let timeout = spec.timeout.map_or_else(
        || "it may take as long as it likes".to_owned(),
        |after| format!("after {}", duration_text(after)),
    );
    rows.add("timeout", timeout);
    rows.add(
        "claim",
        if claims { "the store is asked first, and told how it ended" } else { "none: nobody else knows of the run" },
    );
    table_args::write_aligned(out, &rows.all)
}

fn of_command(rows: &mut Rows<'_>, command: &CommandSpec) {
    let mut words: Vec<String> = Vec::new();
    let mut is_secret = false;
    for word in command.program.argv() {
        words.push(if is_secret { "***".to_owned() } else { shell::word(&without_given(word)) });
        is_secret = word.starts_with('-') && !word.contains(['=', ' ']) && is_secret_key(word);
    }
    rows.add("runs", words.join(" "));
    let folder = command.working_dir.as_ref().map(|folder| folder.display().to_string());
    rows.add("in", folder.unwrap_or_else(|| "the folder of this command".to_owned()));
    let inherited = if command.inherit_env {
        "those of this command, but for ONECRON_…".to_owned()
    } else {
        format!("of those of this command only {}", BASIC_ENV.join(", "))
    };
    rows.add("variables", inherited);
    for (name, value) in &command.env {
        rows.add("variables", format!("{name}={}", shown(name, value)));
    }
    rows.add("variables", "ONECRON_JOB, ONECRON_RUN_ID and six more tell it about the run");
}

fn of_http(rows: &mut Rows<'_>, http: &HttpSpec) {
    rows.add("sends", format!("{} {}", http.method, address(&http.url)));
    for (name, value) in &http.headers {
        rows.add("headers", format!("{name}: {}", shown(name, value)));
    }
    rows.add("headers", "Idempotency-Key, Onecron-Run-Id and seven more tell the server about the run");
    match &http.body {
        Some(EnvValue::Text(text)) => rows.add("body", format!("{} bytes that stand in the table", text.len())),
        Some(source) => rows.add("body", from(source)),
        None => {}
    }
    match &http.proxy {
        ProxySpec::Environment => {}
        ProxySpec::None => rows.add("proxy", "none"),
        ProxySpec::Url(url) => rows.add("proxy", address(url)),
    }
    if let Some(file) = &http.ca_file {
        rows.add("trusts", format!("the authorities in {}, and no others", file.display()));
    }
    rows.add("expects", http.expected_text());
}

/// A value, unless its name says that it is a secret.
fn shown(name: &str, value: &EnvValue) -> String {
    match value {
        EnvValue::Text(_) if is_secret_key(name) => "***".to_owned(),
        EnvValue::Text(text) => without_given(text),
        source => from(source),
    }
}

/// An address, without user, password and query.
fn address(url: &EnvValue) -> String {
    match url {
        EnvValue::Text(text) => match text.split_once(['?', '#']) {
            Some((place, _)) => format!("{}?…", without_password(place)),
            None => without_password(text),
        },
        source => from(source),
    }
}

fn from(value: &EnvValue) -> String {
    match value {
        EnvValue::Text(text) => text.clone(),
        EnvValue::FromEnv(name) => format!("(what the variable {name} has)"),
        EnvValue::FromFile(path) => format!("(what the file {} has)", path.display()),
    }
}
