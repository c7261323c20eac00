//! Tokens: what clients need to be let in somewhere, by name. A value never stands here.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Span;
use crate::schema::Problem;

/// Where the coordinator gets a token from: exactly one of `env`, `file`, `command` and `oauth2`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenUse {
    /// A variable of the coordinator's environment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<String>,
    /// A file on the coordinator's machine; relative to the eval's file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// A program on the coordinator's machine, and its arguments. It prints JSON: an object with
    /// `value` and, where the token has an end, `expires_at` (RFC 3339) or `expires_in` (seconds); or
    /// what kubectl's credential plugins print (`ExecCredential`), or Docker's (`Secret`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// A server that gives an access token for a refresh token (OAuth 2, RFC 6749, section 6). Only the
    /// access token goes to machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oauth2: Option<OAuth2>,
    /// How long the source may take.
    #[serde(default = "half_a_minute")]
    pub timeout: Span,
    /// What becomes of the shards that need it, where the source fails.
    #[serde(default)]
    pub on_failure: OnFailure,
}

fn half_a_minute() -> Span {
    Span::secs(30)
}

/// What becomes of a shard whose token can't be had.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum OnFailure {
    /// It ends, after the source has failed three times in a row.
    #[default]
    End,
    /// It waits, and the source is asked again for as long as the run lives.
    Wait,
}

/// A refresh grant. What it needs in secret comes from somewhere else, and stays with the coordinator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OAuth2 {
    /// The server's token endpoint. It is asked over TLS, `http://` being for loopback addresses alone,
    /// and no redirect is followed. It is recorded; put no secret here.
    pub token_url: String,
    /// The client that the refresh token was given to. It is recorded.
    pub client_id: String,
    /// Where that client's secret comes from, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_secret: Option<SecretSource>,
    /// How the server learns the client's secret.
    #[serde(default)]
    pub client_auth: ClientAuth,
    /// Where the refresh token comes from. Where it is a file and the server gives another refresh token,
    /// the file is replaced.
    pub refresh_token: SecretSource,
    /// What the access token is asked for; all that the refresh token is good for where none is named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
}

/// How a server learns a client's secret.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum ClientAuth {
    /// In the header `Authorization`, which every server has to understand.
    #[default]
    Basic,
    /// In the request's body.
    Body,
}

/// Where a secret comes from that the coordinator needs itself: exactly one of the three.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SecretSource {
    /// A variable of the coordinator's environment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env: Option<String>,
    /// A file on the coordinator's machine; relative to the eval's file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// A program on the coordinator's machine, and its arguments. It prints what a token's does.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
}

const ONE_SECRET: &str = "give it one of `env`, `file` and `command`";

impl TokenUse {
    /// What is wrong with it, where it stands `at`.
    pub(crate) fn problems(&self, at: &str) -> Vec<Problem> {
        let mut problems = Vec::new();
        let plain =
            SecretSource { env: self.env.clone(), file: self.file.clone(), command: self.command.clone() };
        let sources = plain.count() + usize::from(self.oauth2.is_some());
        if sources != 1 {
            let message = format!("a token has one source, not {sources}");
            problems.push(problem(at, message, Some("give it one of `env`, `file`, `command` and `oauth2`")));
        }
        problems.extend(plain.name_problem(at));
        if let Some(oauth2) = &self.oauth2 {
            oauth2.problems(&format!("{at}.oauth2"), &mut problems);
        }
        problems
    }
}

impl SecretSource {
    fn count(&self) -> usize {
        usize::from(self.env.is_some())
            + usize::from(self.file.is_some())
            + usize::from(!self.command.is_empty())
    }

    fn name_problem(&self, at: &str) -> Option<Problem> {
        let wrong = |name: &String| name.is_empty() || name.contains(['=', '\0']);
        let wrong = self.env.as_ref().is_some_and(wrong);
        wrong.then(|| problem(&format!("{at}.env"), "it is no name of an environment variable", None))
    }

    fn problems(&self, at: &str, problems: &mut Vec<Problem>) {
        if self.count() != 1 {
            let message = format!("a secret has one source, not {}", self.count());
            problems.push(problem(at, message, Some(ONE_SECRET)));
        }
        problems.extend(self.name_problem(at));
    }
}

impl OAuth2 {
    /// Whether its server is on this machine, and is asked without TLS.
    pub fn is_plain(&self) -> bool {
        self.token_url.starts_with("http://")
    }

    fn problems(&self, at: &str, problems: &mut Vec<Problem>) {
        if let Some((message, hint)) = url_problem(&self.token_url) {
            problems.push(problem(&format!("{at}.token_url"), message, Some(hint)));
        }
        if self.client_id.is_empty() || self.client_id.chars().any(char::is_control) {
            problems.push(problem(&format!("{at}.client_id"), "it is no client's name", None));
        }
        if let Some(secret) = &self.client_secret {
            secret.problems(&format!("{at}.client_secret"), problems);
        }
        self.refresh_token.problems(&format!("{at}.refresh_token"), problems);
        // RFC 6749, section 3.3.
        let admitted = |c: char| c.is_ascii_graphic() && !matches!(c, '"' | '\\');
        for (n, scope) in self.scopes.iter().enumerate() {
            if scope.is_empty() || !scope.chars().all(admitted) {
                let hint = "each scope is an element of its own, without spaces and quotes";
                problems.push(problem(&format!("{at}.scopes[{n}]"), "it is no scope", Some(hint)));
            }
        }
    }
}

fn problem(at: &str, message: impl Into<String>, hint: Option<&str>) -> Problem {
    Problem { at: at.to_owned(), message: message.into(), hint: hint.map(str::to_owned) }
}

/// Why a refresh token can't be sent to this URL, and what could be written instead.
fn url_problem(url: &str) -> Option<(&'static str, &'static str)> {
    let no_url = Some(("it is no URL", "write it as https://HOST/PATH"));
    let (tls, rest) = match (url.strip_prefix("https://"), url.strip_prefix("http://")) {
        (Some(rest), _) => (true, rest),
        (None, Some(rest)) => (false, rest),
        (None, None) => return no_url,
    };
    if !rest.chars().all(|c| c.is_ascii_graphic() && !matches!(c, '#' | '\\' | '"' | '<' | '>')) {
        return no_url;
    }
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    if authority.contains('@') {
        return Some(("it has a user's name in it", "`client_id` and `client_secret` are for that"));
    }
    let (host, port) = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, port)) => (host, port.strip_prefix(':')),
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    if host.is_empty() || port.is_some_and(|port| port.parse::<u16>().is_err()) {
        return no_url;
    }
    let loopback = host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    (!tls && !loopback).then_some((
        "a refresh token goes over TLS; `http://` is for loopback addresses alone",
        "write `https://`",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn said(token: Value) -> Vec<String> {
        let token: TokenUse = serde_json::from_value(token).expect("a token");
        token.problems("tokens.gateway").iter().map(ToString::to_string).collect()
    }

    fn oauth2(change: fn(&mut Value)) -> Vec<String> {
        let mut value = json!({
            "token_url": "https://login.acme.com/token",
            "client_id": "mst",
            "refresh_token": {"file": "refresh-token"},
        });
        change(&mut value);
        said(json!({"oauth2": value}))
    }

    #[test]
    fn a_token_has_one_source() {
        assert_eq!(said(json!({"env": "TOKEN"})), [""; 0]);
        let hint = "(give it one of `env`, `file`, `command` and `oauth2`)";
        let wrong = format!("`tokens.gateway`: a token has one source, not 2 {hint}");
        assert_eq!(said(json!({"env": "TOKEN", "file": "token"})), [wrong]);
        assert_eq!(said(json!({})), [format!("`tokens.gateway`: a token has one source, not 0 {hint}")]);
        assert_eq!(
            said(json!({"env": "A=B"})),
            ["`tokens.gateway.env`: it is no name of an environment variable"]
        );
    }

    #[test]
    fn a_refresh_grant_has_a_source_for_each_of_its_secrets() {
        assert_eq!(oauth2(|_| {}), [""; 0]);
        assert_eq!(oauth2(|v| v["client_secret"] = json!({"env": "SECRET"})), [""; 0]);
        let hint = format!("({ONE_SECRET})");
        assert_eq!(
            oauth2(|v| {
                v["client_secret"] = json!({"env": "SECRET", "file": "secret"});
                v["refresh_token"] = json!({});
            }),
            [
                format!("`tokens.gateway.oauth2.client_secret`: a secret has one source, not 2 {hint}"),
                format!("`tokens.gateway.oauth2.refresh_token`: a secret has one source, not 0 {hint}"),
            ]
        );
        assert_eq!(
            oauth2(|v| {
                v["scopes"] = json!(["models.read", "a b"]);
                v["client_id"] = json!("");
            }),
            [
                "`tokens.gateway.oauth2.client_id`: it is no client's name",
                "`tokens.gateway.oauth2.scopes[1]`: it is no scope (each scope is an element of its own, without spaces and quotes)"
            ]
        );
    }

    #[test]
    fn a_refresh_token_goes_over_tls_or_nowhere_else() {
        for good in [
            "https://acme.com",
            "https://acme.com:8443/token?tenant=1",
            "https://[2001:db8::1]/token",
            "http://localhost:80/token",
            "http://127.3.2.1/token",
            "http://[::1]:8080/token",
        ] {
            assert_eq!(url_problem(good), None, "{good}");
        }
        for (wrong, why) in [
            ("http://acme.com/token", "goes over TLS"),
            ("http://localhost.acme.com/token", "goes over TLS"),
            ("http://127.0.0.1.acme.com/token", "goes over TLS"),
            ("http://10.0.0.1/token", "goes over TLS"),
            ("http://[::2]/token", "goes over TLS"),
            ("http://localhost@acme.com/token", "a user's name"),
            ("https://user:secret@acme.com/token", "a user's name"),
            ("http://localhost\\@acme.com/", "no URL"),
            ("https://acme.com/#token", "no URL"),
            ("https://acme.com/a token", "no URL"),
            ("https:///token", "no URL"),
            ("https://acme.com:port/token", "no URL"),
            ("ftp://acme.com/token", "no URL"),
            ("acme.com/token", "no URL"),
        ] {
            let said = url_problem(wrong).unwrap_or_else(|| panic!("{wrong} is admitted")).0;
            assert!(said.contains(why), "{wrong}: {said}");
        }
    }
}
