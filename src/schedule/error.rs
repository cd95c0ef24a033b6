//! What is wrong with a schedule's text, where, and what to write instead.

/// A schedule that was refused. Shown by whoever knows the file: `column` and `length` underline the culprit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ScheduleError {
    /// First character of the culprit, counted in characters from 0 in the text as it was given (not trimmed).
    pub column: usize,
    /// Characters of the culprit; 0 where something is missing.
    pub length: usize,
    /// What was found. Lower case, no full stop.
    pub message: String,
    /// What to write instead.
    pub hint: Option<String>,
}

/// A piece of the text that knows where it stands. Only ASCII gets this far, so bytes are characters.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece<'a> {
    pub text: &'a str,
    pub column: usize,
}

impl<'a> Piece<'a> {
    /// The part from `from` up to `to`.
    pub fn part(self, from: usize, to: usize) -> Self {
        Self { text: &self.text[from..to], column: self.column + from }
    }

    /// What stands before and after the first `separator`.
    pub fn split_once(self, separator: char) -> Option<(Self, Self)> {
        let at = self.text.find(separator)?;
        Some((self.part(0, at), self.part(at + 1, self.text.len())))
    }

    /// The parts between all `separator`s, empty ones included.
    pub fn split(self, separator: char) -> impl Iterator<Item = Piece<'a>> {
        let mut from = 0;
        self.text.split(separator).map(move |text| {
            let piece = Piece { text, column: self.column + from };
            from += text.len() + 1;
            piece
        })
    }

    /// The parts between runs of white space.
    pub fn words(self) -> Vec<Piece<'a>> {
        let start = self.text.as_ptr().addr();
        let column = |word: &str| self.column + word.as_ptr().addr() - start;
        self.text.split_ascii_whitespace().map(|text| Piece { text, column: column(text) }).collect()
    }

    /// This piece is wrong.
    pub fn wrong(self, message: impl Into<String>, hint: impl Into<String>) -> ScheduleError {
        ScheduleError { column: self.column, length: self.text.len(), message: message.into(), hint: Some(hint.into()) }
    }
}
