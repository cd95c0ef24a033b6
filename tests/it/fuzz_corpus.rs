//! What fuzzing found worth keeping, and inputs that once failed, without a fuzzer: `scripts/fuzz` writes these files.

#[path = "../../fuzz/checks.rs"]
mod checks;
#[path = "../../fuzz/lines.rs"]
mod lines;

fn replay(kept: &str, check: fn(&[u8])) {
    let mut count = 0;
    for line in kept.lines() {
        check(&lines::input(line));
        count += 1;
    }
    assert!(count > 20, "only {count} inputs");
}

#[test]
fn a_line_is_its_input() {
    let all: Vec<u8> = (0..=255).collect();
    assert_eq!(lines::input(&lines::line(&all)), all);
}

#[test]
fn the_parser_stands_all_kept_inputs() {
    replay(include_str!("../fixtures/fuzz/schedule.txt"), checks::schedule);
}

#[test]
fn ticks_stand_all_kept_inputs() {
    replay(include_str!("../fixtures/fuzz/ticks.txt"), checks::ticks);
}

#[test]
fn the_table_reader_stands_all_kept_inputs() {
    replay(include_str!("../fixtures/fuzz/table.txt"), checks::table);
}

#[test]
fn inputs_that_once_failed_pass() {
    for text in FAILED {
        checks::schedule(text.as_bytes());
    }
}

/// Each was found by a campaign, and each has been mended.
const FAILED: [&str; 1] = ["0 0 31W 9,12 */7"];
