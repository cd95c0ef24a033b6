//! Lines on their way to standard output: a bounded queue whose writers never wait.
//!
//! A terminal that is scrolled back, a full pipe or a dead log collector stops whoever writes to it. If that were the
//! scheduler, a stuck collector would stop leases from being renewed. So the queue drops and counts instead.

use std::collections::VecDeque;
use std::sync::Condvar;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::time::Duration;

/// What a line is worth when there is no room for all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Worth {
    /// A line of a job's output: may use half of the queue, so that a chatty job never costs the story of the runs.
    Output,
    /// Anything else: may use all of it.
    Event,
    /// Says what was dropped: always taken, also after the end was announced.
    Notice,
}

/// How many lines were dropped and not said yet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Dropped {
    /// Lines of output.
    pub(super) output: u64,
    /// Other lines.
    pub(super) other: u64,
}

impl Dropped {
    fn count(&mut self, worth: Worth) {
        match worth {
            Worth::Output => self.output += 1,
            Worth::Event | Worth::Notice => self.other += 1,
        }
    }
}

#[derive(Debug, Default)]
struct State {
    lines: VecDeque<(String, Worth)>,
    bytes: usize,
    dropped: Dropped,
    closed: bool,
    finished: bool,
}

/// The queue. The lock is held for moving a line in or out, never while one is written.
#[derive(Debug)]
pub(super) struct Queue {
    most_bytes: usize,
    state: Mutex<State>,
    filled: Condvar,
    finished: Condvar,
}

impl Queue {
    /// An empty queue for so many bytes.
    pub(super) fn new(most_bytes: usize) -> Self {
        Self { most_bytes, state: Mutex::default(), filled: Condvar::new(), finished: Condvar::new() }
    }

    // A panic elsewhere must not silence the log: the state is whole between any two statements.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a line or drops and counts it; never waits for room.
    pub(super) fn push(&self, line: String, worth: Worth) {
        let mut state = self.lock();
        let room = match worth {
            Worth::Output => self.most_bytes / 2,
            Worth::Event => self.most_bytes,
            Worth::Notice => usize::MAX,
        };
        if (state.closed && worth != Worth::Notice) || state.bytes + line.len() > room {
            state.dropped.count(worth);
            return;
        }
        state.bytes += line.len();
        state.lines.push_back((line, worth));
        // The reader only waits when the queue is empty, so it need not be woken for every line.
        if state.lines.len() == 1 {
            self.filled.notify_one();
        }
    }

    /// The oldest line; waits for one. `None` when the queue is closed and empty.
    pub(super) fn pop(&self) -> Option<(String, Worth)> {
        let state = self.lock();
        let mut state = self
            .filled
            .wait_while(state, |state| state.lines.is_empty() && !state.closed)
            .unwrap_or_else(PoisonError::into_inner);
        let (line, worth) = state.lines.pop_front()?;
        state.bytes -= line.len();
        Some((line, worth))
    }

    /// Counts a line that was taken out and could not be written.
    pub(super) fn lost(&self, worth: Worth) {
        self.lock().dropped.count(worth);
    }

    /// What was dropped since the last time it was said; `None` while the queue is more than half full or nothing was.
    pub(super) fn take_dropped(&self) -> Option<Dropped> {
        let mut state = self.lock();
        let sayable = state.dropped != Dropped::default() && state.bytes <= self.most_bytes / 2;
        sayable.then(|| std::mem::take(&mut state.dropped))
    }

    /// No more lines are taken but notices; those that are in can still be popped.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.filled.notify_all();
    }

    /// The reader has written the last line.
    pub(super) fn finish(&self) {
        self.lock().finished = true;
        self.finished.notify_all();
    }

    /// Waits for [`Self::finish`], so long at most. Whether it came.
    pub(super) fn wait_until_finished(&self, limit: Duration) -> bool {
        let state = self.lock();
        let (state, _) = self
            .finished
            .wait_timeout_while(state, limit, |state| !state.finished)
            .unwrap_or_else(PoisonError::into_inner);
        state.finished
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_of(queue: &Queue) -> Vec<String> {
        queue.close();
        std::iter::from_fn(|| queue.pop()).map(|(line, _)| line).collect()
    }

    #[test]
    fn output_is_dropped_at_half_and_other_lines_when_full() {
        let queue = Queue::new(10);
        for line in ["a1", "a2", "a3"] {
            queue.push(line.to_owned(), Worth::Output);
        }
        for line in ["b1", "b2", "b3", "b4"] {
            queue.push(line.to_owned(), Worth::Event);
        }
        queue.push("b".to_owned(), Worth::Event);
        assert_eq!(queue.lock().dropped, Dropped { output: 1, other: 2 });
        assert_eq!(lines_of(&queue), ["a1", "a2", "b1", "b2", "b3"]);
    }

    #[test]
    fn dropped_lines_are_said_once_and_only_when_there_is_room_again() {
        let queue = Queue::new(4);
        for line in ["a1", "a2", "a3"] {
            queue.push(line.to_owned(), Worth::Event);
        }
        assert_eq!(queue.take_dropped(), None, "the queue is still full");
        assert!(queue.pop().is_some());
        assert_eq!(queue.take_dropped(), Some(Dropped { output: 0, other: 1 }));
        assert_eq!(queue.take_dropped(), None);
    }

    #[test]
    fn a_reader_that_never_finishes_is_not_waited_for_longer_than_the_limit() {
        let queue = Queue::new(4);
        queue.close();
        assert!(!queue.wait_until_finished(Duration::from_millis(1)));
        queue.finish();
        assert!(queue.wait_until_finished(Duration::from_secs(60)));
    }
}
