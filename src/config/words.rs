//! What somebody meant who wrote a key that does not exist.

use strsim::osa_distance;

/// Keys of the file's top level, besides `x-…`.
pub(super) const TOP: &[&str] = &["version", "scheduler", "defaults", "notifiers", "jobs"];
/// Keys of `scheduler`.
pub(super) const SCHEDULER: &[&str] =
    &["timeZone", "lockLease", "clockSkewTolerance", "maxConcurrentRuns", "reloadInterval", "redact"];
/// Keys that only a job has.
pub(super) const JOB_ONLY: &[&str] = &["name", "description", "runbookUrl", "schedule", "command", "http"];
/// Keys that a job and `defaults` have.
pub(super) const SHARED: &[&str] = &[
    "timeZone",
    "shell",
    "workingDir",
    "env",
    "inheritEnv",
    "successExitCodes",
    "timeout",
    "terminationGracePeriod",
    "concurrencyPolicy",
    "catchUp",
    "suspend",
    "dst",
    "jitter",
    "startingDeadline",
    "staleAfter",
    "lostRunPolicy",
    "retry",
    "output",
    "history",
    "labels",
    "notify",
];
/// Keys of `dst`.
pub(super) const DST: &[&str] = &["gap", "fold"];
/// Keys of `retry`.
pub(super) const RETRY: &[&str] = &["limit", "backoff", "maxBackoff"];
/// Keys of `output`.
pub(super) const OUTPUT: &[&str] = &["mode", "maxLineBytes", "keepTail"];
/// Keys of `history`.
pub(super) const HISTORY: &[&str] = &["ticks", "successful", "failed"];

/// Keys of `notify`.
pub(super) const NOTIFY: &[&str] = &["onFailure", "onRecovery", "onMissed", "onLost", "onStale", "onSuccess"];
/// Keys of an item of `notifiers`.
pub(super) const NOTIFIER: &[&str] = &["type", "url", "headers", "routingKey", "start", "timeout", "caFile", "proxy"];

/// Keys of `http`.
pub(super) const HTTP: &[&str] = &[
    "method",
    "url",
    "headers",
    "body",
    "expectStatus",
    "timeout",
    "connectTimeout",
    "followRedirects",
    "caFile",
    "proxy",
];

/// A map of the file whose keys are fixed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    /// The file itself.
    Top,
    /// `scheduler`
    Scheduler,
    /// `defaults`
    Defaults,
    /// An item of `jobs`.
    Job,
    /// `dst`
    Dst,
    /// `retry`
    Retry,
    /// `output`
    Output,
    /// `history`
    History,
    /// `http`
    Http,
    /// `notify`
    Notify,
    /// An item of `notifiers`.
    Notifier,
}

impl Level {
    /// The keys that exist here.
    pub fn keys(self) -> impl Iterator<Item = &'static str> {
        let (first, second): (&[&str], &[&str]) = match self {
            Self::Top => (TOP, &[]),
            Self::Scheduler => (SCHEDULER, &[]),
            Self::Defaults => (SHARED, &[]),
            Self::Job => (JOB_ONLY, SHARED),
            Self::Dst => (DST, &[]),
            Self::Retry => (RETRY, &[]),
            Self::Output => (OUTPUT, &[]),
            Self::History => (HISTORY, &[]),
            Self::Http => (HTTP, &[]),
            Self::Notify => (NOTIFY, &[]),
            Self::Notifier => (NOTIFIER, &[]),
        };
        first.iter().chain(second).copied()
    }

    /// Whether `key` exists here.
    pub fn has(self, key: &str) -> bool {
        self.keys().any(|known| known == key)
    }
}

/// Words of Kubernetes, crontab, GitHub Actions, systemd, Dkron and Ofelia for what a job has here.
const FOREIGN: &[(&[&str], &str)] = &[
    (
        &[
            "activeDeadlineSeconds",
            "timeout-minutes",
            "timeoutMinutes",
            "max-runtime",
            "RuntimeMaxSec",
            "timeoutSeconds",
        ],
        "the key is `timeout`, with a unit: `timeout: 30m`",
    ),
    (&["startingDeadlineSeconds"], "the key is `startingDeadline`, with a unit: `startingDeadline: 5m`"),
    (
        &["terminationGracePeriodSeconds", "stop-timeout", "TimeoutStopSec", "gracePeriod"],
        "the key is `terminationGracePeriod`, with a unit: `terminationGracePeriod: 30s`",
    ),
    (&["backoffLimit", "retries", "maxRetries", "Restart"], "the key is `limit` inside `retry`: `retry: {limit: 2}`"),
    (
        &["successfulJobsHistoryLimit", "history-limit", "historyLimit"],
        "the key is `successful` inside `history`: `history: {successful: 3}`",
    ),
    (&["failedJobsHistoryLimit"], "the key is `failed` inside `history`: `history: {failed: 10}`"),
    (
        &["cron", "on", "OnCalendar", "when", "crontab", "every", "interval"],
        "the key is `schedule`: `schedule: \"15 2 * * *\"`",
    ),
    (&["tz", "timezone", "TZ", "CRON_TZ", "time-zone", "zone"], "the key is `timeZone`"),
    (
        &["no-overlap", "concurrency", "cancel-in-progress", "overlap", "allowOverlap", "overlapPolicy"],
        "the key is `concurrencyPolicy`: while an earlier run goes on, `Forbid` skips a tick, `Allow` starts it beside, \
         `Replace` stops the earlier run first, `Queue` waits for its end",
    ),
    (
        &["run", "cmd", "exec", "script", "ExecStart"],
        "the key is `command`: a text for the shell, or a list of program and arguments",
    ),
    (&["args", "arguments"], "arguments belong into `command`: `command: [program, argument]`"),
    (&["environment", "envVars", "Environment"], "the key is `env`, a map: `env: {NAME: \"value\"}`"),
    (&["working-directory", "cwd", "dir", "WorkingDirectory", "working-dir", "workdir"], "the key is `workingDir`"),
    (
        &["restartPolicy", "restart"],
        "a failed run is tried again where `retry: {limit: 2}` says so; of a replica that dies, `lostRunPolicy` does",
    ),
    (
        &["dependsOn", "depends_on", "depends-on", "dependencies", "needs", "after", "requires", "parent"],
        "jobs do not wait for one another: put the steps into one `command`, or end the first with `onecron trigger`",
    ),
    (
        &["runs-on", "runsOn", "nodeSelector", "node", "host", "tags"],
        "every replica may run every job: jobs for some machines only are a fleet of their own, with its `--namespace`",
    ),
    (
        &["steps", "jobTemplate", "template", "containers", "uses", "with"],
        "a job is one `command`, or one `http` request",
    ),
    (
        &["serviceAccountName", "resources", "volumes", "volumeMounts", "securityContext"],
        "jobs run beside the daemon, in its pod: it belongs there",
    ),
    (
        &["parallelism", "completions", "replicas"],
        "a tick is one run, on one replica: `concurrencyPolicy` is about several ticks",
    ),
    (
        &["podFailurePolicy", "SuccessExitStatus", "continue-on-error", "ignoreErrors", "exitCodes"],
        "the key is `successExitCodes`, a list: `successExitCodes: [0, 3]`",
    ),
    (&["ttlSecondsAfterFinished", "logRetention"], "the key is `history`: `history: {successful: 3, failed: 10}`"),
    (
        &["Persistent", "misfire", "misfirePolicy", "catchup", "backfill"],
        "the key is `catchUp`: `Latest`, `None` or `All`",
    ),
    (&["SHELL"], "the key is `shell`, a list: `shell: [\"/bin/bash\", \"-c\"]`"),
    (&["disabled", "enabled", "disable", "paused", "active"], "the key is `suspend`: `suspend: true` turns a job off"),
    (&["user", "uid", "runAsUser", "User", "group"], "all jobs run as the daemon's user"),
    (&["image", "container"], "jobs run beside the daemon, inside its image: build one that has what they need"),
    (
        &["notification", "notifications", "alert", "alerts", "slack", "on_failure", "on-failure", "OnFailure"],
        "the key is `notify`: `notify: {onFailure: [ops-chat]}`, with `ops-chat` under `notifiers` at the top of the file",
    ),
    (
        &["MAILTO", "mail", "email"],
        "there is no mail: `notify: {onFailure: [ops-chat]}` tells a chat, a pager or a webhook that `notifiers` names",
    ),
    (
        &["ping", "healthcheck", "heartbeat"],
        "a URL that is called after each run is a notifier: `type: ping` in `notifiers`, and its name in `notify`",
    ),
    (&["runbook", "runbook_url", "runbookURL"], "the key is `runbookUrl`"),
    (&["uri", "webhook", "request", "httpGet", "endpoint"], "the key is `http`: `http: {method: POST, url: URL}`"),
    (
        &["RandomizedDelaySec", "splay", "randomDelay"],
        "the key is `jitter`: `jitter: 5m`; or an `H` in the schedule spreads jobs: `H * * * *`",
    ),
];

/// Words at the file's top level.
const FOREIGN_TOP: &[(&[&str], &str)] = &[
    (
        &["apiVersion", "kind", "metadata", "spec"],
        "this looks like a Kubernetes manifest; a job table has `jobs`, each with `name`, `schedule` and `command`",
    ),
    (&["tasks", "crons", "cronjobs", "entries", "schedules"], "the key is `jobs`, a list"),
    (
        &["store", "redis", "listen", "namespace", "log", "logLevel", "port"],
        "this is a setting of each daemon, not of the table: give it as a flag or an environment variable of onecron",
    ),
];

/// Words for the values of a key, and what to say about each.
type ForeignValues = [(&'static [&'static str], &'static str)];

/// Words of GitHub Actions, Dkron, Ofelia and others for the values of `concurrencyPolicy`.
const FOREIGN_POLICIES: &ForeignValues = &[
    (
        &["cancel-in-progress", "cancel", "cancelother", "terminate", "terminateother", "kill", "stop", "restart"],
        "write `Replace`: the earlier run is stopped, and the later one begins when it is gone",
    ),
    (
        &["wait", "serial", "sequential", "bufferone", "bufferall", "block", "delay"],
        "write `Queue`: one tick waits for the end of the earlier run, at most until its starting deadline",
    ),
    (
        &["skip", "drop", "ignore", "no-overlap", "single", "singleton", "disallow", "deny", "never", "no", "false"],
        "write `Forbid`: a tick is skipped while an earlier run goes on",
    ),
    (
        &["parallel", "concurrent", "overlap", "allowall", "always", "yes", "true"],
        "write `Allow`: a tick runs beside the earlier run",
    ),
];

/// Words of Kubernetes, systemd, Airflow and others for the values of `lostRunPolicy`.
const FOREIGN_LOST: &ForeignValues = &[
    (
        &["restart", "onfailure", "on-failure", "always", "retry", "resume", "recover", "again", "yes", "true"],
        "write `Rerun`: it is started again elsewhere, so that it may run twice. `Report` says that it was lost, and no more",
    ),
    (
        &[
            "never", "no", "none", "false", "ignore", "skip", "drop", "fail", "failed", "lost", "forget", "alert",
            "notify",
        ],
        "write `Report`: it is said to be lost, and runs at most once. `Rerun` starts it again elsewhere",
    ),
];

/// And for those of `catchUp`.
const FOREIGN_CATCH_UP: &ForeignValues = &[
    (
        &["yes", "true", "on", "always", "persistent", "run", "fireonce", "once", "last", "newest"],
        "write `Latest`: after an outage the newest late tick runs; or `All`: each of them",
    ),
    (&["every", "each", "backfill"], "write `All`: after an outage each late tick runs, one at a time"),
    (&["no", "false", "off", "never", "skip", "ignore", "drop"], "write `None`: what is late does not run"),
];

/// What to say about a word that is no value of `key`, where other schedulers have it.
pub(super) fn meant(key: &str, word: &str) -> Option<&'static str> {
    let list = match key {
        "concurrencyPolicy" => FOREIGN_POLICIES,
        "lostRunPolicy" => FOREIGN_LOST,
        "catchUp" => FOREIGN_CATCH_UP,
        _ => return None,
    };
    let word = word.to_lowercase();
    list.iter().find(|(words, _)| words.contains(&word.as_str())).map(|(_, text)| *text)
}

/// What to say about `key`, which does not exist at `level`.
pub(super) fn hint(level: Level, key: &str) -> Option<String> {
    let list = if level == Level::Top { FOREIGN_TOP } else { FOREIGN };
    let takes_foreign = matches!(level, Level::Top | Level::Job | Level::Defaults);
    let foreign = list.iter().find(|(words, _)| words.contains(&key)).filter(|_| takes_foreign);
    if let Some((_, text)) = foreign {
        return Some((*text).to_owned());
    }
    elsewhere(level, key).or_else(|| {
        let near = nearest(key, level.keys())?;
        Some(format!("did you mean `{near}`?"))
    })
}

/// The key is right and its place is wrong.
fn elsewhere(level: Level, key: &str) -> Option<String> {
    let is_part = |part: Level| part.has(key) && !matches!(level, Level::Top | Level::Scheduler);
    match key {
        _ if level == Level::Top && key == "timeZone" => Some("it belongs into `scheduler`".to_owned()),
        _ if level == Level::Defaults && JOB_ONLY.contains(&key) => Some("each job has its own".to_owned()),
        _ if level == Level::Scheduler && SHARED.contains(&key) => {
            Some("it belongs to a job or into `defaults`".to_owned())
        }
        _ if level != Level::Job && (SHARED.contains(&key) || JOB_ONLY.contains(&key)) => {
            Some("it belongs to a job: check its indentation".to_owned())
        }
        _ if level != Level::Scheduler && SCHEDULER.contains(&key) => Some("it belongs into `scheduler`".to_owned()),
        _ if level != Level::Top && TOP.contains(&key) => Some("it belongs to the top of the file".to_owned()),
        _ if is_part(Level::Retry) => Some("it belongs into `retry`".to_owned()),
        _ if is_part(Level::Output) => Some("it belongs into `output`".to_owned()),
        _ if is_part(Level::History) => Some("it belongs into `history`".to_owned()),
        _ if is_part(Level::Http) => Some("it belongs into `http`".to_owned()),
        _ if is_part(Level::Notify) => Some("it belongs into `notify`".to_owned()),
        _ => None,
    }
}

/// The known word that is closest to `word`, if it is close enough to be meant.
pub fn nearest<'k>(word: &str, known: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    // A long text is no misspelt key, and the distance costs its length.
    if word.chars().count() > 40 {
        return None;
    }
    let plain = |text: &str| text.to_lowercase().replace(['-', '_', ' '], "");
    let word = plain(word);
    let length = word.chars().count();
    let score = |known: &str| {
        let known = plain(known);
        let whole = (osa_distance(&word, &known), known.chars().count());
        // Also the beginning of a longer key: `concurency` for `concurrencyPolicy`.
        let beginning: String = known.chars().take(length).collect();
        let part = (osa_distance(&word, &beginning) + 1, length);
        if length >= 4 { whole.min(part) } else { whole }
    };
    let ((distance, length), best) =
        known.map(|known| (score(known), known)).min_by_key(|((distance, _), _)| *distance)?;
    (distance <= (length / 3).max(1)).then_some(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example says of itself that it shows all of them.
    #[test]
    fn example_and_guide_show_every_key() {
        let (example, guide) = (include_str!("../../jobs.example.yaml"), include_str!("../../docs/jobs.md"));
        let levels = [TOP, SCHEDULER, JOB_ONLY, SHARED, DST, RETRY, OUTPUT, HISTORY, HTTP, NOTIFY, NOTIFIER];
        let shown: Vec<&str> = example.lines().flat_map(|line| line.split(['{', ',', ' '])).collect();
        for key in levels.into_iter().flatten() {
            assert!(shown.contains(&&*format!("{key}:")), "jobs.example.yaml does not show {key}");
            assert!(guide.contains(&format!("`{key}`")), "docs/jobs.md does not explain {key}");
        }
    }

    #[test]
    fn a_misspelt_beginning_of_a_key_is_enough() {
        assert_eq!(nearest("concurency", SHARED.iter().copied()), Some("concurrencyPolicy"));
        assert_eq!(nearest("timout", SHARED.iter().copied()), Some("timeout"));
        assert_eq!(nearest("colour", SHARED.iter().copied()), None);
    }

    #[test]
    fn words_of_other_schedulers_are_translated() {
        for (words, text) in FOREIGN.iter().chain(FOREIGN_TOP) {
            let level = if FOREIGN.iter().any(|(other, _)| other == words) { Level::Job } else { Level::Top };
            for word in *words {
                assert!(!level.has(word), "{word} exists");
                assert_eq!(hint(level, word).as_deref(), Some(*text), "{word}");
            }
            // A hint that offers a key must offer one that exists.
            if let Some(rest) = text.strip_prefix("the key is `") {
                let key = rest.split('`').next().unwrap();
                let levels = [Level::Job, Level::Top, Level::Retry, Level::History];
                assert!(levels.iter().any(|level| level.has(key)), "{key}");
            }
        }
    }

    #[test]
    fn values_of_other_schedulers_are_translated() {
        let lists =
            [("concurrencyPolicy", FOREIGN_POLICIES), ("lostRunPolicy", FOREIGN_LOST), ("catchUp", FOREIGN_CATCH_UP)];
        for (key, list) in lists {
            for (words, text) in list {
                for word in *words {
                    assert_eq!(meant(key, word), Some(*text), "{key}: {word}");
                    assert_eq!(meant("dst", word), None);
                }
            }
        }
        assert!(meant("concurrencyPolicy", "TerminateOther").unwrap().contains("`Replace`"));
        assert!(meant("lostRunPolicy", "Restart").unwrap().starts_with("write `Rerun`"));
    }

    #[test]
    fn a_misspelt_key_gets_the_nearest_one_and_a_strange_one_gets_none() {
        let meant = |word| nearest(word, Level::Job.keys());
        assert_eq!(meant("concurencyPolicy"), Some("concurrencyPolicy"));
        assert_eq!(meant("time_zone"), Some("timeZone"));
        assert_eq!(meant("shcedule"), Some("schedule"));
        assert_eq!(meant("banana"), None);
        assert_eq!(meant(&"x".repeat(10_000)), None);
    }

    #[test]
    fn a_right_key_at_the_wrong_place_is_sent_home() {
        assert_eq!(hint(Level::Top, "schedule").unwrap(), "it belongs to a job: check its indentation");
        assert_eq!(hint(Level::Job, "lockLease").unwrap(), "it belongs into `scheduler`");
        assert_eq!(hint(Level::Job, "maxBackoff").unwrap(), "it belongs into `retry`");
        assert_eq!(hint(Level::Defaults, "command").unwrap(), "each job has its own");
    }
}
