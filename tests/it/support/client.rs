//! A client of a daemon's HTTP server: one request a connection, bytes as they come.

use serde_json::Value;
use std::io::BufRead;
use std::io::BufReader;
use std::io::ErrorKind;
use std::io::Read;
use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

/// What came back.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    head: String,
    pub body: String,
}

impl Answer {
    /// The value of a header line; empty if there is none.
    pub fn header(&self, name: &str) -> &str {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.filter(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value).next().unwrap_or_default()
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// Connects to `address`, as in `http_listening`.
pub fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream
}

/// Reads until the server closes.
pub fn rest(mut stream: TcpStream) -> String {
    let mut bytes = Vec::new();
    // A server that drops a client may do so with a reset.
    let _ = stream.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Whether the server ends a connection by itself, in this time.
pub fn closes_within(mut stream: TcpStream, limit: Duration) -> bool {
    stream.set_read_timeout(Some(limit)).unwrap();
    let mut some = [0; 256];
    loop {
        match stream.read(&mut some) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        }
    }
}

/// A request with these header lines, each ended by CR LF.
pub fn send(address: &str, (method, path): (&str, &str), headers: &str, body: &str) -> Answer {
    let mut stream = connect(address);
    stream.write_all(request(address, (method, path), headers, body).as_bytes()).unwrap();
    let text = rest(stream);
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer to {method} {path}: {text}"));
    Answer { status: head[9..12].parse().unwrap(), head: head.to_owned(), body: body.to_owned() }
}

/// The same, to a server that leaves the connection open: what it announces is read.
pub fn exchange(address: &str, line: (&str, &str), headers: &str, body: &str) -> std::io::Result<Answer> {
    let mut stream = BufReader::new(TcpStream::connect(address)?);
    stream.get_ref().set_read_timeout(Some(Duration::from_secs(60)))?;
    stream.get_mut().write_all(request(address, line, headers, body).as_bytes())?;
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if stream.read_line(&mut head)? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
    }
    let mut lines = head.lines().filter_map(|line| line.split_once(':'));
    let length = lines.find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let mut body = vec![0; length.and_then(|(_, length)| length.trim().parse().ok()).unwrap_or_default()];
    stream.read_exact(&mut body)?;
    let (status, body) = (head[9..12].parse().unwrap_or_default(), String::from_utf8_lossy(&body).into_owned());
    Ok(Answer { status, head, body })
}

fn request(address: &str, (method, path): (&str, &str), headers: &str, body: &str) -> String {
    let length = if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
    format!("{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{length}{headers}\r\n{body}")
}

pub fn get(address: &str, path: &str) -> Answer {
    send(address, ("GET", path), "", "")
}
