//! Where tokens come from: variables, files and programs of the coordinator's machine, and servers.

mod oauth2;
mod plain;
mod refresh_file;
mod renewals;
mod server;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mst_coordinator::vault::{Source, TokenSource, Vault};
use mst_model::TokenId;
use mst_model::eval::Eval;
use mst_model::tokens::{SecretSource, TokenUse};

use oauth2::{Logins, Refresh};
use plain::{File, Program, Variable};
pub(crate) use renewals::Renewals;

/// Tells a person what a source has to say though it did not fail.
pub(crate) type Say = Arc<dyn Fn(&str) + Send + Sync>;

/// The sources of the tokens that the eval's clients need.
pub(crate) fn vault(eval: &Eval, dir: &Path, say: &Say, renewals: &Renewals) -> Vault {
    let clients = eval.variants.iter().filter_map(|variant| eval.client_of(variant));
    let needed: BTreeSet<_> = clients.flat_map(|client| client.tokens).collect();
    let needed = eval.tokens.iter().filter(|(name, _)| needed.contains(*name));
    let mut logins = Logins::default();
    let sources = needed.map(|(name, token)| {
        let source = source(name, token, dir, &mut logins, say, renewals);
        (name.clone(), Source { source, timeout: token.timeout.0, on_failure: token.on_failure })
    });
    Vault::new(sources.collect::<BTreeMap<_, _>>())
}

fn source(
    name: &TokenId,
    token: &TokenUse,
    dir: &Path,
    logins: &mut Logins,
    say: &Say,
    renewals: &Renewals,
) -> Box<dyn TokenSource> {
    let timeout = token.timeout.0;
    match &token.oauth2 {
        Some(grant) => {
            let login = logins.of(grant);
            Box::new(Refresh::new(name, grant, dir, timeout, login, say.clone(), renewals.clone()))
        }
        None => plain(token.env.as_ref(), token.file.as_ref(), &token.command, dir, at_most(timeout)),
    }
}

/// How long a source may take: whoever asks it gives up first, and says so; this is for what is still under
/// way then.
fn at_most(timeout: Duration) -> Duration {
    timeout.saturating_add(Duration::from_secs(1))
}

fn secret(source: &SecretSource, dir: &Path, time: Duration) -> Box<dyn TokenSource> {
    plain(source.env.as_ref(), source.file.as_ref(), &source.command, dir, time)
}

/// The eval's own rules hold that there is one of the three.
fn plain(
    env: Option<&String>,
    file: Option<&String>,
    command: &[String],
    dir: &Path,
    time: Duration,
) -> Box<dyn TokenSource> {
    match (env, file) {
        (Some(name), _) => Box::new(Variable(name.clone())),
        (None, Some(file)) => Box::new(File(dir.join(file))),
        (None, None) => Box::new(Program { argv: command.to_vec(), dir: dir.to_owned(), time }),
    }
}
