//! Values of environment variables that do not stand in the table: read at each start, so that a secret that was changed
//! is the new one at the next run. They appear in no error and no log.

use super::spawn_error::SpawnError;
use super::spawn_error::is_shortage;
use crate::file;
use crate::file::Unread;
use crate::job::EnvValue;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

/// A larger file is no value of a variable: the system takes 128 KiB for one.
pub(super) const BYTES_MOST: usize = 64 << 10;

/// What is to be had a value.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted<'a> {
    /// In words: "variable `NAME`".
    pub subject: &'a str,
    /// How many bytes it may have.
    pub most: usize,
}

/// The value of a variable, or of a part of a request, at this moment.
pub(super) fn value_of(wanted: Wanted<'_>, value: &EnvValue) -> Result<OsString, SpawnError> {
    let (from, found) = match value {
        EnvValue::Text(text) => return Ok(text.into()),
        EnvValue::FromEnv(name) => match std::env::var_os(name) {
            Some(value) => return Ok(value),
            None => (
                format!("from the daemon's variable `{name}`"),
                "the daemon has no such variable: set it where the daemon is started".to_owned(),
            ),
        },
        EnvValue::FromFile(path) => match file::read(path, wanted.most as u64).map(content) {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(found)) => (format!("from the file `{}`", path.display()), found),
            Err(Unread::System(source)) if is_shortage(&source) => {
                return Err(SpawnError::Unread { path: path.clone(), source });
            }
            Err(error) => (format!("from the file `{}`", path.display()), error.to_string()),
        },
    };
    Err(SpawnError::MissingValue { subject: wanted.subject.to_owned(), from, found })
}

fn content(mut bytes: Vec<u8>) -> Result<OsString, String> {
    // The line end that editors and `echo` leave.
    if bytes.last() == Some(&b'\n') {
        bytes.pop();
        if bytes.last() == Some(&b'\r') {
            bytes.pop();
        }
    }
    if bytes.contains(&0) {
        return Err("it has a NUL byte, which no value can have".to_owned());
    }
    Ok(OsString::from_vec(bytes))
}
