//! Requests, against servers that are slow, silent, endless, broken, elsewhere, or not who they should be.

use crate::processes;
use crate::support::wait_until;
use crate::support::web::Act;
use crate::support::web::Authority;
use crate::support::web::Web;
use crate::support::web::answer;
use crate::support::web::ok;
use crate::support::web::redirect;
use onecron::executor::RunContext;
use onecron::executor::http::Gate;
use onecron::executor::http::Reply;
use onecron::executor::http::Request;
use onecron::executor::http::Unsent;
use onecron::job::EnvValue;
use onecron::job::HttpSpec;
use onecron::job::ProxySpec;
use onecron::job::Tick;
use std::future::pending;
use std::future::ready;
use std::time::Duration;

const SHORT: Duration = Duration::from_millis(400);
/// How long any request may take here.
const LIMIT: Duration = Duration::from_secs(20);

fn context() -> RunContext {
    let mut context = processes::context("purge");
    context.last_success = None;
    context
}

/// A request that goes straight to its server, whatever the environment of the tests says.
fn direct(method: &str, url: &str) -> HttpSpec {
    let url = EnvValue::Text(url.to_owned());
    HttpSpec { method: method.to_owned(), proxy: ProxySpec::None, ..HttpSpec::to(url) }
}

fn text(value: &str) -> EnvValue {
    EnvValue::Text(value.to_owned())
}

async fn sent(spec: &HttpSpec) -> Reply {
    let request = Request::prepare(spec, &context(), 16 << 10).unwrap();
    let performed = tokio::time::timeout(LIMIT, request.perform(Gate::new(|| true), pending())).await;
    performed.expect("it ends by itself").unwrap()
}

fn refused(spec: &HttpSpec) -> String {
    Request::prepare(spec, &context(), 0).unwrap_err().to_string()
}

#[tokio::test]
async fn a_server_is_told_about_the_run_and_its_answer_is_kept() {
    let web = Web::start(|_| answer(201, "", "created: ä"));
    let mut spec = direct("POST", &web.url("/admin/purge?all=1"));
    spec.headers = vec![("Content-Type".to_owned(), text("application/json"))];
    spec.body = Some(text("{\"a\": 1}"));
    let context = RunContext { last_success: Some(Tick::from_seconds(0)), ..context() };
    let request = Request::prepare(&spec, &context, 16 << 10).unwrap();
    let reply = request.perform(Gate::new(|| true), pending()).await.unwrap();
    let expected =
        Reply { status: Some(201), error: String::new(), body_head: "created: ä".to_owned(), body_bytes: 11 };
    assert_eq!(reply, expected);
    let seen = web.only();
    assert_eq!((seen.line.as_str(), seen.body.as_str()), ("POST /admin/purge?all=1 HTTP/1.1", "{\"a\": 1}"));
    let run = context.run.to_string();
    for (name, value) in [
        ("Idempotency-Key", run.as_str()),
        ("Onecron-Job", "purge"),
        ("Onecron-Run-Id", &run),
        ("Onecron-Scheduled-For", &context.scheduled_for.to_string()),
        ("Onecron-Attempt", &context.start.to_string()),
        ("Onecron-Trigger", &context.trigger),
        ("Onecron-Fencing-Token", &context.token.to_string()),
        ("Onecron-Replica", &context.holder.to_string()),
        ("Onecron-Last-Success", "1970-01-01T00:00:00Z"),
        ("Content-Type", "application/json"),
        ("Accept-Encoding", "identity"),
        ("User-Agent", concat!("onecron/", env!("CARGO_PKG_VERSION"))),
    ] {
        assert_eq!(seen.header(name), value, "{name}");
    }
}

#[tokio::test]
async fn an_answer_with_another_status_is_a_failure_and_what_it_says_is_kept() {
    let web = Web::start(|_| answer(503, "", "try later"));
    let mut spec = direct("POST", &web.url("/open-path"));
    let reply = sent(&spec).await;
    assert_eq!((reply.status, reply.body_head.as_str()), (Some(503), "try later"));
    let origin = web.url("");
    let expected =
        format!("POST {origin}/open-path: the status of the answer is 503 Service Unavailable: 200..299 is expected");
    assert_eq!(reply.error, expected);
    let slow = b"HTTP/1.1 500 Status\r\nContent-Length: 9\r\n\r\nslow".to_vec();
    let slow = Web::start(move |_| vec![Act::Send(slow.clone()), Act::Hold]);
    let reply = sent(&HttpSpec { timeout: SHORT, ..direct("POST", &slow.url("/")) }).await;
    assert_eq!((reply.status, reply.body_head.as_str()), (Some(500), "slow"));
    assert!(
        reply.error.contains("the status of the answer is 500 Internal Server Error"),
        "it is what counts: {}",
        reply.error
    );
    spec.expect_status = vec![200..=204, 503..=503];
    assert_eq!(sent(&spec).await.error, "");
    assert!(web.seen().iter().all(|seen| seen.header("Content-Length") == "0" && !seen.has("Onecron-Last-Success")));
}

#[tokio::test]
async fn a_post_is_not_turned_into_a_get() {
    for method in ["POST", "PUT", "PATCH", "DELETE"] {
        for status in [301, 302, 303] {
            let elsewhere = Web::start(|_| ok());
            let place = elsewhere.url("/done?token=hidden");
            let web = Web::start(move |_| redirect(status, &place));
            let reply = sent(&direct(method, &web.url("/"))).await;
            let found = (reply.status, elsewhere.connections(), web.connections());
            assert_eq!(found, (Some(status), 0, 1), "{method} {status}");
            let wanted = format!("it redirects to {}/…, which would turn the {method} into a GET", elsewhere.url(""));
            assert!(reply.error.contains(&wanted) && !reply.error.contains("hidden"), "{}", reply.error);
        }
    }
}

#[tokio::test]
async fn a_redirect_that_keeps_the_method_is_followed_with_the_body() {
    for status in [307, 308] {
        let web = Web::start(move |seen| if seen.line.contains("/old") { redirect(status, "new") } else { ok() });
        let mut spec = direct("POST", &web.url("/a/old"));
        spec.body = Some(text("once"));
        spec.headers = vec![("Authorization".to_owned(), text("Bearer hidden"))];
        assert_eq!(sent(&spec).await.error, "");
        let seen = web.seen();
        assert_eq!((seen[1].line.as_str(), seen[1].body.as_str()), ("POST /a/new HTTP/1.1", "once"));
        assert_eq!(seen[1].header("Authorization"), "Bearer hidden", "it is the same place");
        assert_eq!(seen[0].header("Idempotency-Key"), seen[1].header("Idempotency-Key"));
        spec.follow_redirects = false;
        let reply = sent(&spec).await;
        assert_eq!((reply.status, web.connections()), (Some(status), 3));
        assert!(reply.error.contains("`followRedirects` is false"), "{}", reply.error);
    }
}

#[tokio::test]
async fn a_get_follows_ten_redirects_and_no_more() {
    let web = Web::start(|seen| {
        let number: u32 = seen.line.split(['/', ' ']).nth(2).unwrap().parse().unwrap();
        if number == 0 { ok() } else { redirect(302, &format!("/{}", number - 1)) }
    });
    assert_eq!(sent(&direct("GET", &web.url("/10"))).await.error, "");
    assert_eq!(web.connections(), 11);
    let reply = sent(&direct("GET", &web.url("/11"))).await;
    assert!(
        reply.error.ends_with("the status of the answer is 302 Found: redirected 10 times, and once more"),
        "{}",
        reply.error
    );
    assert_eq!((reply.status, web.connections()), (Some(302), 22));
}

#[tokio::test]
async fn nothing_secret_goes_to_another_place() {
    let elsewhere = Web::start(|_| ok());
    let place = elsewhere.url("/");
    let web = Web::start(move |_| redirect(307, &place));
    let mut spec = direct("POST", &web.url("/"));
    for (name, value) in [
        ("Authorization", "Bearer hidden"),
        ("Cookie", "hidden"),
        ("X-Api-Key", "hidden"),
        ("Host", "web.internal"),
        ("Content-Type", "text/plain"),
    ] {
        spec.headers.push((name.to_owned(), text(value)));
    }
    spec.body = Some(text("open"));
    assert_eq!(sent(&spec).await.error, "");
    let seen = elsewhere.only();
    assert!(["Authorization", "Cookie", "X-Api-Key"].iter().all(|name| !seen.has(name)), "{seen:?}");
    assert_eq!(seen.header("Host"), format!("127.0.0.1:{}", elsewhere.port));
    assert_eq!((seen.header("Content-Type"), seen.header("Onecron-Job")), ("text/plain".into(), "purge".into()));
    assert!(web.seen()[0].has("Cookie") && web.seen()[0].header("Host") == "web.internal");
    // The body of which is known that it is none for the table.
    spec.body = Some(EnvValue::FromEnv("CARGO_PKG_NAME".to_owned()));
    let reply = sent(&spec).await;
    assert!(reply.error.contains("comes from a file or a variable is not sent"), "{}", reply.error);
    assert_eq!(elsewhere.connections(), 1);
}

#[tokio::test]
async fn a_server_that_accepts_and_stays_silent_is_given_up() {
    let web = Web::start(|_| vec![Act::Hold]);
    let mut spec = direct("POST", &web.url("/"));
    spec.first_byte_timeout = SHORT;
    let reply = sent(&spec).await;
    let url = web.url("/");
    let expected = format!("POST {url}: wait for the head of the answer: nothing whole came within 400ms");
    assert_eq!((reply.status, reply.error), (None, expected));
    wait_until("the connection is closed", || ready(web.open() == 0)).await;
    assert_eq!(web.connections(), 1, "and it is not sent again");
}

#[tokio::test]
async fn a_head_that_never_ends_is_given_up() {
    let line = |text: &str| text.as_bytes().to_vec();
    let slowly = vec![Act::Send(line("HTTP/1.1 200 OK\r\n")), Act::Repeat(line("X: y\r\n"), SHORT / 20)];
    let web = Web::start(move |_| slowly.clone());
    let mut spec = direct("POST", &web.url("/"));
    spec.first_byte_timeout = SHORT;
    let reply = sent(&spec).await;
    assert!(reply.status.is_none() && reply.error.ends_with("nothing whole came within 400ms"), "{}", reply.error);
    wait_until("the connection is closed", || ready(web.open() == 0)).await;
}

#[tokio::test]
async fn a_head_that_is_huge_is_refused() {
    for line in ["X: y\r\n".repeat(1000), format!("X: {}\r\n", "y".repeat(10_000)), "X".repeat(10_000)] {
        let acts = vec![Act::Send(b"HTTP/1.1 200 OK\r\n".to_vec()), Act::Repeat(line.into_bytes(), Duration::ZERO)];
        let web = Web::start(move |_| acts.clone());
        let reply = sent(&direct("POST", &web.url("/"))).await;
        assert!(reply.status.is_none() && reply.error.contains("message head is too large"), "{}", reply.error);
    }
}

#[tokio::test]
async fn an_answer_that_comes_byte_by_byte_ends_at_the_timeout() {
    let head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n".to_vec();
    let web = Web::start(move |_| vec![Act::Send(head.clone()), Act::Repeat(b"x".to_vec(), SHORT / 20)]);
    let mut spec = direct("POST", &web.url("/"));
    spec.timeout = SHORT;
    let reply = sent(&spec).await;
    assert_eq!(reply.status, Some(200));
    let wanted = "read the body of the answer: not done within 400ms, the request's `timeout`";
    assert!(reply.error.ends_with(wanted), "{}", reply.error);
    assert!(reply.body_bytes > 0 && reply.body_head.bytes().all(|byte| byte == b'x'));
    wait_until("the connection is closed", || ready(web.open() == 0)).await;
}

#[tokio::test]
async fn a_body_without_end_is_cut_off() {
    let head = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n".to_vec();
    let web = Web::start(move |_| vec![Act::Send(head.clone()), Act::Repeat(vec![b'x'; 1 << 16], Duration::ZERO)]);
    let reply = sent(&direct("POST", &web.url("/"))).await;
    assert_eq!((reply.status, reply.error.as_str()), (Some(200), ""), "the server has answered");
    assert_eq!(reply.body_head, "x".repeat(1024));
    assert!((16 << 20..17 << 20).contains(&reply.body_bytes), "{}", reply.body_bytes);
    wait_until("the connection is closed", || ready(web.open() == 0)).await;
}

#[tokio::test]
async fn a_compressed_body_stays_as_it_is() {
    // The beginning of what would unfold to a thousand times its size.
    let bomb = [&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3][..], &[0; 2000]].concat();
    let head = format!("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n", bomb.len());
    let all = [head.into_bytes(), bomb].concat();
    let web = Web::start(move |_| vec![Act::Send(all.clone())]);
    let reply = sent(&direct("GET", &web.url("/"))).await;
    assert_eq!((reply.status, reply.error.as_str(), reply.body_bytes), (Some(200), "", 2010));
    assert!(reply.body_head.starts_with("\u{1f}\u{fffd}") && reply.body_head.len() <= 1024);
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_a_failure() {
    let half = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf".to_vec();
    let web = Web::start(move |_| vec![Act::Send(half.clone()), Act::Reset]);
    let reply = sent(&direct("POST", &web.url("/"))).await;
    assert_eq!((reply.status, reply.body_head.as_str()), (Some(200), "half"));
    assert!(reply.error.contains("read the body of the answer: ") && reply.error.ends_with("(after 4 bytes)"));
    let mute = Web::start(|_| vec![Act::Reset]);
    let reply = sent(&direct("POST", &mute.url("/"))).await;
    assert!(reply.status.is_none() && reply.error.contains("wait for the head of the answer: connection closed"));
    assert_eq!(mute.connections(), 1, "it may have been done, and is not sent again");
}

#[tokio::test]
async fn no_connection_is_used_twice() {
    let web = Web::start(|_| answer(200, "Connection: keep-alive\r\nKeep-Alive: timeout=600\r\n", "done"));
    for _ in 0..3 {
        assert_eq!(sent(&direct("GET", &web.url("/"))).await.error, "");
    }
    let connections: Vec<usize> = web.seen().iter().map(|seen| seen.connection).collect();
    assert_eq!(connections, [1, 2, 3]);
    wait_until("none is left open", || ready(web.open() == 0)).await;
}

#[tokio::test]
async fn a_server_that_is_not_there_is_said_by_its_address_without_the_query() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let reply = sent(&direct("POST", &format!("http://127.0.0.1:{port}/purge?token=hidden"))).await;
    let expected =
        format!("POST http://127.0.0.1:{port}/purge?…: connect: tcp connect error: Connection refused (os error 111)");
    assert_eq!((reply.status, reply.error), (None, expected));
}

#[tokio::test]
async fn a_connection_that_does_not_come_about_is_given_up() {
    // By TLS, with a server that has never heard of it.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let authority = Authority::new();
    let mut spec = direct("POST", &format!("https://127.0.0.1:{}/", listener.local_addr().unwrap().port()));
    spec.connect_timeout = SHORT;
    spec.ca_file = Some(authority.file());
    let reply = sent(&spec).await;
    assert!(reply.error.ends_with("connect: no connection within 400ms"), "{}", reply.error);
}

#[tokio::test]
async fn a_private_authority_is_trusted_where_it_is_named_and_nowhere_else() {
    let authority = Authority::new();
    let web = Web::secure(&authority, |_| ok());
    let mut spec = direct("POST", &format!("https://127.0.0.1:{}/", web.port));
    spec.ca_file = Some(authority.file());
    assert_eq!(sent(&spec).await.error, "");
    spec.ca_file = Some(Authority::new().file());
    let gone = refused(&spec);
    assert!(gone.contains("ca.pem` cannot be read: No such file"), "{gone}");
    let other = Authority::new();
    spec.ca_file = Some(other.file());
    let reply = sent(&spec).await;
    let is_told =
        reply.error.contains("invalid peer certificate") && reply.error.contains("no certificate that vouches for it");
    assert!(is_told, "{}", reply.error);
    spec.ca_file = None;
    let error = sent(&spec).await.error;
    let is_told = error.contains("name") && error.contains("caFile");
    assert!(
        is_told && (error.contains("UnknownIssuer") || error.contains("no certificates of authorities")),
        "{error}"
    );
    spec.url = text(&format!("https://localhost:{}/", web.port));
    spec.ca_file = Some(authority.file());
    assert!(sent(&spec).await.error.contains("not valid for name"), "{}", sent(&spec).await.error);
    assert_eq!(web.seen().len(), 1, "nobody else was told anything");
    let empty = authority.folder().join("empty.pem");
    std::fs::write(&empty, "no certificate\n").unwrap();
    spec.ca_file = Some(empty);
    assert!(refused(&spec).contains("has no certificate in it"));
}

#[tokio::test]
async fn a_request_that_is_encrypted_is_not_led_to_a_place_where_it_is_not() {
    let open = Web::start(|_| ok());
    let place = open.url("/");
    let authority = Authority::new();
    let web = Web::secure(&authority, move |_| redirect(307, &place));
    let mut spec = direct("GET", &format!("https://127.0.0.1:{}/", web.port));
    spec.ca_file = Some(authority.file());
    let reply = sent(&spec).await;
    assert!(reply.error.contains("which is not encrypted as the request is"), "{}", reply.error);
    assert_eq!(open.connections(), 0);
}

#[tokio::test]
async fn a_proxy_is_asked_for_all_of_an_open_request() {
    let proxy = Web::start(|_| ok());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("proxy");
    std::fs::write(&file, format!("http://ada:hidden@127.0.0.1:{}\n", proxy.port)).unwrap();
    let mut spec = direct("POST", "http://web.team.svc:8080/path");
    spec.proxy = ProxySpec::Url(EnvValue::FromFile(file));
    spec.body = Some(text("body"));
    assert_eq!(sent(&spec).await.error, "");
    let seen = proxy.only();
    assert_eq!((seen.line.as_str(), seen.body.as_str()), ("POST http://web.team.svc:8080/path HTTP/1.1", "body"));
    assert_eq!(seen.header("Proxy-Authorization"), "Basic YWRhOmhpZGRlbg==");
    let strict = Web::start(|_| answer(407, "", "who are you?"));
    spec.proxy = ProxySpec::Url(text(&strict.url("")));
    let reply = sent(&spec).await;
    let wanted = format!("POST http://web.team.svc:8080/path through the proxy {}: ", strict.url(""));
    assert!(reply.error.starts_with(&wanted) && reply.error.contains("407"), "{}", reply.error);
}

#[tokio::test]
async fn a_proxy_only_passes_on_what_is_encrypted() {
    let authority = Authority::new();
    let web = Web::secure(&authority, |_| ok());
    let port = web.port;
    let established = b"HTTP/1.1 200 Connection established\r\n\r\n".to_vec();
    let proxy = Web::start(move |_| vec![Act::Send(established.clone()), Act::Tunnel(port)]);
    let mut spec = direct("POST", &format!("https://127.0.0.1:{port}/hidden"));
    spec.proxy = ProxySpec::Url(text(&proxy.url("")));
    spec.ca_file = Some(authority.file());
    spec.headers = vec![("Authorization".to_owned(), text("Bearer hidden"))];
    assert_eq!(sent(&spec).await.error, "");
    let asked = proxy.only();
    assert_eq!(asked.line, format!("CONNECT 127.0.0.1:{port} HTTP/1.1"));
    assert!(!format!("{asked:?}").contains("hidden"), "{asked:?}");
    assert_eq!(web.only().line, "POST /hidden HTTP/1.1");
    let refusing = Web::start(|_| answer(403, "", "no"));
    spec.proxy = ProxySpec::Url(text(&refusing.url("")));
    let reply = sent(&spec).await;
    assert!(reply.status.is_none() && reply.error.contains("through the proxy"), "{}", reply.error);
    assert!(reply.error.contains("tunnel"), "{}", reply.error);
}

#[tokio::test]
async fn a_request_that_is_to_stop_is_given_up_at_once() {
    let web = Web::start(|_| vec![Act::Hold]);
    let request = Request::prepare(&direct("POST", &web.url("/")), &context(), 0).unwrap();
    let gate = Gate::new(|| true);
    let mut connections = gate.connections();
    let stop = async move {
        connections.wait_for(|count| *count == 1).await.unwrap();
    };
    let reply = request.perform(gate, stop).await.unwrap();
    assert!(reply.status.is_none() && reply.error.ends_with(": given up"), "{}", reply.error);
    wait_until("the connection is closed", || ready(web.open() == 0)).await;
}

#[tokio::test]
async fn nothing_is_sent_once_the_lease_is_over() {
    let web = Web::start(|_| ok());
    let request = Request::prepare(&direct("POST", &web.url("/")), &context(), 0).unwrap();
    assert_eq!(request.perform(Gate::new(|| false), pending()).await, Err(Unsent::TooLate));
    wait_until("the connection is closed", || ready(web.connections() == 1 && web.open() == 0)).await;
    assert_eq!(web.seen().len(), 0);
}

#[tokio::test]
async fn values_from_elsewhere_are_those_of_the_start_and_stand_in_no_error() {
    let web = Web::start(|_| ok());
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("secret");
    let mut spec = direct("POST", "");
    spec.url = EnvValue::FromFile(folder.path().join("url"));
    spec.headers = vec![("Authorization".to_owned(), EnvValue::FromFile(secret.clone()))];
    spec.body = Some(EnvValue::FromEnv("CARGO_PKG_NAME".to_owned()));
    let missing = refused(&spec);
    assert!(missing.starts_with("start the job: set its `http.url` from the file `"), "{missing}");
    std::fs::write(folder.path().join("url"), web.url("/T0/hidden\n")).unwrap();
    for token in ["one", "two"] {
        std::fs::write(&secret, format!("Bearer {token}\n")).unwrap();
        assert_eq!(sent(&spec).await.error, "");
        let seen = web.seen().pop().unwrap();
        assert_eq!((seen.header("Authorization"), seen.body), (format!("Bearer {token}"), "onecron".to_owned()));
        assert_eq!(seen.line, "POST /T0/hidden HTTP/1.1");
    }
    for bad in ["Bearer hidden\r\nX-Other: 1", "hidden\0", &"hidden".repeat(20_000)] {
        std::fs::write(&secret, bad).unwrap();
        let error = refused(&spec);
        assert!(error.contains("header `Authorization`") && !error.contains("hidden"), "{error}");
    }
    std::fs::write(&secret, "fine").unwrap();
    for bad in ["ftp://hidden/", "http://ada:hidden@127.0.0.1/", "hidden"] {
        std::fs::write(folder.path().join("url"), bad).unwrap();
        let error = refused(&spec);
        assert!(error.contains("`http.url`") && !error.contains("hidden"), "{error}");
    }
    assert_eq!(web.connections(), 2);
}

#[tokio::test]
async fn nothing_of_an_address_that_is_a_secret_is_in_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let mut spec = direct("POST", "");
    spec.url = EnvValue::FromFile(folder.path().join("url"));
    let proxy = Web::start(|_| answer(502, "", ""));
    let web = Web::start(|_| redirect(302, "http://urls3cret.invalid/T1"));
    let authority = Authority::new();
    let secure = Web::secure(&authority, |_| ok());
    spec.ca_file = Some(authority.file());
    let through = ProxySpec::Url(text(&proxy.url("")));
    let name = format!("https://localhost:{}/", secure.port);
    for (url, proxy, found) in [
        ("http://urls3cret.invalid/T0", ProxySpec::None, "POST ***: connect: "),
        ("http://urls3cret.invalid/T0?t=1", through, "POST *** through the proxy http://127.0.0.1:"),
        (&web.url("/T0"), ProxySpec::None, "it redirects to ***, which would turn"),
        (&name, ProxySpec::None, "not valid for name \"***\""),
    ] {
        std::fs::write(folder.path().join("url"), url).unwrap();
        let error = sent(&HttpSpec { proxy, ..spec.clone() }).await.error;
        let is_hidden =
            ["s3cret", "T0", "T1", "localhost", &web.port.to_string()].iter().all(|part| !error.contains(part));
        assert!(error.contains(found) && is_hidden, "{error}");
    }
}

#[tokio::test]
async fn what_is_redacted_of_an_address_is_looked_for_as_it_was_written() {
    let redaction = [onecron::secret::Rule::new("Team[A-Z]").unwrap()].into_iter().collect();
    let context = RunContext { redaction, ..context() };
    let spec = direct("POST", "http://TeamA.invalid/x");
    let request = Request::prepare(&spec, &context, 0).unwrap();
    let error = request.perform(Gate::new(|| true), pending()).await.unwrap().error;
    assert!(error.starts_with("POST http://[redacted].invalid/x: connect: "), "{error}");
    assert!(!error.contains("teama"), "{error}");
}
