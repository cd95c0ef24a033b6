//! `onecron completions` and `onecron man`: made from the same definitions as the commands themselves.

use super::store_args::Failed;
use super::store_args::not_shown;
use super::table_args;
use clap::Args;
use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;
use std::io;
use std::io::Write;
use std::path::PathBuf;

/// Writes a script that completes commands and flags in a shell
///
/// For bash: onecron completions bash > /etc/bash_completion.d/onecron; for zsh: into a folder of $fpath, as _onecron; for
/// fish: into ~/.config/fish/completions/onecron.fish.
#[derive(Debug, Clone, Args)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL", value_enum)]
    pub shell: Shell,
}

/// Writes the manual: with a folder, a page for each command; without, the page of onecron itself
#[derive(Debug, Clone, Args)]
pub struct ManArgs {
    /// The folder; it must be there
    #[arg(value_name = "DIR")]
    pub folder: Option<PathBuf>,
}

/// Writes completions. Returns the exit code.
pub fn completions(args: &CompletionsArgs, mut command: Command, (out, err): (&mut dyn Write, &mut dyn Write)) -> i32 {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "onecron", &mut script);
    out.write_all(&script).map_or_else(|error| not_shown(error).say(err), |()| table_args::OK)
}

/// Writes the manual. Returns the exit code.
pub fn man(args: &ManArgs, command: Command, (out, err): (&mut dyn Write, &mut dyn Write)) -> i32 {
    let written = match &args.folder {
        None => page(command).and_then(|page| out.write_all(&page)).map_err(not_shown),
        Some(folder) => clap_mangen::generate_to(command, folder).map_err(|error| Failed {
            code: table_args::FAILED,
            message: format!("write the pages into `{}`: {error}", folder.display()),
            hint: Some("name a folder that is there and can be written".into()),
        }),
    };
    written.map_or_else(|failed| failed.say(err), |()| table_args::OK)
}

fn page(command: Command) -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    Man::new(command).render(&mut page)?;
    Ok(page)
}
