//! memcached: one server, its text protocol. It changes one document at a time, so the writes of a group are made one
//! after another; and it knows no prefixes, so the names below one that is listed stand in a document of their own.

use super::backend::Backend;
use super::backend::Document;
use super::backend::Expect;
use super::backend::Failure;
use super::backend::Found;
use super::backend::Group;
use super::backend::Write;
use super::url::Form;
use super::url::Url;
use crate::store::Access;
use crate::store::Class;
use crate::store::ErrorKind;
use crate::store::Finding;
use crate::store::Probe;
use crate::store::Reach;
use async_trait::async_trait;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::io::AsyncBufReadExt;
use tokio::io::AsyncReadExt;
use tokio::io::AsyncWriteExt;
use tokio::io::BufReader;
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio::time::timeout;

const FORM: Form = Form {
    scheme: "memcached://",
    port: 11211,
    places_most: 1,
    options: &[OPT_IN],
    whole: "memcached://host:11211?allow-best-effort=true",
};
const OPT_IN: &str = "allow-best-effort";

/// How long connecting may take, and each request.
const CONNECT_WITHIN: Duration = Duration::from_secs(2);
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// So many documents are read with one line.
const READS_MOST: usize = 100;
/// An item has 1 MiB at most, with its key.
const HISTORY_BYTES_MOST: usize = 768 << 10;
/// A longer line is no answer of memcached.
const LINE_MOST: u64 = 4096;
/// Nor is a longer document.
const DOCUMENT_MOST: usize = 64 << 20;
/// The list of names is tried to be changed so often.
const LIST_TRIES: usize = 100;

/// A server.
pub(super) struct Memcached {
    place: String,
    shown: String,
    /// Absent until the first request, after an error, and while a request is going: one that is dropped half-way drops
    /// the connection with it.
    line: Mutex<Option<Line>>,
}

/// A connection.
struct Line(BufReader<TcpStream>);

type Stats = BTreeMap<String, String>;

fn odd(found: &str) -> Failure {
    let detail = match found {
        _ if found.contains("object too large") => {
            format!("{found}: a document does not fit: start memcached with -I 1m (the default) or more")
        }
        _ if found.contains("out of memory") => {
            format!("{found}: the memory is used up: start memcached with a larger -m, for onecron alone")
        }
        _ => format!("an answer is not what memcached answers: {:?}", found.chars().take(80).collect::<String>()),
    };
    Failure::new(ErrorKind::MaybeApplied, detail)
}

impl Line {
    async fn say(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let lost = |error| Failure::new(ErrorKind::MaybeApplied, format!("the connection is lost: {error}"));
        self.0.get_mut().write_all(bytes).await.map_err(lost)
    }

    async fn hear(&mut self) -> Result<String, Failure> {
        let lost = |detail: String| Failure::new(ErrorKind::MaybeApplied, detail);
        let mut line = String::new();
        let read = (&mut self.0).take(LINE_MOST).read_line(&mut line).await;
        read.map_err(|error| lost(format!("the connection is lost: {error}")))?;
        match line.strip_suffix("\r\n") {
            Some(line) => Ok(line.to_owned()),
            None if line.is_empty() => Err(lost(
                "the server has closed the connection (if that is so every time, it is another kind of server)".into(),
            )),
            None => Err(odd(&line)),
        }
    }

    async fn stats(&mut self, of: &str) -> Result<Stats, Failure> {
        self.say(format!("stats{of}\r\n").as_bytes()).await?;
        let mut stats = Stats::new();
        loop {
            let line = self.hear().await?;
            let mut words = line.splitn(3, ' ');
            match (words.next(), words.next(), words.next()) {
                (Some("STAT"), Some(name), value) => stats.insert(name.into(), value.unwrap_or_default().into()),
                (Some("END"), None, None) => return Ok(stats),
                _ => return Err(odd(&line)),
            };
        }
    }

    /// Reads what there is of some documents.
    async fn gets(&mut self, keys: &[String]) -> Result<BTreeMap<String, Document>, Failure> {
        let mut found = BTreeMap::new();
        for keys in keys.chunks(READS_MOST) {
            // The server looks at one after the other.
            self.say(format!("gets {}\r\n", keys.join(" ")).as_bytes()).await?;
            loop {
                let line = self.hear().await?;
                if line == "END" {
                    break;
                }
                let words: Vec<&str> = line.split(' ').collect();
                let ["VALUE", key, _, length, version] = words[..] else { return Err(odd(&line)) };
                let (Ok(length), Ok(version)) = (length.parse::<usize>(), version.parse()) else {
                    return Err(odd(&line));
                };
                if length > DOCUMENT_MOST {
                    return Err(odd(&line));
                }
                let mut bytes = vec![0; length + 2];
                let lost = |error| Failure::new(ErrorKind::MaybeApplied, format!("the connection is lost: {error}"));
                self.0.read_exact(&mut bytes).await.map_err(lost)?;
                bytes.truncate(length);
                let text = String::from_utf8_lossy(&bytes).into_owned();
                found.insert(key.to_owned(), Document { text, version });
            }
        }
        Ok(found)
    }

    /// Makes one change each, and says which were made.
    async fn change(&mut self, writes: &[&Write]) -> Result<Vec<bool>, Failure> {
        let commands: Vec<u8> = writes.iter().flat_map(|write| command(write)).collect();
        self.say(&commands).await?;
        let mut done = Vec::with_capacity(writes.len());
        for write in writes {
            let line = self.hear().await?;
            done.push(match line.split(' ').next().unwrap_or_default() {
                "STORED" | "DELETED" | "HD" => true,
                // What was to be removed is not there.
                "NOT_FOUND" => write.text.is_none() && write.expect == Expect::Anything,
                "EXISTS" | "NOT_STORED" | "EX" | "NF" | "NS" => false,
                _ => return Err(odd(&line)),
            });
        }
        Ok(done)
    }

    /// Puts names on the list below a prefix, or takes them off it.
    async fn relist(&mut self, prefix: &str, add: &[String], remove: &[String]) -> Result<(), Failure> {
        let key = [prefix.to_owned()];
        for _ in 0..LIST_TRIES {
            let found = self.gets(&key).await?.remove(prefix);
            let before = names_in(found.as_ref());
            let mut names = before.clone();
            names.extend(add.iter().cloned());
            remove.iter().for_each(|name| _ = names.remove(name));
            if names == before {
                return Ok(());
            }
            let text = serde_json::to_string(&names).ok();
            let write = Write { key: prefix.into(), expect: Expect::what_was_found(found.as_ref()), text };
            if self.change(&[&write]).await? == [true] {
                return Ok(());
            }
        }
        Err(Failure::new(
            ErrorKind::MaybeApplied,
            format!("others have changed the list `{prefix}` {LIST_TRIES} times"),
        ))
    }

    async fn write(&mut self, groups: &[Group]) -> Result<Vec<usize>, Failure> {
        let all = || groups.iter().flatten();
        // What changes is on its list already.
        let is_new = |write: &&Write| matches!(write.expect, Expect::Anything | Expect::Version(0));
        for (prefix, names) in listed(all().filter(|write| write.text.is_some()).filter(is_new)) {
            // Before what it names: the other way round, a crash in between leaves a job that nobody finds.
            self.relist(&prefix, &names, &[]).await?;
        }
        let mut done = vec![0; groups.len()];
        for stage in 0..groups.iter().map(Vec::len).max().unwrap_or(0) {
            let going: Vec<usize> =
                (0..groups.len()).filter(|at| done[*at] == stage && stage < groups[*at].len()).collect();
            let writes: Vec<&Write> = going.iter().map(|at| &groups[*at][stage]).collect();
            for (at, is_done) in going.into_iter().zip(self.change(&writes).await?) {
                done[at] += usize::from(is_done);
            }
        }
        for (prefix, names) in listed(all().filter(|write| write.text.is_none())) {
            self.relist(&prefix, &[], &names).await?;
            // What was made again in between stays on the list, and so does what was not removed.
            let keys: Vec<String> = names.iter().map(|name| format!("{prefix}{name}")).collect();
            let there = self.gets(&keys).await?;
            let again: Vec<String> =
                there.into_keys().filter_map(|key| Some(key.strip_prefix(&prefix)?.to_owned())).collect();
            self.relist(&prefix, &again, &[]).await?;
        }
        Ok(done)
    }
}

/// Names by the prefix below which they are listed.
fn listed<'a>(writes: impl Iterator<Item = &'a Write>) -> BTreeMap<String, Vec<String>> {
    let mut listed: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for write in writes {
        if let Some((prefix, name)) = write.key.rsplit_once('/')
            && ["/job", "/member"].iter().any(|kind| prefix.ends_with(kind))
        {
            listed.entry(format!("{prefix}/")).or_default().push(name.to_owned());
        }
    }
    listed
}

fn names_in(document: Option<&Document>) -> BTreeSet<String> {
    document.and_then(|document| serde_json::from_str(&document.text).ok()).unwrap_or_default()
}

/// No item has a time at which it expires.
fn command(Write { key, expect, text }: &Write) -> Vec<u8> {
    let Some(text) = text else {
        return match expect {
            Expect::Anything => format!("delete {key}\r\n"),
            Expect::Version(version) => format!("md {key} C{version}\r\n"),
        }
        .into_bytes();
    };
    let length = text.len();
    match expect {
        Expect::Anything => format!("set {key} 0 0 {length}\r\n{text}\r\n"),
        Expect::Version(0) => format!("add {key} 0 0 {length}\r\n{text}\r\n"),
        Expect::Version(version) => format!("cas {key} 0 0 {length} {version}\r\n{text}\r\n"),
    }
    .into_bytes()
}

impl Memcached {
    /// Does not connect.
    ///
    /// # Errors
    /// What is wrong with the URL, or that nobody has said that this store may be used.
    pub fn open(url: &str, access: &Access) -> Result<Self, String> {
        let url = Url::parse(url.strip_prefix(FORM.scheme).unwrap_or_default(), FORM)?;
        if !url.user.is_empty() || url.password.is_some() || !access.is_empty() {
            return Err(format!("there are no accounts and no certificates here: write {}", FORM.whole));
        }
        match url.option(OPT_IN) {
            Some("true") => {}
            Some(_) => return Err(format!("`{OPT_IN}` is `true`, or is left out")),
            None => {
                return Err(format!(
                    "memcached keeps nothing over a restart, may drop what it holds, and anybody may empty it. What \
                     that forgets is refused where it is noticed, so ticks are missed, and it is not always noticed. \
                     If you have no other store, say that you know: write {}",
                    FORM.whole
                ));
            }
        }
        let place = url.places.into_iter().next().unwrap_or_default();
        Ok(Self { place, shown: url.shown, line: Mutex::default() })
    }

    /// One request, which has the connection to itself.
    async fn with<T>(&self, request: impl AsyncFnOnce(&mut Line) -> Result<T, Failure>) -> Result<T, Failure> {
        let busy = |_| Failure::new(ErrorKind::NotSent, "other requests of this process have the connection");
        let mut place = timeout(CONNECT_WITHIN + ANSWER_WITHIN, self.line.lock()).await.map_err(busy)?;
        let mut line = match place.take() {
            Some(line) => line,
            None => self.connect().await?,
        };
        let silent = |_| {
            let detail = format!("no answer within {} s", ANSWER_WITHIN.as_secs());
            Failure::new(ErrorKind::MaybeApplied, detail)
        };
        let outcome = timeout(ANSWER_WITHIN, request(&mut line)).await.map_err(silent)??;
        *place = Some(line);
        Ok(outcome)
    }

    async fn connect(&self) -> Result<Line, Failure> {
        let failed = |detail: String| Failure::new(ErrorKind::NotSent, format!("connect: {detail}"));
        let connected = timeout(CONNECT_WITHIN, TcpStream::connect(&self.place)).await;
        let late = |_| failed(format!("no answer within {} s", CONNECT_WITHIN.as_secs()));
        let stream = connected.map_err(late)?.map_err(|error| failed(error.to_string()))?;
        stream.set_nodelay(true).map_err(|error| failed(error.to_string()))?;
        Ok(Line(BufReader::new(stream)))
    }
}

#[async_trait]
impl Backend for Memcached {
    fn shown(&self) -> &str {
        &self.shown
    }

    fn history_bytes_most(&self) -> usize {
        HISTORY_BYTES_MOST
    }

    async fn read(&self, first: &[String], then: &[String]) -> Result<Found, Failure> {
        let keys = &[first, then].concat()[..];
        self.with(async |line| {
            let stats = line.stats("").await?;
            let mut found = line.gets(keys).await?;
            let (server, evicted) = life(&stats);
            let mut documents = Vec::with_capacity(keys.len());
            for (at, key) in keys.iter().enumerate() {
                // Nearly always a key stands here once.
                let again = keys[at + 1..].contains(key);
                documents.push(if again { found.get(key).cloned() } else { found.remove(key) });
            }
            Ok(Found { documents, server, evicted })
        })
        .await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<(String, Document)>, Failure> {
        self.with(async |line| {
            let list = line.gets(&[prefix.to_owned()]).await?.remove(prefix);
            let keys: Vec<String> = names_in(list.as_ref()).iter().map(|name| format!("{prefix}{name}")).collect();
            if keys.is_empty() { Ok(Vec::new()) } else { Ok(line.gets(&keys).await?.into_iter().collect()) }
        })
        .await
    }

    async fn write(&self, groups: Vec<Group>) -> Result<Vec<usize>, Failure> {
        self.with(async |line| line.write(&groups).await).await
    }

    async fn probe(&self, _: &str) -> Result<Probe, Failure> {
        self.with(async |line| {
            let stats = line.stats("").await?;
            let settings = line.stats(" settings").await?;
            Ok(judge(stats.get("version").map_or("of an unknown version", String::as_str), &settings))
        })
        .await
    }
}

/// What tells this life of the server from any other, and how often it was emptied in it.
fn life(stats: &Stats) -> (String, u64) {
    let number = |name: &str| stats.get(name).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
    let text = |name: &str| stats.get(name).map_or("", String::as_str);
    let started = number("time").saturating_sub(number("uptime"));
    (format!("{}-{started}-{}", text("pid"), text("cmd_flush")), number("evictions"))
}

fn judge(version: &str, settings: &Stats) -> Probe {
    let mut findings = vec![Finding {
        check: "persistence",
        found: "memcached keeps nothing over a restart".into(),
        wanted: "another store: every tick that it may have forgotten is refused, and missed".into(),
    }];
    if settings.get("evictions").is_none_or(|evictions| evictions != "off") {
        findings.push(Finding {
            check: "eviction",
            found: "it drops what it holds when its memory is used up".into(),
            wanted: "-M, and memory of its own (-m): a claim that was dropped can be won twice".into(),
        });
    }
    Probe { class: Class::C, version: format!("memcached {version}"), reach: Reach::Network, findings }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_used_only_by_those_who_know() {
        let open = |url| Memcached::open(url, &Access::default()).map(|store| store.shown);
        assert_eq!(
            open("memcached://cache?allow-best-effort=true"),
            Ok("memcached://cache:11211?allow-best-effort=true".to_owned())
        );
        for (url, wanted) in [
            ("memcached://cache", "say that you know: write memcached://host:11211?allow-best-effort=true"),
            ("memcached://cache?allow-best-effort=yes", "is `true`, or is left out"),
            ("memcached://a,b?allow-best-effort=true", "at most 1"),
            ("memcached://u:p@a?allow-best-effort=true", "no accounts"),
        ] {
            assert!(open(url).unwrap_err().contains(wanted), "{url}");
        }
    }

    #[tokio::test]
    async fn who_asks_a_server_that_is_silent_waits_for_one_other_request_at_most() {
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("memcached://{}?allow-best-effort=true", silent.local_addr().unwrap());
        let store = Memcached::open(&url, &Access::default()).unwrap();
        let most = CONNECT_WITHIN + ANSWER_WITHIN * 2 + Duration::from_secs(2);
        let asked = (0..20).map(|_| timeout(most, store.list("onecron/default/job/")));
        for answer in futures_util::future::join_all(asked).await {
            assert!(answer.expect("all have an answer by then").is_err());
        }
    }

    #[test]
    fn each_start_and_each_emptying_is_another_life() {
        let stats = |pid: &str, uptime: &str, flush: &str| {
            let pairs = [("pid", pid), ("uptime", uptime), ("time", "1000"), ("cmd_flush", flush), ("evictions", "4")];
            life(&pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).into())
        };
        assert_eq!(stats("7", "10", "0"), ("7-990-0".to_owned(), 4));
        assert_ne!(stats("7", "10", "0"), stats("7", "2", "0"));
        assert_ne!(stats("7", "10", "0"), stats("7", "10", "1"));
    }
}
