//! `onecron convert`: a crontab or CronJobs as a `jobs.yaml`.

use super::store_args::Failed;
use super::store_args::not_shown;
use super::table_args;
use crate::config;
use crate::config::Source;
use crate::convert;
use crate::convert::Crontab;
use crate::schedule::Zone;
use chrono::DateTime;
use chrono::Utc;
use clap::Args;
use clap::ValueEnum;
use std::io;
use std::io::Write;
use std::path::Path;
use std::path::PathBuf;

/// Where a machine says which zone it is in.
const LOCALTIME: &str = "/etc/localtime";

/// Makes a jobs.yaml from a crontab or from Kubernetes CronJobs
///
/// The table goes to standard output; what could not be carried over is said on standard error, and stands beside the
/// job as a comment. Exit codes: 0; 2 called wrongly; 3 with --strict: something was not carried over; 78 the file cannot
/// be read, or there is nothing in it to convert; 1 not written.
#[derive(Debug, Clone, Args)]
pub struct ConvertArgs {
    /// What FILE is
    #[arg(long, value_enum)]
    pub from: From,
    /// The file; `-` reads standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Each line of the crontab names a user before the command, as in /etc/crontab and /etc/cron.d
    #[arg(long)]
    pub users: bool,
    /// Zone of the machine that the crontab was for [default: this machine's]
    #[arg(long, visible_alias = "time-zone", value_name = "ZONE")]
    pub timezone: Option<String>,
    /// End with 3 if something could not be carried over
    #[arg(long)]
    pub strict: bool,
}

/// What is converted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum From {
    /// A crontab, as `crontab -l` prints it
    Crontab,
    /// CronJobs, as `kubectl get cronjobs -o yaml` prints them
    Cronjob,
}

/// Runs the command. Returns the exit code.
pub fn run(args: &ConvertArgs, (out, err): (&mut dyn Write, &mut dyn Write), now: DateTime<Utc>) -> i32 {
    converted(args, (out, err), now).unwrap_or_else(|failed| failed.say(err))
}

fn converted(
    args: &ConvertArgs,
    (out, err): (&mut dyn Write, &mut dyn Write),
    now: DateTime<Utc>,
) -> Result<i32, Failed> {
    let text = read(&args.file)?;
    let refused = |message: String| Failed { code: table_args::CONFIG, message, hint: None };
    let made = match args.from {
        From::Cronjob => convert::cronjob(&text),
        From::Crontab => {
            let zone = zone(args.timezone.as_deref(), err)?;
            convert::crontab(&text, &Crontab { has_users: args.users, zone: zone.name() })
        }
    };
    let made = made.map_err(|error| refused(format!("`{}`: {error}", args.file.display())))?;
    for note in &made.notes {
        // Nothing can be done about a closed terminal.
        let _ = writeln!(err, "note: {note}");
    }
    if made.jobs == 0 {
        return Err(refused(format!("`{}`: nothing of it could be converted", args.file.display())));
    }
    // What was made is read as a table is: what only this shows is told like every other problem.
    let source = Source::new("the table that was made", made.table.clone().into_bytes());
    if let Err(problems) = config::load(&[source], now) {
        let _ = write!(err, "{}", config::render(&problems));
        return Err(refused(format!("`{}`: the table that was made of it is refused", args.file.display())));
    }
    out.write_all(made.table.as_bytes()).map_err(not_shown)?;
    Ok(if args.strict && !made.notes.is_empty() { table_args::NO } else { table_args::OK })
}

fn read(path: &Path) -> Result<String, Failed> {
    let name = path.display().to_string();
    let source = match path == Path::new("-") {
        true => Source::from_reader("<stdin>", io::stdin()),
        false => match std::fs::File::open(path) {
            Ok(file) => Source::from_reader(&name, file),
            Err(error) => Source::unreadable(&name, error.to_string()),
        },
    };
    let refused = |reason: &str| Failed {
        code: table_args::CONFIG,
        message: format!("read `{name}`: {reason}"),
        hint: Some("name a file, or - for standard input: crontab -l | onecron convert --from crontab -".into()),
    };
    let bytes = source.content().map_err(&refused)?;
    if bytes.len() > config::BYTES_MOST {
        return Err(refused("it is larger than 1 MiB"));
    }
    String::from_utf8(bytes.to_vec()).map_err(|error| {
        let line = 1 + bytes[..error.utf8_error().valid_up_to()].iter().filter(|byte| **byte == b'\n').count();
        let hint = "save it as UTF-8, such as by `iconv -f LATIN1 -t UTF-8`".to_owned();
        Failed { hint: Some(hint), ..refused(&format!("it is not UTF-8: see line {line}")) }
    })
}

/// The zone that was named, or this machine's.
fn zone(named: Option<&str>, err: &mut dyn Write) -> Result<Zone, Failed> {
    if let Some(name) = named {
        return Zone::find(name).map_err(|error| Failed {
            code: table_args::CONFIG,
            message: format!("--timezone: {error}"),
            hint: Some(error.hint().to_owned()),
        });
    }
    let target = std::fs::canonicalize(LOCALTIME).ok();
    let name =
        target.as_deref().and_then(Path::to_str).and_then(|path| path.split_once("zoneinfo/")).map(|(_, name)| name);
    if let Some(zone) = name.and_then(|name| Zone::find(name).ok()) {
        return Ok(zone);
    }
    let _ = writeln!(err, "note: this machine does not say its zone: the table says UTC; --timezone names another");
    Ok(Zone::utc())
}
