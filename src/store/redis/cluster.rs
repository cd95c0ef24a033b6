//! A cluster: many servers, each with a part of the keys. Which one has what is asked for when it is not known, and when
//! a server says otherwise.

use super::command::Command;
use super::command::Sure;
use super::door::Door;
use super::door::Of;
use super::failure::Failure;
use super::failure::Mend;
use super::failure::classify;
use super::link::CONNECT_WITHIN;
use super::link::Link;
use super::link::Where;
use super::scripts::Scripts;
use crate::store::ErrorKind;
use crate::store::Identity;
use crate::store::place::Place;
use futures_util::future::join_all;
use redis::AsyncConnectionConfig;
use redis::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;
use tokio::time::timeout;

/// All keys are in one of so many slots.
const SLOTS: u16 = 16384;
/// How long one node may take to say who has what: the next one is asked then.
const ASK_WITHIN: Duration = Duration::from_millis(600);
/// How often a batch is sent to where servers say that it belongs: one round for each slot that is on its way, a few
/// for what changes meanwhile.
const ROUNDS_MOST: usize = 8;

/// A range of slots (both ends included) and who has it.
type Range = (u16, u16, Place);

/// See the module.
pub(super) struct Cluster {
    door: Door,
    scripts: Arc<Scripts>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Empty: not known.
    map: Arc<Vec<Range>>,
    /// Who said so, or is said to know better: asked first.
    teller: Option<Place>,
    links: BTreeMap<Place, Arc<Link>>,
}

/// Positions in the batch of what is to be sent to one server, and whether each is preceded by `ASKING`.
type Groups = BTreeMap<(Place, bool), Vec<usize>>;

impl Cluster {
    pub fn new(door: Door, scripts: Arc<Scripts>) -> Self {
        Self { door, scripts, state: Mutex::default() }
    }

    /// Sends each command to the server that has its key, all servers at once; the commands of one server keep their
    /// order.
    pub async fn send(&self, commands: &[&Command], sure: Sure) -> Result<Vec<Value>, Failure> {
        let mut replies: Vec<Option<Value>> = vec![None; commands.len()];
        let mut exceptions: BTreeMap<u16, Place> = BTreeMap::new();
        let mut refreshed = false;
        for _ in 0..ROUNDS_MOST {
            let map = self.map().await?;
            let missing = (0..commands.len()).filter(|at| replies[*at].is_none());
            let groups = grouped(&map, &exceptions, missing.map(|at| (at, commands[at].key.as_str())))?;
            if groups.is_empty() {
                break;
            }
            let sent = groups.iter().map(|((place, asking), group)| {
                let link = self.link(place);
                let commands: Vec<&Command> = group.iter().map(|at| commands[*at]).collect();
                async move {
                    if *asking { link.send_asking(&commands, sure).await } else { link.send(&commands, sure).await }
                }
            });
            let mut failed = None;
            for ((_, group), result) in groups.iter().zip(join_all(sent).await) {
                match result {
                    Ok(found) => group.iter().zip(found).for_each(|(at, reply)| replies[*at] = Some(reply)),
                    Err(Failure { mend: Mend::Ask(place), detail, .. }) => {
                        exceptions.extend(slot_in(&detail).map(|slot| (slot, place)));
                    }
                    Err(failure) => _ = failed.get_or_insert(failure),
                }
            }
            let Some(failure) = failed else { continue };
            exceptions.clear();
            let again = matches!(failure.mend, Mend::Moved(_));
            self.forget(match &failure.mend {
                Mend::Moved(place) if !place.host.is_empty() => Some(place.clone()),
                _ => None,
            });
            // A server that takes no writes has been replaced; another may say by which one.
            let may_be_known = failure.kind == ErrorKind::ReadOnly && !std::mem::replace(&mut refreshed, true);
            if !again && !may_be_known {
                return Err(failure);
            }
        }
        let unsettled = || {
            let detail = "the nodes of the cluster sent us from one to the other and back: it is being rearranged";
            Failure::new(ErrorKind::MaybeApplied, detail, false)
        };
        replies.into_iter().collect::<Option<Vec<Value>>>().ok_or_else(unsettled)
    }

    /// What each primary is, as one text: it changes with any of them.
    pub async fn identity(&self) -> Result<Identity, Failure> {
        let found = self.on_each(|link| async move { link.identity().await }).await?;
        let mut all = Identity::default();
        let servers: Vec<&str> = found.iter().map(|(_, identity)| identity.server.as_str()).collect();
        all.server = servers.join(" ");
        all.evicted = found.iter().map(|(_, identity)| identity.evicted).sum();
        Ok(all)
    }

    /// Asks each primary, in the order of their places.
    pub async fn on_each<T, F>(&self, ask: impl Fn(Arc<Link>) -> F) -> Result<Vec<(Place, T)>, Failure>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let map = self.map().await?;
        let mut places: Vec<Place> = map.iter().map(|(_, _, place)| place.clone()).collect();
        places.sort_unstable();
        places.dedup();
        let asked = places.iter().map(|place| ask(self.link(place)));
        let found = join_all(asked).await.into_iter().collect::<Result<Vec<T>, Failure>>();
        if found.is_err() {
            self.forget(None);
        }
        Ok(places.into_iter().zip(found?).collect())
    }

    /// How many replicas must confirm what is written.
    pub fn replicas_wanted(&self) -> u32 {
        self.door.address().wait_replicas.unwrap_or(1)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn link(&self, place: &Place) -> Arc<Link> {
        let make = || Arc::new(Link::new(self.door.clone(), Where::At(place.clone()), Arc::clone(&self.scripts), None));
        Arc::clone(self.lock().links.entry(place.clone()).or_insert_with(make))
    }

    /// The map is to be asked for again, of that one first.
    fn forget(&self, teller: Option<Place>) {
        let mut state = self.lock();
        state.map = Arc::default();
        state.teller = teller;
    }

    async fn map(&self) -> Result<Arc<Vec<Range>>, Failure> {
        let (known, first) = {
            let state = self.lock();
            let known: Vec<Place> = state.links.keys().cloned().collect();
            if !state.map.is_empty() {
                return Ok(Arc::clone(&state.map));
            }
            (known, state.teller.clone())
        };
        let mut places: Vec<Place> = first.into_iter().collect();
        for place in known.into_iter().chain(self.door.address().places.iter().cloned()) {
            if !places.contains(&place) {
                places.push(place);
            }
        }
        let found = timeout(CONNECT_WITHIN, self.ask_map(&places)).await.unwrap_or_else(|_| {
            let detail = format!("no node of the cluster answered within {} s", CONNECT_WITHIN.as_secs());
            Err(Failure::new(ErrorKind::NotSent, detail, true))
        })?;
        let mut state = self.lock();
        state.map = Arc::new(found);
        // Nodes that are none any more are not to be kept.
        let map = Arc::clone(&state.map);
        state.links.retain(|place, _| map.iter().any(|(_, _, primary)| primary == place));
        Ok(map)
    }

    async fn ask_map(&self, places: &[Place]) -> Result<Vec<Range>, Failure> {
        let mut found = Vec::new();
        let mut kind = ErrorKind::Misconfigured;
        for place in places {
            let told = timeout(ASK_WITHIN, self.told_by(place)).await.unwrap_or_else(|_| {
                let detail = format!("no answer within {} ms", ASK_WITHIN.as_millis());
                Err(Failure::new(ErrorKind::NotSent, detail, true))
            });
            match told {
                Ok(ranges) => return Ok(ranges),
                Err(failure) => {
                    if failure.kind != ErrorKind::Misconfigured {
                        kind = ErrorKind::NotSent;
                    }
                    found.push(format!("{place}: {}{}", failure.detail, self.door.advice(&failure.detail)));
                }
            }
        }
        Err(Failure::new(kind, format!("no node says who has which keys: {}", found.join("; ")), true))
    }

    async fn told_by(&self, place: &Place) -> Result<Vec<Range>, Failure> {
        let client = self.door.client(place, Of::Server).await?;
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(ASK_WITHIN))
            .set_response_timeout(Some(ASK_WITHIN));
        let asked = async {
            let mut connection = client.get_multiplexed_async_connection_with_config(&config).await?;
            redis::cmd("CLUSTER").arg("SLOTS").query_async::<Value>(&mut connection).await
        };
        let reply = asked.await.map_err(|error| {
            let failure = classify(&error);
            let is_single = failure.detail.contains("cluster support disabled");
            let wanted = "the server is none of a cluster: write redis://host:6379";
            if is_single { Failure::misconfigured(wanted) } else { failure }
        })?;
        let ranges = ranges(&reply, place).unwrap_or_default();
        if ranges.is_empty() {
            return Err(Failure::new(ErrorKind::NotSent, "it knows of no slots: the cluster is not formed", true));
        }
        Ok(ranges)
    }
}

/// Who gets what.
fn grouped<'a>(
    map: &[Range],
    exceptions: &BTreeMap<u16, Place>,
    commands: impl Iterator<Item = (usize, &'a str)>,
) -> Result<Groups, Failure> {
    let mut groups = Groups::new();
    for (at, key) in commands {
        let slot = slot_of(key);
        let asking = exceptions.get(&slot);
        let owner = map.iter().find(|(first, last, _)| (*first..=*last).contains(&slot)).map(|(_, _, place)| place);
        let Some(place) = asking.or(owner) else {
            let detail = format!("no node has the slot {slot} of `{key}`: the cluster is not whole");
            return Err(Failure::new(ErrorKind::NotSent, detail, false));
        };
        groups.entry((place.clone(), asking.is_some())).or_default().push(at);
    }
    Ok(groups)
}

/// From the reply to `CLUSTER SLOTS`: first and last slot, the primary, its replicas. A node that does not know its own
/// name leaves it empty: it is the one that was asked.
fn ranges(reply: &Value, asked: &Place) -> Option<Vec<Range>> {
    let Value::Array(parts) = reply else { return None };
    let range = |part: &Value| {
        let Value::Array(parts) = part else { return None };
        let [Value::Int(first), Value::Int(last), Value::Array(primary), ..] = parts.as_slice() else { return None };
        let [host, Value::Int(port), ..] = primary.as_slice() else { return None };
        let host: Option<String> = redis::from_redis_value(host.clone()).ok()?;
        let host = host.filter(|host| !host.is_empty() && host != "?").unwrap_or_else(|| asked.host.clone());
        let place = Place { host, port: u16::try_from(*port).ok()? };
        Some((u16::try_from(*first).ok()?, u16::try_from(*last).ok()?, place))
    };
    parts.iter().map(range).collect()
}

/// `ASK 3999 127.0.0.1:6381 (command 1 of 2)`.
fn slot_in(detail: &str) -> Option<u16> {
    detail.split(' ').nth(1)?.parse().ok()
}

/// As all nodes and clients of a cluster have it: CRC-16 (XMODEM) of the key, or of what stands between its first `{`
/// and the `}` after that.
fn slot_of(key: &str) -> u16 {
    let tag = key.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map(|(tag, _)| tag);
    let hashed = tag.filter(|tag| !tag.is_empty()).unwrap_or(key);
    let crc = hashed.bytes().fold(0_u16, |crc, byte| {
        (0..8)
            .fold(crc ^ (u16::from(byte) << 8), |crc, _| if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 })
    });
    crc % SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_in_the_slots_that_the_specification_says() {
        // The check value of the specification is 0x31C3 for "123456789"; the others as a real server has them.
        for (key, slot) in [
            ("123456789", 0x31C3 % SLOTS),
            ("foo", 12182),
            ("{user1000}.following", slot_of("user1000")),
            ("foo{}{bar}", 8363),
            ("foo{{bar}}zap", slot_of("{bar")),
            ("onecron:default:{nightly}:job", slot_of("onecron:default:{nightly}:run:2026-03-01T02:00:00Z")),
        ] {
            assert_eq!(slot_of(key), slot, "{key}");
        }
    }

    #[test]
    fn a_nodes_map_is_read() {
        let text = |text: &str| Value::BulkString(text.into());
        let range = |first, last, host: Value| {
            Value::Array(vec![
                Value::Int(first),
                Value::Int(last),
                Value::Array(vec![host, Value::Int(7000), text("id")]),
            ])
        };
        let asked = Place { host: "seed".into(), port: 1 };
        let reply = Value::Array(vec![range(0, 99, text("10.0.0.1")), range(100, 16383, Value::Nil)]);
        let place = |host: &str| Place { host: host.into(), port: 7000 };
        assert_eq!(ranges(&reply, &asked), Some(vec![(0, 99, place("10.0.0.1")), (100, 16383, place("seed"))]));
        assert_eq!(ranges(&Value::Array(vec![Value::Int(1)]), &asked), None);
    }

    #[test]
    fn a_slot_on_its_way_is_asked_for_where_it_goes() {
        let place = |port| Place { host: "h".into(), port };
        let map = vec![(0, 12181, place(1)), (12182, 16383, place(2))];
        let keys = || ["foo", "123456789", "foo"].into_iter().enumerate();
        let groups = grouped(&map, &BTreeMap::new(), keys()).unwrap();
        let of = |groups: &Groups| {
            groups.iter().map(|((place, asking), group)| (place.port, *asking, group.clone())).collect::<Vec<_>>()
        };
        assert_eq!(of(&groups), [(2, false, vec![0, 1, 2])]);
        let exceptions = BTreeMap::from([(12182, place(3))]);
        assert_eq!(of(&grouped(&map, &exceptions, keys()).unwrap()), [(2, false, vec![1]), (3, true, vec![0, 2])]);
        assert!(grouped(&map[..1], &BTreeMap::new(), keys()).is_err());
    }
}
