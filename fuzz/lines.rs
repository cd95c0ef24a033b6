//! Inputs as lines of text: what is not printable ASCII is escaped as in Rust, so that a person can read the rest.

/// An input as a line, without its end.
pub fn line(input: &[u8]) -> String {
    input.escape_ascii().to_string()
}

/// The input that a line stands for.
pub fn input(line: &str) -> Vec<u8> {
    let mut bytes = line.bytes();
    let mut input = Vec::new();
    while let Some(byte) = bytes.next() {
        let kind = if byte == b'\\' { bytes.next() } else { None };
        input.push(match kind {
            None => byte,
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b't') => b'\t',
            Some(b'x') => {
                let mut digit = || char::from(bytes.next().expect("two digits")).to_digit(16).expect("a digit");
                u8::try_from(digit() * 16 + digit()).expect("two digits are a byte")
            }
            Some(itself) => itself,
        });
    }
    input
}
