//! Variables, files and programs that have a token, or a secret that getting one takes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use mst_coordinator::vault::{Fetched, Secret, TokenSource};
use mst_process::{Exit, Spec, Stdin, resolve_program};
use serde::Deserialize;

use crate::place;

/// More than a source has to say.
const MAX_BYTES: u64 = 64 << 10;

/// How long a source's processes may take to be gone.
const CLEANUP: Duration = Duration::from_secs(5);

/// As one writes them into a file: without the line's end.
fn secret(text: &str) -> Secret {
    Secret::new(text.trim_end_matches(['\r', '\n']).to_owned())
}

pub(super) struct Variable(pub(super) String);

#[async_trait]
impl TokenSource for Variable {
    async fn fetch(&self) -> Result<Fetched, String> {
        let value = place::var(&self.0).ok_or_else(|| format!("the variable `{}` is not set", self.0))?;
        Ok(Fetched { value: secret(&value), expires_in: None })
    }
}

pub(super) struct File(pub(super) PathBuf);

#[async_trait]
impl TokenSource for File {
    async fn fetch(&self) -> Result<Fetched, String> {
        let path = self.0.clone();
        let read = tokio::task::spawn_blocking(move || read_file(&path)).await;
        let value = read.map_err(|error| format!("mst failed: {error}"))??;
        Ok(Fetched { value, expires_in: None })
    }
}

/// What stands in a file.
pub(super) fn read_file(path: &Path) -> Result<Secret, String> {
    let failed = |what: String| format!("the file `{}` {what}", path.display());
    let meta = std::fs::metadata(path).map_err(|error| failed(format!("can't be read: {error}")))?;
    if !meta.is_file() {
        return Err(failed("is no file".to_owned()));
    }
    if meta.len() > MAX_BYTES {
        return Err(failed(format!("has {} bytes; at most {MAX_BYTES} are read", meta.len())));
    }
    let bytes = std::fs::read(path).map_err(|error| failed(format!("can't be read: {error}")))?;
    // What stands there is shown in no error.
    let text = String::from_utf8(bytes).map_err(|_| failed("is no text".to_owned()))?;
    Ok(secret(&text))
}

pub(super) struct Program {
    pub(super) argv: Vec<String>,
    pub(super) dir: PathBuf,
    pub(super) time: Duration,
}

#[async_trait]
impl TokenSource for Program {
    async fn fetch(&self) -> Result<Fetched, String> {
        let Some((name, args)) = self.argv.split_first() else { return Err("it has no program".to_owned()) };
        let program = resolve_program(name, &place::path(), &self.dir).map_err(|error| error.to_string())?;
        // It is the user's own, and finds what the user has: an agent's socket, a profile's name.
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        let spec = Spec {
            program,
            args: args.iter().map(Into::into).collect(),
            env: place::vars().filter_map(text).collect(),
            cwd: self.dir.clone(),
            cwd_is_own: false,
            stdin: Stdin::Null,
            time: self.time,
            max_stdout_bytes: MAX_BYTES,
            max_stderr_bytes: 0,
            cleanup: CLEANUP,
        };
        let finished = mst_process::run(spec).await.map_err(|error| format!("`{name}`: {error}"))?;
        // Neither what it printed nor what it complained of is shown: either may hold the value.
        let how = match finished.exit {
            _ if finished.timed_out => format!("did not end within {} s", self.time.as_secs_f64()),
            Exit::Code(0) if finished.stdout.cut > 0 => format!("printed more than {MAX_BYTES} bytes"),
            Exit::Code(0) => return read(&finished.stdout.bytes).map_err(|why| format!("`{name}` {why}")),
            Exit::Code(code) => format!("ended with code {code}"),
            Exit::Signal(signal) => format!("was ended by signal {signal}"),
        };
        Err(format!("`{name}` {how} (run it yourself: what it says may hold secrets and is not shown)"))
    }
}

/// What credential programs print.
#[derive(Deserialize)]
struct Printed {
    value: Option<String>,
    expires_at: Option<String>,
    expires_in: Option<f64>,
    /// kubectl's.
    status: Option<Status>,
    /// Docker's.
    #[serde(rename = "Secret")]
    secret: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    token: Option<String>,
    expiration_timestamp: Option<String>,
}

fn read(bytes: &[u8]) -> Result<Fetched, String> {
    // serde's own words quote what they complain of.
    let printed: Printed = serde_json::from_slice(bytes).map_err(|error| {
        format!(
            "printed what is no JSON object of a token (line {}, column {})",
            error.line(),
            error.column()
        )
    })?;
    let (token, until) = match printed.status {
        Some(status) => (status.token, status.expiration_timestamp),
        None => (None, None),
    };
    let value = printed.value.or(token).or(printed.secret);
    let value = value.ok_or("printed JSON without `value`, `status.token` or `Secret`")?;
    let expires_in = match (printed.expires_in, printed.expires_at.or(until)) {
        (Some(secs), _) => {
            let time = Duration::try_from_secs_f64(secs);
            Some(time.map_err(|_| "printed an `expires_in` that is no number of seconds".to_owned())?)
        }
        (None, Some(at)) => {
            let at: Timestamp = at.parse().map_err(|_| "printed a time that is not RFC 3339".to_owned())?;
            let left = at.as_millisecond() - Timestamp::now().as_millisecond();
            Some(Duration::from_millis(u64::try_from(left).unwrap_or(0)))
        }
        (None, None) => None,
    };
    Ok(Fetched { value: secret(&value), expires_in })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_credential_programs_print() {
        let value = |text: &str| {
            read(text.as_bytes()).map(|fetched| (fetched.value.reveal().to_owned(), fetched.expires_in))
        };
        let minute = Some(Duration::from_secs(60));
        assert_eq!(value(r#"{"value":"a token\n","expires_in":60}"#), Ok(("a token".to_owned(), minute)));
        assert_eq!(
            value(r#"{"ServerURL":"x","Username":"u","Secret":"docker's"}"#),
            Ok(("docker's".to_owned(), None))
        );
        let (token, left) = value(
            r#"{"kind":"ExecCredential","status":{"token":"kube's","expirationTimestamp":"2999-01-01T00:00:00Z"}}"#,
        )
        .expect("reads");
        assert!(token == "kube's" && left > Some(Duration::from_secs(1_000_000_000)));
        assert_eq!(
            value(r#"{"value":"old","expires_at":"2001-01-01T00:00:00Z"}"#).expect("reads").1,
            Some(Duration::ZERO)
        );
        for (wrong, words) in [
            ("hunter2", "no JSON object of a token (line 1, column 1)"),
            (r#"{"value":{"hunter2":1}}"#, "no JSON object of a token"),
            (r#"{"values":"hunter2"}"#, "without `value`"),
            (r#"{"value":"hunter2","expires_in":-1}"#, "no number of seconds"),
            (r#"{"value":"hunter2","expires_at":"hunter2"}"#, "not RFC 3339"),
        ] {
            let why = value(wrong).expect_err("nonsense");
            assert!(why.contains(words) && !why.contains("hunter2"), "{why}");
        }
    }
}
