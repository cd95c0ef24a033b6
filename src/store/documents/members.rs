//! Presences as documents.

use super::DocumentStore;
use super::backend::Document;
use super::backend::Expect;
use super::backend::Failure;
use super::backend::Group;
use super::backend::Write;
use crate::job::Gathering;
use crate::job::Presence;
use crate::job::ReplicaId;
use std::collections::BTreeMap;
use std::sync::Arc;

/// So many characters of a member's name stand in its key; the whole name in its document.
const MEMBER_MOST: usize = 120;

impl DocumentStore {
    pub(super) async fn gather(&self, mine: Option<&Presence>, gone: &[Presence]) -> Result<Gathering, Failure> {
        let prefix = self.key("member", "");
        let mut tries = self.tries();
        loop {
            let found = self.backend.list(&prefix).await.map_err(|failure| tries.failed(failure))?;
            let at = self.own_time();
            let mut members: BTreeMap<String, (Document, Presence)> = found
                .into_iter()
                .map(|(key, document)| {
                    let presence = presence_in(key.strip_prefix(&prefix).unwrap_or(&key), &document.text);
                    (key, (document, presence))
                })
                .collect();
            let mut groups: Vec<Group> = Vec::new();
            for member in gone {
                let found = members.iter().find(|(_, (_, found))| found.name == member.name);
                let found = found.filter(|(_, (_, found))| found.number == member.number);
                if let Some((key, (document, _))) = found {
                    let expect = Expect::Version(document.version);
                    groups.push(vec![Write { key: key.clone(), expect, text: None }]);
                    let key = key.clone();
                    members.remove(&key);
                }
            }
            if let Some(mine) = mine {
                let key = self.member_key(&mine.name);
                let text = Some(presence_text(mine, at));
                groups.push(vec![Write { key: key.clone(), expect: Expect::Anything, text }]);
                let written = Presence { written_at: at, ..mine.clone() };
                members.insert(key, (Document { text: String::new(), version: 0 }, written));
            }
            let all = groups.len();
            // A member that was to be removed and has just written again is there: look again.
            let written = if all == 0 { Vec::new() } else { self.write(groups, &mut tries).await? };
            if written.iter().all(|count| *count == 1) {
                let members = members.into_values().map(|(_, presence)| Arc::new(presence));
                let mut members: Vec<Arc<Presence>> = members.collect();
                members.sort_unstable_by(|one, other| one.name.cmp(&other.name));
                return Ok(Gathering { at, members });
            }
            self.again(&mut tries).await?;
        }
    }

    fn member_key(&self, who: &ReplicaId) -> String {
        // Keys have limits. The end of a name is what tells it from all others: the number of its start.
        let name = who.as_str();
        let cut = name.char_indices().rev().nth(MEMBER_MOST - 1).map_or(0, |(at, _)| at);
        self.key("member", &name[cut..])
    }

    pub(super) async fn remove(&self, who: &ReplicaId) -> Result<(), Failure> {
        let write = Write { key: self.member_key(who), expect: Expect::Anything, text: None };
        self.backend.write(vec![vec![write]]).await?;
        Ok(())
    }
}

fn presence_text(mine: &Presence, at: i64) -> String {
    let mut value: serde_json::Value = serde_json::from_str(&mine.to_text()).unwrap_or_default();
    value["name"] = mine.name.as_str().into();
    value["written_at"] = at.into();
    value.to_string()
}

fn presence_in(key: &str, text: &str) -> Presence {
    let value = serde_json::from_str::<serde_json::Value>(text).unwrap_or_default();
    Presence::from_text(value["name"].as_str().unwrap_or(key), text)
}
