//! Files that are read again while requests come. A thread that reads from a file system which hangs is not to be had
//! back, so there must never be more than one for the same file.

use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// One reading at a time, of whoever wants one.
#[derive(Debug)]
pub struct Turn(Arc<Semaphore>);

impl Default for Turn {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(1)))
    }
}

impl Turn {
    /// Waits for its turn and reads on a thread of its own, both together for so long at most. `None`: there is no answer.
    ///
    /// Cancel safety: a reading that has begun goes on, and keeps its turn until it ends.
    pub async fn read<T: Send + 'static>(
        &self,
        within: Duration,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let turn = Arc::clone(&self.0);
        let read = async {
            let turn = turn.acquire_owned().await.ok()?;
            let work = move || {
                let _turn = turn;
                work()
            };
            spawn_blocking(work).await.ok()
        };
        timeout(within, read).await.ok().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering;
    use std::sync::mpsc;

    #[tokio::test]
    async fn a_file_system_that_hangs_keeps_one_thread_and_no_more() {
        let (turn, begun) = (Turn::default(), Arc::new(AtomicUsize::new(0)));
        let (let_go, hanging) = mpsc::channel::<()>();
        let count = Arc::clone(&begun);
        let hang = move || {
            count.fetch_add(1, Ordering::SeqCst);
            let _ = hanging.recv();
        };
        assert_eq!(turn.read(Duration::from_millis(50), hang).await, None);
        for _ in 0..20 {
            let count = Arc::clone(&begun);
            let more = move || count.fetch_add(1, Ordering::SeqCst);
            assert_eq!(turn.read(Duration::from_millis(1), more).await, None);
        }
        assert!(begun.load(Ordering::SeqCst) <= 1, "the others wait for their turn, without a thread");
        drop(let_go);
        assert_eq!(turn.read(Duration::from_secs(60), || 7).await, Some(7), "it goes on where it answers again");
    }
}
