//! `corpus unpack FILE FOLDER` and `corpus pack FOLDER FILE`: inputs as files, as the fuzzer wants them, and as lines of
//! one file, as the repository keeps them. Built by `rustc` alone, for all of the package is instrumented.

mod lines;

use std::fs;

/// So many inputs are kept, of all lengths.
const KEPT_MOST: usize = 200;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["unpack", file, folder] => {
            let text = fs::read_to_string(file).expect("the file can be read");
            for (number, line) in text.lines().enumerate() {
                fs::write(format!("{folder}/kept-{number}"), lines::input(line)).expect("the folder can be written");
            }
        }
        ["pack", folder, file] => {
            let entries = fs::read_dir(folder).expect("the folder can be read");
            let mut inputs: Vec<Vec<u8>> =
                entries.map(|entry| fs::read(entry.expect("an entry").path()).expect("a file")).collect();
            inputs.sort_by(|a, b| (a.len(), a).cmp(&(b.len(), b)));
            inputs.dedup();
            let step = inputs.len().div_ceil(KEPT_MOST).max(1);
            let text: String = inputs.iter().step_by(step).map(|input| format!("{}\n", lines::line(input))).collect();
            fs::write(file, text).expect("the file can be written");
        }
        _ => panic!("corpus unpack FILE FOLDER | corpus pack FOLDER FILE"),
    }
}
