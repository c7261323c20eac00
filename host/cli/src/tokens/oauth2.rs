//! A refresh grant. The refresh token and the client's secret stay here: what is handed on is the access
//! token.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use mst_coordinator::vault::{Fetched, Secret, TokenSource};
use mst_model::TokenId;
use mst_model::tokens::{ClientAuth, OAuth2};
use tokio::sync::Mutex;

use super::refresh_file::put;
use super::server::{Granted, Request, Server};
use super::{Renewals, Say};

/// A token that a server gives for a refresh token.
pub(super) struct Refresh(Arc<Grant>);

struct Grant {
    name: TokenId,
    server: Server,
    client_id: String,
    client_auth: ClientAuth,
    client_secret: Option<Box<dyn TokenSource>>,
    refresh_token: Box<dyn TokenSource>,
    /// The refresh token's file, where it is in one.
    file: Option<PathBuf>,
    scopes: Vec<String>,
    held: Arc<Mutex<Held>>,
    say: Say,
    renewals: Renewals,
}

/// What is not asked of its source again: that may be a program which asks a person, or have a refresh
/// token that was replaced.
#[derive(Default)]
struct Held {
    client_secret: Option<Secret>,
    refresh_token: Option<Secret>,
    /// Whether it was said that the refresh token's source has an old one.
    said: bool,
}

impl Refresh {
    pub(super) fn new(
        name: &TokenId,
        grant: &OAuth2,
        dir: &Path,
        time: Duration,
        say: Say,
        renewals: Renewals,
    ) -> Refresh {
        let secret = |source| super::secret(source, dir, time);
        Refresh(Arc::new(Grant {
            name: name.clone(),
            server: Server { url: grant.token_url.clone(), plain: grant.is_plain(), time },
            client_id: grant.client_id.clone(),
            client_auth: grant.client_auth,
            client_secret: grant.client_secret.as_ref().map(secret),
            refresh_token: secret(&grant.refresh_token),
            file: grant.refresh_token.file.as_ref().map(|file| dir.join(file)),
            scopes: grant.scopes.clone(),
            held: Arc::default(),
            say,
            renewals,
        }))
    }
}

#[async_trait]
impl TokenSource for Refresh {
    async fn fetch(&self) -> Result<Fetched, String> {
        let grant = self.0.clone();
        let mut held = grant.held.clone().lock_owned().await;
        let client_secret = match (&held.client_secret, &grant.client_secret) {
            (Some(secret), _) => Some(secret.clone()),
            (None, None) => None,
            (None, Some(source)) => Some(of("client's secret", source.as_ref()).await?),
        };
        let refresh_token = match &held.refresh_token {
            Some(token) => token.clone(),
            None => of("refresh token", grant.refresh_token.as_ref()).await?,
        };
        // With its answer the server may have ended the refresh token that it was sent: from here on this
        // goes on though nobody waits for it any more.
        let asked =
            tokio::task::spawn_blocking(move || grant.exchange(&mut held, client_secret, refresh_token));
        asked.await.map_err(|error| format!("mst failed: {error}"))?
    }
}

impl Grant {
    /// Asks the server, and keeps what it gave. Blocks the thread.
    fn exchange(
        &self,
        held: &mut Held,
        client_secret: Option<Secret>,
        refresh_token: Secret,
    ) -> Result<Fetched, String> {
        let request = Request {
            client_id: self.client_id.clone(),
            client_secret,
            client_auth: self.client_auth,
            refresh_token,
            scopes: self.scopes.clone(),
        };
        let Some(_under_way) = self.renewals.begin(self.server.time) else {
            return Err("mst is about to end".to_owned());
        };
        let Granted { access_token, expires_in, refresh_token: another } =
            self.server.ask(&request).map_err(|refused| {
                if refused.disowned {
                    // There may be another by now.
                    *held = Held { said: held.said, ..Held::default() };
                }
                refused.why
            })?;
        held.client_secret = request.client_secret;
        match another.filter(|another| *another != request.refresh_token) {
            Some(another) => self.replace(another, held),
            // A file is read each time: somebody may have put another there.
            None if self.file.is_some() && !held.said => {}
            None => held.refresh_token = Some(request.refresh_token),
        }
        Ok(Fetched { value: access_token, expires_in })
    }

    /// Goes on with another refresh token, and puts it where the one before was read if that can be.
    fn replace(&self, another: Secret, held: &mut Held) {
        let stays = match &self.file {
            None => Some("where it came from the old one still stands".to_owned()),
            Some(file) => put(file, &another)
                .err()
                .map(|why| format!("the file `{}` can't be replaced: {why}", file.display())),
        };
        let Some(stays) = stays else {
            held.refresh_token = None;
            return;
        };
        held.refresh_token = Some(another);
        if !held.said {
            held.said = true;
            let name = &self.name;
            (self.say)(&format!(
                "the server gave another refresh token for `{name}`, with which this run goes on; {stays}: you may have to log in again before the next run"
            ));
        }
    }
}

/// The secret of a source.
async fn of(what: &str, source: &dyn TokenSource) -> Result<Secret, String> {
    let secret = source.fetch().await.map_err(|why| format!("its {what} can't be had: {why}"))?.value;
    if secret.reveal().is_empty() { Err(format!("its {what} is empty")) } else { Ok(secret) }
}
