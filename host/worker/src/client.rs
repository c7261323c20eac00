//! What is being evaluated: asked a case, it answers.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use mst_model::eval::{Client, ClientKind};
use mst_model::outcome::{Exit, InstrumentError, Outcome, Stage};
use mst_model::{Case, TrialKey};
use mst_process::{Finished, Spec, Stdin, Stream, resolve_program};

use crate::workspace::Workspace;

/// What clients find around them. Whoever starts the worker reads it from its own environment;
/// the worker itself reads none.
#[derive(Clone)]
pub struct ClientEnvironment {
    /// Their PATH, unless the eval sets another.
    pub path: String,
    /// Their HOME, unless the eval sets another.
    pub home: String,
    /// Values of the variables that `pass_env` names. A name without a value here is not set.
    pub vars: BTreeMap<String, String>,
    /// Where a program with a `/` in its name is looked for: the eval file's directory.
    pub base_dir: PathBuf,
}

// By hand, since the values are secrets.
impl fmt::Debug for ClientEnvironment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientEnvironment")
            .field("path", &self.path)
            .field("home", &self.home)
            .field("vars", &self.vars.keys())
            .field("base_dir", &self.base_dir)
            .finish()
    }
}

/// A case, put to a client.
pub(crate) struct Question<'a> {
    pub(crate) client: &'a Client,
    pub(crate) environment: &'a ClientEnvironment,
    pub(crate) key: &'a TrialKey,
    pub(crate) prompt: String,
    /// Where the client works; none where it does not need one.
    pub(crate) workspace: Option<&'a Workspace>,
    /// Where it finds its tokens; none where it needs none.
    pub(crate) tokens: Option<PathBuf>,
    pub(crate) deadline: Duration,
    pub(crate) cleanup: Duration,
}

/// What a client gave.
pub(crate) struct Answer {
    pub(crate) outcome: Outcome,
    /// None where it could not be asked.
    pub(crate) report: Option<Stream>,
    pub(crate) stderr: Stream,
}

impl Answer {
    fn broken(message: impl Into<String>) -> Answer {
        let outcome = Outcome::broken(Stage::Client, message);
        Answer { outcome, report: None, stderr: Stream::default() }
    }
}

/// Whether a client of this kind works in a directory even where the case places no files.
pub(crate) fn works_in_a_directory(kind: ClientKind) -> bool {
    match kind {
        ClientKind::Command => true,
        ClientKind::Echo => false,
    }
}

/// What the client may take for this case.
pub(crate) fn deadline(case: &Case, of_the_eval: Duration) -> Duration {
    case.deadline_ms.map_or(of_the_eval, Duration::from_millis)
}

/// Who asks clients.
#[async_trait]
pub(crate) trait Asks: fmt::Debug + Send + Sync {
    /// Asks, and returns when the client has answered and is gone, or its time is up.
    async fn ask(&self, question: Question<'_>) -> Answer;
}

/// Asks them themselves.
#[derive(Debug)]
pub(crate) struct InPerson;

#[async_trait]
impl Asks for InPerson {
    async fn ask(&self, question: Question<'_>) -> Answer {
        match question.client.kind {
            ClientKind::Command => command(question).await,
            ClientKind::Echo => echo(question),
        }
    }
}

fn echo(question: Question<'_>) -> Answer {
    let mut bytes = question.prompt.into_bytes();
    let room = usize::try_from(question.client.max_output_bytes).unwrap_or(usize::MAX);
    let cut = bytes.len().saturating_sub(room) as u64;
    bytes.truncate(room);
    let report = Some(Stream { bytes, cut });
    Answer { outcome: Outcome::answered(), report, stderr: Stream::default() }
}

async fn command(question: Question<'_>) -> Answer {
    let Some(workspace) = question.workspace else {
        return Answer::broken("a `command` client was asked without a workspace");
    };
    let Some((program, args)) = question.client.argv.split_first() else {
        return Answer::broken("a `command` client needs a program");
    };
    let env = environment(&question, workspace);
    // On the PATH that the client itself will have.
    let path = env.get("PATH").map_or("", String::as_str);
    let program = match resolve_program(program, path, &question.environment.base_dir) {
        Ok(program) => program,
        Err(missed) => return Answer::broken(missed.to_string()),
    };
    let ran = mst_process::run(Spec {
        program,
        args: args.iter().map(Into::into).collect(),
        env: env.into_iter().collect(),
        cwd: workspace.dir(),
        cwd_is_own: true,
        stdin: Stdin::Bytes(question.prompt.into_bytes()),
        time: question.deadline,
        max_stdout_bytes: question.client.max_output_bytes,
        max_stderr_bytes: question.client.max_output_bytes,
        cleanup: question.cleanup,
    });
    match ran.await {
        Ok(finished) => answer(finished),
        Err(error) => Answer::broken(crate::whole(&error)),
    }
}

fn answer(finished: Finished) -> Answer {
    let exit = match finished.exit {
        mst_process::Exit::Code(code) => Exit::Code(code),
        mst_process::Exit::Signal(signal) => Exit::Signal(signal),
    };
    let mut outcome = match finished.timed_out {
        true => Outcome::timed_out(Some(exit)),
        false => Outcome::exited(exit),
    };
    outcome.cleanup = finished.left.map(|left| InstrumentError::new(Stage::Cleanup, left.to_string()));
    Answer { outcome, report: Some(finished.stdout), stderr: finished.stderr }
}

/// What a program of the client's finds around it, whatever it is asked and whatever this process has
/// in its own environment.
pub(crate) fn surroundings(
    client: &Client,
    given: &ClientEnvironment,
    workspace: &Workspace,
) -> BTreeMap<String, String> {
    let mut env = BTreeMap::from([
        pair("PATH", given.path.clone()),
        pair("HOME", given.home.clone()),
        pair("LANG", "C.UTF-8".to_owned()),
        pair("TMPDIR", text(workspace.temp())),
    ]);
    env.extend(client.env.clone());
    let passed = client.pass_env.iter();
    env.extend(passed.filter_map(|name| Some((name.clone(), given.vars.get(name)?.clone()))));
    env
}

fn pair(name: &str, value: String) -> (String, String) {
    (name.to_owned(), value)
}

fn text(path: PathBuf) -> String {
    path.to_string_lossy().into_owned()
}

/// The client's whole environment.
fn environment(question: &Question<'_>, workspace: &Workspace) -> BTreeMap<String, String> {
    let mut env = surroundings(question.client, question.environment, workspace);
    // Last, so that nothing else can stand in their place.
    env.extend([
        pair("MST_CASE_ID", question.key.case.to_string()),
        pair("MST_VARIANT", question.key.variant.to_string()),
        pair("MST_TRIAL", question.key.index.to_string()),
        pair("MST_PROMPT_FILE", text(workspace.prompt_file())),
    ]);
    env.extend(question.tokens.clone().map(|dir| pair("MST_TOKENS", text(dir))));
    env
}
