//! The daemon's talk with its guardian, on a thread of its own: replacing a guardian that died takes up to seconds, and
//! neither ticks nor jobs may wait for that.
//!
//! Invariant: messages about one run keep their order, because all go through one queue.

use crate::clock::Boot;
use crate::executor::guardian::Handle;
use crate::executor::guardian::Until;
use crate::job::ReplicaId;
use crate::job::RunKey;
use crate::telemetry::events;
use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use tokio::sync::mpsc;
use tokio::sync::oneshot;

/// How many messages wait while a guardian is being replaced.
const WAITING_MOST: usize = 4096;

/// Where a message goes. A start of a run.
type Start = (RunKey, u32);

/// A message.
#[derive(Debug)]
pub enum Order {
    Arm(Start, Until, oneshot::Sender<io::Result<()>>),
    Adopt(Start, u32),
    Extend(Start, Boot),
    Disarm(Start),
}

/// Puts messages into the queue.
#[derive(Debug, Clone)]
pub struct Guard {
    queue: mpsc::Sender<Order>,
}

impl Guard {
    /// The two ends of the queue.
    pub fn new() -> (Self, mpsc::Receiver<Order>) {
        let (queue, orders) = mpsc::channel(WAITING_MOST);
        (Self { queue }, orders)
    }

    /// Before a guarded start. Returns when the guardian has been told.
    ///
    /// # Errors
    /// There is no guardian and none can be had.
    pub async fn arm(&self, start: Start, until: Until) -> io::Result<()> {
        let (told, answer) = oneshot::channel();
        self.put(Order::Arm(start, until, told)).await;
        answer.await.unwrap_or_else(|_| Err(io::Error::other("the daemon is ending")))
    }

    /// After it.
    pub async fn adopt(&self, start: Start, pid: u32) {
        self.put(Order::Adopt(start, pid)).await;
    }

    /// After its end.
    pub async fn disarm(&self, start: Start) {
        self.put(Order::Disarm(start)).await;
    }

    /// After a confirmed renewal. Never waits. When the queue is full, the message is dropped: the next renewal comes
    /// in a third of a lease, and says more.
    pub fn extend(&self, start: Start, lease_end: Boot) {
        let _ = self.queue.try_send(Order::Extend(start, lease_end));
    }

    async fn put(&self, order: Order) {
        // Fails only at the end of the daemon, when the other end is gone.
        let _ = self.queue.send(order).await;
    }
}

/// The thread: until nobody can send any more. Then the guardian ends too.
pub fn serve(program: PathBuf, me: ReplicaId, mut orders: mpsc::Receiver<Order>) {
    let mut keeper = Keeper { program, me, handle: None, armed: BTreeSet::new(), is_missing: false };
    let _ = keeper.handle();
    while let Some(order) = orders.blocking_recv() {
        keeper.obey(order);
    }
}

struct Keeper {
    program: PathBuf,
    me: ReplicaId,
    handle: Option<Handle>,
    armed: BTreeSet<Start>,
    /// That there is none was said.
    is_missing: bool,
}

impl Keeper {
    fn obey(&mut self, order: Order) {
        let before = self.handle.as_ref().and_then(Handle::pid);
        match order {
            Order::Arm(start, until, told) => {
                let me = self.me.clone();
                let armed = self.tell(|handle| handle.arm(&start.0, start.1, &me, until));
                if armed.is_ok() {
                    self.armed.insert(start);
                }
                // Nobody waits for it any more when the daemon ends.
                let _ = told.send(armed);
            }
            Order::Adopt((run, start), pid) => {
                let _ = self.tell(|handle| handle.adopt(&run, start, pid));
            }
            Order::Extend((run, start), lease_end) => {
                let _ = self.tell(|handle| handle.extend(&run, start, lease_end));
            }
            Order::Disarm((run, start)) => {
                let _ = self.tell(|handle| handle.disarm(&run, start));
                self.armed.remove(&(run, start));
            }
        }
        let after = self.handle.as_ref().and_then(Handle::pid);
        if let (Some(before), Some(after)) = (before, after)
            && before != after
        {
            events::guardian_restarted("it had ended or did not listen", after, self.armed.len());
        }
    }

    /// Tells the guardian; says once when there is none.
    fn tell(&mut self, tell: impl FnOnce(&Handle) -> io::Result<()>) -> io::Result<()> {
        let told = self.handle().and_then(tell);
        self.notice(told.as_ref().err());
        told
    }

    fn handle(&mut self) -> io::Result<&Handle> {
        let handle = match self.handle.take() {
            Some(handle) => handle,
            None => Handle::spawn(&self.program).inspect_err(|error| self.notice(Some(error)))?,
        };
        Ok(self.handle.insert(handle))
    }

    fn notice(&mut self, error: Option<&io::Error>) {
        let was_missing = std::mem::replace(&mut self.is_missing, error.is_some());
        if let Some(error) = error.filter(|_| !was_missing) {
            events::guardian_missing(&error.to_string());
        }
    }
}
