//! Brings one notifier its messages, in order.
//!
//! A message about a trouble that is sent late may come after another replica has told the recovery. So, before it is sent,
//! the store is asked whether the job has succeeded since.

use super::Count;
use super::QUEUE;
use super::Standing;
use super::past::Past;
use crate::causes;
use crate::chance;
use crate::clock::Clock;
use crate::executor::SpawnError;
use crate::executor::http::Content;
use crate::executor::http::Gate;
use crate::executor::http::Request;
use crate::executor::http::secret;
use crate::job::NotifierKind;
use crate::job::Occasion;
use crate::notify;
use crate::notify::Letter;
use crate::notify::Message;
use crate::notify::Sender;
use crate::telemetry::events;
use crate::telemetry::events::Sent;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::metrics::Notified;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio::time::sleep;
use tokio::time::timeout;
use tokio::time::timeout_at;

/// What happens within so long is told together: a machine that dies takes many runs with it.
const GATHER: Duration = Duration::from_secs(1);
/// What was noticed so long ago is told late: somebody else may have told since that it is over.
const LATE: Duration = Duration::from_secs(2);
/// How often a message is sent.
const TRIES: u32 = 3;
/// The pause after the first try, more or less; four times that after the second.
const PAUSE: Duration = Duration::from_secs(1);

/// See the module.
pub(super) struct Carrier {
    pub name: String,
    pub from: Arc<Sender>,
    pub letters: mpsc::Receiver<Arc<Letter>>,
    pub standing: watch::Receiver<Standing>,
    pub count: Arc<Count>,
    pub clock: Arc<dyn Clock>,
    pub past: Past,
    pub metrics: Arc<Metrics>,
    /// A reading of secrets that a file system has not ended: no second one is begun.
    pub reading: Option<JoinHandle<Result<Request, SpawnError>>>,
}

/// Why a try came to nothing.
struct Failure {
    status: Option<u16>,
    error: String,
    /// Whether another one may come to something.
    again: bool,
}

/// What is to follow a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    Nothing,
    /// That what it is about is over.
    Resolve,
}

impl Carrier {
    /// Ends when the daemon does, or its notifier leaves the table, and what waited is told, or dropped.
    pub async fn serve(self) {
        let (name, count) = (self.name.clone(), Arc::clone(&self.count));
        tokio::select! {
            () = self.bring() => {}
            // However long a message takes, what there was no place for is said.
            () = count.keep_saying(&name) => {}
        }
        count.say_left(&name);
    }

    async fn bring(mut self) {
        while let Some(first) = self.letters.recv().await {
            let letters = self.gather(first).await;
            let kind = self.standing.borrow().spec.kind.clone();
            for mut message in notify::group(&kind, letters) {
                if self.deliver(&mut message).await == Then::Resolve {
                    self.deliver(&mut message.resolution()).await;
                }
                self.count.waiting.fetch_sub(message.count as u64, Ordering::Relaxed);
            }
        }
    }

    /// What else there is to tell, and what comes within a moment.
    async fn gather(&mut self, first: Arc<Letter>) -> Vec<Arc<Letter>> {
        let mut letters = vec![first];
        let is_told_singly = self.standing.borrow().spec.kind.is_told_singly();
        let end = Instant::now() + GATHER;
        while !is_told_singly && letters.len() < QUEUE {
            match timeout_at(end, self.letters.recv()).await {
                Ok(Some(letter)) => letters.push(letter),
                Ok(None) | Err(_) => break,
            }
        }
        letters
    }

    async fn deliver(&mut self, message: &mut Message) -> Then {
        let count = message.count as u64;
        for attempts in 1.. {
            if self.standing.has_changed().is_err() {
                // Said once for all that wait: there may be as many as the queue holds.
                self.count.removed.fetch_add(count, Ordering::Relaxed);
                return Then::Nothing;
            }
            let standing = self.standing.borrow_and_update().clone();
            if self.look_before(&standing, message, attempts).await == Then::Resolve {
                self.metrics.notified(&self.name, Notified::Dropped, count);
                events::notify_dropped(&self.name, count, "recovered", Some(&message.first().spec.name));
                return Then::Resolve;
            }
            let tried = self.attempt(&standing, message).await;
            let sent = |status| Sent {
                notifier: &self.name,
                kind: standing.spec.kind.as_str(),
                about: message.about.as_str(),
                job: &message.first().spec.name,
                count: message.count,
                status,
                attempts,
            };
            match tried {
                Ok(status) => {
                    self.metrics.notified(&self.name, Notified::Sent, count);
                    events::notify_sent(sent(status));
                    return self.look_after(&standing, message).await;
                }
                Err(Failure { again: true, .. }) if attempts < TRIES => {}
                Err(Failure { status, error, .. }) => {
                    self.metrics.notified(&self.name, Notified::Failed, count);
                    events::notify_failed(sent(status), &error);
                    return Then::Nothing;
                }
            }
            self.pause(attempts).await;
        }
        Then::Nothing
    }

    /// Before a trouble is told late, or once more: whether it is over. Who keeps a state for each job is then told the end of
    /// it, which also undoes what an earlier try may have done of which no answer came. All others are told both.
    async fn look_before(&mut self, standing: &Standing, message: &mut Message, attempts: u32) -> Then {
        // By the wall clock: where that was set, nobody looks, or looks in vain.
        let is_late = (self.clock.now().wall - message.first().at).to_std().is_ok_and(|waited| waited > LATE);
        if !message.about.is_trouble() || (attempts == 1 && !is_late) {
            return Then::Nothing;
        }
        let over = self.past.over(&message.letters).await;
        if self.resolves(standing, message) {
            return if over.contains(&true) { Then::Resolve } else { Then::Nothing };
        }
        message.mark(&over);
        Then::Nothing
    }

    /// After a trouble was told to who keeps a state for each job: what was over by the time when it was taken may have been
    /// told before it, by another replica.
    async fn look_after(&mut self, standing: &Standing, message: &Message) -> Then {
        if !message.about.is_trouble() || !self.resolves(standing, message) {
            return Then::Nothing;
        }
        if self.past.over(&message.letters).await.contains(&true) { Then::Resolve } else { Then::Nothing }
    }

    /// Whether the notifier has a state for each job, which a success is to end: where the job does not name it for that,
    /// people do, and nothing may be kept from them.
    fn resolves(&self, standing: &Standing, message: &Message) -> bool {
        let notify = &message.first().spec.notify;
        let is_told = |occasion| notify.on(occasion).contains(&self.name);
        standing.spec.kind.is_told_singly() && (is_told(Occasion::Recovery) || is_told(Occasion::Success))
    }

    /// Somebody who mends the notifier waits for nothing; where it has left the table, that is seen at the next try.
    async fn pause(&mut self, attempts: u32) {
        tokio::select! {
            () = sleep(pause_after(attempts)) => {}
            _ = self.standing.changed() => {}
        }
    }

    /// One try. Ends after twice the notifier's timeout at the latest.
    async fn attempt(&mut self, standing: &Standing, message: &Message) -> Result<Option<u16>, Failure> {
        let request = self.prepare(standing, message).await?;
        match request.perform(Gate::new(|| true), pending()).await {
            Ok(reply) if reply.error.is_empty() => Ok(reply.status),
            Ok(reply) => {
                let again = reply.status.is_none_or(|status| matches!(status, 408 | 425 | 429 | 500..));
                Err(Failure { status: reply.status, error: standing.redaction.text(&reply.error).into_owned(), again })
            }
            Err(unsent) => Err(Failure { status: None, error: unsent.to_string(), again: true }),
        }
    }

    /// Reads what the table leaves to variables and files, at each try.
    async fn prepare(&mut self, standing: &Standing, message: &Message) -> Result<Request, Failure> {
        let failure = |error: String| Failure { status: None, error, again: true };
        let stuck = || failure("read its address: the file system has not answered yet".to_owned());
        if self.reading.as_ref().is_some_and(|reading| !reading.is_finished()) {
            return Err(stuck());
        }
        let (standing, message, from) = (standing.clone(), message.clone(), Arc::clone(&self.from));
        let within = standing.spec.http.timeout;
        let mut reading = tokio::task::spawn_blocking(move || request(&standing, &message, &from));
        match timeout(within, &mut reading).await {
            Ok(request) => request
                .expect("nothing in there panics, and nobody cancels it")
                .map_err(|error| failure(causes::chain(&error).replacen("start the job: ", "", 1))),
            Err(_) => {
                self.reading = Some(reading);
                Err(stuck())
            }
        }
    }
}

fn request(standing: &Standing, message: &Message, from: &Sender) -> Result<Request, SpawnError> {
    let Standing { spec, redaction } = standing;
    let routing_key = match &spec.kind {
        NotifierKind::PagerDuty { routing_key } => secret(routing_key, "`routingKey`")?,
        NotifierKind::Webhook | NotifierKind::Slack | NotifierKind::Ping { .. } => String::new(),
    };
    let body = notify::body(&spec.kind, message, (from, routing_key.trim()));
    let content = Content { content_type: body.content_type, text: body.text, id: message.id(from) };
    let address = |written: &str| match spec.kind {
        NotifierKind::Ping { .. } => notify::ping_address(written, message.first().spec.name.as_str(), message.about),
        NotifierKind::Webhook | NotifierKind::Slack | NotifierKind::PagerDuty { .. } => written.to_owned(),
    };
    Request::message(&spec.http, address, (content, redaction))
}

/// A half more or less, so that replicas do not come back in step to one that was overloaded.
fn pause_after(attempt: u32) -> Duration {
    chance::around(PAUSE * 4_u32.pow(attempt - 1), 0.5)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SystemClock;
    use crate::daemon::post::tests::both;
    use crate::daemon::post::tests::failure;
    use crate::daemon::post::tests::past;
    use crate::job::JobTable;
    use crate::secret::Redaction;

    /// One that nobody has started, and both ends that lead to it.
    fn carrier(table: &JobTable, name: &str) -> (Carrier, watch::Sender<Standing>, mpsc::Sender<Arc<Letter>>) {
        let standing = Standing { spec: Arc::clone(&table.notifiers[name]), redaction: Redaction::default() };
        let (changed, standing) = watch::channel(standing);
        let (letters, waiting) = mpsc::channel(QUEUE);
        let carrier = Carrier {
            name: name.into(),
            from: Arc::new(Sender { namespace: "default".into(), replica: "web-1".into() }),
            letters: waiting,
            standing,
            count: Arc::default(),
            clock: Arc::new(SystemClock),
            past: past(),
            metrics: Arc::new(Metrics::new(Arc::new(SystemClock), "memory:")),
            reading: None,
        };
        (carrier, changed, letters)
    }

    #[tokio::test]
    async fn what_comes_a_moment_later_is_told_together_with_the_first_unless_each_is_told_singly() {
        let table = both();
        for (name, together) in [("hook", 2), ("up", 1)] {
            let (mut carrier, _changed, letters) = carrier(&table, name);
            let later = async {
                tokio::task::yield_now().await;
                letters.try_send(Arc::new(failure(&table))).unwrap();
                drop(letters);
            };
            let (gathered, ()) = tokio::join!(carrier.gather(Arc::new(failure(&table))), later);
            assert_eq!(gathered.len(), together, "{name}");
        }
    }

    #[tokio::test]
    async fn another_standing_ends_a_pause_between_two_tries() {
        let table = both();
        let (mut carrier, changed, _letters) = carrier(&table, "hook");
        let up = Standing { spec: Arc::clone(&table.notifiers["up"]), redaction: Redaction::default() };
        changed.send_replace(up);
        // Without it, this one would take eight seconds at least.
        timeout(Duration::from_secs(4), carrier.pause(3)).await.expect("the pause is over");
        assert_eq!(carrier.standing.borrow_and_update().spec.name, "up");
        drop(changed);
        timeout(Duration::from_secs(4), carrier.pause(3)).await.expect("so it is for one that has left");
    }
}
