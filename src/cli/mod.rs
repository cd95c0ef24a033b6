//! The command line: the only place that prints.

pub mod convert;
pub mod demo;
pub mod doctor;
pub mod exec;
pub mod explain;
pub mod generated;
pub mod guardian;
pub mod healthcheck;
pub mod install;
pub mod listen_args;
pub mod next;
pub mod pause;
pub mod read;
pub mod reload;
pub mod run;
mod schedules;
pub mod schema;
mod settings;
pub mod store_args;
pub mod table_args;
mod transitions;
pub mod trigger;
pub mod validate;
mod variables;
pub mod version;
pub mod why;

use crate::clock::Clock;
use crate::clock::SystemClock;
use clap::CommandFactory;
use clap::FromArgMatches;
use clap::Parser;
use clap::Subcommand;
use clap::error::ErrorKind;
use std::io;
use std::io::Write;
use table_args::printable;

/// Runs each cron job once, however many servers it is installed on
///
/// Start the same daemon with the same jobs.yaml on every server. At each tick the daemons agree in a store that they
/// share (Redis, PostgreSQL, MySQL, etcd, Consul; SQLite on one host) on who runs the job. The others log who does.
#[derive(Debug, Parser)]
#[command(name = "onecron", version, subcommand_required = true, arg_required_else_help = true)]
#[command(after_help = "Begin with `onecron demo`: three daemons on this machine, for you to kill.")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::RunArgs),
    Validate(validate::ValidateArgs),
    Next(next::NextArgs),
    Explain(explain::ExplainArgs),
    Exec(exec::ExecArgs),
    Status(read::StatusArgs),
    Jobs(read::JobsArgs),
    Runs(read::RunsArgs),
    Show(read::ShowArgs),
    Why(why::WhyArgs),
    Doctor(doctor::DoctorArgs),
    Convert(convert::ConvertArgs),
    Schema(schema::SchemaArgs),
    Trigger(trigger::TriggerArgs),
    Cancel(trigger::CancelArgs),
    Pause(pause::PauseArgs),
    Resume(pause::ResumeArgs),
    Reload(reload::ReloadArgs),
    Healthcheck(healthcheck::HealthcheckArgs),
    Demo(demo::DemoArgs),
    Install(install::InstallArgs),
    Completions(generated::CompletionsArgs),
    Man(generated::ManArgs),
    Version(version::VersionArgs),
    /// Stops jobs when the daemon that started it cannot (internal)
    #[command(hide = true)]
    Guardian,
}

/// The whole program. Returns its exit code.
pub fn main() -> u8 {
    // Before anything else: a guardian is started with nothing, and needs nothing.
    if std::env::args_os().nth(1).is_some_and(|command| command == "guardian") {
        return guardian::run();
    }
    let matches = match variables::without_empty(Cli::command()).try_get_matches() {
        Ok(matches) => matches,
        Err(error) => return refuse(&error),
    };
    if let Some(conflict) = matches.subcommand_matches("next").and_then(next::conflict) {
        return refuse(&Cli::command().error(ErrorKind::ArgumentConflict, conflict));
    }
    let cli = match Cli::from_arg_matches(&matches) {
        Ok(cli) => cli,
        Err(error) => return refuse(&error),
    };
    let now = SystemClock.now().wall;
    let (out, err) = (&mut io::stdout(), &mut io::stderr());
    let given = matches.subcommand().map(|(_, given)| given).expect("a command is required");
    let code = match cli.command {
        Command::Run(args) => {
            let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
            return run::run(&args, given, variables::unknown(&Cli::command(), names), err);
        }
        Command::Demo(args) => return demo::run(&args, out, err),
        Command::Exec(args) => exec::run(&args, given, (out, err)),
        Command::Completions(args) => generated::completions(&args, Cli::command(), (out, err)),
        Command::Man(args) => generated::man(&args, Cli::command(), (out, err)),
        Command::Install(args) => install::run(&args, (out, err)),
        Command::Version(args) => version::run(&args, (out, err)),
        Command::Guardian => return guardian::run(),
        Command::Status(args) => read::status(&args, given, (out, err)),
        Command::Jobs(args) => read::jobs(&args, given, (out, err)),
        Command::Runs(args) => read::runs(&args, given, (out, err)),
        Command::Show(args) => read::show(&args, given, (out, err)),
        Command::Why(args) => why::run(&args, given, (out, err)),
        Command::Doctor(args) => doctor::run(&args, given, (out, err)),
        Command::Convert(args) => convert::run(&args, (out, err), now),
        Command::Schema(_) => schema::run((out, err)),
        Command::Trigger(args) => trigger::run(&args, given, (out, err)),
        Command::Cancel(args) => trigger::cancel(&args, given, (out, err)),
        Command::Pause(args) => pause::run(&args, given, (out, err)),
        Command::Resume(args) => pause::resume(&args, given, (out, err)),
        Command::Reload(args) => reload::run(&args, out, err),
        Command::Healthcheck(args) => healthcheck::run(&args, (out, err)),
        Command::Validate(args) => validate::run(&args, out, err, now),
        Command::Next(args) => next::run(&args, out, err, now),
        Command::Explain(args) => explain::run(&args, out, err, now),
    };
    u8::try_from(code).unwrap_or(1)
}

/// Prints help, version, or what is wrong with the arguments.
fn refuse(error: &clap::Error) -> u8 {
    let is_about_arguments = error.use_stderr() && error.kind() != ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    // Nothing can be done about a closed terminal.
    let _ = if is_about_arguments {
        // It repeats what was given, which may be what somebody else wrote. So it has no colours, for which escapes in it
        // could pass.
        io::stderr().write_all(printable(&error.render().to_string(), &['\n', '\t']).as_bytes())
    } else {
        error.print()
    };
    let arguments = std::env::args_os().skip(1);
    if let Some(variable) = variables::blamed(&Cli::command(), error, arguments, |name| std::env::var_os(name)) {
        let _ = writeln!(io::stderr(), "hint: {variable}");
    }
    u8::try_from(error.exit_code()).unwrap_or(2)
}
