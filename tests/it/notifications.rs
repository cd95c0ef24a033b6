//! Who is told of jobs, as operators meet it: real daemons, and real servers that are told.

mod fleet;
mod receivers;
mod told;

use crate::support::daemon::Daemon;
use crate::support::daemon::Launch;
use crate::support::web::Seen;
use crate::support::web::Web;
use serde_json::Value;
use std::path::Path;

/// What may be in no log: parts of addresses, headers and keys of the notifiers here.
pub const SECRETS: [&str; 3] = ["S3CRET-PATH", "S3CRET-HEADER", "S3CRET-KEY"];

/// A folder with a table, its store, and what jobs leave behind.
pub struct Place {
    pub folder: tempfile::TempDir,
}

impl Place {
    pub fn new(notifiers: &str, jobs: &str) -> Self {
        let place = Self { folder: tempfile::tempdir().unwrap() };
        place.write(notifiers, jobs);
        place
    }

    /// Another table. Both parts are indented by two blanks.
    pub fn write(&self, notifiers: &str, jobs: &str) {
        let scheduler = "{lockLease: 5s, clockSkewTolerance: 100ms, maxConcurrentRuns: 0, redact: ['hunter[0-9]']}";
        let text = format!("version: 1\nscheduler: {scheduler}\nnotifiers:\n{notifiers}jobs:\n{jobs}");
        let (new, path) = (self.folder.path().join("new"), self.path().join("jobs.yaml"));
        std::fs::write(&new, text).unwrap();
        std::fs::rename(new, path).unwrap();
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn launch(&self, name: &str) -> Launch {
        let jobs = self.path().join("jobs.yaml").display().to_string();
        let arguments = ["run", "--jobs", &jobs, "--store", "sqlite:fleet.db", "--instance", name];
        Launch::new(&arguments).arg("--log-level").arg("debug").folder(self.path())
    }

    pub fn start(&self, name: &str) -> Daemon {
        self.launch(name).start()
    }

    pub fn start_fleet(&self, count: usize) -> Vec<Daemon> {
        let fleet: Vec<Daemon> = (1..=count).map(|n| self.start(&format!("web-{n}"))).collect();
        fleet.iter().for_each(|daemon| drop(daemon.wait_for_event("daemon_ready")));
        fleet
    }
}

/// `hook: …`, a webhook at a server.
pub fn hook(web: &Web) -> String {
    format!("  hook: {{type: webhook, url: '{}'}}\n", web.url("/S3CRET-PATH"))
}

/// The bodies that a webhook got.
pub fn bodies(web: &Web) -> Vec<Value> {
    web.seen().iter().map(body).collect()
}

pub fn body(seen: &Seen) -> Value {
    serde_json::from_str(&seen.body).unwrap_or_else(|error| panic!("{error}: {seen:?}"))
}

/// All things of one kind that it was told, in their order.
pub fn items(web: &Web, event: &str) -> Vec<Value> {
    let bodies = bodies(web).into_iter().filter(|body| body["event"] == event);
    bodies.flat_map(|body| body["items"].as_array().unwrap().clone()).collect()
}

/// No line of the log has a secret in it.
pub fn assert_secret(daemons: &[Daemon]) {
    for daemon in daemons {
        let said = format!("{:?}{:?}{}", daemon.lines(), daemon.strays(), daemon.errors());
        for secret in SECRETS {
            assert!(!said.contains(secret), "{secret} in {said}");
        }
    }
}
