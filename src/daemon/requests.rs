//! One start of a run that is an HTTP request, from the order to its end: a task among the jobs.
//!
//! No guardian knows of it: the connection ends with the daemon, and what a server does with a request that it has is
//! the server's. For that there is the fencing token.

use super::runs::Launcher;
use super::runs::Orders;
use super::runs::Refusal;
use super::runs::SHORT_WAIT;
use super::runs::Stop;
use crate::causes::chain;
use crate::engine::Event;
use crate::engine::Exit;
use crate::engine::StartOrder;
use crate::executor::http::Gate;
use crate::executor::http::Reply;
use crate::executor::http::Request;
use crate::executor::http::Unsent;
use crate::job::HttpSpec;
use crate::secret::Redaction;
use crate::telemetry::events;
use std::pin::pin;
use std::sync::Arc;

/// How a request ended, as the engine has it.
pub(super) fn answered(reply: Reply, redaction: &Redaction) -> Exit {
    let Reply { status, error, body_head, body_bytes } = reply;
    let error = redaction.text(&error).into_owned();
    Exit { http_status: status, error, output_tail: body_head, output_bytes: body_bytes, ..Exit::default() }
}

impl Launcher {
    /// Carries out an order: reports either `NotStarted`, or `Started` and then, once, `Ended`.
    pub(super) async fn request(&self, order: &StartOrder, http: &HttpSpec, orders: Orders) {
        let event = match self.sent(order, http, orders).await {
            Ok(reply) => Event::Ended { run: order.run.clone(), exit: answered(reply, &self.redaction) },
            Err(Refusal { too_late, error }) => {
                let error = self.redaction.text(&error).into_owned();
                Event::NotStarted { run: order.run.clone(), too_late, error }
            }
        };
        self.report(event).await;
    }

    async fn sent(&self, order: &StartOrder, http: &HttpSpec, orders: Orders) -> Result<Reply, Refusal> {
        orders.check()?;
        let (spec, context, keep) = (http.clone(), self.context(order), order.spec.output.keep_tail);
        let prepared = tokio::task::spawn_blocking(move || Request::prepare(&spec, &context, keep));
        let request = match prepared.await.expect("nothing in there panics, and nobody cancels it") {
            Ok(request) => request,
            Err(error) if error.is_shortage() => return Err(self.deferred(order, chain(&error)).await),
            Err(error) => return Err(Refusal { too_late: false, error: chain(&error) }),
        };
        let (clock, lease_end) = (Arc::clone(&self.clock), orders.lease_end);
        let gate = Gate::new(move || clock.now().boot <= *lease_end.borrow());
        let mut connections = gate.connections();
        let mut stop = orders.stop;
        let stopped = async move {
            // When nobody can ask any more, the daemon is ending, and this with it.
            let is_asked = stop.wait_for(|stop| *stop != Stop::No).await.is_ok();
            if !is_asked {
                std::future::pending::<()>().await;
            }
        };
        let mut performing = pin!(request.perform(gate, stopped));
        let early = tokio::select! {
            biased;
            () = async { _ = connections.wait_for(|count| *count > 0).await; } => None,
            performed = &mut performing => Some(performed),
        };
        let is_sent = early.is_none() || *connections.borrow() > 0;
        match early {
            Some(Err(unsent @ Unsent::Shortage(_))) if !is_sent => Err(self.deferred(order, unsent.to_string()).await),
            Some(Err(unsent)) if !is_sent => Err(Refusal { too_late: true, error: unsent.to_string() }),
            performed => {
                self.said_started(order).await;
                let performed = match performed {
                    Some(performed) => performed,
                    None => performing.await,
                };
                // Once something was sent nothing is given back: it may have been done.
                Ok(performed.unwrap_or_else(|unsent| Reply::failed(&unsent)))
            }
        }
    }

    async fn said_started(&self, order: &StartOrder) {
        self.report(Event::Started { run: order.run.clone(), pid: None }).await;
    }

    /// Nothing is wrong with the job: it is given back, and tried again here or elsewhere.
    async fn deferred(&self, order: &StartOrder, error: String) -> Refusal {
        events::run_deferred(&self.fields(order), &self.redaction.text(&error));
        tokio::time::sleep(SHORT_WAIT).await;
        Refusal { too_late: true, error }
    }
}
