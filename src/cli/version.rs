//! `onecron version`: which program this is, for whoever reports or compares.

use super::read::show_json;
use super::store_args::not_shown;
use super::table_args;
use super::table_args::Format;
use crate::schedule::zone_data_version;
use crate::telemetry::metrics::RUSTC;
use crate::telemetry::metrics::revision;
use clap::Args;
use serde::Serialize;
use std::io;
use std::io::Write;

/// Optional parts, as in Cargo.toml.
const FEATURES: &[(&str, bool)] =
    &[("full", cfg!(feature = "full")), ("mysql", cfg!(feature = "mysql")), ("postgres", cfg!(feature = "postgres"))];

/// Shows the version of this program, and what it was built with
///
/// Version, commit (where whoever built it said which), compiler, optional parts, and the zone data that it uses on this machine.
/// Exit codes: 0; 1 it could not be written; 2 called wrongly; 141 nobody reads it.
#[derive(Debug, Clone, Args)]
pub struct VersionArgs {
    /// How to write the result
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Format,
}

#[derive(Debug, Serialize)]
struct About {
    version: &'static str,
    /// `None`: not known.
    commit: Option<&'static str>,
    rustc: &'static str,
    features: Vec<&'static str>,
    /// Its release, and where it comes from.
    zone_data: &'static str,
}

impl About {
    fn this() -> Self {
        let is_in = |(name, is_in): &(&'static str, bool)| is_in.then_some(*name);
        Self {
            version: env!("CARGO_PKG_VERSION"),
            commit: revision(),
            rustc: RUSTC,
            features: FEATURES.iter().filter_map(is_in).collect(),
            zone_data: zone_data_version(),
        }
    }
}

/// Runs the command. Returns the exit code.
pub fn run(args: &VersionArgs, (out, err): (&mut dyn Write, &mut dyn Write)) -> i32 {
    let about = About::this();
    let shown = match args.output {
        Format::Json => show_json(out, &about),
        Format::Text => write_text(out, &about).map_err(not_shown),
    };
    shown.map_or_else(|failed| failed.say(err), |()| table_args::OK)
}

fn write_text(out: &mut dyn Write, about: &About) -> io::Result<()> {
    let features = if about.features.is_empty() { "none".to_owned() } else { about.features.join(", ") };
    writeln!(out, "onecron {}", about.version)?;
    let rows = [
        ("commit", about.commit.unwrap_or("not known")),
        ("rustc", about.rustc),
        ("features", &features),
        ("zone data", about.zone_data),
    ];
    table_args::write_aligned(out, &rows.map(|(name, value)| vec![name.to_owned(), value.to_owned()]))
}
