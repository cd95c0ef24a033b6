//! Percent encoding, as URLs and the variables of OpenTelemetry have it.

/// Why a text is not what percent encoding makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Undecoded {
    /// A `%` has no two hexadecimal digits behind it.
    Digits,
    /// The bytes are no text in UTF-8.
    Text,
}

/// With each `%40` read as the byte that it stands for.
///
/// # Errors
/// A `%` stands for itself, or the bytes are no text.
pub fn decoded(text: &str) -> Result<String, Undecoded> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || {
            let digit = rest.next().and_then(|byte| char::from(byte).to_digit(16));
            digit.and_then(|digit| u8::try_from(digit).ok()).ok_or(Undecoded::Digits)
        };
        bytes.push(digit()? << 4 | digit()?);
    }
    String::from_utf8(bytes).map_err(|_| Undecoded::Text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent_signs_stand_for_bytes() {
        assert_eq!(decoded("us%40er").unwrap(), "us@er");
        assert_eq!(decoded("a%2fb%25%C3%BC").unwrap(), "a/b%ü");
        for text in ["50%", "%+1", "%4", "%é0"] {
            assert_eq!(decoded(text), Err(Undecoded::Digits), "{text}");
        }
        assert_eq!(decoded("%C3"), Err(Undecoded::Text));
    }
}
