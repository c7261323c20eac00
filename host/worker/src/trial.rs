//! One trial: a workspace is made, the client asked, what it left kept, and the rest removed.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use mst_model::deadlines::Deadlines;
use mst_model::eval::Client;
use mst_model::outcome::{InstrumentError, Outcome, Stage, Status};
use mst_model::transcript::{Captured, ClientInfo, Scrubbed, Spent, Transcript};
use mst_model::{Case, Digest, RunId, TrialKey, VariantId};
use mst_process::Stream;
use tokio::task::{JoinError, spawn_blocking};
use tokio::time::timeout;

pub use crate::client::ClientEnvironment;

use crate::client::{self, Answer, Asks, InPerson, Question};
use crate::export::{Bounds, ExportError, Exported, export};
use crate::tokens::{Scrubber, Tokens};
use crate::until::{Late, Until};
use crate::workspace::Workspace;

/// A trial that has no transcript. What the client did, and what broke in asking it, is no error
/// here but the transcript's outcome.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// The staging directory can't be written.
    #[error("can't write `{}`", path.display())]
    Staging {
        /// The file.
        path: PathBuf,
        /// The system's word.
        #[source]
        source: io::Error,
    },
    /// The plan names a variant that has no client.
    #[error("variant `{0}` has no client")]
    NoClient(VariantId),
    /// A thread of the host's broke.
    #[error("mst failed in a trial")]
    Host(#[from] JoinError),
}

/// Does the trials of a shard, any number at a time.
#[derive(Debug, Clone)]
pub struct TrialRunner {
    run: RunId,
    shard: u32,
    clients: BTreeMap<VariantId, Client>,
    deadlines: Deadlines,
    environment: ClientEnvironment,
    scratch: PathBuf,
    tokens: Option<Arc<Tokens>>,
    infos: BTreeMap<VariantId, ClientInfo>,
    asks: Arc<dyn Asks>,
}

impl TrialRunner {
    /// For the trials of `shard` of `run`. `clients` have their variants' environments merged in;
    /// workspaces are made in `scratch`.
    pub fn new(
        run: RunId,
        shard: u32,
        clients: BTreeMap<VariantId, Client>,
        deadlines: Deadlines,
        environment: ClientEnvironment,
        scratch: PathBuf,
    ) -> TrialRunner {
        TrialRunner {
            run,
            shard,
            clients,
            deadlines,
            environment,
            scratch,
            tokens: None,
            infos: BTreeMap::new(),
            asks: Arc::new(InPerson),
        }
    }

    /// With tokens for its clients.
    pub(crate) fn with_tokens(self, tokens: Arc<Tokens>) -> TrialRunner {
        TrialRunner { tokens: Some(tokens), ..self }
    }

    /// With what is known of its clients.
    pub(crate) fn with_infos(self, infos: BTreeMap<VariantId, ClientInfo>) -> TrialRunner {
        TrialRunner { infos, ..self }
    }

    /// With somebody else who asks them.
    pub(crate) fn asked_by(self, asks: Arc<dyn Asks>) -> TrialRunner {
        TrialRunner { asks, ..self }
    }

    /// What the client may take for this case.
    pub fn client_deadline(&self, case: &Case) -> Duration {
        client::deadline(case, self.deadlines.client.0)
    }

    /// Does a trial, and leaves in `into`, an empty directory, the files that the transcript tells
    /// of: `report`, `stderr` and `files/…`. The transcript itself is the caller's to write beside
    /// them, and so is syncing: it is one step with putting the trial in its place.
    ///
    /// Dropping the future kills the client.
    ///
    /// # Errors
    /// Where there can be no transcript; never for what the client did.
    pub async fn run(
        &self,
        case: &Case,
        case_sha256: Digest,
        variant: &VariantId,
        index: u32,
        attempt: u32,
        into: &Path,
    ) -> Result<Transcript, TrialError> {
        let client = self.clients.get(variant).ok_or_else(|| TrialError::NoClient(variant.clone()))?;
        let key = TrialKey { case: case.id.clone(), variant: variant.clone(), index };
        let started_at = Timestamp::now();
        let done = self.stages(case, client, &key, into).await?;
        Ok(Transcript {
            schema: Transcript::SCHEMA.to_owned(),
            run: self.run.clone(),
            trial: key,
            case_sha256,
            shard: self.shard,
            attempt,
            previous: None,
            client: self
                .infos
                .get(variant)
                .cloned()
                .unwrap_or_else(|| ClientInfo { name: client.kind.as_str().to_owned(), version: None }),
            started_at,
            spent: done.spent,
            outcome: done.outcome,
            report: done.report,
            stderr: done.stderr,
            files: done.exported.files,
            scrubbed: done.scrubbed,
            omitted: done.exported.omitted,
        })
    }

    async fn stages(
        &self,
        case: &Case,
        client: &Client,
        key: &TrialKey,
        into: &Path,
    ) -> Result<Done, TrialError> {
        let mut spent = Spent::default();
        let prompt = case.prompt_text();

        let began = Instant::now();
        let made = if client::works_in_a_directory(client.kind) || !case.files.is_empty() {
            self.provision(case, &prompt).await?.map(Some)
        } else {
            Ok(None)
        };
        spent.provision_ms = millis(began);
        let workspace = match made {
            Ok(workspace) => workspace,
            Err(message) => return Ok(Done::broken(Outcome::broken(Stage::Provision, message), spent)),
        };

        let began = Instant::now();
        let Answer { mut outcome, mut report, mut stderr } = self
            .asks
            .ask(Question {
                client,
                environment: &self.environment,
                key,
                prompt,
                workspace: workspace.as_ref(),
                tokens: self.tokens.as_ref().and_then(|tokens| tokens.dir_of(&key.variant)),
                deadline: self.client_deadline(case),
                cleanup: self.deadlines.cleanup.0,
            })
            .await;
        spent.client_ms = millis(began);

        let mut exported = Exported::default();
        if let Some(workspace) = workspace {
            if outcome.status != Status::Error {
                let began = Instant::now();
                match self.export(&workspace, into).await? {
                    Ok(kept) => exported = kept,
                    // How the client ended stays in the outcome; it is not graded all the same.
                    Err(message) => {
                        outcome.status = Status::Error;
                        outcome.error = Some(InstrumentError::new(Stage::Export, message));
                    }
                }
                spent.export_ms = millis(began);
            }
            if let Err(message) = self.remove(workspace).await? {
                add_cleanup(&mut outcome, message);
            }
        }
        let mut scrubbed = Vec::new();
        if let Some(tokens) = &self.tokens {
            let scrubber = tokens.scrubber();
            (report, stderr, scrubbed) = spawn_blocking(move || scrub(&scrubber, report, stderr)).await?;
        }
        scrubbed.append(&mut exported.scrubbed);
        let (report, stderr) = keep_streams(into, report, stderr).await?;
        Ok(Done { spent, outcome, report, stderr, exported, scrubbed })
    }

    async fn provision(&self, case: &Case, prompt: &str) -> Result<Result<Workspace, String>, TrialError> {
        let (scratch, prompt, files) = (self.scratch.clone(), prompt.to_owned(), case.files.clone());
        let made = blocking(self.deadlines.provision.0, move |until| {
            Workspace::fresh(&scratch, &prompt, &files, until)
        });
        Ok(flat(made.await?).map_err(|why| format!("the workspace can't be made: {why}")))
    }

    async fn export(
        &self,
        workspace: &Workspace,
        into: &Path,
    ) -> Result<Result<Exported, String>, TrialError> {
        let (from, files) = (workspace.dir(), into.join("files"));
        let to = files.clone();
        // What was given until now: its client is gone.
        let scrubber = self.tokens.as_ref().map(|tokens| tokens.scrubber()).unwrap_or_default();
        let kept = blocking(self.deadlines.export.0, move |until| {
            export(&from, &to, &scrubber, Bounds::default(), until)
        })
        .await?;
        let late = match kept {
            Ok(Ok(exported)) => return Ok(Ok(exported)),
            Ok(Err(ExportError::Staging { path, source })) => {
                return Err(TrialError::Staging { path, source });
            }
            Ok(Err(ExportError::Late(late))) | Err(late) => late,
        };
        // Half a workspace is none, and a stored trial holds nothing that its transcript does not
        // tell of.
        spawn_blocking(move || match fs::remove_dir_all(&files) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(TrialError::Staging { path: files, source })
            }
            _ => Ok(()),
        })
        .await??;
        Ok(Err(format!("what the client left can't be kept: {late}")))
    }

    async fn remove(&self, workspace: Workspace) -> Result<Result<(), String>, TrialError> {
        let removed = blocking(self.deadlines.cleanup.0, move |until| workspace.remove(until)).await?;
        Ok(flat(removed).map_err(|why| format!("the workspace can't be removed: {why}")))
    }
}

/// What the stages of a trial give.
struct Done {
    spent: Spent,
    outcome: Outcome,
    report: Option<Captured>,
    stderr: Option<Captured>,
    exported: Exported,
    scrubbed: Vec<Scrubbed>,
}

impl Done {
    fn broken(outcome: Outcome, spent: Spent) -> Done {
        let exported = Exported::default();
        Done { spent, outcome, report: None, stderr: None, exported, scrubbed: Vec::new() }
    }
}

/// Takes tokens out of what a client said: no secret comes to a disk by one that gives it away.
fn scrub(
    scrubber: &Scrubber,
    mut report: Option<Stream>,
    mut stderr: Stream,
) -> (Option<Stream>, Stream, Vec<Scrubbed>) {
    let mut scrubbed = Vec::new();
    if let Some(report) = &mut report {
        scrubber.stream("report", report, &mut scrubbed);
    }
    scrubber.stream("stderr", &mut stderr, &mut scrubbed);
    (report, stderr, scrubbed)
}

/// How much longer than its limit blocking work is waited for: it sees the limit itself, unless
/// the disk hangs.
const PATIENCE: Duration = Duration::from_secs(5);

async fn blocking<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce(Until) -> T + Send + 'static,
) -> Result<Result<T, Late>, JoinError> {
    let until = Until::after(limit);
    match timeout(limit + PATIENCE, spawn_blocking(move || work(until))).await {
        Ok(done) => done.map(Ok),
        Err(_elapsed) => Ok(Err(Late(limit + PATIENCE))),
    }
}

fn flat<T>(done: Result<io::Result<T>, Late>) -> Result<T, String> {
    match done {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(error.to_string()),
        Err(late) => Err(late.to_string()),
    }
}

/// Something may be left of the client's processes already; neither hides the other.
fn add_cleanup(outcome: &mut Outcome, message: String) {
    match &mut outcome.cleanup {
        Some(error) => error.message = format!("{}; {message}", error.message),
        none => *none = Some(InstrumentError::new(Stage::Cleanup, message)),
    }
}

/// Bytes that are written faster than a thread is woken for them.
const AT_ONCE: usize = 64 << 10;

async fn keep_streams(
    into: &Path,
    report: Option<Stream>,
    stderr: Stream,
) -> Result<(Option<Captured>, Option<Captured>), TrialError> {
    let (report_file, stderr_file) = (into.join("report"), into.join("stderr"));
    let size = report.as_ref().map_or(0, |report| report.bytes.len()) + stderr.bytes.len();
    let keep = move || {
        let report = report.map(|report| keep_stream(report_file, &report)).transpose()?;
        let silent = stderr.bytes.is_empty() && stderr.cut == 0;
        let stderr = if silent { None } else { Some(keep_stream(stderr_file, &stderr)?) };
        Ok((report, stderr))
    };
    if size <= AT_ONCE { keep() } else { spawn_blocking(keep).await? }
}

fn keep_stream(path: PathBuf, stream: &Stream) -> Result<Captured, TrialError> {
    match fs::write(&path, &stream.bytes) {
        Ok(()) => Ok(Captured {
            size_bytes: stream.bytes.len() as u64,
            cut_bytes: stream.cut,
            sha256: Digest::of(&stream.bytes),
        }),
        Err(source) => Err(TrialError::Staging { path, source }),
    }
}

fn millis(since: Instant) -> u64 {
    since.elapsed().as_millis() as u64
}
