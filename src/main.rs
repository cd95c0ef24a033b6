//! The `onecron` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    // Returning instead of `exit`: the log is written to its end when `main` is left.
    ExitCode::from(onecron::cli::main())
}
