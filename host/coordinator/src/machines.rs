//! Shards on machines that a runner makes: names minted here, every step in the ledger before it
//! is taken, the worker's executable brought where the machine has none, and nothing left behind.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use mst_model::RunId;
use mst_model::bundle::Bundle;
use mst_model::ledger::{LedgerEntry, LedgerEvent};
use mst_model::machine::Machine;
use mst_store::Ledger;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite};
use tokio::sync::Semaphore;

use crate::runner::{Results, Runner, RunnerError, Session, ShardSpec};

/// How many machines are made at a time.
const SIDE_BY_SIDE: usize = 8;

/// How long a machine may take to say what it is.
const PROBE: Duration = Duration::from_secs(60);

/// The most that a machine may say of itself.
const PROBE_BYTES: u64 = 16 << 10;

/// What a runner is asked for.
#[derive(Debug, Clone)]
pub struct MachineSpec {
    /// The machine's name.
    pub name: String,
    /// The run.
    pub run: RunId,
    /// Which shard, from 0.
    pub shard: u32,
    /// Of how many.
    pub shards: u32,
}

/// A command that was started on a machine.
pub struct Started {
    /// Its stdout.
    pub from: Box<dyn AsyncRead + Send + Sync + Unpin>,
    /// Its stdin.
    pub to: Box<dyn AsyncWrite + Send + Sync + Unpin>,
    /// How it ended, with the last of its stderr where it failed. Dropped, it ends the command.
    pub ended: Pin<Box<dyn Future<Output = Result<(), String>> + Send + Sync>>,
}

/// A runner that makes machines and is the way to them. Each call stands alone.
#[async_trait]
pub trait Machines: Send + Sync {
    /// Makes a machine.
    async fn create(&self, spec: &MachineSpec) -> Result<Machine, RunnerError>;
    /// Removes a machine; done already is done.
    async fn destroy(&self, run: &RunId, name: &str, handle: Option<&Value>) -> Result<(), RunnerError>;
    /// The names of the run's machines that still exist.
    async fn list(&self, run: &RunId) -> Result<Vec<String>, RunnerError>;
    /// Starts a command there.
    async fn start(&self, run: &RunId, machine: &Machine, argv: &[String]) -> Result<Started, RunnerError>;
    /// Copies a directory's content there.
    async fn copy_to(&self, run: &RunId, machine: &Machine, from: &Path, to: &str)
    -> Result<(), RunnerError>;
    /// Copies a directory's content here.
    async fn copy_from(
        &self,
        run: &RunId,
        machine: &Machine,
        from: &str,
        to: &Path,
    ) -> Result<(), RunnerError>;
}

/// When a machine outlives its shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// Never.
    Never,
    /// Where the shard failed, for a look at it.
    Failed,
    /// Always.
    Always,
}

/// Runs each shard on a machine of its own.
pub struct OnMachines {
    /// The runner.
    pub machines: Arc<dyn Machines>,
    /// The run's ledger.
    pub ledger: Ledger,
    /// When a machine is kept.
    pub keep: Keep,
    /// This mst's own executable, for machines that have none.
    pub executable: PathBuf,
    /// This mst's version.
    pub mst: String,
    /// Files that clients are started from, by their path in the bundle's `client/`.
    pub client_files: Vec<(String, PathBuf)>,
    made: Mutex<BTreeMap<u32, Made>>,
    room: Semaphore,
}

/// What is known of a shard's machine.
#[derive(Debug, Clone)]
struct Made {
    name: String,
    machine: Option<Machine>,
}

impl OnMachines {
    /// A runner for the shards of the run whose ledger this is.
    pub fn new(
        machines: Arc<dyn Machines>,
        ledger: Ledger,
        keep: Keep,
        executable: PathBuf,
        mst: String,
        client_files: Vec<(String, PathBuf)>,
    ) -> OnMachines {
        let (made, room) = (Mutex::default(), Semaphore::new(SIDE_BY_SIDE));
        OnMachines { machines, ledger, keep, executable, mst, client_files, made, room }
    }

    fn made(&self) -> std::sync::MutexGuard<'_, BTreeMap<u32, Made>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a line of the ledger; what it tells of happens only after it is on the disk.
    async fn note(&self, shard: u32, machine: &str, event: LedgerEvent) -> Result<(), RunnerError> {
        let entry = LedgerEntry { at: Timestamp::now(), machine: machine.to_owned(), shard, event };
        let ledger = self.ledger.clone();
        let written = tokio::task::spawn_blocking(move || ledger.append(&entry)).await;
        match written {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(RunnerError(format!("the ledger can't be written: {error}"))),
            Err(error) => Err(RunnerError(format!("mst failed: {error}"))),
        }
    }

    async fn machine(&self, spec: &ShardSpec) -> Result<Machine, RunnerError> {
        let name = mint(&spec.run, spec.shard)?;
        self.note(spec.shard, &name, LedgerEvent::Intent).await?;
        self.made().insert(spec.shard, Made { name: name.clone(), machine: None });
        let asked = MachineSpec { name, run: spec.run.clone(), shard: spec.shard, shards: spec.shards };
        let machine = {
            let _room = self.room.acquire().await;
            self.machines.create(&asked).await?
        };
        let created = LedgerEvent::Created {
            handle: machine.handle.clone(),
            root: machine.root.clone(),
            image: machine.image.clone(),
        };
        if let Some(made) = self.made().get_mut(&spec.shard) {
            made.machine = Some(machine.clone());
        }
        self.note(spec.shard, &machine.name, created).await?;
        Ok(machine)
    }

    /// The worker's program on the machine: the machine's own mst where it is this version, else
    /// this very executable, copied there.
    async fn worker(&self, spec: &ShardSpec, machine: &Machine) -> Result<String, RunnerError> {
        let (system, version) = self.probe(spec, machine).await?;
        if version.as_deref() == Some(&format!("mst {}", self.mst)) {
            return Ok("mst".to_owned());
        }
        let ours = ours();
        if system != ours {
            return Err(RunnerError(format!(
                "machine `{}` is {system} and has {}; this mst is for {ours}: put mst {} for {system} into its image",
                machine.name,
                version.map_or("no mst".to_owned(), |version| format!("`{version}`")),
                self.mst
            )));
        }
        let staged = spec.bundle.with_extension("bin");
        let (from, dir) = (self.executable.clone(), staged.clone());
        let stage = move || {
            std::fs::create_dir_all(&dir)?;
            let to = dir.join("mst");
            std::fs::hard_link(&from, &to).or_else(|_| std::fs::copy(&from, &to).map(drop))
        };
        blocking(stage)
            .await
            .map_err(|error| RunnerError(format!("mst's own executable can't be staged: {error}")))?;
        let bin = format!("{}/bin", machine.root);
        self.machines.copy_to(&spec.run, machine, &staged, &bin).await?;
        Ok(format!("{bin}/mst"))
    }

    /// What system the machine is, as `Linux x86_64`, and what its mst says, where it has one.
    async fn probe(
        &self,
        spec: &ShardSpec,
        machine: &Machine,
    ) -> Result<(String, Option<String>), RunnerError> {
        let script = "uname -s -m; command -v mst >/dev/null 2>&1 && mst --version; exit 0";
        let argv = ["sh", "-c", script].map(str::to_owned);
        let Started { from, to, ended } = self.machines.start(&spec.run, machine, &argv).await?;
        drop(to);
        let mut said = Vec::new();
        let mut from = from.take(PROBE_BYTES);
        let read = tokio::time::timeout(PROBE, from.read_to_end(&mut said));
        let failed = |what: String| {
            RunnerError(format!("machine `{}` can't be asked what it is: {what}", machine.name))
        };
        match read.await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => return Err(failed(error.to_string())),
            Err(_) => return Err(failed(format!("it did not answer within {} s", PROBE.as_secs()))),
        }
        ended.await.map_err(failed)?;
        let said = String::from_utf8_lossy(&said);
        let mut lines = said.lines().map(|line| line.trim().to_owned());
        match lines.next() {
            Some(system) if !system.is_empty() => Ok((system, lines.next().filter(|line| !line.is_empty()))),
            _ => Err(failed("it said nothing; it needs `sh` and `uname`".to_owned())),
        }
    }

    fn stage_client_files(&self, bundle: &Path) -> io::Result<()> {
        for (path, from) in &self.client_files {
            let to = bundle.join(Bundle::CLIENT_DIR).join(path);
            if let Some(parent) = to.parent() {
                std::fs::create_dir_all(parent)?;
            }
            std::fs::copy(from, to)?;
        }
        Ok(())
    }
}

/// What this process runs on, as `uname -s -m` says it.
fn ours() -> String {
    let system = match std::env::consts::OS {
        "linux" => "Linux",
        "macos" => "Darwin",
        other => other,
    };
    let machine = match (system, std::env::consts::ARCH) {
        ("Darwin", "aarch64") => "arm64",
        (_, arch) => arch,
    };
    format!("{system} {machine}")
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}

/// A name for a machine: a DNS label, and nobody else's.
fn mint(run: &RunId, shard: u32) -> Result<String, RunnerError> {
    let mut random = [0; 4];
    getrandom::fill(&mut random).map_err(|error| RunnerError(format!("no random bytes: {error}")))?;
    let suffix = random.map(|byte| char::from(b"abcdefghijkmnpqrstuvwxyz23456789"[usize::from(byte) % 32]));
    let run: String = run.as_str().chars().take(40).collect();
    Ok(format!("mst-{run}-{shard}-{}", suffix.iter().collect::<String>()))
}

#[async_trait]
impl Runner for OnMachines {
    async fn start(&self, spec: &ShardSpec) -> Result<Session, RunnerError> {
        let machine = self.machine(spec).await?;
        let staged = self.stage_client_files(&spec.bundle);
        staged.map_err(|error| RunnerError(format!("the clients' files can't be staged: {error}")))?;
        let at = |name: &str| format!("{}/{name}", machine.root);
        let (bundle, results) = (at("bundle"), at("results"));
        self.machines.copy_to(&spec.run, &machine, &spec.bundle, &bundle).await?;
        let program = self.worker(spec, &machine).await?;
        let argv = [&program, "collect", "--bundle", &bundle, "--results", &results].map(str::to_owned);
        let Started { from, to, ended } = self.machines.start(&spec.run, &machine, &argv).await?;
        let fetched = ChannelResults {
            machines: self.machines.clone(),
            run: spec.run.clone(),
            machine: machine.clone(),
            results,
            staging: spec.staging.clone(),
            count: AtomicU64::new(0),
        };
        let results = Arc::new(fetched);
        Ok(Session { from_worker: from, to_worker: to, results, ended, machine: Some(machine) })
    }

    async fn end(&self, spec: &ShardSpec, failed: bool) -> Result<(), RunnerError> {
        let Some(Made { name, machine }) = self.made().remove(&spec.shard) else { return Ok(()) };
        if self.keep == Keep::Always || (self.keep == Keep::Failed && failed) {
            let why = if failed { "its shard failed" } else { "it was asked for" };
            return self.note(spec.shard, &name, LedgerEvent::Kept { why: why.to_owned() }).await;
        }
        let handle = machine.as_ref().map(|machine| &machine.handle);
        match self.machines.destroy(&spec.run, &name, handle).await {
            Ok(()) => self.note(spec.shard, &name, LedgerEvent::Destroyed).await,
            Err(error) => {
                let why = error.to_string();
                self.note(spec.shard, &name, LedgerEvent::DestroyFailed { why }).await?;
                Err(RunnerError(format!(
                    "machine `{name}` could not be removed: {error}; `mst machines reap {}` tries again",
                    spec.run
                )))
            }
        }
    }
}

/// Results that come over the channel.
struct ChannelResults {
    machines: Arc<dyn Machines>,
    run: RunId,
    machine: Machine,
    results: String,
    staging: PathBuf,
    count: AtomicU64,
}

#[async_trait]
impl Results for ChannelResults {
    async fn fetch(&self, path: &str) -> io::Result<PathBuf> {
        let to = self.staging.join(format!("fetch-{}", self.count.fetch_add(1, Ordering::Relaxed)));
        let made = to.clone();
        blocking(move || std::fs::create_dir_all(made)).await?;
        let from = format!("{}/{path}", self.results);
        self.machines.copy_from(&self.run, &self.machine, &from, &to).await.map_err(io::Error::other)?;
        Ok(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_dns_labels_and_their_own() {
        let run: RunId = "20261130-015240-k3f9".parse().expect("a run");
        let (a, b) = (mint(&run, 12).expect("minted"), mint(&run, 12).expect("minted"));
        assert!(a.starts_with("mst-20261130-015240-k3f9-12-") && a.len() <= 63, "{a}");
        assert_ne!(a, b);
    }
}
