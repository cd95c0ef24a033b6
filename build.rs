//! Tells the program which compiler made it, for the metric `onecron_build_info`.

use std::env;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let said = Command::new(rustc).arg("--version").output().map(|output| output.stdout).unwrap_or_default();
    let said = String::from_utf8_lossy(&said);
    println!("cargo::rustc-env=ONECRON_RUSTC={}", said.split_whitespace().nth(1).unwrap_or("unknown"));
}
