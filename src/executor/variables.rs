//! Values of environment variables that do not stand in the table: read at each start, so that a secret that was changed
//! is the new one at the next run. They appear in no error and no log.

use super::spawn_error::SpawnError;
use crate::job::EnvValue;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

/// A larger file is no value of a variable: the system takes 128 KiB for one.
const BYTES_MOST: usize = 64 << 10;

/// The value of a variable at this moment.
pub(super) fn value_of(variable: &str, value: &EnvValue) -> Result<OsString, SpawnError> {
    let (from, found) = match value {
        EnvValue::Text(text) => return Ok(text.into()),
        EnvValue::FromEnv(name) => match std::env::var_os(name) {
            Some(value) => return Ok(value),
            None => (
                format!("from the daemon's variable `{name}`"),
                "the daemon has no such variable: set it where the daemon is started".to_owned(),
            ),
        },
        EnvValue::FromFile(path) => match content(path) {
            Ok(value) => return Ok(value),
            Err(found) => (format!("from the file `{}`", path.display()), found),
        },
    };
    Err(SpawnError::MissingValue { variable: variable.to_owned(), from, found })
}

fn content(path: &Path) -> Result<OsString, String> {
    let mut bytes = Vec::new();
    let is_file = path.metadata().map_err(|error| error.to_string())?.is_file();
    if !is_file {
        return Err("it is not a regular file".to_owned()); // a pipe would be waited for
    }
    let file = File::open(path).map_err(|error| error.to_string())?;
    file.take(BYTES_MOST as u64 + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() > BYTES_MOST {
        return Err(format!("it has more than {} KiB, and a variable is shorter", BYTES_MOST >> 10));
    }
    // The line end that editors and `echo` leave.
    if bytes.last() == Some(&b'\n') {
        bytes.pop();
        if bytes.last() == Some(&b'\r') {
            bytes.pop();
        }
    }
    if bytes.contains(&0) {
        return Err("it has a NUL byte, and no variable can".to_owned());
    }
    Ok(OsString::from_vec(bytes))
}
