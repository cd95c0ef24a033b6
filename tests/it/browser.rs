//! The daemon's pages in a real browser: what is seen at a glance in each state, on a wide screen and a narrow one, in
//! light and dark, by keyboard, without scripts, and by those who do not see it.

use crate::processes::until;
use crate::processes::until_limit;
use crate::support::bench::Kind;
use crate::support::bench::program;
use crate::support::browser::Browser;
use crate::support::browser::ENTER;
use crate::support::browser::TAB;
use crate::support::client::get;
use crate::support::daemon::Daemon;
use crate::support::daemon::LIMIT;
use crate::support::daemon::Table;
use crate::support::server::RedisServer;
use crate::support::web::Web;
use crate::support::web::answer;
use nix::sys::signal::Signal;
use std::fs;

const GOOD: &str = "  - {name: mails, description: Sends the mails of the day, schedule: '* * * * * *', command: 'echo 7 mails sent'}
  - {name: backup-of-the-customer-database-to-the-other-site, schedule: '0 2 * * *', timeZone: Europe/Berlin, command: 'true'}
  - {name: index, schedule: '0 3 1 1 *', command: 'true', suspend: true}
";
const BAD: &str = "  - {name: report, description: Totals per customer, schedule: '* * * * * *', command: 'echo no route to host >&2; exit 3'}
";
/// Who is told of a job, and what else stands in its table for people.
const TOLD: &str = "labels: {team: shop}, runbookUrl: 'https://wiki.example/operations/runbooks/report-of-the-totals-per-customer', notify: {onFailure: [ops-chat, the-on-call-of-the-teams-for-orders-and-reports], onRecovery: [ops-chat]}";
const NOTIFIERS: &str = "notifiers:
  ops-chat: {type: slack, url: 'http://127.0.0.1:9/'}
  the-on-call-of-the-teams-for-orders-and-reports: {type: webhook, url: 'http://127.0.0.1:9/'}
";
const STALE: &str = "  - {name: invoices, schedule: '0 2 1 * *', command: 'true', staleAfter: 1s}
";
const SLOW: &str = "  - {name: export, schedule: '* * * * * *', command: 'sleep 600', concurrencyPolicy: Forbid}
";
/// What a page has to be good on.
const SHAPES: [(u32, bool, &str); 4] =
    [(1280, false, "wide-light"), (1280, true, "wide-dark"), (320, false, "narrow-light"), (320, true, "narrow-dark")];

fn start(table: &Table, store: &str) -> (Daemon, String) {
    let daemon = table.launch(store).arg("--listen").arg("127.0.0.1:0").start();
    let address = daemon.wait_for_event("http_listening")["address"].as_str().unwrap().to_owned();
    (daemon, address)
}

fn summary(address: &str) -> String {
    get(address, "/api/v1/status").json()["summary"].as_str().unwrap().to_owned()
}

/// Holds everything against a page that has to hold of each; `name` is that of its pictures.
fn inspect(browser: &Browser, (address, path): (&str, &str), name: &str) {
    for (width, is_dark, shape) in SHAPES {
        browser.shape(width, is_dark);
        browser.open(&format!("http://{address}{path}"));
        browser.picture(&format!("{name}-{shape}"));
        assert_eq!(browser.overhang(), 0, "{path} {shape}");
        // Light and dark are the same but for the colours.
        let violations = browser.violations(is_dark).unwrap_or_default();
        assert!(violations.is_empty(), "{path} {shape}: {}", violations.join("\n"));
        assert_eq!(browser.complaints(), Vec::<String>::new(), "{path} {shape}");
    }
    assert!(browser.title().ends_with(" · onecron"), "{}", browser.title());
}

/// The page shown now has these words, in this order.
fn says(browser: &Browser, words: &[&str]) {
    let text = browser.text();
    let mut rest = text.as_str();
    for word in words {
        rest = rest.split_once(word).unwrap_or_else(|| panic!("no `{word}`, or not in its place: {text}")).1;
    }
}

#[test]
fn a_fleet_in_order_is_seen_to_be_so() {
    let Some(browser) = Browser::start() else { return };
    let table = Table::new(&format!("{GOOD}{SLOW}"));
    let store = format!("sqlite:{}/onecron.db", table.folder.path().display());
    // One that was there before.
    let (mut former, _) = start(&table, &store);
    former.wait_for_event("daemon_ready");
    let gone = former.replica();
    former.signal(Signal::SIGTERM);
    former.signal(Signal::SIGTERM);
    former.wait_for_exit();
    let (daemon, address) = start(&table, &store);
    daemon.wait_for_job("run_finished", "mails");
    until("it is seen", || {
        get(&address, "/").body.contains("/runs/export@") && get(&address, "/").body.contains(&gone)
    });
    until("all is in order", || summary(&address) == "All 4 jobs are in order");
    inspect(&browser, (&address, "/"), "good");
    assert_eq!(browser.title(), "All 4 jobs are in order · onecron");
    let words = ["All 4 jobs are in order", "In order", "1 replica is there.", "Running now", "export@", "Coming up"];
    says(&browser, &words);
    // What is folded away is as good, once it is there.
    assert!(!browser.text().contains(&gone));
    browser.run("document.querySelector('summary').focus()");
    browser.press(&[ENTER]);
    says(&browser, &["Replicas that are not there any more", &gone, "(4 jobs) since", "Store"]);
    browser.picture("past-narrow-dark");
    assert_eq!((browser.overhang(), browser.violations(false).unwrap_or_default()), (0, vec![]));
}

#[test]
fn a_failing_job_is_seen_first_and_leads_to_its_run() {
    let Some(browser) = Browser::start() else { return };
    let told = BAD.replace(", command", &format!(", {TOLD}, command"));
    let table = Table::new(&format!("{GOOD}{told}{NOTIFIERS}"));
    let store = format!("sqlite:{}", table.folder.path().join("runs.db").display());
    let (daemon, address) = start(&table, &store);
    let run = daemon.wait_for_job("run_finished", "report")["run_id"].as_str().unwrap().to_owned();
    daemon.wait_for_many(2, |line| line["event"] == "run_finished" && line["job"] == "report", LIMIT);
    until("it is seen", || summary(&address) == "1 failing of 4 jobs");
    inspect(&browser, (&address, "/"), "failing");
    assert_eq!(browser.title(), "1 failing of 4 jobs · onecron");
    says(&browser, &["1 failing of 4 jobs", "Needs a look", "report", "failing", "exit code 3", "mails", "good"]);
    inspect(&browser, (&address, "/jobs/report"), "failing-job");
    says(&browser, &["report", "failing", "Totals per customer", "What became of its runs", "exit code 3"]);
    says(&browser, &["onFailure", "ops-chat, the-on-call-of-the-teams", "onRecovery", "ops-chat", "team", "Runbook"]);
    inspect(&browser, (&address, &format!("/runs/{run}")), "failing-run");
    says(&browser, &[&run, "failed", "exit code 3", &format!("onecron show {run} --store {store}")]);
    browser.open(&format!("http://{address}/jobs/none"));
    says(&browser, &["No such job", "All jobs"]);
}

#[test]
fn a_job_without_success_for_too_long_is_seen() {
    let Some(browser) = Browser::start() else { return };
    let table = Table::new(&format!("{GOOD}{STALE}"));
    let (_daemon, address) = start(&table, "memory:");
    until("it is stale", || summary(&address).contains("stale"));
    inspect(&browser, (&address, "/"), "stale");
    says(&browser, &["1 stale of 4 jobs", "Needs a look", "invoices", "stale", "none yet"]);
    browser.open(&format!("http://{address}/jobs/invoices"));
    says(&browser, &["invoices", "stale", "There has been none yet.", "Stale after"]);
}

#[test]
fn a_refused_table_is_seen_before_all_else() {
    let Some(browser) = Browser::start() else { return };
    let table = Table::new(GOOD);
    let (daemon, address) = start(&table, "memory:");
    // The folder is watched from here on, so that the change is seen at once.
    daemon.wait_for_event("daemon_ready");
    let text = fs::read_to_string(table.path()).unwrap();
    fs::write(table.path(), text.replace("'0 2 * * *'", "'61 2 * * *'")).unwrap();
    daemon.wait_for_event("table_refused");
    until("it is said", || get(&address, "/").body.contains("The jobs file is refused."));
    inspect(&browser, (&address, "/"), "refused");
    says(
        &browser,
        &[
            "The jobs file is refused.",
            "E302",
            "onecron validate",
            "All 3 jobs are in order; the jobs file is refused",
            "Needs a look",
        ],
    );
}

#[test]
fn a_store_that_is_away_is_seen_with_the_age_of_what_is_shown() {
    let Some(browser) = Browser::start() else { return };
    let Some(program) = program(Kind::Redis) else { return };
    let mut redis = RedisServer::start(&program, &[]);
    let table = Table::new(&format!("{GOOD}{BAD}"));
    let (daemon, address) = start(&table, &redis.url());
    daemon.wait_for_job("run_finished", "report");
    until("it is seen", || summary(&address) == "1 failing of 4 jobs");
    redis.kill();
    daemon.wait_for_event("store_lost");
    until("the view is old", || get(&address, "/api/v1/status").json()["view"]["stale"] == true);
    inspect(&browser, (&address, "/"), "away");
    let summary = "1 failing of 4 jobs (as it was known last)";
    says(&browser, &["The store is away.", "This is how it was", summary, "Needs a look", "report"]);
    browser.open(&format!("http://{address}/jobs/report"));
    says(&browser, &["The store is away.", "report", "failing", "Only the newest are shown"]);
}

#[test]
fn everything_is_reached_by_keyboard_and_shows_that_it_is() {
    let Some(browser) = Browser::start() else { return };
    let table = Table::new(&format!("{GOOD}{BAD}"));
    let store = format!("sqlite:{}", table.folder.path().join("runs.db").display());
    let (daemon, address) = start(&table, &store);
    let run = daemon.wait_for_job("run_finished", "report")["run_id"].as_str().unwrap().to_owned();
    until("it is seen", || get(&address, "/jobs/report").body.contains("/runs/"));
    for (width, path) in [(1280, "/"), (320, "/?state=failing"), (320, "/jobs/index"), (1280, &format!("/runs/{run}"))]
    {
        browser.shape(width, false);
        browser.open(&format!("http://{address}{path}"));
        assert_eq!(browser.unreachable(), Vec::<String>::new(), "{path} {width}");
    }
    // The first stop leads past what is the same on every page.
    browser.open(&format!("http://{address}/jobs/report"));
    browser.press(&[TAB]);
    assert_eq!(browser.run("return document.activeElement.innerText"), "Skip to the content");
    browser.picture("skip-link");
    browser.press(&[ENTER]);
    browser.press(&[TAB]);
    assert_eq!(browser.run("return document.querySelector('main').contains(document.activeElement)"), true);
    browser.picture("focus");
    // Jobs are looked for without a mouse, too.
    browser.open(&format!("http://{address}/"));
    browser.run("document.querySelector('input').focus()");
    browser.press(&["x"]);
    browser.press(&[ENTER]);
    until("the answer is shown", || browser.run("return location.search") == "?name=x&state=");
    says(&browser, &["Jobs", "index", "Running now"]);
}

#[test]
fn without_scripts_nothing_is_missing() {
    let Some(browser) = Browser::start() else { return };
    let table = Table::new(&format!("{GOOD}{BAD}").replace("'* * * * * *'", "'0 0 1 1 *'"));
    let (_daemon, address) = start(&table, "memory:");
    until("it is known", || summary(&address) == "All 4 jobs are in order");
    let page = "<!doctype html><title>no script</title><script>document.title = 'script'</script>";
    let web = Web::start(move |_| answer(200, "Content-Type: text/html\r\n", page));
    let mut seen = Vec::new();
    for (may, title) in [(true, "script"), (false, "no script")] {
        browser.allow_scripts(may);
        browser.open(&web.url("/"));
        assert_eq!(browser.title(), title, "the browser does as it is told");
        for path in ["/", "/?name=mails", "/jobs/report"] {
            browser.open(&format!("http://{address}{path}"));
            let text = browser.text();
            assert!(text.contains("mails") || text.contains("Totals per customer"), "{text}");
            // Distances in time are not the same at two times.
            let lasts =
                |word: &&str| word.trim_end_matches('.').len() > 3 && !word.contains(|c: char| c.is_ascii_digit());
            seen.push(text.split_whitespace().filter(lasts).collect::<Vec<_>>().join(" "));
        }
    }
    let (with, without) = seen.split_at(3);
    assert_eq!(with, without);
}

#[test]
fn a_page_that_is_left_open_shows_what_is_new() {
    let Some(browser) = Browser::start() else { return };
    let table = Table::new(GOOD);
    let (daemon, address) = start(&table, "memory:");
    daemon.wait_for_event("daemon_ready");
    until("it is known", || summary(&address) == "All 3 jobs are in order");
    browser.open(&format!("http://{address}/"));
    assert_eq!(browser.title(), "All 3 jobs are in order · onecron");
    let text = fs::read_to_string(table.path()).unwrap();
    fs::write(table.path(), format!("{text}{BAD}")).unwrap();
    until_limit("it is shown", LIMIT, || browser.title() == "1 failing of 4 jobs · onecron");
}

#[test]
fn a_bad_page_is_found_to_be_bad() {
    let Some(browser) = Browser::start() else { return };
    let page = "<!doctype html><title>bad</title><style>a:focus { outline: none } a { color: #bbb }</style>
        <img src=/none><p style='width: 400px'>wide <a href=/>unseen</a> <button tabindex=-1>unreached</button>
        <script>console.error('oh')</script>";
    let web = Web::start(move |_| answer(200, "Content-Type: text/html\r\n", page));
    browser.shape(320, false);
    browser.open(&web.url("/"));
    assert!(browser.overhang() > 0);
    assert!(browser.complaints().iter().any(|line| line.contains("oh")));
    let unreachable = browser.unreachable();
    assert_eq!(unreachable.len(), 2, "{unreachable:?}");
    let Some(violations) = browser.violations(false) else { return };
    for rule in ["html-has-lang", "image-alt", "color-contrast"] {
        assert!(violations.iter().any(|line| line.starts_with(rule)), "no {rule} in {violations:?}");
    }
}
