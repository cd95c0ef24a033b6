//! The last bytes of a stream. Pure.

/// Keeps the last bytes that were pushed.
#[derive(Debug)]
pub(super) struct Tail {
    most: usize,
    /// Up to twice as many bytes as asked for, so that moving them costs one copy for each byte that comes in.
    bytes: Vec<u8>,
    was_cut: bool,
}

impl Tail {
    /// Keeps so many bytes.
    pub(super) fn new(most: usize) -> Self {
        Self { most, bytes: Vec::new(), was_cut: false }
    }

    /// Takes more bytes.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let last = &bytes[bytes.len().saturating_sub(self.most)..];
        self.was_cut |= last.len() < bytes.len();
        if self.bytes.len() + last.len() > self.most.saturating_mul(2) {
            self.cut();
        }
        self.bytes.extend_from_slice(last);
    }

    fn cut(&mut self) {
        let surplus = self.bytes.len().saturating_sub(self.most);
        self.was_cut |= surplus > 0;
        self.bytes.drain(..surplus);
    }

    /// The last bytes as text: whole characters only, never longer than asked for.
    pub(super) fn text(&mut self) -> String {
        self.cut();
        let is_inner = |byte: &u8| (0x80..=0xBF).contains(byte);
        let part = if self.was_cut { self.bytes.iter().take(3).take_while(|byte| is_inner(byte)).count() } else { 0 };
        let text = String::from_utf8_lossy(&self.bytes[part..]);
        // A bad byte becomes three good ones.
        let from = text.ceil_char_boundary(text.len().saturating_sub(self.most));
        text[from..].to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tail(most: usize, text: &[u8], piece: usize) -> String {
        let mut tail = Tail::new(most);
        text.chunks(piece).for_each(|bytes| tail.push(bytes));
        assert!(tail.bytes.len() <= 2 * most);
        tail.text()
    }

    #[test]
    fn the_last_bytes_are_kept_however_they_come_in() {
        for piece in 1..=12 {
            assert_eq!(tail(4, b"0123456789ab", piece), "89ab");
            assert_eq!(tail(100, b"0123456789ab", piece), "0123456789ab");
            assert_eq!(tail(0, b"0123456789ab", piece), "");
            assert_eq!(tail(5, "ääääää".as_bytes(), piece), "ää", "half a character is left out");
        }
    }

    #[test]
    fn bad_bytes_do_not_lengthen_it() {
        assert_eq!(tail(4, b"\xff\xff\xff\xff", 4), "\u{fffd}");
    }
}
