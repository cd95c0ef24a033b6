//! `corpus unpack FILE FOLDER` and `corpus pack FOLDER FILE`: inputs as files, as the fuzzer wants them, and as one file
//! of JSON strings, as the repository keeps them. A byte is the character of its number, so that none is lost.

use std::fs;

/// So many inputs are kept, the shortest first.
const KEPT_MOST: usize = 200;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["unpack", file, folder] => {
            fs::create_dir_all(folder).expect("the folder can be made");
            let text = fs::read_to_string(file).expect("the file can be read");
            for (number, line) in text.lines().enumerate() {
                let input: String = serde_json::from_str(line).expect("each line is a JSON string");
                let bytes: Vec<u8> = input.chars().map(|c| u8::try_from(c).expect("a byte")).collect();
                fs::write(format!("{folder}/kept-{number}"), bytes).expect("the folder can be written");
            }
        }
        ["pack", folder, file] => {
            let mut inputs: Vec<Vec<u8>> = fs::read_dir(folder)
                .expect("the folder can be read")
                .map(|entry| fs::read(entry.expect("an entry").path()).expect("a file"))
                .collect();
            inputs.sort_by(|a, b| (a.len(), a).cmp(&(b.len(), b)));
            inputs.dedup();
            inputs.truncate(KEPT_MOST);
            let line = |input: &Vec<u8>| {
                let text: String = input.iter().map(|byte| char::from(*byte)).collect();
                format!("{}\n", serde_json::to_string(&text).expect("a string"))
            };
            fs::write(file, inputs.iter().map(line).collect::<String>()).expect("the file can be written");
        }
        _ => panic!("corpus unpack FILE FOLDER | corpus pack FOLDER FILE"),
    }
}
