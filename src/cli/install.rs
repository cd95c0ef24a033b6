//! `onecron install`: this program as a file in another folder, for containers that bring no tool that could copy it.

use super::settings;
use super::store_args::Failed;
use super::store_args::not_written;
use super::table_args;
use clap::Args;
use std::fs;
use std::fs::File;
use std::fs::OpenOptions;
use std::fs::Permissions;
use std::io;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::path::PathBuf;

/// This program, also where its file was moved or replaced since it was started.
const THIS: &str = "/proc/self/exe";

/// Copies this program into a folder
///
/// For init containers: the image that has nothing but onecron puts it into a volume, and the container with what jobs need starts
/// it from there. What has the name is replaced in one step: whoever starts it gets the old or the new one, and never a part.
/// Exit codes: 0 it is there; 1 it could not be copied; 2 called wrongly.
#[derive(Debug, Clone, Args)]
pub struct InstallArgs {
    /// The folder; it must be there
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
}

/// Runs the command. Returns the exit code.
pub fn run(args: &InstallArgs, (out, err): (&mut dyn Write, &mut dyn Write)) -> i32 {
    install(&args.folder, out).map_or_else(|failed| failed.say(err), |()| table_args::OK)
}

fn install(folder: &Path, out: &mut dyn Write) -> Result<(), Failed> {
    let target = folder.join("onecron");
    // In the same folder: only there is a rename one step. In containers all have the same process number, so the name is drawn.
    let part = folder.join(format!(".onecron-{}", settings::nonce()?));
    let copied = copy(&part).and_then(|()| fs::rename(&part, &target));
    copied.and_then(|()| File::open(folder)?.sync_all()).map_err(|error| {
        // It may never have been there.
        let _ = fs::remove_file(&part);
        Failed {
            code: table_args::FAILED,
            message: format!("copy this program to `{}`: {error}", target.display()),
            hint: Some("name a folder that is there, can be written, and has room for it".to_owned()),
        }
    })?;
    writeln!(out, "{}", target.display()).map_err(not_written)
}

/// Returns when it is on the disk, and may be executed by everybody.
fn copy(part: &Path) -> io::Result<()> {
    let mut this = File::open(THIS)?;
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o700).open(part)?;
    io::copy(&mut this, &mut file)?;
    // Whatever the umask is.
    file.set_permissions(Permissions::from_mode(0o755))?;
    file.sync_all()
}
