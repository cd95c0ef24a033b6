//! Answers packed with gzip for those who take that: pages, JSON and metrics shrink to a tenth.

use axum::body::Body;
use axum::body::Bytes;
use axum::body::HttpBody;
use axum::extract::Request;
use axum::http::HeaderMap;
use axum::http::HeaderValue;
use axum::http::Method;
use axum::http::header;
use axum::middleware::Next;
use axum::response::Response;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io;
use std::io::Write;

/// Less is not worth it.
const LEAST: u64 = 1 << 10;
/// More is not held twice.
const MOST: u64 = 64 << 20;

/// Packs the answer, where that is wanted and worth it.
pub(super) async fn pack(request: Request, next: Next) -> Response {
    let is_wanted = request.method() != Method::HEAD && takes_gzip(request.headers());
    let mut response = next.run(request).await;
    // Caches that hold one for all must know that there are two.
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    let length = response.body().size_hint().exact().unwrap_or(0);
    if !is_wanted || !(LEAST..=MOST).contains(&length) || response.headers().contains_key(header::CONTENT_ENCODING) {
        return response;
    }
    let (mut head, body) = response.into_parts();
    // It is in memory already: nothing is waited for, and nothing can fail.
    let bytes = axum::body::to_bytes(body, usize::MAX).await.unwrap_or_default();
    let body = match packed(&bytes) {
        Ok(packed) => {
            head.headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            head.headers.remove(header::CONTENT_LENGTH);
            Bytes::from(packed)
        }
        Err(_) => bytes,
    };
    Response::from_parts(head, Body::from(body))
}

fn packed(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 4), Compression::fast());
    encoder.write_all(bytes)?;
    encoder.finish()
}

/// As RFC 9110, section 12.5.3, has it: `gzip` itself wins over `*`, and `q=0` means no.
fn takes_gzip(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    let mut any = false;
    for part in values.flat_map(|value| value.split(',')) {
        let (coding, parameters) = part.split_once(';').unwrap_or((part, ""));
        let weight = parameters.split(';').find_map(|parameter| parameter.trim().strip_prefix("q="));
        let is_taken = weight.is_none_or(|weight| weight.trim().parse::<f32>().is_ok_and(|weight| weight > 0.0));
        match coding.trim().to_ascii_lowercase().as_str() {
            "gzip" | "x-gzip" => return is_taken,
            "*" => any = is_taken,
            _ => {}
        }
    }
    any
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_taken_where_the_client_says_so() {
        for (value, is_taken) in [
            ("gzip", true),
            ("br, GZIP;q=0.5", true),
            ("*", true),
            ("", false),
            ("identity", false),
            ("gzip;q=0", false),
            ("gzip; q=0, *", false),
            ("deflate, br", false),
            ("gzip;q=odd", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(value));
            assert_eq!(takes_gzip(&headers), is_taken, "{value}");
        }
        assert!(!takes_gzip(&HeaderMap::new()));
    }
}
