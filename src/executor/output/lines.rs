//! Cuts bytes into lines of bounded length. Pure.

use crate::secret::LOOK_AHEAD;
use crate::secret::Redaction;

/// One stream's current line.
#[derive(Debug)]
pub(super) struct Lines {
    most: usize,
    /// How many bytes behind the cut are kept, so that what begins before it is recognised.
    ahead: usize,
    redaction: Redaction,
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
    /// Lines of at most so many bytes, in which something is hidden.
    pub(super) fn new(most: usize, redaction: Redaction) -> Self {
        let ahead = if redaction.is_empty() { 0 } else { LOOK_AHEAD };
        Self { most, ahead, redaction, line: Vec::new(), state: State::Filling }
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
        let room = (self.most + self.ahead).saturating_sub(self.line.len());
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
        let goes_on = self.state == State::ReadyCut;
        let mut line: &[u8] = &self.line;
        if !goes_on {
            line = line.strip_suffix(b"\r").unwrap_or(line);
        }
        let is_cut = goes_on || line.len() > self.most;
        let mut shown = &line[..line.len().min(self.most)];
        if is_cut {
            shown = without_part_of_a_char(shown);
        }
        let mut text = if self.redaction.is_empty() {
            String::from_utf8_lossy(shown).into_owned()
        } else {
            let length = String::from_utf8_lossy(shown).len();
            self.redaction.line(&String::from_utf8_lossy(line), length).into_owned()
        };
        // A bad byte becomes three good ones: the bound holds for what is handed on.
        let too_long = text.len() > self.most;
        text.truncate(text.floor_char_boundary(self.most));
        self.over();
        (text, is_cut || too_long)
    }

    /// As [`Self::take`], for a line that nobody wants. Tells whether it was cut.
    pub(super) fn discard(&mut self) -> bool {
        let is_cut = self.state == State::ReadyCut || self.line.len() > self.most;
        self.over();
        is_cut
    }

    fn over(&mut self) {
        self.line.clear();
        self.state = if self.state == State::ReadyCut { State::Skipping } else { State::Filling };
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
    use crate::secret::Rule;

    /// All lines of a text that comes in pieces of `piece` bytes.
    fn lines(most: usize, text: &[u8], piece: usize) -> Vec<(String, bool)> {
        cut_into((most, &Redaction::default()), text, piece)
    }

    fn cut_into((most, redaction): (usize, &Redaction), text: &[u8], piece: usize) -> Vec<(String, bool)> {
        let mut lines = Lines::new(most, redaction.clone());
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

    #[test]
    fn a_secret_is_hidden_however_it_comes_in_and_wherever_its_line_is_cut() {
        let redaction: Redaction = [Rule::new("secret-[0-9]{4}").unwrap()].into_iter().collect();
        let text = b"a secret-1234 b\r\nsecret-5678";
        for piece in 1..=text.len() {
            let whole = |line: &str| (line.to_string(), false);
            let expected = [whole("a [redacted] b"), whole("[redacted]")];
            assert_eq!(cut_into((20, &redaction), text, piece), expected, "pieces of {piece}");
        }
        // Cut behind each of its characters, in a line that goes on for longer than what is searched.
        for rest in ["", "\n", &"x".repeat(LOOK_AHEAD), &"x".repeat(3 * LOOK_AHEAD)] {
            let text = format!("0123456789 secret-1234{rest}");
            for most in 11..=22 {
                for piece in [1, 7, 100_000] {
                    let found = cut_into((most, &redaction), text.as_bytes(), piece);
                    let (line, truncated) = &found[0];
                    assert!(found.len() == 1 && *truncated == (most < 22 || rest.starts_with('x')), "{found:?}");
                    let seen = "0123456789 [redacted]";
                    assert_eq!(*line, seen[..most.min(seen.len())], "{most} bytes");
                }
            }
        }
    }

    #[test]
    fn what_a_secret_leaves_room_for_is_not_shown_from_behind_the_cut() {
        let redaction: Redaction = [Rule::new("[a-z]{30}|secret-[0-9]{4}").unwrap()].into_iter().collect();
        let text = format!("{}{}secret-1234", "x".repeat(30), ".".repeat(LOOK_AHEAD + 40 - 30 - 7));
        let found = cut_into((40, &redaction), text.as_bytes(), 100_000);
        assert_eq!(found, [("[redacted]..........".to_owned(), true)]);
    }
}
