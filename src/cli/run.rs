//! `onecron run`: the daemon.

use super::listen_args;
use super::listen_args::ListenArgs;
use super::settings;
use super::settings::Refusal;
use super::store_args::StoreArgs;
use super::table_args;
use super::table_args::TableArgs;
use crate::clock::Clock;
use crate::clock::SystemClock;
use crate::config;
use crate::daemon::Daemon;
use crate::daemon::Settings;
use crate::store;
use crate::telemetry::logging;
use crate::telemetry::logging::LogFormat;
use crate::telemetry::logging::LogLevel;
use crate::telemetry::logging::LogSchema;
use crate::telemetry::logging::LogSettings;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::traces;
use clap::ArgMatches;
use clap::Args;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Runs the daemon: waits for ticks, and runs the jobs that this replica gets
///
/// It ends on TERM, INT or QUIT: nothing new is started, and running jobs may finish until --drain-timeout. A second
/// signal stops them at once. Exit codes: 0 all runs ended by themselves; 75 some had to be stopped, or the store did
/// not take how they ended; 78 a setting or
/// the job table is refused, and nothing was started; 2 called wrongly; 1 anything else.
#[derive(Debug, Clone, Args)]
pub struct RunArgs {
    /// Where the table is.
    #[command(flatten)]
    pub table: TableArgs,
    /// Where the daemons agree.
    #[command(flatten)]
    pub store: StoreArgs,
    /// Where it answers HTTP requests.
    #[command(flatten)]
    pub listen: ListenArgs,
    /// File with the token of those who may act over HTTP, in one word; without it, nobody may
    #[arg(long, value_name = "FILE", env = "ONECRON_API_TOKEN_FILE")]
    pub api_token_file: Option<PathBuf>,
    /// File with the token of those who may read over HTTP, in one word; without it, everybody may who reaches the address
    #[arg(long, value_name = "FILE", env = "ONECRON_READ_TOKEN_FILE")]
    pub read_token_file: Option<PathBuf>,
    /// What makes `/readyz` say no, besides a start that is not complete and an end that has begun
    #[arg(long, value_enum, env = "ONECRON_READINESS", default_value_t)]
    pub readiness: listen_args::Readiness,
    /// This daemon's name in logs and records [default: POD_NAME, else the host's name]
    #[arg(long, value_name = "NAME", env = "ONECRON_INSTANCE")]
    pub instance: Option<String>,
    /// How long running jobs may finish after the first signal to end
    #[arg(long, value_name = "DURATION", env = "ONECRON_DRAIN_TIMEOUT", default_value = "5m")]
    #[arg(value_parser = config::parse_duration)]
    pub drain_timeout: Duration,
    /// What is logged: this and what is worse: error, warn, info or debug
    #[arg(long, value_name = "LEVEL", env = "ONECRON_LOG_LEVEL", default_value = "info")]
    #[arg(value_parser = str::parse::<LogLevel>)]
    pub log_level: LogLevel,
    /// How it is logged: json or text [default: text on a terminal, else json]
    #[arg(long, value_name = "FORMAT", env = "ONECRON_LOG_FORMAT", value_parser = str::parse::<LogFormat>)]
    pub log_format: Option<LogFormat>,
    /// What the fields of JSON are called: default, ecs (Elastic Common Schema) or gcp (Google Cloud)
    #[arg(long, value_name = "SCHEMA", env = "ONECRON_LOG_SCHEMA", default_value = "default")]
    #[arg(value_parser = str::parse::<LogSchema>)]
    pub log_schema: LogSchema,
    /// End at once when standard input ends (for whoever starts daemons as children)
    #[arg(long, hide = true)]
    pub exit_with_stdin: bool,
}

/// Runs the command, until a signal. Problems of settings and table go to `err`, and everything else is logged on
/// standard output. `given` tells arguments from variables and defaults; `doubts` are settings that are allowed and
/// probably not meant, with what is wrong. Returns the exit code.
pub fn run(args: &RunArgs, given: &ArgMatches, doubts: Vec<(String, String)>, err: &mut dyn Write) -> u8 {
    let (code, text) = match prepare(args, given) {
        Ok((mut settings, log)) => match logging::init(log) {
            Ok(guard) => {
                settings.doubts.extend(doubts);
                let ended = Daemon::run(settings);
                drop(guard);
                return ended.exit_code();
            }
            Err(error) => (table_args::FAILED, format!("error: start the log: {error}\n")),
        },
        Err(text) => (table_args::CONFIG, text),
    };
    let _ = write!(err, "{text}");
    u8::try_from(code).unwrap_or(1)
}

/// Everything that can be wrong before a daemon starts, as a text for people.
fn prepare(args: &RunArgs, given: &ArgMatches) -> Result<(Settings, LogSettings), String> {
    let refused = |Refusal { message, hint }| format!("error: {message}\nhint: {hint}\n");
    let namespace = settings::namespace(args.store.namespace.as_deref()).map_err(refused)?;
    let me = settings::replica(args.instance.as_deref()).map_err(refused)?;
    let url = settings::store_url(&args.store.store, args.store.store_file.as_deref(), given).map_err(refused)?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let open = || {
        let opened = store::open_with(url.url.expose(), &args.store.access(), &namespace, Arc::clone(&clock));
        opened.map_err(|error| format!("error: {error}\n"))
    };
    let store = open()?;
    let given_file = |file: &Option<PathBuf>| file.clone().filter(|file| !file.as_os_str().is_empty());
    let (token_file, read_token_file) = (given_file(&args.api_token_file), given_file(&args.read_token_file));
    for file in token_file.iter().chain(&read_token_file) {
        settings::check_token(file).map_err(refused)?;
    }
    let tls = args.listen.tls().map_err(refused)?;
    let sources = table_args::sources(&args.table.jobs);
    let loaded = config::load(&sources, clock.now().wall).map_err(|problems| config::render(&problems))?;
    let metrics = Arc::new(Metrics::new(Arc::clone(&clock), store.url()));
    let (listener, doubt) = args.listen.bind(given).map_err(refused)?;
    // One in memory is there once, and nobody looks where nothing listens.
    let is_shared = listener.is_none() || url.url.expose().starts_with("memory:");
    let reading = if is_shared { Arc::clone(&store) } else { open()? };
    let place = settings::place();
    let (traces_wanted, traces_doubts) = traces::read(&|name| std::env::var(name).ok());
    let log = LogSettings {
        format: args.log_format,
        schema: args.log_schema,
        level: args.log_level,
        replica: me.to_string(),
        place: place.clone(),
    };
    let settings = Settings {
        me,
        loaded,
        sources,
        jobs: args.table.jobs.clone(),
        store,
        namespace,
        drain_timeout: args.drain_timeout,
        metrics,
        clock,
        // Also when the file was replaced by another version, which might speak differently.
        guardian: PathBuf::from("/proc/self/exe"),
        doubts: url.doubt.into_iter().chain(doubt).chain(traces_doubts).collect(),
        listener,
        reading,
        token_file,
        read_token_file,
        tls,
        traces: traces_wanted,
        place,
        is_strict: args.readiness == listen_args::Readiness::Strict,
        ends_with_stdin: args.exit_with_stdin,
    };
    Ok((settings, log))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Arg;
    use clap::CommandFactory;
    use clap::Parser;
    use std::collections::BTreeSet;

    #[derive(Parser)]
    struct Alone {
        #[command(flatten)]
        args: RunArgs,
    }

    /// `--flag` and `VARIABLE` of each row of a table whose rows begin with a flag.
    fn listed(page: &str) -> BTreeSet<(String, String)> {
        let rows = page.lines().filter(|line| line.starts_with("| `--"));
        let quoted = |cell: &str| cell.trim().trim_matches('`').split(' ').next().unwrap_or_default().to_owned();
        rows.map(|row| row.split('|').map(quoted).collect::<Vec<_>>())
            .map(|cells| (cells[1].clone(), cells[2].clone()))
            .collect()
    }

    /// What has a page of its own: stores.md lists how a store is reached.
    const ELSEWHERE: [&str; 2] = ["--store-", "--help"];

    #[test]
    fn the_settings_in_the_readme_are_the_flags_there_are() {
        let command = Alone::command();
        let flags: BTreeSet<(String, String)> = command
            .get_arguments()
            .filter(|arg| !arg.is_hide_set())
            .map(|arg: &Arg| {
                let variable = arg.get_env().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
                (format!("--{}", arg.get_long().unwrap_or_default()), variable)
            })
            .filter(|(flag, _)| flag == "--store-file" || !ELSEWHERE.iter().any(|other| flag.starts_with(other)))
            .collect();
        assert_eq!(listed(include_str!("../../README.md")), flags);
        let deployed = listed(include_str!("../../deploy/README.md"));
        assert!(deployed.is_subset(&flags), "{:?}", deployed.difference(&flags));
    }
}
