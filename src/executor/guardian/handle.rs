//! The daemon's end of the guardian.

use super::link::Link;
use super::protocol::LINE_MOST;
use super::protocol::Message;
use crate::clock::Boot;
use crate::job::ReplicaId;
use crate::job::RunKey;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::time::Duration;

/// When a run is stopped unless the instant is moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Until {
    /// TERM then.
    pub term_at: Boot,
    /// KILL so much later.
    pub kill_after: Duration,
}

#[derive(Debug)]
struct Armed {
    start: u32,
    replica: ReplicaId,
    until: Until,
    pid: Option<u32>,
}

/// A guardian process, and the list of what it was told. One that died, or that does not listen any more, is replaced
/// at the next use, and told everything again. When the handle is dropped, the process ends as soon as nothing is
/// armed.
///
/// Every call writes one small message and never waits: a socket that keeps messages whole either takes one or says
/// at once that it cannot, so that no thread and no queue is needed for it. It has room for some hundred messages;
/// when they lie unread, the guardian stands still, and is replaced too. Only that takes longer, milliseconds as a
/// rule, two seconds at worst.
#[derive(Debug)]
pub struct Handle {
    program: PathBuf,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    link: Option<Link>,
    armed: BTreeMap<RunKey, Armed>,
}

impl Handle {
    /// Starts `<program> guardian` and waits until it listens. A daemon passes `/proc/self/exe`: that is its own
    /// program even after the file was replaced by another version, which might speak differently.
    ///
    /// # Errors
    /// The program cannot be started, or does not answer as a guardian within two seconds.
    pub fn spawn(program: &Path) -> io::Result<Self> {
        let inner = Inner { link: Some(Link::new(program)?), armed: BTreeMap::new() };
        Ok(Self { program: program.to_path_buf(), inner: Mutex::new(inner) })
    }

    /// The guardian's process, where there is one.
    pub fn pid(&self) -> Option<u32> {
        self.inner().link.as_ref().and_then(Link::pid)
    }

    /// To be called before a run is started that somebody else may start too: stop it when the time comes, even if
    /// nothing more is heard. An earlier start of the run is forgotten.
    ///
    /// # Errors
    /// There is no guardian and none can be had: the run is not guarded, and should not be started.
    pub fn arm(&self, run: &RunKey, start: u32, replica: &ReplicaId, until: Until) -> io::Result<()> {
        let mut inner = self.inner();
        let entry = Armed { start, replica: replica.clone(), until, pid: None };
        let message = arming(run, &entry);
        // Checked here: what does not fit into a message would be passed over at the other end, in silence.
        let fits = |text: &str| !text.is_empty() && !text.contains(|c: char| c.is_whitespace() || c.is_control());
        if !fits(replica.as_str()) || message.to_string().len() > LINE_MOST {
            let why = format!("guard run `{run}`: replica {replica:?} does not fit into a message");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        inner.armed.insert(run.clone(), entry);
        let told = inner.tell(&self.program, &message);
        if told.is_err() {
            inner.armed.remove(run);
        }
        told
    }

    /// To be called when the run's process is there: its number, which is its group's too.
    ///
    /// # Errors
    /// There is no guardian and none can be had. One that is had later is told of this process too.
    pub fn adopt(&self, run: &RunKey, start: u32, pid: u32) -> io::Result<()> {
        self.change(run, start, |armed| {
            armed.pid = Some(pid);
            adoption(run, armed)
        })
    }

    /// To be called when the store has confirmed a renewal: not before that instant. Never moves it back.
    ///
    /// # Errors
    /// As [`Self::adopt`].
    pub fn extend(&self, run: &RunKey, start: u32, term_at: Boot) -> io::Result<()> {
        self.change(run, start, |armed| {
            armed.until.term_at = armed.until.term_at.max(term_at);
            Some(Message::Extend { run: run.to_string(), start, term_at })
        })
    }

    /// To be called when the run has ended, or can no longer be somebody else's. (A run that was stopped because its
    /// lease was lost may stay armed until KILL's time: the guardian then also ends what left the group.)
    ///
    /// # Errors
    /// As [`Self::adopt`].
    pub fn disarm(&self, run: &RunKey, start: u32) -> io::Result<()> {
        let mut inner = self.inner();
        if inner.armed.get(run).is_none_or(|armed| armed.start != start) {
            return Ok(());
        }
        inner.armed.remove(run);
        inner.tell(&self.program, &Message::Disarm { run: run.to_string(), start })
    }

    /// Changes what is armed and says so. Nothing happens for a start that is not armed.
    fn change(&self, run: &RunKey, start: u32, change: impl FnOnce(&mut Armed) -> Option<Message>) -> io::Result<()> {
        let mut inner = self.inner();
        let Some(armed) = inner.armed.get_mut(run).filter(|armed| armed.start == start) else { return Ok(()) };
        match change(armed) {
            Some(message) => inner.tell(&self.program, &message),
            None => Ok(()),
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Says it, or replaces the guardian and says everything. The list is changed before this is called.
    fn tell(&mut self, program: &Path, message: &Message) -> io::Result<()> {
        if self.link.as_ref().is_some_and(|link| link.tell_patiently(message).is_ok()) {
            return Ok(());
        }
        // The old one is ended first: two of them would not agree about what was extended.
        if let Some(link) = self.link.take() {
            link.end();
        }
        let link = Link::new(program)?;
        if let Err(error) = tell_all(&link, &self.armed) {
            link.end();
            return Err(error);
        }
        self.link = Some(link);
        Ok(())
    }
}

/// Says everything to a new guardian.
fn tell_all(link: &Link, armed: &BTreeMap<RunKey, Armed>) -> io::Result<()> {
    for (run, armed) in armed {
        link.tell_patiently(&arming(run, armed))?;
        if let Some(adoption) = adoption(run, armed) {
            link.tell_patiently(&adoption)?;
        }
    }
    Ok(())
}

fn arming(run: &RunKey, armed: &Armed) -> Message {
    Message::Arm {
        run: run.to_string(),
        start: armed.start,
        replica: armed.replica.to_string(),
        term_at: armed.until.term_at,
        kill_after: armed.until.kill_after,
    }
}

fn adoption(run: &RunKey, armed: &Armed) -> Option<Message> {
    let pid = i32::try_from(armed.pid?).ok()?;
    Some(Message::Adopt { run: run.to_string(), start: armed.start, pid })
}
