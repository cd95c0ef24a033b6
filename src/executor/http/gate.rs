//! What lies between a connection and the request on it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Context;
use std::task::Poll;
use tokio::sync::watch;
use tower_layer::Layer;
use tower_service::Service;

type BoxError = Box<dyn std::error::Error + Send + Sync>;
type Passing<T> = Pin<Box<dyn Future<Output = Result<T, BoxError>> + Send>>;

/// Asked when a connection is there and nothing has been sent on it, for each connection that a request needs.
#[derive(Clone)]
pub struct Gate {
    is_open: Arc<dyn Fn() -> bool + Send + Sync>,
    connections: Arc<watch::Sender<u32>>,
}

/// The gate was closed.
#[derive(Debug, thiserror::Error)]
#[error("the lease ended before the connection was there")]
pub(super) struct TooLate;

impl Gate {
    /// A gate that is open as long as `is_open` says so. The daemon may have stood still for longer than a lease while
    /// it was being connected.
    pub fn new(is_open: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self { is_open: Arc::new(is_open), connections: Arc::new(watch::channel(0).0) }
    }

    /// How many connections have passed it so far.
    pub fn connections(&self) -> watch::Receiver<u32> {
        self.connections.subscribe()
    }
}

impl<S> Layer<S> for Gate {
    type Service = Gated<S>;

    fn layer(&self, connector: S) -> Gated<S> {
        Gated { connector, gate: self.clone() }
    }
}

/// Makes connections, and lets them pass the gate.
#[derive(Clone)]
pub struct Gated<S> {
    connector: S,
    gate: Gate,
}

impl<S, R> Service<R> for Gated<S>
where
    S: Service<R, Error = BoxError>,
    S::Response: Send + 'static,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = Passing<S::Response>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.connector.poll_ready(context)
    }

    fn call(&mut self, target: R) -> Self::Future {
        let (connecting, gate) = (self.connector.call(target), self.gate.clone());
        Box::pin(async move {
            let connection = connecting.await?;
            if !(gate.is_open)() {
                return Err(TooLate.into());
            }
            gate.connections.send_modify(|count| *count += 1);
            Ok(connection)
        })
    }
}
