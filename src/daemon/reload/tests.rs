//! Files that hang, that change all the time, and that are written in pieces: what is read is in the test's hands.

use super::*;
use crate::clock::SystemClock;
use std::sync::Condvar;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;

const LIMIT: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(5);

fn text(jobs: &[&str]) -> String {
    let job = |name: &&str| format!("  - {{name: {name}, schedule: '@daily', command: 'true'}}\n");
    format!("scheduler: {{reloadInterval: 1s}}\njobs:\n{}", jobs.iter().map(job).collect::<String>())
}

fn sources(text: &str) -> Vec<Source> {
    vec![Source::new("jobs.yaml", text.as_bytes().to_vec())]
}

/// What readers find: each takes the next text, the last one again and again. Closed, they wait.
#[derive(Default)]
struct Disk {
    texts: Mutex<Vec<String>>,
    /// Readings that were begun.
    begun: AtomicUsize,
    is_closed: Mutex<bool>,
    opened: Condvar,
}

impl Disk {
    fn read(&self) -> Vec<Source> {
        self.begun.fetch_add(1, Ordering::Relaxed);
        drop(self.opened.wait_while(self.is_closed.lock().unwrap(), |closed| *closed).unwrap());
        let mut texts = self.texts.lock().unwrap();
        sources(&if texts.len() > 1 { texts.remove(0) } else { texts[0].clone() })
    }

    fn holds(&self, texts: &[String]) {
        *self.texts.lock().unwrap() = texts.to_vec();
    }

    fn begun(&self) -> usize {
        self.begun.load(Ordering::Relaxed)
    }

    fn close(&self, closed: bool) {
        *self.is_closed.lock().unwrap() = closed;
        self.opened.notify_all();
    }
}

struct Bench {
    reloader: Reloader,
    disk: Arc<Disk>,
    inbox: mpsc::Receiver<Message>,
}

fn bench(jobs: &[&str]) -> Bench {
    let disk = Arc::new(Disk::default());
    disk.holds(&[text(jobs)]);
    let (now, read) = (SystemClock.now().wall, Arc::clone(&disk));
    let table = Arc::new(config::load(&sources(&text(jobs)), now).unwrap().table);
    let fingerprint = config::fingerprint(&sources(&text(jobs)));
    let origin = Origin { table, fingerprint, paths: Vec::new(), read: Arc::new(move || read.read()) };
    let (sender, inbox) = mpsc::channel(16);
    let metrics = Arc::new(Metrics::new(Arc::new(SystemClock), "memory:"));
    let board = Arc::new(Board::new(Arc::clone(&origin.table), (now, SystemClock.now().boot), false));
    let (mut reloader, _) = Reloader::new(origin, (Arc::new(SystemClock), sender), (Look::default(), metrics, board));
    reloader.pace = Pace { settle: SHORT, read_within: Duration::from_millis(100), pause: SHORT };
    Bench { reloader, disk, inbox }
}

impl Bench {
    /// Looks once; what it sends is taken, as the scheduler does, and the names of its jobs are given.
    async fn check(&mut self, cause: Cause) -> Option<Vec<String>> {
        let Self { reloader, inbox, .. } = self;
        let take = async {
            let Some(Message::Replace(replacement)) = inbox.recv().await else { return None };
            replacement.taken.send(()).unwrap();
            Some(replacement.table.jobs.iter().map(|job| job.name.to_string()).collect())
        };
        let mut check = std::pin::pin!(reloader.check(cause));
        let taken = tokio::select! {
            checked = &mut check => {
                assert_eq!(checked, Some(()));
                return None;
            }
            taken = take => taken,
        };
        let checked = tokio::time::timeout(LIMIT, check).await.expect("it goes on when its table is taken");
        assert_eq!(checked, Some(()));
        taken
    }

    fn files(&self) -> Files {
        self.reloader.board.standing().files
    }
}

/// The twin of the rule: without the second reading, the first half would be the table.
#[tokio::test]
async fn a_table_is_taken_when_two_readings_agree_on_it() {
    let mut bench = bench(&["a"]);
    bench.disk.holds(&[text(&[]), text(&["a", "b"]), text(&["a", "b", "c"])]);
    assert_eq!(bench.check(Cause::Event).await, Some(vec!["a".into(), "b".into(), "c".into()]));
    assert_eq!(bench.check(Cause::Timer).await, None, "it is known now");
    assert_eq!(bench.disk.begun(), 5);
}

#[tokio::test]
async fn files_that_are_another_each_time_are_refused_in_the_end() {
    let mut bench = bench(&["a"]);
    let each: Vec<String> = (0..100).map(|n| format!("{}# {n}\n", text(&["b"]))).collect();
    bench.disk.holds(&each);
    assert_eq!(bench.check(Cause::Timer).await, None);
    assert!(bench.files().refused.unwrap().first.contains("another content"));
    let read = bench.disk.begun();
    assert_eq!(read, 1 + READINGS_MOST as usize);
    bench.disk.holds(&[text(&["b"])]);
    assert_eq!(bench.check(Cause::Timer).await, Some(vec!["b".into()]));
    assert_eq!(bench.files().refused, None);
}

#[tokio::test]
async fn a_file_system_that_hangs_is_waited_for_by_one_reader_and_the_table_stays() {
    let mut bench = bench(&["a"]);
    let before = bench.files();
    bench.disk.close(true);
    for _ in 0..3 {
        assert_eq!(bench.check(Cause::Timer).await, None);
    }
    assert_eq!(bench.disk.begun(), 1);
    let refused = bench.files().refused.unwrap();
    assert!(refused.first.contains("not answered for 100ms"), "{refused:?}");
    bench.disk.close(false);
    assert_eq!(bench.check(Cause::Timer).await, None);
    assert_eq!((bench.files(), bench.disk.begun()), (before, 1));
}

#[tokio::test]
async fn how_it_stands_is_kept_for_whoever_shows_it() {
    let mut bench = bench(&["a", "b"]);
    let before = bench.files();
    assert_eq!(before.refused, None);
    bench.disk.holds(&["jobs: [{}]".into()]);
    bench.check(Cause::Event).await;
    let refused = bench.files().refused.unwrap();
    assert!(refused.problems >= 2 && refused.first.starts_with("jobs.yaml:1:8: E204 jobs[0]: "), "{refused:?}");
    // Another mistake, and for as long as that.
    bench.disk.holds(&["jobs: {}".into()]);
    bench.check(Cause::Timer).await;
    let other = bench.files().refused.unwrap();
    assert!(other.since == refused.since && other.first.contains("E203"), "{other:?}");
    bench.disk.holds(&[text(&["b"])]);
    bench.check(Cause::Signal).await;
    let after = bench.files();
    assert_eq!(after.refused, None);
    assert!(after.loaded_at > before.loaded_at);
}

#[tokio::test]
async fn every_look_is_counted_and_the_gauge_is_zero_for_as_long_as_the_files_are_refused() {
    let mut bench = bench(&["a", "b"]);
    let metrics = Arc::clone(&bench.reloader.metrics);
    let shown = |line: &str| metrics.render().lines().any(|found| found == line);
    bench.check(Cause::Timer).await;
    assert!(shown("onecron_config_last_reload_successful 1"));
    bench.disk.holds(&["jobs: [{}]".into()]);
    for _ in 0..3 {
        bench.check(Cause::Timer).await;
        assert!(shown("onecron_config_last_reload_successful 0"), "also where nothing new is said");
    }
    bench.disk.holds(&[text(&["b"])]);
    bench.check(Cause::Signal).await;
    assert!(shown("onecron_config_last_reload_successful 1"));
    for (result, count) in [("unchanged", 1), ("refused", 3), ("replaced", 1)] {
        let line = format!("onecron_config_reloads_total{{result=\"{result}\"}} {count}");
        assert!(shown(&line), "{line}\n{}", metrics.render());
    }
}

#[tokio::test]
async fn a_scheduler_that_takes_no_tables_ends_it() {
    let Bench { mut reloader, disk, mut inbox } = bench(&["a"]);
    disk.holds(&[text(&["b"])]);
    let dropped = async { drop(inbox.recv().await) };
    let (checked, ()) = tokio::join!(reloader.check(Cause::Timer), dropped);
    assert_eq!(checked, None);
}
