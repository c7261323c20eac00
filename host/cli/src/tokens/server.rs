//! A token endpoint: one request, and what of its answer may be told.
//!
//! The exchange is a form and a JSON object (RFC 6749, sections 5 and 6), and is written here. What a
//! library of OAuth 2 would add is for other grants.

use std::fmt::Write as _;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mst_coordinator::vault::{Fetched, Secret};
use mst_model::tokens::ClientAuth;
use serde::Deserialize;
use ureq::Agent;
use ureq::http::StatusCode;
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};
use zeroize::Zeroizing;

use crate::place;

/// More than an answer has to say.
const MAX_BYTES: u64 = 64 << 10;

/// A server that gives tokens.
#[derive(Clone)]
pub(super) struct Server {
    pub(super) url: String,
    /// Whether it is on this machine, and no TLS is spoken with it.
    pub(super) plain: bool,
    pub(super) time: Duration,
}

/// What it is asked.
pub(super) struct Request {
    pub(super) client_id: String,
    pub(super) client_secret: Option<Secret>,
    pub(super) client_auth: ClientAuth,
    pub(super) refresh_token: Secret,
    pub(super) scopes: Vec<String>,
}

/// What it gave.
pub(super) struct Granted {
    /// An access token, or why what it gave is none.
    pub(super) access: Result<Fetched, String>,
    /// Another refresh token, in place of the one that it was sent.
    pub(super) refresh_token: Option<Secret>,
}

/// Why it gave nothing, in words without anything of a secret: what it said itself is not shown.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) why: String,
    /// What it takes for none of its own, where it says so.
    pub(super) disowned: Option<Disowned>,
}

/// A secret that is to be got anew before the server is asked again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Disowned {
    Client,
    RefreshToken,
}

impl From<String> for Refused {
    fn from(why: String) -> Refused {
        Refused { why, disowned: None }
    }
}

impl Server {
    /// Asks, and waits for the answer.
    pub(super) fn ask(&self, request: &Request) -> Result<Granted, Refused> {
        let (status, bytes) = self.exchange(request).map_err(|refused| self.named(refused))?;
        let Granted { access, refresh_token } =
            read(status, &bytes).map_err(|refused| self.named(refused))?;
        let access = access.map_err(|why| self.named(Refused::from(why)).why);
        Ok(Granted { access, refresh_token })
    }

    /// With its name before what it did.
    fn named(&self, Refused { why, disowned }: Refused) -> Refused {
        Refused { why: format!("`{}` {why}", self.url), disowned }
    }

    fn exchange(&self, request: &Request) -> Result<(StatusCode, Zeroizing<Vec<u8>>), Refused> {
        let mut asked = self
            .agent()?
            .post(&self.url)
            .header("accept", "application/json")
            .header("content-type", "application/x-www-form-urlencoded");
        if let Some(authorization) = request.authorization() {
            asked = asked.header("authorization", authorization.as_str());
        }
        let mut answer = asked.send(request.body().as_bytes()).map_err(told)?;
        let bytes = answer.body_mut().with_config().limit(MAX_BYTES).read_to_vec().map_err(told)?;
        Ok((answer.status(), Zeroizing::new(bytes)))
    }

    fn agent(&self) -> Result<Agent, Refused> {
        let config = Agent::config_builder()
            .https_only(!self.plain)
            // A refresh token goes where the eval says and nowhere else.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .http_status_as_error(false)
            .max_idle_connections(0)
            .user_agent(concat!("mst/", env!("CARGO_PKG_VERSION")))
            .timeout_global(Some(self.time));
        if self.plain {
            return Ok(config.proxy(None).build().new_agent());
        }
        let roots = place::authorities().map_or(Ok(RootCerts::WebPki), |path| roots(&path))?;
        Ok(config.tls_config(TlsConfig::builder().root_certs(roots).build()).build().new_agent())
    }
}

/// The authorities of a PEM file, and no other.
fn roots(path: &str) -> Result<RootCerts, String> {
    let failed = |why: &dyn std::fmt::Display| {
        format!("can't be trusted: `SSL_CERT_FILE` names `{path}`, which can't be used: {why}")
    };
    let pem = std::fs::read(path).map_err(|error| failed(&error))?;
    let certificates: Vec<_> = parse_pem(&pem)
        .filter_map(|item| match item {
            Ok(PemItem::Certificate(certificate)) => Some(certificate),
            _ => None,
        })
        .collect();
    if certificates.is_empty() { Err(failed(&"it has no certificate")) } else { Ok(certificates.into()) }
}

impl Request {
    fn body(&self) -> Zeroizing<String> {
        let scopes = self.scopes.join(" ");
        let mut fields =
            vec![("grant_type", "refresh_token"), ("refresh_token", self.refresh_token.reveal())];
        if !scopes.is_empty() {
            fields.push(("scope", &scopes));
        }
        match (&self.client_secret, self.client_auth) {
            (Some(_), ClientAuth::Basic) => {}
            (Some(secret), ClientAuth::Body) => {
                fields.extend([("client_id", self.client_id.as_str()), ("client_secret", secret.reveal())]);
            }
            (None, _) => fields.push(("client_id", &self.client_id)),
        }
        let room = fields.iter().map(|(name, value)| name.len() + 3 * value.len() + 2).sum();
        // With room for all of it: what is outgrown is not wiped.
        let mut body = Zeroizing::new(String::with_capacity(room));
        for (name, value) in fields {
            if !body.is_empty() {
                body.push('&');
            }
            body.push_str(name);
            body.push('=');
            encode(value, &mut body);
        }
        body
    }

    /// RFC 6749, section 2.3.1: both parts are encoded as in a form first.
    fn authorization(&self) -> Option<Zeroizing<String>> {
        let secret = self.client_secret.as_ref().filter(|_| self.client_auth == ClientAuth::Basic)?;
        let room = 3 * (self.client_id.len() + secret.reveal().len()) + 1;
        let mut both = Zeroizing::new(String::with_capacity(room));
        encode(&self.client_id, &mut both);
        both.push(':');
        encode(secret.reveal(), &mut both);
        let encoded = Zeroizing::new(STANDARD.encode(both.as_bytes()));
        Some(Zeroizing::new(format!("Basic {}", encoded.as_str())))
    }
}

/// As forms have it.
fn encode(value: &str, into: &mut String) {
    for byte in value.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'*' => into.push(byte.into()),
            b' ' => into.push('+'),
            _ => drop(write!(into, "%{byte:02X}")),
        }
    }
}

/// What can be told of what went wrong on the way.
fn told(error: ureq::Error) -> Refused {
    use ureq::Error;
    Refused::from(match error {
        Error::Timeout(_) => "did not answer in time".to_owned(),
        Error::HostNotFound => "has a host that is not found".to_owned(),
        Error::ConnectionFailed => "can't be reached".to_owned(),
        // What TLS complains of comes so.
        Error::Io(error) if error.kind() == std::io::ErrorKind::InvalidData => {
            format!("can't be trusted: {error}")
        }
        Error::Io(error) => format!("can't be talked to: {error}"),
        Error::BodyExceedsLimit(_) => format!("answered with more than {MAX_BYTES} bytes"),
        Error::Rustls(error) => format!("can't be trusted: {error}"),
        Error::Tls(why) => format!("can't be trusted: {why}"),
        Error::ConnectProxyFailed(_) | Error::InvalidProxyUrl => {
            "can't be reached by the proxy that `HTTPS_PROXY` names; a host in `NO_PROXY` is asked without it"
                .to_owned()
        }
        Error::Protocol(_) | Error::Http(_) | Error::LargeResponseHeader(..) => {
            "did not answer as an HTTP server".to_owned()
        }
        _ => "can't be asked".to_owned(),
    })
}

#[derive(Deserialize)]
struct Given {
    access_token: Option<String>,
    token_type: Option<String>,
    expires_in: Option<Seconds>,
    refresh_token: Option<String>,
}

/// Some servers write numbers as texts.
#[derive(Deserialize)]
#[serde(untagged)]
enum Seconds {
    Number(f64),
    Text(String),
}

#[derive(Deserialize)]
struct Error {
    error: Option<String>,
}

fn read(status: StatusCode, bytes: &[u8]) -> Result<Granted, Refused> {
    if status == StatusCode::OK {
        return Ok(given(bytes)?);
    }
    if status.is_redirection() {
        return Err(Refused::from(format!(
            "leads somewhere else (status {}), where no refresh token is sent: say in `token_url` where it is",
            status.as_u16()
        )));
    }
    // Of what it says, the words of RFC 6749, section 5.2, are told and no others.
    let said: Option<Error> = serde_json::from_slice(bytes).ok();
    let error = said.and_then(|said| said.error);
    let known = match error.as_deref() {
        Some("invalid_grant") => {
            Some(("invalid_grant", "the refresh token has ended, was taken back, or is another client's"))
        }
        Some("invalid_client") => Some((
            "invalid_client",
            "it does not know the client, or not by this secret (`client_auth` says how it is sent)",
        )),
        Some("unauthorized_client") => Some(("unauthorized_client", "the client may not do this")),
        Some("unsupported_grant_type") => Some(("unsupported_grant_type", "it takes no refresh tokens")),
        Some("invalid_scope") => Some(("invalid_scope", "`scopes` asks for more than was granted")),
        Some("invalid_request") => Some(("invalid_request", "it did not understand the request")),
        _ => None,
    };
    let Some((word, means)) = known else {
        return Err(Refused::from(format!("answered with status {}", status.as_u16())));
    };
    Err(Refused {
        why: format!("refused with `{word}` (status {}): {means}", status.as_u16()),
        disowned: match word {
            "invalid_client" => Some(Disowned::Client),
            "invalid_grant" => Some(Disowned::RefreshToken),
            _ => None,
        },
    })
}

fn given(bytes: &[u8]) -> Result<Granted, String> {
    // serde's own words quote what they complain of.
    let given: Given = serde_json::from_slice(bytes).map_err(|error| {
        format!("gave what is no JSON object of a token (line {}, column {})", error.line(), error.column())
    })?;
    let refresh_token = given.refresh_token.filter(|token| !token.is_empty()).map(Secret::new);
    let access = access(given.access_token, given.token_type, given.expires_in);
    Ok(Granted { access, refresh_token })
}

fn access(token: Option<String>, kind: Option<String>, ends: Option<Seconds>) -> Result<Fetched, String> {
    let value = token.map(Secret::new).ok_or("gave JSON without `access_token`")?;
    if kind.is_some_and(|kind| !kind.eq_ignore_ascii_case("bearer")) {
        return Err("gave a token of another type than `bearer`".to_owned());
    }
    let seconds = ends.map(|seconds| match seconds {
        Seconds::Number(number) => number,
        Seconds::Text(text) => text.trim().parse().unwrap_or(f64::NAN),
    });
    let expires_in = seconds.map(Duration::try_from_secs_f64).transpose();
    let expires_in = expires_in.map_err(|_| "gave an `expires_in` that is no number of seconds")?;
    Ok(Fetched { value, expires_in })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(client_auth: ClientAuth, secret: Option<&str>) -> Request {
        Request {
            client_id: "mst ü".to_owned(),
            client_secret: secret.map(|secret| Secret::new(secret.to_owned())),
            client_auth,
            refresh_token: Secret::new("r/1+2=".to_owned()),
            scopes: vec!["a".to_owned(), "b:c".to_owned()],
        }
    }

    #[test]
    fn a_client_says_who_it_is_in_one_place() {
        let said = |auth, secret| {
            let request = request(auth, secret);
            (request.body().to_string(), request.authorization().map(|text| text.to_string()))
        };
        let plain = "grant_type=refresh_token&refresh_token=r%2F1%2B2%3D&scope=a+b%3Ac";
        assert_eq!(said(ClientAuth::Basic, None), (format!("{plain}&client_id=mst+%C3%BC"), None));
        // `mst+%C3%BC:s%26t`
        let basic = "Basic bXN0KyVDMyVCQzpzJTI2dA==".to_owned();
        assert_eq!(said(ClientAuth::Basic, Some("s&t")), (plain.to_owned(), Some(basic)));
        assert_eq!(
            said(ClientAuth::Body, Some("s&t")),
            (format!("{plain}&client_id=mst+%C3%BC&client_secret=s%26t"), None)
        );
    }

    #[test]
    fn what_is_given_is_read_and_nonsense_is_not_shown() {
        let read = |text: &str| {
            let granted = given(text.as_bytes())?;
            let refresh = granted.refresh_token.map(|token| token.reveal().to_owned());
            granted.access.map(|access| (access.value.reveal().to_owned(), access.expires_in, refresh))
        };
        let minute = Some(Duration::from_secs(60));
        let full =
            r#"{"access_token":"a","token_type":"Bearer","expires_in":60,"refresh_token":"r","scope":"x"}"#;
        assert_eq!(read(full), Ok(("a".to_owned(), minute, Some("r".to_owned()))));
        assert_eq!(read(r#"{"access_token":"a","expires_in":"60"}"#), Ok(("a".to_owned(), minute, None)));
        assert_eq!(read(r#"{"access_token":"a","refresh_token":""}"#), Ok(("a".to_owned(), None, None)));
        for (wrong, words) in [
            ("hunter2", "no JSON object of a token (line 1, column 1)"),
            (r#"{"access_token":{"hunter2":1}}"#, "no JSON object of a token"),
            (r#"{"token":"hunter2"}"#, "without `access_token`"),
            (r#"{"access_token":"hunter2","token_type":"hunter2"}"#, "another type than `bearer`"),
            (r#"{"access_token":"hunter2","expires_in":-1}"#, "no number of seconds"),
            (r#"{"access_token":"hunter2","expires_in":"hunter2"}"#, "no number of seconds"),
        ] {
            let why = read(wrong).expect_err("nonsense");
            assert!(why.contains(words) && !why.contains("hunter2"), "{why}");
        }
    }

    #[test]
    fn of_a_refusal_only_the_standards_words_are_told() {
        let why = |status: u16, text: &str| {
            let status = StatusCode::from_u16(status).expect("a status");
            let Err(refused) = read(status, text.as_bytes()) else { panic!("it gave one") };
            assert!(!refused.why.contains("hunter2"), "{}", refused.why);
            (refused.why, refused.disowned)
        };
        let (said, disowned) = why(400, r#"{"error":"invalid_grant","error_description":"hunter2"}"#);
        assert!(said.starts_with("refused with `invalid_grant` (status 400): the refresh token"), "{said}");
        assert_eq!(disowned, Some(Disowned::RefreshToken));
        assert_eq!(why(401, r#"{"error":"invalid_client"}"#).1, Some(Disowned::Client));
        assert_eq!(why(400, r#"{"error":"invalid_scope"}"#).1, None);
        assert_eq!(why(400, r#"{"error":"hunter2"}"#), ("answered with status 400".to_owned(), None));
        assert_eq!(why(500, "<html>hunter2"), ("answered with status 500".to_owned(), None));
        assert_eq!(why(204, ""), ("answered with status 204".to_owned(), None));
        assert!(why(307, "").0.starts_with("leads somewhere else (status 307)"));
    }
}
