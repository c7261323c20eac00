//! Where the values of secrets come from on this machine.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
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
pub(crate) struct Sources {
    /// The lock's directory, absolute: commands run there, and relative programs are led from it.
    dir: PathBuf,
    /// What came of each; a failure too, so that no trial asks again for what a person refused.
    known: Mutex<HashMap<String, Result<SecretValue, String>>>,
}

impl Sources {
    pub(crate) fn new(dir: PathBuf) -> Sources {
        Sources { dir, known: Mutex::default() }
    }

    async fn ask(&self, source: &Source) -> Result<SecretValue, String> {
        SecretValue::new(match source {
            Source::Env(name) => {
                place::var(name).ok_or_else(|| format!("the variable `{name}` is not set"))?
            }
            Source::File(path) => {
                let path = path.clone();
                let read = tokio::task::spawn_blocking(move || read(&path)).await;
                read.map_err(|error| format!("mst failed: {error}"))??
            }
            Source::Command(words) => printed(words, &self.dir).await?,
            Source::Keyring { service, username } => {
                let kept = printed(&keyring(service, username), &self.dir).await;
                kept.map_err(|why| {
                    format!("the keyring has no `{service}` for `{username}`, or none to give: {why}")
                })?
            }
        })
    }
}

#[async_trait]
impl Secrets for Sources {
    async fn value(&self, source: &Source) -> Result<SecretValue, String> {
        // Held while a command runs: two trials do not ask a person for a password twice.
        let mut known = self.known.lock().await;
        let key = format!("{source:?}");
        if let Some(answer) = known.get(&key) {
            return answer.clone();
        }
        let answer = self.ask(source).await;
        known.insert(key, answer.clone());
        answer
    }
}

/// The command by which a system's keyring is asked: the desktop's on Linux by libsecret's program, with the
/// attributes that keyring libraries give their entries.
fn keyring(service: &str, username: &str) -> Vec<String> {
    let words: &[&str] = match cfg!(target_os = "macos") {
        true => &["security", "find-generic-password", "-w", "-s", service, "-a", username],
        false => &["secret-tool", "lookup", "service", service, "username", username],
    };
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn read(path: &Path) -> Result<String, String> {
    let failed =
        |what: &dyn std::fmt::Display| format!("the file `{}` can't be read: {what}", path.display());
    // A pipe would keep mst waiting for whoever writes to it.
    let meta = std::fs::metadata(path).map_err(|error| failed(&error))?;
    if !meta.is_file() {
        return Err(failed(&"it is no file"));
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|error| failed(&error))?;
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(|error| failed(&error))?;
    line(bytes).map_err(|why| failed(&why))
}

/// What a command prints. What it says is in no error: a value may stand there.
async fn printed(words: &[String], dir: &Path) -> Result<String, String> {
    let (program, args) = words.split_first().ok_or("its command is empty")?;
    let path = place::path();
    let failed = |what: &str| format!("its command `{program}` {what}");
    let spec = Spec {
        program: resolve_program(program, &path, dir).map_err(|_| failed("is not there"))?,
        args: args.iter().map(Into::into).collect(),
        env: place::vars()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect(),
        cwd: dir.to_owned(),
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
        let sources = Sources::new(dir.path().to_owned());
        let value = |text: &str| SecretValue::new(text.to_owned());
        assert_eq!(sources.value(&Source::File(path.clone())).await, value("from-a-file"));
        let counting = format!("echo x >> {0}; echo from-a-command", dir.path().join("count").display());
        for _ in 0..2 {
            assert_eq!(sources.value(&command(&counting)).await, value("from-a-command"));
        }
        assert_eq!(std::fs::read_to_string(dir.path().join("count")).expect("read"), "x\n");
    }

    #[tokio::test]
    async fn a_command_runs_beside_the_lock_and_finds_its_program_there() {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::write(dir.path().join("key"), "beside-the-lock\n").expect("written");
        std::os::unix::fs::symlink("/bin/sh", dir.path().join("show")).expect("linked");
        let sources = Sources::new(dir.path().to_owned());
        let command = Source::Command(["./show", "-c", "cat key"].map(str::to_owned).to_vec());
        assert_eq!(sources.value(&command).await, SecretValue::new("beside-the-lock".to_owned()));
    }

    #[tokio::test]
    async fn what_failed_is_not_asked_for_again() {
        let dir = tempfile::tempdir().expect("a directory");
        let sources = Sources::new(dir.path().to_owned());
        let failing = command("echo x >> count; exit 1");
        for _ in 0..2 {
            assert!(sources.value(&failing).await.expect_err("failed").contains("code 1"));
        }
        assert_eq!(std::fs::read_to_string(dir.path().join("count")).expect("read"), "x\n");
    }

    #[tokio::test]
    async fn what_is_no_file_is_not_waited_for() {
        let dir = tempfile::tempdir().expect("a directory");
        let sources = Sources::new(dir.path().to_owned());
        for no_file in ["/dev/zero", dir.path().to_str().expect("UTF-8")] {
            let error = sources.value(&Source::File(no_file.into())).await.expect_err("no file");
            assert!(error.ends_with("it is no file"), "{error}");
        }
    }

    #[tokio::test]
    async fn no_error_says_what_a_command_said() {
        let sources = Sources::new(std::env::temp_dir());
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
