//! Where the values of secrets come from on this machine.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use mst_plugin::Source;
use mst_process::{Exit, Spec, Stdin, resolve_program};
use mst_sandbox::{SecretValue, Secrets};
use tokio::sync::Mutex;

use crate::place;

/// How long a command may take that prints a secret.
const COMMAND: Duration = Duration::from_secs(30);

/// The longest secret.
const MAX_BYTES: u64 = 64 << 10;

/// The secrets of this machine, each asked for once a plugin.
#[derive(Default)]
pub(crate) struct Sources(Mutex<HashMap<String, SecretValue>>);

#[async_trait]
impl Secrets for Sources {
    async fn value(&self, source: &Source) -> Result<SecretValue, String> {
        // Held while a command runs: two trials do not ask a person for a password twice.
        let mut known = self.0.lock().await;
        let key = format!("{source:?}");
        if let Some(value) = known.get(&key) {
            return Ok(value.clone());
        }
        let text = match source {
            Source::Env(name) => {
                place::var(name).ok_or_else(|| format!("the variable `{name}` is not set"))?
            }
            Source::File(path) => read(path)?,
            Source::Command(words) => printed(words).await?,
        };
        let value = SecretValue::new(text)?;
        known.insert(key, value.clone());
        Ok(value)
    }
}

fn read(path: &Path) -> Result<String, String> {
    let failed =
        |what: &dyn std::fmt::Display| format!("the file `{}` can't be read: {what}", path.display());
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|error| failed(&error))?;
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(|error| failed(&error))?;
    line(bytes).map_err(|why| failed(&why))
}

/// What a command prints. What it says is in no error: a value may stand there.
async fn printed(words: &[String]) -> Result<String, String> {
    let (program, args) = words.split_first().ok_or("its command is empty")?;
    let path = place::path();
    let cwd = std::env::temp_dir();
    let failed = |what: &str| format!("its command `{program}` {what}");
    let spec = Spec {
        program: resolve_program(program, &path, &cwd).map_err(|_| failed("is not there"))?,
        args: args.iter().map(Into::into).collect(),
        env: place::vars()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect(),
        cwd,
        cwd_is_own: false,
        stdin: Stdin::Null,
        time: COMMAND,
        max_stdout_bytes: MAX_BYTES + 1,
        max_stderr_bytes: 0,
        cleanup: Duration::from_secs(5),
    };
    let finished = mst_process::run(spec).await.map_err(|_| failed("could not be run"))?;
    match finished.exit {
        _ if finished.timed_out => Err(failed(&format!("took longer than {} s", COMMAND.as_secs()))),
        Exit::Code(0) => line(finished.stdout.bytes).map_err(|why| failed(&format!("printed {why}"))),
        Exit::Code(code) => Err(failed(&format!("ended with code {code}"))),
        Exit::Signal(signal) => Err(failed(&format!("was ended by signal {signal}"))),
    }
}

/// One line, without its end.
fn line(bytes: Vec<u8>) -> Result<String, &'static str> {
    if bytes.len() as u64 > MAX_BYTES {
        return Err("more than 64 KiB");
    }
    let text = String::from_utf8(bytes).map_err(|_| "what is no UTF-8")?;
    let text = text.strip_suffix('\n').unwrap_or(&text);
    Ok(text.strip_suffix('\r').unwrap_or(text).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(text: &str) -> Source {
        Source::Command(["sh", "-c", text].map(str::to_owned).to_vec())
    }

    #[tokio::test]
    async fn a_value_comes_from_a_file_or_a_command_and_is_asked_for_once() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("secret");
        std::fs::write(&path, "from-a-file\n").expect("written");
        let sources = Sources::default();
        let value = |text: &str| SecretValue::new(text.to_owned());
        assert_eq!(sources.value(&Source::File(path.clone())).await, value("from-a-file"));
        let counting = format!("echo x >> {0}; echo from-a-command", dir.path().join("count").display());
        for _ in 0..2 {
            assert_eq!(sources.value(&command(&counting)).await, value("from-a-command"));
        }
        assert_eq!(std::fs::read_to_string(dir.path().join("count")).expect("read"), "x\n");
    }

    #[tokio::test]
    async fn no_error_says_what_a_command_said() {
        let sources = Sources::default();
        for text in [
            "echo hunter22; echo hunter22 >&2; exit 3",
            "echo hunter22; kill -9 $$",
            "printf 'hunter22\\nhunter22'",
        ] {
            let error = sources.value(&command(text)).await.expect_err("no secret");
            assert!(!error.contains("hunter"), "{error}");
        }
        let error = sources.value(&Source::Env("MST_TEST_NO_SUCH_VARIABLE".to_owned())).await;
        assert_eq!(error.expect_err("unset"), "the variable `MST_TEST_NO_SUCH_VARIABLE` is not set");
    }
}
