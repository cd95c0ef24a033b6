//! Debian's Chromium, driven by chromedriver: a small client of the WebDriver protocol, and what is held against a page.

use super::client;
use super::server::find_program;
use super::server::free_port;
use crate::processes::until;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use nix::sys::signal::Signal;
use nix::sys::signal::killpg;
use nix::unistd::Pid;
use serde_json::Value;
use serde_json::json;
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use tempfile::TempDir;

/// As the protocol writes keys.
pub const TAB: &str = "\u{e004}";
pub const ENTER: &str = "\u{e007}";

/// A browser of its own, with a new profile; ended when this is dropped.
pub struct Browser {
    driver: Child,
    address: String,
    session: String,
    /// The profile is in it.
    folder: TempDir,
}

impl Browser {
    /// `None` where this machine has no Chromium, unless `REQUIRE_TOOLS` names it.
    pub fn start() -> Option<Self> {
        let [Some(program), Some(chromium)] = ["chromedriver", "chromium"].map(find_program) else {
            is_missing("chromium");
            return None;
        };
        let (folder, port) = (tempfile::tempdir().unwrap(), free_port());
        let driver = Command::new(program)
            .arg(format!("--port={port}"))
            // A group of its own, as the browser is many processes.
            .process_group(0)
            .env("HOME", folder.path())
            .env_remove("XDG_CONFIG_HOME")
            .env_remove("XDG_CACHE_HOME")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut browser = Self { driver, address: format!("127.0.0.1:{port}"), session: String::new(), folder };
        until("chromedriver listens", || TcpStream::connect(&browser.address).is_ok());
        let profile = format!("--user-data-dir={}/profile", browser.folder.path().display());
        // Root gets no sandbox, and /dev/shm is small in containers.
        let args = [
            "--headless",
            "--no-sandbox",
            "--disable-dev-shm-usage",
            "--disable-gpu",
            "--hide-scrollbars",
            profile.as_str(),
        ];
        let capabilities = json!({"capabilities": {"alwaysMatch": {
            "goog:chromeOptions": {"binary": chromium, "args": args},
            "goog:loggingPrefs": {"browser": "ALL"},
        }}});
        let session = browser.ask("/session", &capabilities);
        browser.session = session["sessionId"].as_str().unwrap().to_owned();
        Some(browser)
    }

    fn ask(&self, path: &str, body: &Value) -> Value {
        let head = "Content-Type: application/json\r\n";
        let answer = client::exchange(&self.address, ("POST", path), head, &body.to_string()).unwrap();
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        answer.json()["value"].take()
    }

    fn command(&self, command: &str, body: &Value) -> Value {
        self.ask(&format!("/session/{}/{command}", self.session), body)
    }

    /// A command of the developer tools, for what the protocol has no word.
    fn tools(&self, command: &str, params: &Value) -> Value {
        self.command("goog/cdp/execute", &json!({"cmd": command, "params": params}))
    }

    /// Shows a page, once it is loaded.
    pub fn open(&self, url: &str) {
        self.command("url", &json!({"url": url}));
    }

    /// How wide the window is, and whether the page is to be dark.
    pub fn shape(&self, width: u32, is_dark: bool) {
        let screen = json!({"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": false});
        self.tools("Emulation.setDeviceMetricsOverride", &screen);
        let scheme = json!({"name": "prefers-color-scheme", "value": if is_dark { "dark" } else { "light" }});
        self.tools("Emulation.setEmulatedMedia", &json!({"features": [scheme]}));
    }

    /// Whether pages may run scripts. What the tests themselves run is run in any case.
    pub fn allow_scripts(&self, may: bool) {
        self.tools("Emulation.setScriptExecutionDisabled", &json!({"value": !may}));
    }

    /// What the body of a function gives back, in the page.
    pub fn run(&self, script: &str) -> Value {
        self.command("execute/sync", &json!({"script": script, "args": []}))
    }

    pub fn title(&self) -> String {
        let path = format!("/session/{}/title", self.session);
        let answer = client::exchange(&self.address, ("GET", &path), "", "").unwrap();
        answer.json()["value"].as_str().unwrap_or_default().to_owned()
    }

    /// What a person reads.
    pub fn text(&self) -> String {
        self.run("return document.body.innerText").as_str().unwrap().to_owned()
    }

    /// Presses keys and lets them go, one after the other.
    pub fn press(&self, keys: &[&str]) {
        let stroke = |key: &&str| ["keyDown", "keyUp"].map(|stroke| json!({"type": stroke, "value": key}));
        let strokes: Vec<Value> = keys.iter().flat_map(stroke).collect();
        self.command("actions", &json!({"actions": [{"type": "key", "id": "keyboard", "actions": strokes}]}));
    }

    /// What the browser has had to complain of since it was asked last.
    pub fn complaints(&self) -> Vec<String> {
        let lines = self.command("se/log", &json!({"type": "browser"}));
        lines.as_array().unwrap().iter().map(|line| line["message"].as_str().unwrap().to_owned()).collect()
    }

    /// By how many pixels the page is wider than its window.
    pub fn overhang(&self) -> i64 {
        self.run("return document.documentElement.scrollWidth - document.documentElement.clientWidth").as_i64().unwrap()
    }

    /// What axe has against the page, by all its rules or by those alone that look at colours: a line for each place.
    /// `None` where axe is not to be had.
    pub fn violations(&self, by_colours_only: bool) -> Option<Vec<String>> {
        let script = axe()?;
        let rules = if by_colours_only { "['color-contrast', 'link-in-text-block']" } else { "undefined" };
        let script = format!(
            "{script}
            const done = arguments[arguments.length - 1];
            axe.run({{runOnly: {rules}}}).then(found => done(found.violations.flatMap(rule => rule.nodes.map(node =>
                `${{rule.id}} at ${{node.target}}: ${{node.failureSummary}}`))), error => done([`${{error}}`]));"
        );
        let found = self.command("execute/async", &json!({"script": script, "args": []}));
        Some(serde_json::from_value(found).unwrap())
    }

    /// What there is to follow, open or fill in, and cannot be reached with the tabulator or does not show that it is.
    pub fn unreachable(&self) -> Vec<String> {
        let count = self.run(
            "window.missing = new Set([...document.querySelectorAll('a[href], button, input, select, textarea, summary')]
                .filter(one => one.checkVisibility()));
            document.addEventListener('focusin', ({target}) => {
                const style = getComputedStyle(target), box = target.getBoundingClientRect();
                if (style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2 && box.width > 0
                    && box.left >= 0 && box.right <= innerWidth && box.top + scrollY >= 0) missing.delete(target);
            });
            document.activeElement.blur();
            return missing.size",
        );
        // All at once: a page that is read again in between begins anew.
        self.press(&vec![TAB; usize::try_from(count.as_u64().unwrap()).unwrap()]);
        serde_json::from_value(self.run("return [...missing].map(one => one.outerHTML)")).unwrap()
    }

    /// Keeps a picture of the whole page in the folder that `ONECRON_PICTURES` names, for somebody to look at.
    pub fn picture(&self, name: &str) {
        let Some(folder) = std::env::var_os("ONECRON_PICTURES").map(PathBuf::from) else { return };
        let picture = self.tools("Page.captureScreenshot", &json!({"captureBeyondViewport": true}));
        let bytes = STANDARD.decode(picture["data"].as_str().unwrap()).unwrap();
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(format!("{name}.png")), bytes).unwrap();
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // In peace, if it hears: what it writes into its folder is written then.
        let path = format!("/session/{}", self.session);
        let _ = client::exchange(&self.address, ("DELETE", &path), "", "");
        // The group has the number of the process that we started, which is ours until it is waited for.
        let _ = killpg(Pid::from_raw(self.driver.id().try_into().unwrap()), Signal::SIGKILL);
        let _ = self.driver.wait();
    }
}

/// The text of axe-core, from the file that `ONECRON_AXE` names: it is not ours to copy.
fn axe() -> Option<String> {
    let Some(file) = std::env::var_os("ONECRON_AXE") else {
        is_missing("axe");
        return None;
    };
    Some(std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display())))
}

/// A failure where `REQUIRE_TOOLS` names the tool, else a word.
fn is_missing(tool: &str) {
    let required = std::env::var("REQUIRE_TOOLS").unwrap_or_default();
    assert!(!required.split(' ').any(|word| word == tool), "{tool} is required and not to be had");
    println!("SKIPPED: no {tool} here");
}
