//! What a job prints, in bounded memory: whole lines through a bounded channel, the last bytes kept.
//!
//! A job must not be held up for ever by whoever takes its lines, nor lose lines because that one is busy for a
//! moment. So it waits for room like any program at a full pipe, out of an allowance ([`Patience`]); what comes when
//! that is spent is dropped and counted. One job that floods the channel spends its own allowance, not the others'.

pub(super) mod lines;
mod tail;

use super::command::RunContext;
use crate::clock::Boot;
use crate::clock::Clock;
use crate::clock::SystemClock;
use crate::job::OutputLimits;
use crate::job::RunKey;
use lines::Lines;
use std::future::pending;
use std::io;
use std::os::fd::OwnedFd;
use std::process::Child;
use std::time::Duration;
use tail::Tail;
use tokio::net::unix::pipe::Receiver;
use tokio::sync::mpsc;
use tokio::sync::mpsc::Permit;
use tokio::sync::mpsc::error::TrySendError;

/// How long a pipe that is still held after the end must be silent to count as idle.
const IDLE: Duration = Duration::from_millis(250);
/// The end of a line that was cut, in a tail of lines.
const CUT: &[u8] = "…\n".as_bytes();
/// How long it is read at most.
const DRAIN_MOST: Duration = Duration::from_secs(2);

/// Where a line came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl Stream {
    const BOTH: [Self; 2] = [Self::Stdout, Self::Stderr];

    /// The word in logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

/// One line that a job printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputLine {
    /// The run.
    pub run: RunKey,
    /// Its start.
    pub start: u32,
    /// Where the line came from.
    pub stream: Stream,
    /// Its text, without the line's end and without what is to be hidden. Bytes that are not UTF-8 are replaced by
    /// `U+FFFD`.
    pub line: String,
    /// It was longer, and is cut.
    pub truncated: bool,
}

/// What is known when all is read.
pub(super) struct Totals {
    pub(super) tail: String,
    pub(super) bytes: u64,
    pub(super) truncated_lines: u64,
    pub(super) dropped_lines: u64,
}

/// Reads both streams of a process.
#[derive(Debug)]
pub(super) struct Output {
    run: RunKey,
    start: u32,
    taker: mpsc::Sender<OutputLine>,
    patience: Patience,
    pipes: [Option<Receiver>; 2],
    lines: [Lines; 2],
    tail: Tail,
    /// Whether something is to be hidden. The tail is then made of lines, as they may be seen: bytes that were cut
    /// off somewhere could begin with half a secret that nothing recognises.
    hides: bool,
    chunk: Chunk,
    bytes: u64,
    truncated_lines: u64,
    dropped_lines: u64,
}

/// What was read last, as far as it is not cut into lines.
#[derive(Debug)]
struct Chunk {
    buffer: Box<[u8]>,
    stream: usize,
    from: usize,
    to: usize,
}

impl Output {
    /// Takes the pipes of a child. Inside a tokio runtime.
    pub(super) fn of(
        child: &mut Child,
        limits: OutputLimits,
        context: &RunContext,
        taker: mpsc::Sender<OutputLine>,
    ) -> io::Result<Self> {
        const CHUNK: usize = 16 << 10;
        let pipe = |fd: Option<OwnedFd>| fd.map(Receiver::from_owned_fd).transpose();
        let pipes = [pipe(child.stdout.take().map(Into::into))?, pipe(child.stderr.take().map(Into::into))?];
        Ok(Self {
            run: context.run.clone(),
            start: context.start,
            taker,
            patience: Patience::full(SystemClock.now().boot),
            pipes,
            lines: Stream::BOTH.map(|_| Lines::new(limits.max_line_bytes, context.redaction.clone())),
            tail: Tail::new(limits.keep_tail),
            hides: !context.redaction.is_empty(),
            chunk: Chunk { buffer: vec![0; CHUNK].into(), stream: 0, from: 0, to: 0 },
            bytes: 0,
            truncated_lines: 0,
            dropped_lines: 0,
        })
    }

    /// Whether there is anything to read or to hand on.
    pub(super) fn is_open(&self) -> bool {
        self.is_loaded() || self.pipes.iter().any(Option::is_some)
    }

    /// Whether something was read and is not handed on.
    fn is_loaded(&self) -> bool {
        self.chunk.from < self.chunk.to || self.lines.iter().any(Lines::is_ready)
    }

    /// Hands on what was read, then reads once. Cancel safety: may be dropped and called again, nothing is lost.
    pub(super) async fn step(&mut self) {
        let taker = self.taker.clone();
        while let Some(stream) = self.next_line() {
            let permit = match taker.try_reserve() {
                Err(TrySendError::Full(())) => self.patience.wait_for(&taker).await,
                other => other.ok(),
            };
            self.hand_on(stream, permit);
        }
        self.fill().await;
    }

    /// Takes the line that is ready and sends it, where there is room for it.
    fn hand_on(&mut self, stream: usize, permit: Option<Permit<'_, OutputLine>>) {
        if permit.is_none() && !self.hides {
            self.dropped_lines += 1;
            self.truncated_lines += u64::from(self.lines[stream].discard());
            return;
        }
        let (line, truncated) = self.lines[stream].take();
        self.truncated_lines += u64::from(truncated);
        if self.hides {
            self.tail.push(line.as_bytes());
            self.tail.push(if truncated { CUT } else { b"\n" });
        }
        let Some(permit) = permit else {
            self.dropped_lines += 1;
            return;
        };
        let stream = Stream::BOTH[stream];
        permit.send(OutputLine { run: self.run.clone(), start: self.start, stream, line, truncated });
    }

    /// Cuts lines off what was read until one is ready.
    fn next_line(&mut self) -> Option<usize> {
        loop {
            if let Some(stream) = self.lines.iter().position(Lines::is_ready) {
                return Some(stream);
            }
            let rest = self.chunk.buffer.get(self.chunk.from..self.chunk.to).filter(|rest| !rest.is_empty())?;
            self.chunk.from += self.lines[self.chunk.stream].feed(rest);
        }
    }

    /// Reads from whichever stream has something. What was read before must be handed on.
    async fn fill(&mut self) {
        let stream = tokio::select! {
            () = readable(self.pipes[0].as_ref()) => 0,
            () = readable(self.pipes[1].as_ref()) => 1,
        };
        self.read(stream);
    }

    /// Reads what is there, without waiting. Whether there was something.
    fn read(&mut self, stream: usize) -> bool {
        let Some(pipe) = &self.pipes[stream] else { return false };
        match pipe.try_read(&mut self.chunk.buffer) {
            Ok(read) if read > 0 => {
                (self.chunk.stream, self.chunk.from, self.chunk.to) = (stream, 0, read);
                self.bytes += read as u64;
                if !self.hides {
                    self.tail.push(&self.chunk.buffer[..read]);
                }
                return true;
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Ok(_) | Err(_) => {
                self.pipes[stream] = None;
                self.lines[stream].end();
            }
        }
        false
    }

    /// Reads what is left after the end of the process: to the end of both streams or, where somebody else holds
    /// them, while something comes, for a bounded time. A fixed short time would cut off what a child that outlived
    /// its parent by a moment still has to say. Tells whether somebody holds them.
    pub(super) async fn drain(&mut self) -> bool {
        let mut cap = std::pin::pin!(tokio::time::sleep(DRAIN_MOST));
        while self.is_open() {
            tokio::select! {
                biased;
                () = &mut cap => break,
                step = tokio::time::timeout(IDLE, self.step()) => {
                    // Waiting for room in the channel is not idleness of the job.
                    if step.is_err() && !self.is_loaded() {
                        break;
                    }
                }
            }
        }
        self.pipes.iter().any(Option::is_some)
    }

    /// Reads what is in the pipes still, which is much where the end came while the taker was stuck, hands on what there
    /// is room for, and sums up.
    pub(super) fn finish(&mut self) -> Totals {
        /// More than a pipe holds by default, and an end where somebody fills it as fast as it is read.
        const CHUNKS_MOST: usize = 64;
        self.hand_on_without_waiting();
        for stream in 0..Stream::BOTH.len() {
            for _ in 0..CHUNKS_MOST {
                if !self.read(stream) {
                    break;
                }
                self.hand_on_without_waiting();
            }
        }
        self.pipes = [None, None];
        self.hand_on_without_waiting();
        self.lines.iter_mut().for_each(Lines::end);
        self.hand_on_without_waiting();
        Totals {
            tail: self.tail.text(),
            bytes: self.bytes,
            truncated_lines: self.truncated_lines,
            dropped_lines: self.dropped_lines,
        }
    }

    fn hand_on_without_waiting(&mut self) {
        let taker = self.taker.clone();
        while let Some(stream) = self.next_line() {
            self.hand_on(stream, taker.try_reserve().ok());
        }
    }
}

async fn readable(pipe: Option<&Receiver>) {
    match pipe {
        // An error shows again at the read, which handles it.
        Some(pipe) => drop(pipe.readable().await),
        None => pending().await,
    }
}

/// How long a run may be held up by a full channel: 2 s, and a tenth of the time that passes comes back.
#[derive(Debug)]
struct Patience {
    left: Duration,
    at: Boot,
}

impl Patience {
    const MOST: Duration = Duration::from_secs(2);

    fn full(now: Boot) -> Self {
        Self { left: Self::MOST, at: now }
    }

    fn refill(&mut self, now: Boot) {
        self.left = (self.left + now.since(self.at) / 10).min(Self::MOST);
        self.at = now;
    }

    /// Waits for room, as long as the allowance goes.
    async fn wait_for<'a>(&mut self, taker: &'a mpsc::Sender<OutputLine>) -> Option<Permit<'a, OutputLine>> {
        const WORTH_A_TIMER: Duration = Duration::from_millis(10);
        let before = SystemClock.now().boot;
        self.refill(before);
        if self.left < WORTH_A_TIMER {
            return None;
        }
        let left = self.left;
        let _waiting = Waiting { patience: self, since: before };
        tokio::time::timeout(left, taker.reserve()).await.ok()?.ok()
    }
}

/// Takes off what was waited, also where the wait is given up from outside: one that is given up and begun again would
/// never be over.
struct Waiting<'p> {
    patience: &'p mut Patience,
    since: Boot,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let waited = SystemClock.now().boot.since(self.since);
        self.patience.left = self.patience.left.saturating_sub(waited);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_comes_back_slowly_and_never_grows_beyond_its_start() {
        let start = Boot::from_nanos(0);
        let mut patience = Patience::full(start);
        patience.left = Duration::ZERO;
        patience.refill(start + Duration::from_secs(10));
        assert_eq!(patience.left, Duration::from_secs(1));
        patience.refill(start + Duration::from_secs(10_000));
        assert_eq!(patience.left, Patience::MOST);
    }
}
