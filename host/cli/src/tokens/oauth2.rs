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

use super::refresh_file::HeldFile;
use super::server::{Granted, Request, Server};
use super::{Renewals, Say, at_most};

/// A token that a server gives for a refresh token.
pub(super) struct Refresh(Arc<Grant>);

struct Grant {
    name: TokenId,
    server: Server,
    client_id: String,
    client_auth: ClientAuth,
    client_secret: Option<Box<dyn TokenSource>>,
    refresh_token: Origin,
    scopes: Vec<String>,
    held: Arc<Mutex<Held>>,
    say: Say,
    renewals: Renewals,
}

/// Where the refresh token comes from.
enum Origin {
    File {
        path: PathBuf,
        /// How long it is waited for while another has it.
        patience: Duration,
    },
    Elsewhere(Box<dyn TokenSource>),
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
        timeout: Duration,
        say: Say,
        renewals: Renewals,
    ) -> Refresh {
        let time = at_most(timeout);
        let secret = |source| super::secret(source, dir, time);
        let refresh_token = match &grant.refresh_token.file {
            // A little less than whoever waits for the token has, who then hears why.
            Some(file) => Origin::File { path: dir.join(file), patience: timeout.mul_f64(0.9) },
            None => Origin::Elsewhere(secret(&grant.refresh_token)),
        };
        Refresh(Arc::new(Grant {
            name: name.clone(),
            server: Server { url: grant.token_url.clone(), plain: grant.is_plain(), time },
            client_id: grant.client_id.clone(),
            client_auth: grant.client_auth,
            client_secret: grant.client_secret.as_ref().map(secret),
            refresh_token,
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
        let refresh_token = match (&held.refresh_token, &grant.refresh_token) {
            (Some(token), _) => Some(token.clone()),
            (None, Origin::Elsewhere(source)) => Some(of("refresh token", source.as_ref()).await?),
            (None, Origin::File { .. }) => None,
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
        refresh_token: Option<Secret>,
    ) -> Result<Fetched, String> {
        let file = match &self.refresh_token {
            Origin::File { path, patience } => {
                let file = HeldFile::hold(path, *patience, || self.renewals.is_over());
                Some(file.map_err(|why| lacks("refresh token", &why))?)
            }
            Origin::Elsewhere(_) => None,
        };
        // A file is read each time, once nobody else has it: somebody may have put another there.
        let found = file.as_ref().filter(|_| refresh_token.is_none()).map(HeldFile::read);
        let found = found.map(|read| usable("refresh token", read)).transpose()?;
        let Some(refresh_token) = refresh_token.or(found) else {
            return Err(lacks("refresh token", "it has no source"));
        };
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
            Some(another) => self.replace(another, file.as_ref(), held),
            None if file.is_some() && !held.said => {}
            None => held.refresh_token = Some(request.refresh_token),
        }
        Ok(Fetched { value: access_token, expires_in })
    }

    /// Goes on with another refresh token, and puts it where the one before was read if that can be.
    fn replace(&self, another: Secret, file: Option<&HeldFile>, held: &mut Held) {
        let stays = match file {
            None => Some("where it came from the old one still stands".to_owned()),
            Some(file) => file
                .put(&another)
                .err()
                .map(|why| format!("the file `{}` can't be replaced: {why}", file.path().display())),
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
    usable(what, source.fetch().await.map(|fetched| fetched.value))
}

fn usable(what: &str, got: Result<Secret, String>) -> Result<Secret, String> {
    let secret = got.map_err(|why| lacks(what, &why))?;
    if secret.reveal().is_empty() { Err(format!("its {what} is empty")) } else { Ok(secret) }
}

fn lacks(what: &str, why: &str) -> String {
    format!("its {what} can't be had: {why}")
}
