//! Who is told of jobs, elsewhere than in the log, and of what. Data only.

use super::EnvValue;
use super::HttpSpec;
use super::Occasion;
use std::collections::BTreeMap;
use std::fmt;

/// Somewhere that messages are sent to: an item of `notifiers`.
#[derive(Clone, PartialEq, Eq)]
pub struct NotifierSpec {
    /// Its name in the table.
    pub name: String,
    /// What it understands.
    pub kind: NotifierKind,
    /// How it is reached. Its address is a secret as a whole, also where it stands in the table: whoever knows that of a
    /// chat can write there.
    pub http: HttpSpec,
}

/// Without what may be a secret.
impl fmt::Debug for NotifierSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NotifierSpec").field("name", &self.name).field("kind", &self.kind).finish_non_exhaustive()
    }
}

/// What a notifier understands.
#[derive(Clone, PartialEq, Eq)]
pub enum NotifierKind {
    /// Our own JSON.
    Webhook,
    /// Slack's incoming webhooks, and what is like them.
    Slack,
    /// `PagerDuty`'s Events API v2.
    PagerDuty {
        /// Of the integration that the events are for.
        routing_key: EnvValue,
    },
    /// A URL to be called, as of healthchecks.io.
    Ping {
        /// Whether it is also told that a run has started.
        start: bool,
    },
}

/// Likewise.
impl fmt::Debug for NotifierKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl NotifierKind {
    /// The word in the table and in logs.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Webhook => "webhook",
            Self::Slack => "slack",
            Self::PagerDuty { .. } => "pagerduty",
            Self::Ping { .. } => "ping",
        }
    }

    /// Whether each thing is told by itself: there is an incident, or a check, for each job.
    pub const fn is_told_singly(&self) -> bool {
        matches!(self, Self::PagerDuty { .. } | Self::Ping { .. })
    }
}

/// Who is told what of a job: `notify`, with that of `defaults`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Notify(BTreeMap<Occasion, Vec<String>>);

impl Notify {
    /// The same, and these on that occasion.
    pub fn with(mut self, occasion: Occasion, names: Vec<String>) -> Self {
        if !names.is_empty() {
            self.0.insert(occasion, names);
        }
        self
    }

    /// The names of who is told on an occasion.
    pub fn on(&self, occasion: Occasion) -> &[String] {
        self.0.get(&occasion).map_or(&[], Vec::as_slice)
    }

    /// Whether anybody is told anything.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Every occasion on which somebody is told, and who.
    pub fn iter(&self) -> impl Iterator<Item = (Occasion, &[String])> {
        self.0.iter().map(|(occasion, names)| (*occasion, names.as_slice()))
    }

    /// Whether somebody of that name is told anything.
    pub fn names(&self, name: &str) -> bool {
        self.0.values().flatten().any(|other| other == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dump_of_a_notifier_shows_no_address_and_no_key() {
        let text = |text: &str| EnvValue::Text(text.to_owned());
        let kind = NotifierKind::PagerDuty { routing_key: text("hunter2") };
        let spec = NotifierSpec { name: "on-call".into(), kind, http: HttpSpec::to(text("https://a/hunter2")) };
        assert_eq!(format!("{spec:?}"), "NotifierSpec { name: \"on-call\", kind: pagerduty, .. }");
    }
}
