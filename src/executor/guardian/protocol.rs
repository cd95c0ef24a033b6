//! The lines that a daemon writes to its guardian. Pure.

use crate::clock::Boot;
use std::fmt;
use std::time::Duration;

/// The longest line, its end included. A run id has at most 84 bytes, a replica 233.
pub(super) const LINE_MOST: usize = 1024;
/// What the guardian writes when it listens.
pub(super) const READY: &[u8] = b"ready\n";

/// One message. Runs and replicas are texts here: the guardian compares them, and knows nothing else of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Message {
    /// Stop the run at an instant.
    Arm { run: String, start: u32, replica: String, term_at: Boot, kill_after: Duration },
    /// This is its process, and its group.
    Adopt { run: String, start: u32, pid: i32 },
    /// Not before that.
    Extend { run: String, start: u32, term_at: Boot },
    /// Not at all.
    Disarm { run: String, start: u32 },
}

/// The line, with its end.
impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Arm { run, start, replica, term_at, kill_after } => {
                writeln!(f, "arm {start} {} {} {replica} {run}", term_at.nanos(), kill_after.as_nanos())
            }
            Self::Adopt { run, start, pid } => writeln!(f, "adopt {start} {pid} {run}"),
            Self::Extend { run, start, term_at } => writeln!(f, "extend {start} {} {run}", term_at.nanos()),
            Self::Disarm { run, start } => writeln!(f, "disarm {start} {run}"),
        }
    }
}

impl Message {
    /// Reads a line without its end; `None` for anything that is not a message.
    pub(super) fn parse(line: &[u8]) -> Option<Self> {
        let fields: Vec<&str> = std::str::from_utf8(line).ok()?.split(' ').collect();
        let start = fields.get(1)?.parse().ok()?;
        let run = Some((*fields.last()?).to_string()).filter(|run| !run.is_empty())?;
        let instant = |text: &str| text.parse().ok().map(Boot::from_nanos);
        match *fields.as_slice() {
            ["arm", _, term_at, kill_after, replica, _] if !replica.is_empty() => Some(Self::Arm {
                run,
                start,
                replica: replica.to_string(),
                term_at: instant(term_at)?,
                kill_after: Duration::from_nanos(kill_after.parse().ok()?),
            }),
            ["adopt", _, pid, _] => {
                // 0 and negative numbers mean other things than a process to kill(2), and 1 is never a job.
                let pid = pid.parse().ok().filter(|pid| *pid > 1)?;
                Some(Self::Adopt { run, start, pid })
            }
            ["extend", _, term_at, _] => Some(Self::Extend { run, start, term_at: instant(term_at)? }),
            ["disarm", _, _] => Some(Self::Disarm { run, start }),
            _ => None,
        }
    }
}

/// Puts messages together from bytes that may come in any pieces.
#[derive(Debug, Default)]
pub(super) struct Reader {
    line: Vec<u8>,
    is_too_long: bool,
}

impl Reader {
    /// The messages that end in these bytes.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Vec<Message> {
        let mut messages = Vec::new();
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (text, is_complete) = piece.strip_suffix(b"\n").map_or((piece, false), |text| (text, true));
            self.is_too_long |= self.line.len() + text.len() >= LINE_MOST;
            if !self.is_too_long {
                self.line.extend_from_slice(text);
            }
            if is_complete {
                if !self.is_too_long {
                    messages.extend(Message::parse(&self.line));
                }
                self.line.clear();
                self.is_too_long = false;
            }
        }
        messages
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn examples() -> Vec<Message> {
        let run = || "nightly-sales@2026-03-01T02:00:00Z".to_string();
        vec![
            Message::Arm {
                run: run(),
                start: 2,
                replica: "web-1-7f3a".into(),
                term_at: Boot::from_nanos(17),
                kill_after: Duration::from_secs(10),
            },
            Message::Adopt { run: run(), start: 2, pid: 4711 },
            Message::Extend { run: run(), start: 2, term_at: Boot::from_nanos(u64::MAX) },
            Message::Disarm { run: run(), start: 2 },
        ]
    }

    #[test]
    fn a_message_is_read_as_it_was_written_in_whatever_pieces_it_comes() {
        let text: String = examples().iter().map(ToString::to_string).collect();
        for piece in 1..text.len() {
            let mut reader = Reader::default();
            let found: Vec<Message> = text.as_bytes().chunks(piece).flat_map(|bytes| reader.feed(bytes)).collect();
            assert_eq!(found, examples());
        }
    }

    #[test]
    fn what_is_not_a_message_is_passed_over() {
        let long = "x".repeat(LINE_MOST);
        for line in ["", "adopt 1 0 r", "adopt 1 -5 r", "adopt 1 1 r", "arm 1 2 3  r", "disarm 1 ", "stop 1 r", &long] {
            let mut reader = Reader::default();
            assert_eq!(reader.feed(format!("{line}\ndisarm 1 r\n").as_bytes()).len(), 1, "{line:?}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic_or_grow(bytes in proptest::collection::vec(any::<u8>(), 0..4000)) {
            let mut reader = Reader::default();
            reader.feed(&bytes);
            prop_assert!(reader.line.len() < LINE_MOST);
        }
    }
}
