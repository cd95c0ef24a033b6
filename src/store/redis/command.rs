//! What is sent to a server: a command, the key that says to which one, and whether it says what that server is.

use crate::store::Identity;
use redis::Cmd;
use redis::Pipeline;
use redis::ToRedisArgs;

/// A command.
#[derive(Debug, Clone)]
pub(super) struct Command {
    /// Where it belongs, in a cluster. Of a command without a key, one whose server is as good as any.
    pub key: String,
    words: Cmd,
    /// The arguments end with what the server is, as it was read from the very connection that the command takes.
    tells_identity: bool,
}

impl Command {
    /// One of the name with that key as its first argument.
    pub fn new(name: &str, key: String) -> Self {
        let mut words = redis::cmd(name);
        words.arg(&key);
        Self { key, words, tells_identity: false }
    }

    /// One without a key, for the server that has this one.
    pub fn beside(name: &str, key: String) -> Self {
        Self { key, words: redis::cmd(name), tells_identity: false }
    }

    /// A script by its hash, with the one key that all of its others are made from.
    pub fn script(hash: &str, key: String) -> Self {
        let mut words = redis::cmd("EVALSHA");
        words.arg(hash).arg(1).arg(&key);
        Self { key, words, tells_identity: false }
    }

    pub fn arg(mut self, argument: impl ToRedisArgs) -> Self {
        self.words.arg(argument);
        self
    }

    pub fn telling_identity(mut self) -> Self {
        self.tells_identity = true;
        self
    }

    /// Adds it to what is sent over a connection to that server.
    pub fn put(&self, pipeline: &mut Pipeline, identity: &Identity) {
        let mut words = self.words.clone();
        if self.tells_identity {
            let missing_until = identity.missing_until.map_or_else(String::new, |until| until.to_string());
            words.arg(&identity.server).arg(identity.evicted.to_string()).arg(missing_until);
        }
        pipeline.add_command(words);
    }
}

/// How sure an answer must be before it is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sure {
    /// The server's word is enough: nothing was changed, or nothing that would be missed.
    Answered,
    /// As many replicas as wanted have it, too: a failover does not undo it.
    Durable,
}
