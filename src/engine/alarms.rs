//! When to look at what again. One alarm per topic, on the boot clock.

use super::Topic;
use crate::clock::Boot;
use std::collections::BTreeMap;
use std::collections::BTreeSet;

/// See the module.
#[derive(Debug, Clone, Default)]
pub struct Alarms {
    by_time: BTreeSet<(Boot, Topic)>,
    by_topic: BTreeMap<Topic, Boot>,
}

impl Alarms {
    /// Sets the topic's alarm, in place of the one it had.
    pub fn set(&mut self, topic: Topic, at: Boot) {
        self.clear(&topic);
        self.by_time.insert((at, topic.clone()));
        self.by_topic.insert(topic, at);
    }

    /// Removes the topic's alarm.
    pub fn clear(&mut self, topic: &Topic) {
        if let Some(at) = self.by_topic.remove(topic) {
            self.by_time.remove(&(at, topic.clone()));
        }
    }

    /// Whether the topic has one.
    pub fn is_set(&self, topic: &Topic) -> bool {
        self.by_topic.contains_key(topic)
    }

    /// The earliest.
    pub fn first(&self) -> Option<Boot> {
        self.by_time.first().map(|(at, _)| *at)
    }

    /// Takes one that is due.
    pub fn take(&mut self, now: Boot) -> Option<Topic> {
        if self.first()? > now {
            return None;
        }
        let (_, topic) = self.by_time.pop_first()?;
        self.by_topic.remove(&topic);
        Some(topic)
    }
}
