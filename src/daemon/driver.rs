//! The loop: one `select!`, one event, `engine.handle`, its effects. It has a thread and a runtime of its own, so that
//! nothing that jobs do can hold up a tick or a renewal; and nothing in here waits for anything else.

use super::perform::Drained;
use super::perform::Hands;
use super::reload::Cause;
use super::reload::Replacement;
use super::signals::Request;
use super::timer::Timer;
use crate::clock::Boot;
use crate::clock::Clock;
use crate::clock::Now;
use crate::engine::Engine;
use crate::engine::Event;
use crate::telemetry::events;
use crate::telemetry::events::TableReplaced;
use chrono::DateTime;
use chrono::Utc;
use std::any::Any;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::sync::oneshot;
use tokio::sync::watch;
use tokio::task::JoinError;

/// The longest sleep. The wall clock may be set at any time, and that is seen only by looking.
const SLEEP_MOST: Duration = Duration::from_secs(1);
/// The shortest one. A wake-up that is due and does not go away must not become a busy loop.
const SLEEP_LEAST: Duration = Duration::from_millis(1);

/// A signal that comes so soon after the first one is its echo, not a second thought.
const ECHO: Duration = Duration::from_millis(200);

/// What comes to the loop from elsewhere.
#[derive(Debug)]
pub enum Message {
    /// Something happened to a run.
    Happened {
        event: Event,
        /// Is answered when everything that follows from it was said.
        said: Option<oneshot::Sender<()>>,
    },
    /// Something from outside.
    Asked(Request),
    /// Another table.
    Replace(Box<Replacement>),
}

/// Why the loop ended.
#[derive(Debug)]
pub enum End {
    /// After a drain.
    Drained { drained: Drained, waited: Duration, finished: usize },
    /// A task panicked; and what it said.
    Panicked(&'static str, String),
    /// The timer does not work.
    Failed(io::Error),
}

/// A drain under way.
#[derive(Debug, Clone, Copy)]
struct Drain {
    since: Boot,
}

impl Drain {
    /// Whether a signal that comes now is that of its begin.
    fn is_echo(self, now: Now) -> bool {
        now.boot.since(self.since) < ECHO
    }
}

/// See the module.
pub struct Driver {
    pub engine: Engine,
    pub clock: Arc<dyn Clock>,
    pub timer: Timer,
    pub inbox: mpsc::Receiver<Message>,
    pub hands: Hands,
    pub drain_timeout: Duration,
    /// Where wishes to read the table again go; nowhere if it came from standard input.
    pub reload: Option<mpsc::Sender<Cause>>,
    /// What was due when it was looked at last.
    pub looked_at: Option<DateTime<Utc>>,
}

impl Driver {
    /// Goes round until the daemon may end.
    pub async fn run(mut self) -> End {
        let mut drain = None;
        let mut turn = Ok(Message::Happened { event: Event::Woke, said: None });
        loop {
            let message = match turn {
                Ok(message) => message,
                Err(end) => return end,
            };
            // Invariant: one reading for the whole turn. With two, a tick could be due in one place and not in another.
            let now = self.clock.now();
            self.count_look(now);
            self.hands.board.turned(now.boot);
            let (event, said) = match message {
                Message::Happened { event, said } => (Some(event), said),
                Message::Asked(request) => (self.asked(now, request, &mut drain), None),
                // Whoever sent it hears that it was dropped, and ends.
                Message::Replace(_) if drain.is_some() => (None, None),
                Message::Replace(replacement) => {
                    let (event, taken) = take_over(*replacement);
                    (Some(event), Some(taken))
                }
            };
            if let Some(drained) = event.and_then(|event| self.handle(now, event)) {
                let waited = drain.map_or(Duration::ZERO, |drain: Drain| now.boot.since(drain.since));
                self.finish(now, drain).await;
                return End::Drained { drained, waited, finished: self.hands.finished };
            }
            if let Some(said) = said {
                // A run that has ended already does not wait for it.
                let _ = said.send(());
            }
            turn = self.next().await;
        }
    }

    /// The last that is done: others see that we go, and whoever is to be told of something is told. A further request to
    /// end is heard all the while, and ends the wait.
    async fn finish(&mut self, now: Now, drain: Option<Drain>) {
        let farewell = self.engine.farewell(now);
        let hurry = watch::Sender::new(false);
        let (hands, inbox, clock) = (&mut self.hands, &mut self.inbox, &self.clock);
        let told = hurry.subscribe();
        let mut finishing = pin!(async {
            hands.leave(&farewell).await;
            hands.finish_post(told).await;
        });
        loop {
            tokio::select! {
                () = &mut finishing => return,
                Some(message) = inbox.recv() => {
                    let is_echo = drain.is_some_and(|drain| drain.is_echo(clock.now()));
                    if matches!(message, Message::Asked(Request::End(_) | Request::Stop(_))) && !is_echo {
                        hurry.send_replace(true);
                    }
                }
            }
        }
    }

    fn handle(&mut self, now: Now, event: Event) -> Option<Drained> {
        self.hands.hear(&event);
        let mut drained = None;
        for effect in self.engine.handle(now, event) {
            drained = self.hands.perform(effect).or(drained);
        }
        self.hands.metrics.leases(self.engine.running());
        self.hands.reporter.spans.keep(self.engine.owned(), |run| self.engine.owns(run));
        self.hands.reporter.forget(|job| self.engine.has_runs_of(job));
        drained
    }

    /// How late something that was due is looked at: once, however often it is looked at.
    fn count_look(&mut self, now: Now) {
        let due = self.engine.wake_at().wall.filter(|at| *at <= now.wall);
        let is_new = due.is_some() && due != self.looked_at;
        let late = due.filter(|_| is_new).map(|at| until(at, now.wall));
        self.looked_at = due.or(self.looked_at);
        self.hands.metrics.looked(now.wall, late);
    }

    /// The first request to end drains, every further one that is no echo of it stops.
    fn asked(&mut self, now: Now, request: Request, drain: &mut Option<Drain>) -> Option<Event> {
        let (name, timeout) = match request {
            Request::Reload => {
                self.want_reload(drain.is_some());
                return None;
            }
            // `timeout` and some shells send a signal to the process and once more to its group.
            Request::End(_) if drain.is_some_and(|drain| drain.is_echo(now)) => return None,
            Request::End(_) | Request::Stop(_) if drain.is_some() => return Some(Event::StopAsked),
            Request::End(name) => (name, self.drain_timeout),
            Request::Stop(name) => (name, Duration::ZERO),
        };
        *drain = Some(Drain { since: now.boot });
        self.hands.finished = 0;
        self.hands.metrics.draining();
        events::daemon_draining(name, self.engine.running(), timeout);
        self.hands.board.draining();
        events::daemon_not_ready("draining");
        Some(Event::DrainAsked { timeout })
    }

    fn want_reload(&self, is_ending: bool) {
        match &self.reload {
            _ if is_ending => events::signal_ignored("HUP", "the daemon is ending, and takes no table any more"),
            None => events::signal_ignored("HUP", "the table came from standard input, which cannot be read again"),
            // Where one wish waits, this is the same.
            Some(reload) => drop(reload.try_send(Cause::Signal)),
        }
    }

    /// Waits for what happens next.
    async fn next(&mut self) -> Result<Message, End> {
        let delay = delay(self.clock.now(), &self.engine);
        self.timer.set(delay).map_err(End::Failed)?;
        let happened = |event| Message::Happened { event, said: None };
        loop {
            tokio::select! {
                rung = self.timer.rung() => return rung.map(|()| happened(Event::Woke)).map_err(End::Failed),
                Some(message) = self.inbox.recv() => return Ok(message),
                Some(answered) = self.hands.asking.join_next() => {
                    return answered.map(happened).map_err(|error| panicked("store", error));
                }
                Some(ended) = self.hands.running.join_next() => ended.map_err(|error| panicked("run", error))?,
                Some(done) = self.hands.chores.join_next() => done.map_err(|error| panicked("chore", error))?,
                Some(found) = self.hands.looks.next() => {
                    let found = found.map_err(|error| panicked("look back", error))?;
                    found.into_iter().for_each(|found| self.hands.reporter.say_recovered(found));
                }
                Some(done) = self.hands.reporter.post.carriers.join_next() => {
                    done.map_err(|error| panicked("notifier", error))?;
                }
            }
        }
    }
}

/// Says what changes before anything is done under the new table.
fn take_over(replacement: Replacement) -> (Event, oneshot::Sender<()>) {
    let Replacement { table, previous, changes, cause, taken } = replacement;
    let (revision, cause) = (table.revision.as_str(), cause.as_str());
    events::table_replaced(TableReplaced { revision, previous: &previous, changes: &changes, cause });
    (Event::TableChanged(table), taken)
}

/// How long to sleep: the engine's two instants are on two clocks.
fn delay(now: Now, engine: &Engine) -> Duration {
    let at = engine.wake_at();
    let by_wall = at.wall.map(|wall| until(now.wall, wall));
    let by_boot = at.boot.map(|boot| boot.since(now.boot));
    let soonest = by_wall.into_iter().chain(by_boot).min().unwrap_or(SLEEP_MOST);
    if soonest.is_zero() { SLEEP_LEAST } else { soonest.min(SLEEP_MOST) }
}

fn until(now: DateTime<Utc>, then: DateTime<Utc>) -> Duration {
    then.signed_duration_since(now).to_std().unwrap_or(Duration::ZERO)
}

fn panicked(task: &'static str, error: JoinError) -> End {
    let text = match error.try_into_panic() {
        Ok(payload) => panic_text(&*payload),
        Err(error) => error.to_string(),
    };
    End::Panicked(task, text)
}

/// What a panic said.
pub fn panic_text(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no text".to_owned())
}
