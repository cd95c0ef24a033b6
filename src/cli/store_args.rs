//! What the commands that speak to a store have in common.

use super::settings;
use super::table_args;
use crate::admin;
use crate::admin::Actor;
use crate::admin::Refusal;
use crate::clock::SystemClock;
use crate::job::JobName;
use crate::job::NameError;
use crate::job::ReplicaId;
use crate::store;
use crate::store::Access;
use crate::store::Account;
use crate::store::ErrorKind;
use crate::store::Store;
use clap::ArgMatches;
use clap::Args;
use serde::Serialize;
use std::future::Future;
use std::io;
use std::io::Write;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::runtime;

/// The store of a daemon that was told nothing.
pub(super) const DEFAULT_STORE: &str = "sqlite:onecron.db";
/// Exit code: the store does not answer (`EX_UNAVAILABLE` of sysexits.h).
pub(super) const UNAVAILABLE: i32 = 69;

/// Where the store is.
#[derive(Debug, Clone, Args)]
pub struct StoreArgs {
    /// Where the daemons agree: `redis://[user:password@]host[:port][/db]` (`rediss://` with TLS),
    /// `redis+sentinel://h1,h2,h3/mymaster`, `redis+cluster://h1,h2`, `postgres://user@host/database`,
    /// `mysql://user@host/database`, `etcd://h1,h2,h3`, `consul://host`, `memcached://host?allow-best-effort=true`, or
    /// `sqlite:PATH` for daemons on one host
    #[arg(long, value_name = "URL", env = "ONECRON_STORE", default_value = DEFAULT_STORE, hide_env_values = true)]
    pub store: String,
    /// File with the store's URL: keeps a password out of arguments and variables
    #[arg(long, value_name = "FILE", env = "ONECRON_STORE_FILE")]
    pub store_file: Option<PathBuf>,
    /// User of the store; wins over the one in the URL
    #[arg(long, value_name = "NAME", env = "ONECRON_STORE_USER")]
    pub store_user: Option<String>,
    /// File with the user of the store, read at each connecting; wins over --store-user
    #[arg(long, value_name = "FILE", env = "ONECRON_STORE_USER_FILE")]
    pub store_user_file: Option<PathBuf>,
    /// File with the password of the store, read at each connecting: a new one counts at the next; wins over the URL's
    #[arg(long, value_name = "FILE", env = "ONECRON_STORE_PASSWORD_FILE")]
    pub store_password_file: Option<PathBuf>,
    /// User of the Sentinels, who do not know the one of the servers
    #[arg(long, value_name = "NAME", env = "ONECRON_STORE_SENTINEL_USER")]
    pub store_sentinel_user: Option<String>,
    /// File with the user of the Sentinels
    #[arg(long, value_name = "FILE", env = "ONECRON_STORE_SENTINEL_USER_FILE")]
    pub store_sentinel_user_file: Option<PathBuf>,
    /// File with the password of the Sentinels
    #[arg(long, value_name = "FILE", env = "ONECRON_STORE_SENTINEL_PASSWORD_FILE")]
    pub store_sentinel_password_file: Option<PathBuf>,
    /// Authorities that may vouch for the store's certificate, PEM [default: those of the system]
    #[arg(long, value_name = "FILE", env = "ONECRON_STORE_CA_FILE")]
    pub store_ca_file: Option<PathBuf>,
    /// Certificate to show to the store, PEM; with --store-key-file
    #[arg(long, value_name = "FILE", env = "ONECRON_STORE_CERT_FILE")]
    pub store_cert_file: Option<PathBuf>,
    /// Private key of that certificate, PEM
    #[arg(long, value_name = "FILE", env = "ONECRON_STORE_KEY_FILE")]
    pub store_key_file: Option<PathBuf>,
    /// Keeps two fleets in one store apart [default: the pod's namespace, else `default`]
    #[arg(long, value_name = "NAME", env = "ONECRON_NAMESPACE")]
    pub namespace: Option<String>,
}

impl StoreArgs {
    /// The accounts and certificates; an empty argument is none.
    pub(super) fn access(&self) -> Access {
        let name = |given: &Option<String>| given.clone().filter(|name| !name.is_empty());
        let file = |given: &Option<PathBuf>| given.clone().filter(|path| !path.as_os_str().is_empty());
        Access {
            account: Account {
                user: name(&self.store_user),
                user_file: file(&self.store_user_file),
                password_file: file(&self.store_password_file),
            },
            sentinel: Account {
                user: name(&self.store_sentinel_user),
                user_file: file(&self.store_sentinel_user_file),
                password_file: file(&self.store_sentinel_password_file),
            },
            ca_file: file(&self.store_ca_file),
            cert_file: file(&self.store_cert_file),
            key_file: file(&self.store_key_file),
        }
    }
}

/// Where the store is, and how to write what was found there.
#[derive(Debug, Clone, Args)]
pub struct ReadArgs {
    /// Where.
    #[command(flatten)]
    pub store: StoreArgs,
    /// How to write the result
    #[arg(short, long, value_enum, default_value_t)]
    pub output: table_args::Format,
}

/// Where the store is, and who asks.
#[derive(Debug, Clone, Args)]
pub struct AskArgs {
    /// Where.
    #[command(flatten)]
    pub store: StoreArgs,
    /// Who asks, as it stands in logs and records [default: the user and the host]
    #[arg(long, value_name = "NAME", env = "ONECRON_BY", value_parser = admin::words)]
    pub by: Option<String>,
    /// How to write the result
    #[arg(short, long, value_enum, default_value_t)]
    pub output: table_args::Format,
}

/// Why a command does not do what it was told, and its exit code.
#[derive(Debug)]
pub(super) struct Failed {
    pub code: i32,
    /// Empty where there is nothing to say.
    pub message: String,
    pub hint: Option<String>,
}

impl From<settings::Refusal> for Failed {
    fn from(settings::Refusal { message, hint }: settings::Refusal) -> Self {
        Self { code: table_args::CONFIG, message, hint: Some(hint) }
    }
}

impl From<Refusal> for Failed {
    fn from(refusal: Refusal) -> Self {
        let code = match &refusal {
            Refusal::Store(error) if error.kind == ErrorKind::Misconfigured => table_args::CONFIG,
            Refusal::Store(_) => UNAVAILABLE,
            Refusal::Paused { .. } | Refusal::Over { .. } | Refusal::Ahead { .. } | Refusal::Busy { .. } => {
                table_args::NO
            }
            _ => table_args::FAILED,
        };
        Self { code, message: refusal.to_string(), hint: refusal.hint() }
    }
}

impl Failed {
    /// The command was called wrongly.
    pub fn usage(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { code: table_args::USAGE, message: message.into(), hint: Some(hint.into()) }
    }

    /// Says it, and returns the exit code.
    pub fn say(self, err: &mut dyn Write) -> i32 {
        // Nothing can be done about a closed terminal.
        if !self.message.is_empty() {
            let _ = writeln!(err, "error: {}", self.message);
        }
        if let Some(hint) = self.hint {
            let _ = writeln!(err, "hint: {hint}");
        }
        self.code
    }
}

/// A job's name from an argument.
pub(super) fn job_name(text: &str) -> Result<JobName, Failed> {
    JobName::new(text).map_err(|error: NameError| {
        let message = format!("job `{}`: {error}", text.escape_debug());
        Failed::usage(message, "a job is named as in jobs.yaml, such as nightly-sales")
    })
}

impl StoreArgs {
    /// Opens the store of a running fleet. `given` tells arguments from variables and defaults.
    pub(super) fn open(&self, given: &ArgMatches, err: &mut dyn Write) -> Result<Arc<dyn Store>, Failed> {
        let Self { store, store_file, namespace, .. } = self;
        let namespace = settings::namespace(namespace.as_deref())?;
        let url = settings::store_url(store, store_file.as_deref(), given)?;
        if let Some((_, detail)) = &url.doubt {
            let _ = writeln!(err, "warning: {detail}");
        }
        let text = url.url.expose();
        if text.starts_with("memory:") {
            let message = "a store in memory is that of one process: no command reaches it";
            let hint = "run the daemons on a store that is shared: redis://host, or sqlite:path on one host";
            return Err(settings::Refusal { message: message.into(), hint: hint.into() }.into());
        }
        let failed =
            |error: store::OpenError| Failed { code: table_args::CONFIG, message: error.to_string(), hint: None };
        let store = store::open_with(text, &self.access(), &namespace, Arc::new(SystemClock)).map_err(failed)?;
        if let Some(path) = text.strip_prefix("sqlite:").filter(|path| !path.is_empty() && !Path::new(path).exists()) {
            return Err(Failed {
                code: UNAVAILABLE,
                message: format!("there is no file `{path}`, so no daemon uses it"),
                hint: Some(
                    "name the store of the daemons: --store sqlite:/path/of/onecron.db, or ONECRON_STORE".into(),
                ),
            });
        }
        Ok(store)
    }
}

impl AskArgs {
    /// Opens the store of a running fleet, and says who asks.
    pub(super) fn open(&self, given: &ArgMatches, err: &mut dyn Write) -> Result<(Arc<dyn Store>, Actor), Failed> {
        Ok((self.store.open(given, err)?, actor(self.by.as_deref())?))
    }
}

/// Who asks: who was named, or the user and the host.
pub(super) fn actor(by: Option<&str>) -> Result<Actor, Failed> {
    let by = match by.filter(|by| !by.is_empty()) {
        Some(by) => by.split_whitespace().collect::<Vec<_>>().join("_"),
        None => settings::person(),
    };
    let name = ReplicaId::new(&format!("command-{by}"), &settings::nonce()?);
    Ok(Actor { name, by })
}

/// Waits for what was asked of a store.
pub(super) fn wait_for<T>(asked: impl Future<Output = Result<T, Refusal>>) -> Result<T, Failed> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failed {
        code: table_args::FAILED,
        message: format!("start a runtime: {error}"),
        hint: None,
    })?;
    Ok(runtime.block_on(asked)?)
}

/// Writes a result for programs.
pub(super) fn write_json(out: &mut dyn Write, result: &impl Serialize) -> Result<(), Failed> {
    let written = serde_json::to_writer_pretty(&mut *out, result).map_err(Into::into).and_then(|()| writeln!(out));
    written.map_err(not_written)
}

/// The result cannot be written. Nothing is said where its reader has gone away: that one has what it wanted.
pub(super) fn not_shown(error: io::Error) -> Failed {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Failed { code: table_args::UNREAD, message: String::new(), hint: None },
        _ => Failed { code: table_args::FAILED, message: format!("the result cannot be written: {error}"), hint: None },
    }
}

/// The same where what was asked for is done.
pub(super) fn not_written(error: io::Error) -> Failed {
    let message = format!("it is done, and the result cannot be written: {error}");
    Failed { message, ..not_shown(error) }
}
