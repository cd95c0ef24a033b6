//! What a table needs of the machine it is on: shells, programs, folders, variables, files. It is looked for at load, and
//! what is not there is a warning and no error: the table may be for another machine, and another replica's image may
//! have it. A run that finds it missing is `not_started`.

use super::files::Source;
use super::problem::Problem;
use super::problem::Severity;
use super::reader::Reader;
use super::table;
use super::text::SourceText;
use super::text::Span;
use super::text::quoted;
use crate::file;
use crate::file::Unread;
use crate::job::CA_FILE_BYTES_MOST;
use crate::job::CommandSpec;
use crate::job::EnvValue;
use crate::job::Program;
use crate::job::authorities;
use nix::unistd::AccessFlags;
use nix::unistd::access;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io::ErrorKind;
use std::path::Path;
use std::path::PathBuf;

/// Where programs are looked for without a `PATH`, as execvp(3) does.
const PATH_BUILT_IN: &str = "/bin:/usr/bin";

/// Something that must be there when a run starts.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Need {
    /// A variable of the daemon or a file, for a variable of the job.
    Value(EnvValue),
    /// `caFile`
    Authorities(PathBuf),
    /// `workingDir`
    Folder(PathBuf),
    /// The first word of what is executed.
    Program {
        /// As it is written.
        name: String,
        /// It is the shell of a command that is a text.
        is_shell: bool,
        /// The folder that a relative path counts from.
        folder: Option<PathBuf>,
        /// The job's own `PATH`.
        search: Option<EnvValue>,
    },
}

/// Where a table has a need from: the first of the places.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Site {
    /// Where to point.
    pub span: Span,
    /// Which part of the table.
    pub path: String,
    /// How many places there are.
    pub count: usize,
}

/// Everything that a table needs of its machine, each thing once: most of thousands of jobs need the same.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Needs {
    /// With the number of the file.
    sites: HashMap<Need, (usize, Site)>,
}

impl Needs {
    /// Takes on those of one more file.
    pub(super) fn add(&mut self, file: usize, sites: HashMap<Need, Site>) {
        for (need, site) in sites {
            match self.sites.entry(need) {
                Entry::Occupied(mut known) => known.get_mut().1.count += site.count,
                Entry::Vacant(place) => {
                    place.insert((file, site));
                }
            }
        }
    }

    /// Looks for all of it, and reports what is not here: one warning for each thing, at the first place that needs it,
    /// in the order of files and lines. `sources` are those that the table was made of.
    ///
    /// It blocks for as long as file systems do, which is for ever where a server of one is dead.
    pub fn missing_here(&self, sources: &[Source]) -> Vec<Problem> {
        let look = |(need, (file, site)): (&Need, &'_ (usize, Site))| Some((*file, site.clone(), need.look()?));
        let mut missing: Vec<(usize, Site, Finding)> = self.sites.iter().filter_map(look).collect();
        if missing.is_empty() {
            return Vec::new(); // without a second look through the files
        }
        missing.sort_unstable_by(|(file, site, finding), (other_file, other_site, other_finding)| {
            let order = (file, site.span.start).cmp(&(other_file, other_site.span.start));
            order.then_with(|| finding.message.cmp(&other_finding.message))
        });
        let texts: Vec<Option<SourceText<'_>>> =
            sources.iter().map(|source| Some(SourceText::new(source.path(), table::text_of(source).ok()?))).collect();
        let problem = |(file, site, finding): (usize, Site, Finding)| {
            let source = texts.get(file)?.as_ref()?;
            let more = if site.count > 1 { format!(" (needed in {} places)", site.count) } else { String::new() };
            let message = format!("{}{more}", finding.message);
            Some(Problem {
                // Also where the code is an error's, for whoever looks at the machine that it concerns.
                severity: Severity::Warning,
                path: site.path,
                hint: Some(finding.hint.to_owned()),
                ..Problem::at(finding.code, source, site.span, message)
            })
        };
        let mut problems: Vec<Problem> = missing.into_iter().filter_map(problem).collect();
        let found = problems.len();
        table::limit(&mut problems, found);
        problems
    }
}

/// Notes what executing a command needs. `span` is where the program is named.
pub(super) fn note_program(reader: &mut Reader<'_>, span: Span, command: &CommandSpec) {
    let (words, is_shell) = match &command.program {
        Program::Shell { shell, .. } => (shell, true),
        Program::Direct(argv) => (argv, false),
    };
    let Some(name) = words.first().cloned() else { return };
    let (folder, search) = (command.working_dir.clone(), command.env.get("PATH").cloned());
    reader.need(span, Need::Program { name, is_shell, folder, search });
}

/// Something that is not here.
struct Finding {
    code: &'static str,
    message: String,
    hint: &'static str,
}

/// What there is at a path, for this user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Look {
    /// It can be used.
    Good,
    /// It is there, and its mode or a folder above it keeps this user from using it.
    Closed,
    /// It is there, and it is something else.
    Other,
    /// There is nothing.
    Nothing,
}

impl Need {
    fn look(&self) -> Option<Finding> {
        match self {
            Self::Value(EnvValue::Text(_)) => None,
            Self::Value(EnvValue::FromEnv(name)) => std::env::var_os(name).is_none().then(|| Finding {
                code: "E308",
                message: format!("there is no variable {} here, and a value is taken from it", quoted(name)),
                hint: "set it where the daemon is started",
            }),
            Self::Value(EnvValue::FromFile(path)) => {
                let shown = quoted(&path.display().to_string());
                let message = match look(path, AccessFlags::R_OK, std::fs::Metadata::is_file) {
                    Look::Good => return None,
                    Look::Closed => format!("this user may not read the file {shown}"),
                    Look::Other => format!("{shown} is not a regular file"),
                    Look::Nothing => format!("there is no file {shown} here"),
                };
                let hint = "the daemon reads it at each start of a run: mount it, and let the daemon's user read it";
                Some(Finding { code: "E308", message, hint })
            }
            Self::Authorities(path) => {
                let shown = quoted(&path.display().to_string());
                let message = match look(path, AccessFlags::R_OK, std::fs::Metadata::is_file) {
                    // What the run itself would do, so that both say the same.
                    Look::Good => match read_authorities(path) {
                        Ok(()) => return None,
                        Err(found) => format!("`caFile` {shown} {found}"),
                    },
                    Look::Closed => format!("this user may not read `caFile` {shown}"),
                    Look::Other => format!("`caFile` {shown} is not a regular file"),
                    Look::Nothing => format!("there is no file {shown} here, and `caFile` names it"),
                };
                let hint =
                    "the daemon reads it at each start of a run: mount it, as PEM, and let the daemon's user read it";
                Some(Finding { code: "E308", message, hint })
            }
            Self::Folder(path) => {
                let shown = quoted(&path.display().to_string());
                let message = match look_at_folder(path) {
                    Look::Good => return None,
                    Look::Closed => format!("this user may not enter `workingDir` {shown}: it takes `chmod +x`"),
                    Look::Other => format!("`workingDir` {shown} is not a folder"),
                    Look::Nothing => format!("there is no folder {shown} here, and `workingDir` names it"),
                };
                let hint = "create it where the daemon runs, or mount it into the container";
                Some(Finding { code: "W512", message, hint })
            }
            Self::Program { name, is_shell, folder, search } => {
                let what = if *is_shell { "shell" } else { "program" };
                let shown = quoted(name);
                let message = match look_for_program(name, folder.as_deref(), search.as_ref())? {
                    Look::Good => return None,
                    Look::Closed => format!(
                        "this user may not execute the {what} {shown}: it takes `chmod +x`, and no `noexec` mount"
                    ),
                    Look::Other => format!("{shown} is not a file, and the job is to execute it"),
                    Look::Nothing => format!("there is no {what} {shown} here"),
                };
                let hint = match (*is_shell, name.contains('/')) {
                    (false, _) if name.trim().contains(char::is_whitespace) => {
                        "blanks are a part of its name: write each word of a list by itself, `[program, argument]`"
                    }
                    (true, _) => "write the command as a list, which needs no shell, or name another `shell`",
                    (false, true) => "install it where the daemon runs, or mount it into the container",
                    (false, false) => {
                        "install it where the daemon runs, write its full path, or set `PATH` in the job's `env`"
                    }
                };
                Some(Finding { code: "W511", message, hint })
            }
        }
    }
}

fn look(path: &Path, wanted: AccessFlags, is_it: fn(&std::fs::Metadata) -> bool) -> Look {
    match path.metadata() {
        Ok(metadata) if !is_it(&metadata) => Look::Other,
        Ok(_) if access(path, wanted).is_ok() => Look::Good,
        Ok(_) => Look::Closed,
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Look::Closed,
        Err(_) => Look::Nothing,
    }
}

/// Reads a file of certificates as a run would.
fn read_authorities(path: &Path) -> Result<(), String> {
    let bytes = file::read(path, CA_FILE_BYTES_MOST).map_err(|error| match error {
        Unread::System(error) => format!("cannot be read: {error}"),
        _ => "is no file of certificates".to_owned(),
    })?;
    authorities(&bytes).map(|_| ())
}

fn look_at_folder(path: &Path) -> Look {
    look(path, AccessFlags::X_OK, std::fs::Metadata::is_dir)
}

/// Looks where the system would. `None`: that cannot be known here, or is the fault of something that is reported itself.
fn look_for_program(name: &str, folder: Option<&Path>, search: Option<&EnvValue>) -> Option<Look> {
    let program = |path: &Path| look(path, AccessFlags::X_OK, std::fs::Metadata::is_file);
    let base = folder.unwrap_or(Path::new("."));
    let base_is_good = look_at_folder(base) == Look::Good;
    if name.contains('/') {
        let is_known = name.starts_with('/') || base_is_good;
        return is_known.then(|| program(&base.join(name)));
    }
    let inherited = |name: &str| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned());
    let search = match search {
        None => inherited("PATH").unwrap_or_else(|| PATH_BUILT_IN.to_owned()),
        Some(EnvValue::Text(text)) => text.clone(),
        Some(EnvValue::FromEnv(name)) => inherited(name)?,
        Some(EnvValue::FromFile(_)) => return None,
    };
    // An empty entry is the folder that the job runs in.
    let folders = search.split(':').filter(|entry| base_is_good || entry.starts_with('/'));
    // The first that works; else what is said is about the best that there is.
    Some(folders.map(|entry| program(&base.join(entry).join(name))).min().unwrap_or(Look::Nothing))
}
