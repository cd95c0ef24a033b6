//! Names that become parts of keys, labels and log lines; checked once, here.

use std::fmt;
use std::sync::Arc;

/// Why a name was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// The name has no characters.
    #[error("a name cannot be empty")]
    Empty,
    /// The name has more characters than fit.
    #[error("{found} characters are too many, at most {most} are allowed")]
    TooLong {
        /// How many were found.
        found: usize,
        /// How many are allowed.
        most: usize,
    },
    /// A character that is not allowed at its place.
    #[error("{found:?} is not allowed here: use a-z, 0-9 and -, beginning and ending with a letter or digit")]
    Character {
        /// The character.
        found: char,
        /// Its position, counted in characters from 0.
        at: usize,
    },
}

/// A DNS label (RFC 1123): `a-z`, `0-9` and `-`, at most 63 characters, no `-` at either end. It becomes a part of
/// store keys and a metric label, and two names can never fold into one.
fn check_label(text: &str) -> Result<(), NameError> {
    const MOST: usize = 63;
    let count = text.chars().count();
    if count == 0 {
        return Err(NameError::Empty);
    }
    for (at, found) in text.chars().enumerate() {
        let inner = at > 0 && at + 1 < count;
        if !(found.is_ascii_lowercase() || found.is_ascii_digit() || (found == '-' && inner)) {
            return Err(NameError::Character { found, at });
        }
    }
    if count > MOST {
        return Err(NameError::TooLong { found: count, most: MOST });
    }
    Ok(())
}

macro_rules! label {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks and takes a name.
            ///
            /// # Errors
            /// The text is not a DNS label of at most 63 characters.
            pub fn new(text: &str) -> Result<Self, NameError> {
                check_label(text)?;
                Ok(Self(text.into()))
            }

            /// The name's text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

label! {
    /// The name of a job: a DNS label. Renaming a job starts a new history.
    JobName
}
label! {
    /// What separates the records of two deployments that share a store: a DNS label.
    Namespace
}

/// One start of one daemon: the instance name and a nonce that is new at every start, `web-2-7f3a9c`. Never the
/// host's or pod's name alone: a restarted process must not be taken for the one that died.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReplicaId(Arc<str>);

impl ReplicaId {
    /// Joins an instance name and a nonce. Characters that would not survive in a key or a list are replaced by `_`,
    /// and the name is cut to 200 characters.
    pub fn new(instance: &str, nonce: &str) -> Self {
        let clean = |text: &str, most: usize| -> String {
            let keep = |c: char| if c.is_ascii_alphanumeric() || "-._".contains(c) { c } else { '_' };
            text.chars().take(most).map(keep).collect()
        };
        Self(format!("{}-{}", clean(instance, 200), clean(nonce, 32)).into())
    }

    /// Takes the text of a replica that a store remembered.
    pub fn from_record(text: &str) -> Self {
        Self(text.into())
    }

    /// The text, as in logs, records and `ONECRON_REPLICA`.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ReplicaId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_dns_label() {
        for good in ["a", "nightly-sales", "7days", &"x".repeat(63)] {
            assert_eq!(JobName::new(good).unwrap().as_str(), good);
        }
        assert_eq!(JobName::new(""), Err(NameError::Empty));
        assert_eq!(JobName::new("Nightly"), Err(NameError::Character { found: 'N', at: 0 }));
        assert_eq!(JobName::new("a-"), Err(NameError::Character { found: '-', at: 1 }));
        assert_eq!(JobName::new("a b"), Err(NameError::Character { found: ' ', at: 1 }));
        assert_eq!(JobName::new(&"x".repeat(64)), Err(NameError::TooLong { found: 64, most: 63 }));
    }

    #[test]
    fn a_replica_id_has_no_character_that_breaks_a_key() {
        assert_eq!(ReplicaId::new("my pod{1}", "7f3a").as_str(), "my_pod_1_-7f3a");
    }
}
