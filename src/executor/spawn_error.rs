//! Why a run's process could not be started, and what to write instead.

use crate::job::CommandSpec;
use crate::job::Program;
use std::io;
use std::path::Path;
use std::path::PathBuf;

/// Why a process was not started. Except for [`Self::TooLate`], nothing of the job was executed.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// The deadline had passed before the start, or right after it. In the second case the process was killed at
    /// once, but may have done something in between: as after a pause of the machine, the fencing token decides.
    #[error("start the job: its lease ended before the process was up, so that somebody else may have the run")]
    TooLate,
    /// A command written as a string, and no shell to read it.
    #[error(
        "start the job: there is no shell `{shell}` here: write the command as a list, which needs none, or name another `shell`"
    )]
    MissingShell {
        /// The shell.
        shell: String,
    },
    /// The program is not there.
    #[error("start the job: there is no program `{program}`{}", what_to_do(program))]
    MissingProgram {
        /// The program.
        program: String,
    },
    /// A folder is named as the program.
    #[error("start the job: `{program}` is a folder, and no program: name a file in it")]
    Folder {
        /// The folder.
        program: String,
    },
    /// The script is there, the program that its first line names is not.
    #[error(
        "start the job: `{program}` is there, but not what should interpret it: check its first line (`#!/bin/sh`, without a carriage return) and that it is built for this system"
    )]
    MissingInterpreter {
        /// The script.
        program: String,
    },
    /// The folder to run in is not there, or is not a folder.
    #[error("start the job: `workingDir: {path}` is not a folder here: create it, or mount it into the container")]
    MissingWorkingDir {
        /// The folder.
        path: PathBuf,
    },
    /// The program or the folder may not be used.
    #[error(
        "start the job: `{path}` may not be used by this user: a program needs `chmod +x` and no `noexec` mount (or write `[sh, {path}]`), a folder needs `chmod +x` for this user"
    )]
    NotPermitted {
        /// The program or folder.
        path: String,
    },
    /// A file that is executable but neither a binary for this system nor a script with a first line.
    #[error(
        "start the job: `{program}` is neither a script nor a program for this system: begin a script with `#!/bin/sh`"
    )]
    NotAProgram {
        /// The file.
        program: String,
    },
    /// A value comes from elsewhere, and is not there.
    #[error("start the job: set its {subject} {from}: {found}")]
    MissingValue {
        /// What it is for: "variable `NAME`".
        subject: String,
        /// Where its value was to come from.
        from: String,
        /// What was found instead, and what to do.
        found: String,
    },
    /// A value is there, and no request can have it. It may be a secret, and is not repeated.
    #[error("start the job: its {subject} {found}")]
    UnusableValue {
        /// What it is for: "header `NAME`".
        subject: String,
        /// What is wrong with it.
        found: String,
    },
    /// The request would go through a proxy that cannot be used.
    #[error("start the job: {found}")]
    UnusableProxy {
        /// Which, and what to write instead.
        found: String,
    },
    /// A file that is there could not be read for want of something.
    #[error("start the job: read the file `{path}`")]
    Unread {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Anything else: no memory, too many processes, a NUL in an argument.
    #[error("start the job: execute `{program}`")]
    Other {
        /// The program.
        program: String,
        /// What the system said.
        source: io::Error,
    },
}

impl SpawnError {
    /// Whether the system lacks something now that it may have later, or that another host may have: descriptors,
    /// processes, memory. Nothing is wrong with the job.
    pub fn is_shortage(&self) -> bool {
        matches!(self, Self::Other { source, .. } | Self::Unread { source, .. } if is_shortage(source))
    }

    /// Says what an error of the spawn was about: the system has one number for many reasons.
    pub(super) fn diagnose(command: &CommandSpec, source: io::Error) -> Self {
        let program = command.program.argv().first().map_or_else(String::new, ToString::to_string);
        let folder = command.working_dir.as_deref();
        match source.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
                if let Some(path) = folder.filter(|path| !path.is_dir()) {
                    Self::MissingWorkingDir { path: path.to_path_buf() }
                } else if is_there(&program, folder) {
                    Self::MissingInterpreter { program }
                } else if matches!(command.program, Program::Shell { .. }) {
                    Self::MissingShell { shell: program }
                } else {
                    Self::MissingProgram { program }
                }
            }
            io::ErrorKind::PermissionDenied if path_of(&program, folder).is_some_and(|path| path.is_dir()) => {
                Self::Folder { program }
            }
            io::ErrorKind::PermissionDenied => {
                let closed = |path: &&Path| {
                    path.join(".").metadata().is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
                };
                let path = folder.filter(closed).map_or(program, |path| path.display().to_string());
                Self::NotPermitted { path }
            }
            _ if source.raw_os_error() == Some(nix::errno::Errno::ENOEXEC as i32) => Self::NotAProgram { program },
            _ => Self::Other { program, source },
        }
    }
}

/// Whether the system lacks descriptors, processes or memory.
pub(super) fn is_shortage(error: &io::Error) -> bool {
    use nix::errno::Errno::{EAGAIN, EMFILE, ENFILE, ENOMEM};
    [EAGAIN, EMFILE, ENFILE, ENOMEM].iter().any(|errno| error.raw_os_error() == Some(*errno as i32))
}

/// Whether a program that is named by a path exists. Names without a slash are looked up in `PATH`, by the system.
fn is_there(program: &str, folder: Option<&Path>) -> bool {
    path_of(program, folder).is_some_and(|path| path.exists())
}

/// Where a program is that is named by a path.
fn path_of(program: &str, folder: Option<&Path>) -> Option<PathBuf> {
    program.contains('/').then(|| folder.map_or_else(|| PathBuf::from(program), |folder| folder.join(program)))
}

/// What to do about a program that is not there.
fn what_to_do(program: &str) -> &'static str {
    if program.trim().contains(char::is_whitespace) {
        ", blanks included: write each word of a list by itself, `[program, argument]`, or a text without brackets for the shell"
    } else if program.contains('/') {
        ": install it where the daemon runs, or mount it into the container"
    } else {
        ": write its full path, or set `PATH` in the job's `env` (a list is not read by a shell: `[sh, -c, ...]` or a string is)"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::errno::Errno;

    #[test]
    fn what_is_said_of_a_program_that_is_not_there_fits_how_it_was_named() {
        let text = |program: &str| SpawnError::MissingProgram { program: program.into() }.to_string();
        assert!(text("nowhere").contains("write its full path"));
        assert!(!text("/opt/nowhere/x").contains("full path") && text("/opt/nowhere/x").contains("install it"));
        assert!(text("docker run --rm x").contains("blanks included"));
    }

    #[test]
    fn a_lack_that_may_pass_is_told_from_a_fault_of_the_job() {
        let other = |errno: Errno| SpawnError::Other { program: "job".into(), source: io::Error::from(errno) };
        for errno in [Errno::EMFILE, Errno::ENFILE, Errno::EAGAIN, Errno::ENOMEM] {
            assert!(other(errno).is_shortage(), "{errno}");
        }
        assert!(!other(Errno::E2BIG).is_shortage());
        assert!(!SpawnError::MissingProgram { program: "job".into() }.is_shortage());
    }
}
