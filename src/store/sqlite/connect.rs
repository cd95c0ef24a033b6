//! Opening a database file: only a local one, with settings that keep what was acknowledged.

use super::BUSY_WITHIN;
use super::Failure;
use crate::store::Class;
use crate::store::ErrorKind;
use crate::store::Finding;
use crate::store::Probe;
use crate::store::Reach;
use nix::sys::statfs::FsType;
use nix::sys::statfs::statfs;
use nix::sys::statvfs::statvfs;
use sqlx::AssertSqlSafe;
use sqlx::ConnectOptions;
use sqlx::SqliteConnection;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::sqlite::SqliteJournalMode;
use sqlx::sqlite::SqliteSynchronous;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;
use tokio::time::sleep;
use tokio::time::timeout;

/// What brings the tables from one version to the next, oldest first. Thousands are forms that an older program cannot
/// use, the rest are additions that it leaves alone.
const MIGRATIONS: [(i64, &str); 10] = [
    (1000, include_str!("schema/1000.sql")),
    (1001, include_str!("schema/1001.sql")),
    (1002, include_str!("schema/1002.sql")),
    (1003, include_str!("schema/1003.sql")),
    (1004, include_str!("schema/1004.sql")),
    (1005, include_str!("schema/1005.sql")),
    (1006, include_str!("schema/1006.sql")),
    (1007, include_str!("schema/1007.sql")),
    (1008, include_str!("schema/1008.sql")),
    (1009, include_str!("schema/1009.sql")),
];
const SCHEMA: i64 = MIGRATIONS[MIGRATIONS.len() - 1].0;
const SCHEMA_FIRST: i64 = MIGRATIONS[0].0;
const SCHEMA_STEP: i64 = 1000;
/// How long opening is tried while another process sets the same new file up, and the pause in between.
const OPEN_WITHIN: Duration = Duration::from_secs(3);
const OPEN_PAUSE: Duration = Duration::from_millis(25);

/// An open database, and which file that is.
pub(super) struct Opened {
    pub connection: SqliteConnection,
    file: (u64, u64),
    /// The id that was written into the file when it was made, and the file's number: a copy that is put in its place
    /// has the id, and not the number. (The device has none that outlives a restart of the host.)
    pub stamp: String,
}

impl Opened {
    /// Whether the path still leads to the file that is open. If somebody removed or replaced it, replicas that opened
    /// it before and after would not see one another's claims.
    pub fn is_of(&self, path: &Path) -> bool {
        identity(path) == Some(self.file)
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.dev(), metadata.ino()))
}

/// Opens a database, makes it where there is none, and brings its tables to our version.
pub(super) async fn open(path: &Path) -> Result<Opened, Failure> {
    check_place(path)?;
    let options = SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .busy_timeout(BUSY_WITHIN)
        .disable_statement_logging();
    let opening = async {
        loop {
            match set_up(path, &options).await {
                // Switching a new file to WAL does not wait for the lock, whatever the busy timeout says.
                Err(failure) if failure.busy => sleep(OPEN_PAUSE).await,
                outcome => return outcome,
            }
        }
    };
    let locked = || Failure::new(ErrorKind::NotSent, "other processes keep the file locked");
    timeout(OPEN_WITHIN, opening).await.unwrap_or_else(|_| Err(locked())).map_err(|failure| {
        // Nothing of the request itself was sent, whatever happened.
        let kind = if failure.kind == ErrorKind::MaybeApplied { ErrorKind::NotSent } else { failure.kind };
        Failure { kind, ..failure }
    })
}

async fn set_up(path: &Path, options: &SqliteConnectOptions) -> Result<Opened, Failure> {
    let mut connection = options.connect().await?;
    migrate(&mut connection).await?;
    let gone = || Failure::new(ErrorKind::NotSent, "the file vanished while it was being opened");
    let id: String = sqlx::query_scalar("SELECT id FROM file").fetch_one(&mut connection).await?;
    let file = identity(path).ok_or_else(gone)?;
    Ok(Opened { connection, file, stamp: format!("{id}-{}", file.1) })
}

/// Several processes may do this at once: the second finds the work done.
async fn migrate(connection: &mut SqliteConnection) -> Result<(), Failure> {
    if check_version(connection).await? >= SCHEMA {
        return Ok(());
    }
    sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut *connection).await?;
    let found = check_version(connection).await?;
    for (version, sql) in MIGRATIONS.iter().filter(|(version, _)| *version > found) {
        sqlx::raw_sql(*sql).execute(&mut *connection).await?;
        sqlx::raw_sql(AssertSqlSafe(format!("PRAGMA user_version = {version}"))).execute(&mut *connection).await?;
    }
    sqlx::raw_sql("COMMIT").execute(&mut *connection).await?;
    Ok(())
}

/// The version of the tables; 0: there are none.
async fn check_version(connection: &mut SqliteConnection) -> Result<i64, Failure> {
    let found: i64 = sqlx::query_scalar("PRAGMA user_version").fetch_one(connection).await?;
    if found / SCHEMA_STEP > SCHEMA / SCHEMA_STEP {
        let detail = format!(
            "the tables have version {found}, this version knows those below {}: a newer onecron made them: run that \
             one here too",
            SCHEMA / SCHEMA_STEP * SCHEMA_STEP + SCHEMA_STEP
        );
        return Err(Failure::new(ErrorKind::Misconfigured, detail));
    }
    if found != 0 && found < SCHEMA_FIRST {
        let detail = format!("the file is the database of another program (its user_version is {found}): name another");
        return Err(Failure::new(ErrorKind::Misconfigured, detail));
    }
    Ok(found)
}

/// The folder must be there, and be on this host's own disk.
fn check_place(path: &Path) -> Result<(), Failure> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let shown = path.display();
    let wrong = match std::fs::metadata(path) {
        Ok(found) if found.is_dir() => Some(format!("`{shown}` is a folder: name a file in it")),
        // SQLite itself would say that the disk is broken, or full.
        Ok(found) if !found.is_file() => Some(format!("`{shown}` is not a regular file: name one")),
        _ => None,
    };
    if let Some(detail) = wrong {
        return Err(Failure::new(ErrorKind::Misconfigured, detail));
    }
    let found = statfs(folder).map_err(|error| {
        let detail = format!("folder `{}`: {}: make it, or name another one", folder.display(), error.desc());
        Failure::new(ErrorKind::NotSent, detail)
    })?;
    // Where the file itself is a link or a mount, its own file system counts.
    let own = statfs(path).map_or(found.filesystem_type(), |own| own.filesystem_type());
    match [found.filesystem_type(), own].into_iter().find_map(network_name) {
        Some(name) => {
            let detail = format!(
                "`{}` is on a network file system ({name}), whose locks do not keep two hosts apart: use a local disk, \
                 or redis:// for several hosts",
                path.display()
            );
            Err(Failure::new(ErrorKind::Misconfigured, detail))
        }
        None => Ok(()),
    }
}

/// The name of a file system whose locks are not to be trusted; `None` for others, also for those that we do not
/// know (FUSE can be anything).
fn network_name(kind: FsType) -> Option<&'static str> {
    // Numbers from Linux's magic.h and from the file systems themselves; only their low 32 bits count.
    const NAMES: [(i128, &str); 9] = [
        (0x6969, "NFS"),
        (0x517b, "SMB"),
        (0xff53_4d42, "CIFS"),
        (0xfe53_4d42, "SMB"),
        (0x0102_1997, "9p"),
        (0x5346_414f, "AFS"),
        (0x7375_7245, "Coda"),
        (0x00c3_6400, "CephFS"),
        (0x0bd0_0bd0, "Lustre"),
    ];
    let number = i128::from(kind.0) & 0xffff_ffff;
    NAMES.iter().find(|(known, _)| *known == number).map(|(_, name)| *name)
}

/// With less than this left, a file system is full before long: a day of a usual table takes about as much.
const ROOM_LEAST: u64 = 16 << 20;

/// Whether the file's file system is full, or nearly: the file can be read then, and claims fail.
fn is_cramped(room: u64) -> Option<Finding> {
    (room < ROOM_LEAST).then(|| Finding {
        check: "disk",
        found: format!("the file system has {} KiB left", room >> 10),
        wanted: format!("make room: below {} MiB claims fail before long", ROOM_LEAST >> 20),
    })
}

/// Bytes that are left for the file, where that can be told.
fn room(path: &Path) -> Option<u64> {
    let found = statvfs(path).ok()?;
    Some(found.blocks_available().saturating_mul(found.fragment_size()))
}

/// Looks at the settings as SQLite reports them: a file system without shared memory refuses WAL silently.
pub(super) async fn probe(opened: &mut Opened, path: &Path) -> Result<Probe, Failure> {
    let connection = &mut opened.connection;
    let version: String = sqlx::query_scalar("SELECT sqlite_version()").fetch_one(&mut *connection).await?;
    let journal: String = sqlx::query_scalar("PRAGMA journal_mode").fetch_one(&mut *connection).await?;
    let synchronous: i64 = sqlx::query_scalar("PRAGMA synchronous").fetch_one(&mut *connection).await?;
    let mut findings: Vec<Finding> = room(path).and_then(is_cramped).into_iter().collect();
    if journal != "wal" {
        findings.push(Finding {
            check: "journal",
            found: format!("`journal_mode` is `{journal}`"),
            wanted: "put the file on a local disk: without WAL readers and writers wait for one another".into(),
        });
    }
    if synchronous < 2 {
        findings.push(Finding {
            check: "synchronous",
            found: format!("`synchronous` is {synchronous}"),
            wanted: "2 (FULL): below it a power cut can take acknowledged claims with it".into(),
        });
    }
    let class = if synchronous < 2 { Class::C } else { Class::A };
    Ok(Probe { class, version: format!("sqlite {version}"), reach: Reach::OneHost, findings })
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::statfs::EXT4_SUPER_MAGIC;
    use nix::sys::statfs::NFS_SUPER_MAGIC;

    #[test]
    fn network_file_systems_are_known_by_their_number() {
        assert_eq!(network_name(NFS_SUPER_MAGIC), Some("NFS"));
        assert_eq!(network_name(EXT4_SUPER_MAGIC), None);
    }

    #[test]
    fn a_file_system_that_is_nearly_full_is_a_finding() {
        assert_eq!(is_cramped(room(Path::new("/")).unwrap().max(ROOM_LEAST)), None);
        let found = is_cramped(8192).unwrap().found;
        assert_eq!(found, "the file system has 8 KiB left");
    }

    #[test]
    fn a_missing_folder_is_named() {
        let failure = check_place(Path::new("/nowhere/at/all/onecron.db")).unwrap_err();
        assert_eq!(failure.kind, ErrorKind::NotSent);
        assert!(failure.detail.contains("folder `/nowhere/at/all`"), "{}", failure.detail);
    }
}
