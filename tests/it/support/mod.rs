//! What tests share: stores to run against, and the scene that most of them start from.

pub mod bench;
pub mod browser;
pub mod client;
pub mod daemon;
pub mod documents;
pub mod proxy;
pub mod redis_modes;
pub mod replicas;
pub mod scene;
pub mod server;
pub mod sql_server;
pub mod watched;
pub mod web;

use std::future::Future;
use std::time::Duration;

/// Asks until the answer is yes; fails after ten seconds.
pub async fn wait_until<F, Y>(what: &str, mut ask: F)
where
    F: FnMut() -> Y,
    Y: Future<Output = bool>,
{
    for _ in 0..1000 {
        if ask().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("waited 10 s in vain: {what}");
}
