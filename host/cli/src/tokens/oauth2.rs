//! A refresh grant. The refresh token and the client's secret stay here: what is handed on is the access
//! token.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use mst_coordinator::vault::{Fetched, Secret, TokenSource};
use mst_model::TokenId;
use mst_model::tokens::{ClientAuth, OAuth2, SecretSource};
use tokio::sync::Mutex;

use super::refresh_file::HeldFile;
use super::server::{Disowned, Granted, Request, Server};
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
    held: Login,
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
pub(super) struct Held {
    client_secret: Option<Secret>,
    refresh_token: Option<Secret>,
    /// What came from the refresh token's source and was replaced by the server since: to some servers whoever
    /// sends it again is a thief, and they end all that came of it.
    spent: Option<Secret>,
    /// Whether it was said that the refresh token's source has an old one.
    said: bool,
}

/// What is held of one login.
pub(super) type Login = Arc<Mutex<Held>>;

/// The logins of a run. Tokens of the same server, client and source of a refresh token are of one: a
/// refresh token that came for one of them takes the place of the other's too.
#[derive(Default)]
pub(super) struct Logins(Vec<((String, String, SecretSource), Login)>);

impl Logins {
    pub(super) fn of(&mut self, grant: &OAuth2) -> Login {
        let key = (grant.token_url.clone(), grant.client_id.clone(), grant.refresh_token.clone());
        if let Some((_, login)) = self.0.iter().find(|(known, _)| *known == key) {
            return login.clone();
        }
        let login = Login::default();
        self.0.push((key, login.clone()));
        login
    }
}

impl Refresh {
    pub(super) fn new(
        name: &TokenId,
        grant: &OAuth2,
        dir: &Path,
        timeout: Duration,
        held: Login,
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
            held,
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
        let found = match &grant.refresh_token {
            Origin::Elsewhere(source) if held.refresh_token.is_none() => {
                Some(of("refresh token", source.as_ref()).await?)
            }
            Origin::Elsewhere(_) | Origin::File { .. } => None,
        };
        // With its answer the server may have ended the refresh token that it was sent: from here on this
        // goes on though nobody waits for it any more.
        let asked = tokio::task::spawn_blocking(move || grant.exchange(&mut held, client_secret, found));
        asked.await.map_err(|error| format!("mst failed: {error}"))?
    }
}

impl Grant {
    /// Asks the server, and keeps what it gave. Blocks the thread.
    fn exchange(
        &self,
        held: &mut Held,
        client_secret: Option<Secret>,
        found: Option<Secret>,
    ) -> Result<Fetched, String> {
        let file = match &self.refresh_token {
            Origin::File { path, patience } => {
                let file = HeldFile::hold(path, *patience, || self.renewals.is_over());
                Some(file.map_err(|why| lacks("refresh token", &why))?)
            }
            Origin::Elsewhere(_) => None,
        };
        // A file is read each time, once nobody else has it: somebody may have put another there.
        let found = match (&file, found) {
            (Some(file), _) => Some(usable("refresh token", file.read())),
            (None, found) => found.map(Ok),
        };
        let (refresh_token, is_found) = held.choose(found)?;
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
        let Granted { access, refresh_token: another } = self.server.ask(&request).map_err(|refused| {
            // Of what it does not know there may be another by now; the rest is still good.
            match refused.disowned {
                Some(Disowned::Client) => held.client_secret = None,
                Some(Disowned::RefreshToken) => held.refresh_token = None,
                None => {}
            }
            refused.why
        })?;
        held.client_secret = request.client_secret;
        match another.filter(|another| *another != request.refresh_token) {
            Some(another) => {
                if is_found {
                    held.spent = Some(request.refresh_token);
                }
                self.replace(another, file.as_ref(), held);
            }
            None if file.is_some() && is_found => held.refresh_token = None,
            None => held.refresh_token = Some(request.refresh_token),
        }
        access
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

impl Held {
    /// The refresh token to send, and whether it is the one that was found at its source.
    fn choose(&self, found: Option<Result<Secret, String>>) -> Result<(Secret, bool), String> {
        let is_spent = |token: &Secret| self.spent.as_ref() == Some(token);
        match (found, &self.refresh_token) {
            (Some(Ok(token)), _) if !is_spent(&token) => Ok((token, true)),
            (_, Some(kept)) => Ok((kept.clone(), false)),
            (Some(Err(why)), None) => Err(why),
            (Some(Ok(_)) | None, None) => Err("the server has ended the refresh token that it gave last, \
                and the one before it, which still stands where the first came from, is not sent again: \
                log in again"
                .to_owned()),
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
