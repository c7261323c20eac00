//! A shard's tokens: where they lie, and that they are asked for before they are needed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use mst_model::bundle::Bundle;
use mst_protocol::{FromWorker, Need, Token};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::channel::{Ended, Shared, tell};
use super::{CollectError, Place};
use crate::tokens::{TokenDir, Tokens};

/// A place for the tokens of the bundle's clients; none where they need none.
pub(super) fn tokens(place: &Place, bundle: &Bundle) -> Result<Option<Arc<Tokens>>, CollectError> {
    if bundle.tokens().is_empty() {
        return Ok(None);
    }
    let name = format!("{}-{}", bundle.run, bundle.shard);
    let dir = TokenDir::make(&place.tokens, &name, bundle.tokens_on_disk)?;
    let needs = bundle.clients.iter().map(|(variant, client)| (variant.clone(), client.tokens.clone()));
    Ok(Some(Arc::new(Tokens::new(needs.collect(), dir))))
}

/// Removes the tokens, away from where others are waited for.
pub(super) async fn remove(tokens: &Option<Arc<Tokens>>) -> Result<(), CollectError> {
    let Some(tokens) = tokens.clone() else { return Ok(()) };
    let removed = tokio::task::spawn_blocking(move || tokens.remove()).await;
    Ok(removed.map_err(|error| CollectError::Host(error.to_string()))??)
}

/// Asks for tokens at the start, and for each again before its end.
pub(super) async fn renew(
    tokens: Arc<Tokens>,
    say: mpsc::Sender<FromWorker>,
    shared: Arc<Shared>,
    mut given: mpsc::Receiver<Vec<Token>>,
) -> Result<Ended, CollectError> {
    let (mut names, mut why) = (tokens.names(), Need::Start);
    loop {
        shared.needs.store(true, Ordering::Release);
        tell(&say, FromWorker::NeedTokens { names: names.clone(), why }).await?;
        let came = loop {
            tokio::select! {
                came = given.recv() => break came,
                // They did not come in time: nobody is to hold what has ended.
                () = until(tokens.ends_at()) => tokens.forget_ended()?,
                () = shared.kill.cancelled() => return Ok(Ended::Beat),
            }
        };
        let Some(came) = came else { return Ok(Ended::Beat) };
        if came.iter().map(|token| &token.name).collect::<BTreeSet<_>>() != names.iter().collect() {
            return Err(CollectError::Protocol("`tokens`, and not those that were asked for".to_owned()));
        }
        tokens.take(came)?;
        loop {
            let next = tokens.next();
            tokio::select! {
                () = until(next.as_ref().map(|(at, _)| *at)) => {
                    (names, why) = (next.map(|(_, due)| due).unwrap_or_default(), Need::Expiring);
                    break;
                }
                // It was so short that it is not asked for before its end.
                () = until(tokens.ends_at()) => tokens.forget_ended()?,
                () = shared.kill.cancelled() => return Ok(Ended::Beat),
            }
        }
    }
}

/// Returns then; never, where there is no such time.
pub(super) async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
