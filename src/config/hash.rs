//! Fingerprints of what was configured. They only serve to notice that two replicas, or two readings of a file,
//! differ: whoever can write a table can also make two that have the same fingerprint, and gains nothing by it.

use crate::job::Action;
use crate::job::CatchUp;
use crate::job::CommandSpec;
use crate::job::ConcurrencyPolicy;
use crate::job::EnvValue;
use crate::job::HttpSpec;
use crate::job::JobSpec;
use crate::job::LostRunPolicy;
use crate::job::OutputMode;
use crate::job::Program;
use crate::job::ProxySpec;
use std::time::Duration;

/// FNV-1a with 128 bits (offset basis and prime of the published definition). Frozen: replicas of two versions of
/// onecron compare what it returns.
pub(super) fn fnv128(parts: &[&[u8]]) -> u128 {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    let bytes = parts.iter().copied().flatten();
    bytes.fold(OFFSET, |hash, byte| (hash ^ u128::from(*byte)).wrapping_mul(PRIME))
}

/// The fingerprint of a table: what is in its files, in their order, and the zone data it is read with. 12 digits.
pub(super) fn revision(contents: &[&[u8]], zone_data: &str) -> String {
    let lengths: Vec<[u8; 8]> = contents.iter().map(|content| (content.len() as u64).to_be_bytes()).collect();
    let mut parts: Vec<&[u8]> = Vec::with_capacity(contents.len() * 2 + 1);
    for (length, content) in lengths.iter().zip(contents) {
        // With its length before it, content cannot move from one file to the next unseen.
        parts.push(length);
        parts.push(content);
    }
    parts.push(zone_data.as_bytes());
    // Folded, because the last bytes of the input reach only the lower bits, and the first ones all.
    let hash = fnv128(&parts);
    let folded = (hash ^ (hash >> 64)) & 0xffff_ffff_ffff;
    format!("{folded:012x}")
}

/// A definition as a text in which every part carries its name and length. Written without the machinery of `format!`:
/// a table has thousands of jobs, each with two dozen parts.
#[derive(Default)]
struct Canonical(String);

impl Canonical {
    fn put(&mut self, name: &str, value: &str) {
        let mut digits = [0; DIGITS];
        self.0.extend([name, "=", decimal(value.len() as u64, &mut digits), ":", value, ";"]);
    }

    fn number(&mut self, name: &str, value: impl Into<u64>) {
        self.put(name, decimal(value.into(), &mut [0; DIGITS]));
    }

    /// Whole milliseconds.
    fn millis(&mut self, name: &str, value: Option<Duration>) {
        match value {
            None => self.put(name, "none"),
            Some(value) => match u64::try_from(value.as_millis()) {
                Ok(millis) => self.number(name, millis),
                Err(_) => self.put(name, &value.as_millis().to_string()),
            },
        }
    }
}

/// The digits of `u64::MAX`.
const DIGITS: usize = 20;

fn decimal(mut value: u64, digits: &mut [u8; DIGITS]) -> &str {
    let mut at = DIGITS;
    loop {
        at -= 1;
        digits[at] = b'0' + u8::try_from(value % 10).expect("a digit");
        value /= 10;
        if value == 0 {
            break;
        }
    }
    std::str::from_utf8(&digits[at..]).expect("digits are ASCII")
}

/// The fingerprint of a job's definition with all defaults filled in: the same definition written in another way (`60s`
/// and `1m`, in the job and in `defaults`) has the same one. 32 digits. `spec_hash` itself plays no part.
pub(super) fn spec_hash(spec: &JobSpec) -> String {
    let mut text = Canonical::default();
    text.put("name", spec.name.as_str());
    text.put("description", &spec.description);
    text.put("schedule", &spec.schedule.record());
    text.millis("jitter", Some(spec.jitter));
    text.put("zone", spec.schedule.zone().name());
    match &spec.action {
        Action::Command(command) => put_command(&mut text, command),
        Action::Http(http) => put_http(&mut text, http),
    }
    match spec.output.mode {
        OutputMode::Log => {}
        OutputMode::Passthrough => text.put("output", "passthrough"),
        OutputMode::Discard => text.put("output", "discard"),
    }
    let concurrency = match spec.concurrency_policy {
        ConcurrencyPolicy::Forbid => "forbid",
        ConcurrencyPolicy::Allow => "allow",
        ConcurrencyPolicy::Replace => "replace",
        ConcurrencyPolicy::Queue => "queue",
    };
    let lost = match spec.lost_run_policy {
        LostRunPolicy::Report => "report",
        LostRunPolicy::Rerun => "rerun",
    };
    let catch_up = match spec.catch_up {
        CatchUp::Latest => "latest",
        CatchUp::None => "none",
        CatchUp::All => "all",
    };
    text.put("catch up", catch_up);
    text.put("suspend", if spec.suspend { "true" } else { "false" });
    text.put("concurrency", concurrency);
    text.put("lost", lost);
    text.millis("timeout", spec.timeout);
    text.millis("grace", Some(spec.termination_grace_period));
    text.millis("deadline", spec.starting_deadline);
    text.number("retries", spec.retry.limit);
    text.millis("backoff", Some(spec.retry.backoff));
    text.millis("backoff most", Some(spec.retry.max_backoff));
    text.number("line bytes", spec.output.max_line_bytes as u64);
    text.number("tail", spec.output.keep_tail as u64);
    text.number("ticks", spec.history.ticks);
    text.number("successful", spec.history.successful);
    text.number("failed", spec.history.failed);
    // What came later is part of the text only where it is written: definitions keep their hash.
    if spec.stale_after.is_some() {
        text.millis("stale", spec.stale_after);
    }
    if !spec.runbook_url.is_empty() {
        text.put("runbook", &spec.runbook_url);
    }
    for (name, value) in &spec.labels {
        text.put("label", name);
        text.put("means", value);
    }
    for (occasion, names) in spec.notify.iter() {
        text.put("told", occasion.as_str());
        names.iter().for_each(|name| text.put("notifier", name));
    }
    format!("{:032x}", fnv128(&[text.0.as_bytes()]))
}

fn put_command(text: &mut Canonical, command: &CommandSpec) {
    match &command.program {
        Program::Shell { shell, line } => {
            shell.iter().for_each(|part| text.put("shell", part));
            text.put("line", line);
        }
        Program::Direct(argv) => argv.iter().for_each(|part| text.put("argument", part)),
    }
    if let Some(folder) = &command.working_dir {
        text.put("folder", &folder.display().to_string());
    }
    for (name, value) in &command.env {
        text.put("variable", name);
        put_value(text, value);
    }
    // Also later ones.
    if !command.inherit_env {
        text.put("inherit", "false");
    }
    if !command.success_exit_codes.iter().eq([&0]) {
        command.success_exit_codes.iter().for_each(|code| text.number("success", *code));
    }
}

fn put_http(text: &mut Canonical, http: &HttpSpec) {
    text.put("method", &http.method);
    text.put("url", "");
    put_value(text, &http.url);
    for (name, value) in &http.headers {
        text.put("header", name);
        put_value(text, value);
    }
    if let Some(body) = &http.body {
        text.put("body", "");
        put_value(text, body);
    }
    text.put("expect", &http.expected_text());
    text.millis("request", Some(http.timeout));
    text.millis("first byte", Some(http.first_byte_timeout));
    text.millis("connect", Some(http.connect_timeout));
    text.put("follow", if http.follow_redirects { "true" } else { "false" });
    if let Some(path) = &http.ca_file {
        text.put("authorities", &path.display().to_string());
    }
    match &http.proxy {
        ProxySpec::Environment => {}
        ProxySpec::None => text.put("proxy", "none"),
        ProxySpec::Url(url) => {
            text.put("proxy", "");
            put_value(text, url);
        }
    }
}

/// Where a value comes from, and never what is found there.
fn put_value(text: &mut Canonical, value: &EnvValue) {
    match value {
        EnvValue::Text(value) => text.put("value", value),
        EnvValue::FromEnv(name) => text.put("from variable", name),
        EnvValue::FromFile(path) => text.put("from file", &path.display().to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_the_published_one() {
        assert_eq!(fnv128(&[]), 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d);
        assert_eq!(fnv128(&[b"a"]), 0xd228_cb69_6f1a_8caf_7891_2b70_4e4a_8964);
        assert_eq!(fnv128(&[b"foo", b"bar"]), 0x343e_1662_793c_64bf_6f0d_3597_ba44_6f18);
    }

    #[test]
    fn parts_of_a_definition_are_written_with_their_lengths() {
        let mut text = Canonical::default();
        text.put("empty", "");
        text.put("long", &"ä".repeat(50));
        [0, 9, 10, u64::MAX].into_iter().for_each(|value| text.number("number", value));
        text.millis("none", None);
        text.millis("some", Some(Duration::from_millis(90_000)));
        text.millis("most", Some(Duration::MAX));
        let long = "ä".repeat(50);
        let wanted = format!(
            "empty=0:;long=100:{long};number=1:0;number=1:9;number=2:10;number=20:18446744073709551615;none=4:none;\
             some=5:90000;most=23:18446744073709551615999;"
        );
        assert_eq!(text.0, wanted);
    }

    #[test]
    fn a_revision_sees_content_order_and_zone_data() {
        let all = [
            revision(&[b"ab", b"c"], "2026a"),
            revision(&[b"a", b"bc"], "2026a"),
            revision(&[b"c", b"ab"], "2026a"),
            revision(&[b"ab", b"c"], "2026b"),
        ];
        let distinct: std::collections::BTreeSet<&String> = all.iter().collect();
        assert_eq!(distinct.len(), 4, "{all:?}");
        assert!(all.iter().all(|text| text.len() == 12));
    }
}
