//! Cuts bytes into lines of bounded length. Pure.

/// One stream's current line.
#[derive(Debug)]
pub(super) struct Lines {
    most: usize,
    line: Vec<u8>,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Filling,
    /// The line is complete and waits to be taken.
    Ready,
    /// As [`Self::Ready`], but the line goes on.
    ReadyCut,
    /// The line was cut; the rest of it is passed over.
    Skipping,
}

impl Lines {
    /// Lines of at most so many bytes.
    pub(super) fn new(most: usize) -> Self {
        Self { most, line: Vec::new(), state: State::Filling }
    }

    /// Whether a line waits to be taken. Nothing is fed until it is.
    pub(super) fn is_ready(&self) -> bool {
        matches!(self.state, State::Ready | State::ReadyCut)
    }

    /// Takes bytes up to the end of a line, and says how many. A line that gets too long is ready at once: one that
    /// never ends (`tr -d '\n'`) is seen when it is printed, not at the end of the job.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> usize {
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let consumed = end.map_or(bytes.len(), |end| end + 1);
        if self.state == State::Skipping {
            if end.is_some() {
                self.state = State::Filling;
            }
            return consumed;
        }
        if let State::Ready | State::ReadyCut = self.state {
            return 0;
        }
        let text = &bytes[..end.unwrap_or(bytes.len())];
        let room = self.most.saturating_sub(self.line.len());
        if text.len() > room {
            self.line.extend_from_slice(&text[..room]);
            self.state = State::ReadyCut;
            return room;
        }
        self.line.extend_from_slice(text);
        if end.is_some() {
            self.state = State::Ready;
        }
        consumed
    }

    /// The stream has ended: what is there is a line.
    pub(super) fn end(&mut self) {
        if self.state == State::Filling && !self.line.is_empty() {
            self.state = State::Ready;
        }
    }

    /// The line that is ready, and whether it was cut. A carriage return at its end belongs to the line's end.
    pub(super) fn take(&mut self) -> (String, bool) {
        let was_cut = self.state == State::ReadyCut;
        let mut line: &[u8] = &self.line;
        if was_cut {
            line = without_part_of_a_char(line);
        } else {
            line = line.strip_suffix(b"\r").unwrap_or(line);
        }
        let mut text = String::from_utf8_lossy(line).into_owned();
        // A bad byte becomes three good ones: the bound holds for what is handed on.
        let too_long = text.len() > self.most;
        text.truncate(text.floor_char_boundary(self.most));
        self.line.clear();
        self.state = if was_cut { State::Skipping } else { State::Filling };
        (text, was_cut || too_long)
    }

    /// As [`Self::take`], for a line that nobody wants. Tells whether it was cut.
    pub(super) fn discard(&mut self) -> bool {
        let was_cut = self.state == State::ReadyCut;
        self.line.clear();
        self.state = if was_cut { State::Skipping } else { State::Filling };
        was_cut
    }
}

/// Takes off the first bytes of a character whose last bytes were cut.
pub(in crate::executor) fn without_part_of_a_char(bytes: &[u8]) -> &[u8] {
    for back in 1..=bytes.len().min(3) {
        let (whole, last) = bytes.split_at(bytes.len() - back);
        match last[0] {
            0x80..=0xBF => {}
            0xC2..=0xF4 if std::str::from_utf8(last).is_err() => return whole,
            _ => return bytes,
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All lines of a text that comes in pieces of `piece` bytes.
    fn lines(most: usize, text: &[u8], piece: usize) -> Vec<(String, bool)> {
        let mut lines = Lines::new(most);
        let mut found = Vec::new();
        for mut bytes in text.chunks(piece) {
            while !bytes.is_empty() {
                bytes = &bytes[lines.feed(bytes)..];
                if lines.is_ready() {
                    found.push(lines.take());
                }
            }
        }
        lines.end();
        if lines.is_ready() {
            found.push(lines.take());
        }
        found
    }

    #[test]
    fn lines_are_the_same_however_they_come_in() {
        let text = "one\ntwo\r\n\nfünf fünf fünf\nsix".as_bytes();
        let whole = |line: &str| (line.to_string(), false);
        let expected = vec![whole("one"), whole("two"), whole(""), ("fünf f".into(), true), whole("six")];
        for piece in 1..=text.len() {
            assert_eq!(lines(8, text, piece), expected, "pieces of {piece}");
        }
    }

    #[test]
    fn a_line_of_just_the_length_is_not_cut() {
        assert_eq!(lines(3, b"abc\nabcd\n", 100), vec![("abc".into(), false), ("abc".into(), true)]);
    }

    #[test]
    fn bad_bytes_are_replaced_and_do_not_lengthen_a_line_beyond_its_bound() {
        assert_eq!(lines(9, b"a\x80b\n", 100), vec![("a\u{fffd}b".into(), false)]);
        assert_eq!(lines(8, b"\x80\x80\x80\n", 100), vec![("\u{fffd}\u{fffd}".into(), true)]);
    }
}
