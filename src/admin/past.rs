//! What was in force at an instant: which replicas were there, and with which tables.

use crate::job::Gathering;
use crate::job::Presence;
use crate::job::Tick;
use crate::plural::counted;

/// How many replicas are named.
const NAMES_MOST: usize = 5;

/// A revision as people tell it from another one.
fn short(revision: &str) -> &str {
    revision.get(..12).unwrap_or(revision)
}

fn shown(at: i64) -> String {
    Tick::from_seconds(at.div_euclid(1000)).to_string()
}

/// Who was there at an instant (store clock, milliseconds since the epoch), as far as the store still knows, in a sentence.
/// None where that is before all that it knows. Whoever began the tick's run then was there, whatever else is known of it.
pub fn there_at(gathering: &Gathering, at: i64, began: Option<&str>) -> Option<String> {
    let known =
        |name: &str| gathering.members.iter().find(|member| member.was_replica() && member.name.as_str() == name);
    let mut there: Vec<String> = gathering.there_at(at).map(|replica| with_table(replica, at)).collect();
    if let Some(name) = began.filter(|name| !gathering.there_at(at).any(|replica| replica.name.as_str() == *name)) {
        match known(name) {
            Some(replica) if replica.came_at() > at => {} // it came later, and began what was still to be run
            Some(replica) => there.push(with_table(replica, at)),
            None => there.push(name.to_owned()),
        }
    }
    if there.is_empty() {
        return nobody_at(gathering, at);
    }
    let named = &there[..there.len().min(NAMES_MOST)];
    let more = match there.len() - named.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Some(format!("there were then: {}{more}", named.join(", ")))
}

fn with_table(replica: &Presence, at: i64) -> String {
    match replica.table_at(at) {
        Some(term) => format!("{} with table {} ({})", replica.name, short(&term.revision), counted(term.jobs, "job")),
        None => replica.name.to_string(),
    }
}

fn nobody_at(gathering: &Gathering, at: i64) -> Option<String> {
    let replicas = || gathering.members.iter().filter(|member| member.was_replica());
    let last = replicas().filter(|replica| replica.written_at < at).max_by_key(|replica| replica.written_at)?;
    let how = if last.kind == Presence::LEFT { "which ended" } else { "which was heard of last" };
    let last = format!("{}, {how} at {}", last.name, shown(last.written_at));
    let next = replicas().filter(|replica| replica.came_at() > at).min_by_key(|replica| replica.came_at());
    let next = next.map_or_else(
        || "none has come since".to_owned(),
        |next| format!("the next one was {}, since {}", next.name, shown(next.came_at())),
    );
    Some(format!("no replica is known to have been there then: the last one was {last}; {next}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::ReplicaId;
    use crate::job::TableTerm;
    use std::sync::Arc;

    const NOON: i64 = 1_772_366_400_000;

    fn replica(name: &str, kind: &str, (written_at, up_ms): (i64, u64)) -> Arc<Presence> {
        let revision = "0123456789abcdef".to_owned();
        let tables = vec![TableTerm { revision, jobs: 12, since_ms: up_ms }];
        Arc::new(Presence { written_at, up_ms, tables, ..Presence::new(ReplicaId::new(name, "1"), kind) })
    }

    fn told(members: Vec<Arc<Presence>>) -> Option<String> {
        there_at(&Gathering { at: NOON + 60_000, members }, NOON, None)
    }

    #[test]
    fn replicas_are_told_with_the_tables_that_they_had() {
        let web = replica("web", Presence::REPLICA, (NOON + 50_000, 600_000));
        let left = replica("left", Presence::LEFT, (NOON + 5_000, 600_000));
        let later = replica("later", Presence::REPLICA, (NOON + 50_000, 20_000));
        assert_eq!(
            told(vec![web.clone(), left, later]).unwrap(),
            "there were then: web-1 with table 0123456789ab (12 jobs), left-1 with table 0123456789ab (12 jobs)"
        );
        let many = (0..7).map(|n| Arc::new(Presence { name: ReplicaId::new("web", &n.to_string()), ..(*web).clone() }));
        assert!(told(many.collect()).unwrap().ends_with(" and 2 more"));
    }

    #[test]
    fn where_nobody_was_there_the_last_one_and_the_next_are_told() {
        let left = replica("left", Presence::LEFT, (NOON - 60_000, 60_000));
        let died = replica("died", Presence::REPLICA, (NOON - 20_000, 60_000));
        let next = replica("next", Presence::REPLICA, (NOON + 50_000, 30_000));
        assert_eq!(
            told(vec![left.clone(), died, next]).unwrap(),
            "no replica is known to have been there then: the last one was died-1, which was heard of last at \
             2026-03-01T11:59:40Z; the next one was next-1, since 2026-03-01T12:00:20Z"
        );
        assert_eq!(
            told(vec![left]).unwrap(),
            "no replica is known to have been there then: the last one was left-1, which ended at \
             2026-03-01T11:59:00Z; none has come since"
        );
    }

    #[test]
    fn who_died_before_it_would_have_written_again_was_there() {
        let died = replica("died", Presence::REPLICA, (NOON - 10_000, 60_000));
        assert_eq!(told(vec![died]).unwrap(), "there were then: died-1 with table 0123456789ab (12 jobs)");
    }

    #[test]
    fn who_began_the_run_was_there_unless_it_came_later() {
        let began = |members: &[Arc<Presence>]| {
            there_at(&Gathering { at: NOON + 60_000, members: members.to_vec() }, NOON, Some("web-1"))
        };
        let table = "with table 0123456789ab (12 jobs)";
        let web = replica("web", Presence::REPLICA, (NOON - 40_000, 60_000));
        let other = replica("other", Presence::REPLICA, (NOON + 50_000, 600_000));
        assert_eq!(
            began(std::slice::from_ref(&web)).unwrap(),
            format!("there were then: web-1 {table}"),
            "its last words were lost"
        );
        assert_eq!(began(&[]).unwrap(), "there were then: web-1");
        assert_eq!(began(std::slice::from_ref(&other)).unwrap(), format!("there were then: other-1 {table}, web-1"));
        let later = replica("web", Presence::REPLICA, (NOON + 50_000, 48_000));
        assert_eq!(began(&[other, later]).unwrap(), format!("there were then: other-1 {table}"));
        assert_eq!(told(vec![web]).unwrap().split(':').next(), Some("no replica is known to have been there then"));
    }

    #[test]
    fn before_all_that_is_known_nothing_is_told() {
        assert_eq!(told(vec![replica("next", Presence::REPLICA, (NOON + 50_000, 30_000))]), None);
        assert_eq!(told(vec![Arc::new(Presence::pause_of_all("ada", ""))]), None);
    }
}
