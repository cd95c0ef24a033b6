//! `ONECRON_…` variables that are there and say nothing, or nothing that anybody reads.

use crate::config;
use clap::Arg;
use clap::Command;
use clap::Error;
use clap::builder::Resettable;
use clap::error::ContextKind;
use clap::error::ContextValue;
use clap::error::ErrorKind;
use std::collections::BTreeSet;
use std::ffi::OsString;

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

/// The variable that a refused value came from, which clap calls by its flag, or not at all; `None` where an argument gave it.
pub(super) fn blamed(
    command: &Command,
    error: &Error,
    arguments: impl Iterator<Item = OsString>,
    value: impl Fn(&str) -> Option<OsString>,
) -> Option<String> {
    // An argument that is no text is to blame itself.
    let arguments: Vec<String> = arguments.map(|argument| argument.into_string().ok()).collect::<Option<_>>()?;
    if error.kind() == ErrorKind::InvalidUtf8 {
        let is_no_text = |name: &String| value(name).is_some_and(|value| value.to_str().is_none());
        let name = known(command).into_iter().find(is_no_text)?;
        return Some(format!("the value of the variable {name} is not UTF-8"));
    }
    let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg) else { return None };
    let long = flag.strip_prefix("--")?.split(['=', ' ', '[']).next()?;
    let gives =
        |argument: &String| argument.strip_prefix("--").is_some_and(|rest| rest.split('=').next() == Some(long));
    let command = command.find_subcommand(arguments.first()?)?;
    let name = command.get_arguments().find(|known| known.get_long() == Some(long))?.get_env()?.to_str()?;
    let is_given = arguments.iter().any(gives);
    (!is_given && value(name).is_some()).then(|| format!("the value is that of the variable {name}"))
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
    fn a_value_that_is_refused_is_that_of_its_variable_where_no_argument_gave_it() {
        let level = Arg::new("level").long("level").env("ONECRON_LOG_LEVEL").value_parser(["info"]);
        let command = Command::new("onecron").subcommand(Command::new("run").arg(level));
        let blamed = |arguments: &[&str]| {
            let all = std::iter::once("onecron").chain(arguments.iter().copied());
            // That which is given here is in the place of what the environment says.
            let error = command.clone().try_get_matches_from(all.chain(["--level=loud"])).unwrap_err();
            let arguments = arguments.iter().map(OsString::from);
            super::blamed(&command, &error, arguments, |name| (name == "ONECRON_LOG_LEVEL").then(|| "loud".into()))
        };
        assert_eq!(blamed(&["run"]).as_deref(), Some("the value is that of the variable ONECRON_LOG_LEVEL"));
        assert_eq!(blamed(&["run", "--level=loud"]), None);
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
