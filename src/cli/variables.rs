//! `ONECRON_…` variables that are there and say nothing, or nothing that anybody reads.

use crate::config;
use clap::Arg;
use clap::Command;
use clap::builder::Resettable;
use std::collections::BTreeSet;

const PREFIX: &str = "ONECRON_";

/// What a job is told, and so a daemon that a job starts has.
const OF_JOBS: [&str; 8] = [
    "ONECRON_JOB",
    "ONECRON_RUN_ID",
    "ONECRON_SCHEDULED_FOR",
    "ONECRON_ATTEMPT",
    "ONECRON_TRIGGER",
    "ONECRON_FENCING_TOKEN",
    "ONECRON_REPLICA",
    "ONECRON_LAST_SUCCESS",
];

/// The command with empty variables taken as not set: that is what Compose makes of one that is not, and an empty
/// value in a manifest means nothing else.
pub(super) fn without_empty(command: Command) -> Command {
    let is_empty = |arg: &Arg| arg.get_env().is_some_and(|name| std::env::var_os(name).is_some_and(|v| v.is_empty()));
    let commands: Vec<String> = command.get_subcommands().map(|command| command.get_name().to_owned()).collect();
    let command = command.mut_args(|arg| if is_empty(&arg) { arg.env(Resettable::Reset) } else { arg });
    commands.into_iter().fold(command, |command, name| command.mut_subcommand(name, without_empty))
}

/// Variables among `found` that `command` does not read, each with what may have been meant.
pub(super) fn unknown(command: &Command, found: impl Iterator<Item = String>) -> Vec<(String, String)> {
    let known = known(command);
    let is_unknown = |name: &String| {
        name.starts_with(PREFIX) && !known.contains(name) && !OF_JOBS.contains(&name.as_str()) && !is_of_service(name)
    };
    let mut unknown: Vec<String> = found.filter(is_unknown).collect();
    unknown.sort_unstable();
    let advice = |name: String| {
        let rest = &name[PREFIX.len()..];
        let nearest = config::nearest(rest, known.iter().map(|known| &known[PREFIX.len()..]));
        let hint = match nearest {
            Some(nearest) => format!("did you mean {PREFIX}{nearest}?"),
            None => "`onecron run --help` lists those that are".to_owned(),
        };
        let detail = format!("no setting is read from this variable: {hint}");
        (name, detail)
    };
    unknown.into_iter().map(advice).collect()
}

fn known(command: &Command) -> BTreeSet<String> {
    let own = command.get_arguments().filter_map(Arg::get_env).map(|name| name.to_string_lossy().into_owned());
    own.chain(command.get_subcommands().flat_map(known)).collect()
}

/// `ONECRON_SERVICE_HOST`, `ONECRON_METRICS_PORT_8080_TCP_ADDR`: Kubernetes puts them into every pod of a namespace
/// that has a Service called `onecron` or `onecron-…`.
fn is_of_service(name: &str) -> bool {
    let after = |mark: &str| name.split_once(mark).map(|(_, rest)| rest);
    let is_port = |rest: &str| rest.is_empty() || rest.starts_with('_');
    after("_SERVICE_HOST").is_some_and(str::is_empty)
        || after("_SERVICE_PORT").is_some_and(is_port)
        || name.ends_with("_PORT")
        || after("_PORT_").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command() -> Command {
        let run = Command::new("run").arg(Arg::new("store").long("store").env("ONECRON_STORE"));
        Command::new("onecron").subcommand(run.arg(Arg::new("level").long("level").env("ONECRON_LOG_LEVEL")))
    }

    fn unknown_of(names: &[&str]) -> Vec<String> {
        let found = unknown(&command(), names.iter().map(ToString::to_string));
        found.into_iter().map(|(name, detail)| format!("{name}: {detail}")).collect()
    }

    #[test]
    fn a_misspelt_variable_is_found_with_the_name_that_was_meant() {
        assert_eq!(
            unknown_of(&["ONECRON_STROE", "ONECRON_STORE", "PATH", "ONECRON_BANANA"]),
            [
                "ONECRON_BANANA: no setting is read from this variable: `onecron run --help` lists those that are",
                "ONECRON_STROE: no setting is read from this variable: did you mean ONECRON_STORE?",
            ]
        );
    }

    #[test]
    fn what_kubernetes_and_jobs_put_there_is_not_unknown() {
        let names = [
            "ONECRON_SERVICE_HOST",
            "ONECRON_SERVICE_PORT",
            "ONECRON_SERVICE_PORT_HTTP",
            "ONECRON_PORT",
            "ONECRON_PORT_8080_TCP",
            "ONECRON_PORT_8080_TCP_ADDR",
            "ONECRON_METRICS_SERVICE_HOST",
        ];
        assert_eq!(unknown_of(&names), [""; 0]);
        assert_eq!(unknown_of(&OF_JOBS), [""; 0]);
    }
}
