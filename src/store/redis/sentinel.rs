//! Where the primary is, as Sentinels say.

use super::door::Door;
use super::door::Of;
use super::failure::Failure;
use super::failure::classify;
use crate::store::ErrorKind;
use crate::store::place::Place;
use redis::AsyncConnectionConfig;
use redis::Value;
use redis::aio::MultiplexedConnection;
use std::time::Duration;
use tokio::time::timeout;

/// How long one of them may take: the next one is asked then.
const ASK_WITHIN: Duration = Duration::from_millis(600);

/// Asks them in their order until one knows where the primary is.
pub(super) async fn primary(door: &Door, name: &str) -> Result<Place, Failure> {
    let places = &door.address().places;
    let mut found = Vec::new();
    let mut is_misconfigured = true;
    for place in places {
        match ask(door, place, name).await {
            Ok(primary) => return Ok(primary),
            Err(failure) => {
                is_misconfigured &= failure.kind == ErrorKind::Misconfigured;
                found.push(format!("{place}: {}", failure.detail));
            }
        }
    }
    let kind = if is_misconfigured { ErrorKind::Misconfigured } else { ErrorKind::NotSent };
    Err(Failure::new(kind, format!("no Sentinel says where `{name}` is: {}", found.join("; ")), true))
}

/// A connection to the first of them that answers.
async fn connect(door: &Door, place: &Place) -> Result<MultiplexedConnection, Failure> {
    let client = door.client(place, Of::Sentinel).await?;
    let config =
        AsyncConnectionConfig::new().set_connection_timeout(Some(ASK_WITHIN)).set_response_timeout(Some(ASK_WITHIN));
    let connecting = client.get_multiplexed_async_connection_with_config(&config).await;
    connecting.map_err(|error| of_sentinel(door, &classify(&error)))
}

/// A Sentinel's account is one of its own.
fn of_sentinel(door: &Door, failure: &Failure) -> Failure {
    if failure.kind == ErrorKind::Misconfigured {
        let wanted = "the Sentinel does not let us in: give --store-sentinel-user and --store-sentinel-password-file; \
                      the account of the servers is another one";
        return Failure::misconfigured(format!("{wanted} ({})", failure.detail));
    }
    if failure.detail.contains("unknown command") {
        return Failure::misconfigured(format!(
            "it is no Sentinel; a Redis itself is redis://host ({})",
            failure.detail.trim()
        ));
    }
    let detail = format!("{}{}", failure.detail, door.advice(&failure.detail));
    Failure::new(ErrorKind::NotSent, detail, true)
}

async fn ask(door: &Door, place: &Place, name: &str) -> Result<Place, Failure> {
    let mut command = redis::cmd("SENTINEL");
    command.arg("get-master-addr-by-name").arg(name);
    let asked = async {
        let mut connection = connect(door, place).await?;
        let reply: Result<Value, _> = command.query_async(&mut connection).await;
        reply.map_err(|error| of_sentinel(door, &classify(&error)))
    };
    let reply = timeout(ASK_WITHIN, asked).await.map_err(|_| {
        Failure::new(ErrorKind::NotSent, format!("no answer within {} ms", ASK_WITHIN.as_millis()), true)
    })??;
    let unknown = |_| Failure::misconfigured(format!("it knows no primary `{name}`"));
    let (host, port): (String, u16) = redis::from_redis_value(reply).map_err(unknown)?;
    Ok(Place { host, port })
}

/// What the first one that answers says of the primary: pairs of names and values; empty where none answers.
pub(super) async fn about(door: &Door, name: &str) -> Vec<String> {
    let mut command = redis::cmd("SENTINEL");
    command.arg("master").arg(name);
    for place in &door.address().places {
        let asked = async {
            let mut connection = connect(door, place).await.ok()?;
            let pairs: Vec<String> = command.query_async(&mut connection).await.ok()?;
            Some(pairs)
        };
        if let Ok(Some(pairs)) = timeout(ASK_WITHIN, asked).await {
            return pairs;
        }
    }
    Vec::new()
}
