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
use mst_model::RunId;
use mst_model::bundle::{Bundle, ThisMachine};
use mst_model::ledger::LedgerEvent;
use mst_model::machine::Machine;
use mst_model::run::ShardEnding;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite};
use tokio::sync::{OnceCell, watch};
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::guard::guarded;
use crate::links;
use crate::notes::Notes;
use crate::runner::{Results, Runner, RunnerError, Session, ShardSpec};

/// What a runner gets to end the making of a machine that nobody waits for any more.
pub(crate) const GIVEN_UP: Duration = Duration::from_secs(10);

/// How long a machine may take to say what it is.
const PROBE: Duration = Duration::from_secs(60);

/// What stands before what a machine says of itself.
const PROBED: &str = "mst-probe: ";

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
    machines: Arc<dyn Machines>,
    /// The run's ledger.
    notes: Notes,
    /// When a machine is kept.
    keep: Keep,
    /// What workers need beside their bundle.
    staging: Staging,
    /// This mst's version.
    mst: String,
    made: Mutex<BTreeMap<u32, Making>>,
}

/// The making of a shard's machine: a task of its own, so that a shard which is given up does not
/// cut it off half-way, where nobody knows what there is to remove.
#[derive(Debug)]
struct Making {
    name: String,
    made: watch::Receiver<Option<Made>>,
    task: AbortHandle,
}

/// What making a machine came to.
#[derive(Debug, Clone)]
enum Made {
    /// Nothing was begun.
    Nothing(RunnerError),
    /// It broke after it was begun, and may have left a machine: this one, where it is known.
    Broken(RunnerError, Option<Machine>),
    /// A machine, which is in the ledger.
    Machine(Machine),
}

impl OnMachines {
    /// A runner for the shards of the run whose ledger this is.
    pub fn new(
        machines: Arc<dyn Machines>,
        notes: Notes,
        keep: Keep,
        staging: Staging,
        mst: String,
    ) -> OnMachines {
        OnMachines { machines, notes, keep, staging, mst, made: Mutex::default() }
    }

    fn made(&self) -> std::sync::MutexGuard<'_, BTreeMap<u32, Making>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn machine(&self, spec: &ShardSpec) -> Result<Machine, RunnerError> {
        let name = mint(&spec.run, spec.shard)?;
        let asked =
            MachineSpec { name: name.clone(), run: spec.run.clone(), shard: spec.shard, shards: spec.shards };
        let (say, made) = watch::channel(None);
        let (machines, notes) = (self.machines.clone(), self.notes.clone());
        let task = tokio::spawn(async move {
            let made = make(&*machines, &notes, asked).await;
            say.send_replace(Some(made));
        });
        let making = Making { name, made: made.clone(), task: task.abort_handle() };
        self.made().insert(spec.shard, making);
        match answer(made).await {
            Made::Machine(machine) => Ok(machine),
            Made::Nothing(why) | Made::Broken(why, _) => Err(why),
        }
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
            return Err(RunnerError::new(format!(
                "machine `{}` is {system} and has {}; this mst is for {ours}: put mst {} for {system} into its image",
                machine.name,
                version.map_or("no mst".to_owned(), |version| format!("`{version}`")),
                self.mst
            )));
        }
        let staged = self.staging.program(&spec.bundle).await?;
        let bin = format!("{}/bin", machine.root);
        self.machines.copy_to(&spec.run, machine, staged, &bin).await?;
        Ok(format!("{bin}/mst"))
    }

    /// What system the machine is, as `Linux x86_64`, and what its mst says, where it has one.
    async fn probe(
        &self,
        spec: &ShardSpec,
        machine: &Machine,
    ) -> Result<(String, Option<String>), RunnerError> {
        // Marked, for a shell may greet before.
        let script = format!(
            "echo \"{PROBED}$(uname -s -m)\"; command -v mst >/dev/null 2>&1 && echo \"{PROBED}$(mst --version)\"; exit 0"
        );
        let argv = ["sh", "-c", &script].map(str::to_owned);
        let Started { from, to, ended } = self.machines.start(&spec.run, machine, &argv).await?;
        drop(to);
        let mut said = Vec::new();
        let mut from = from.take(PROBE_BYTES);
        let asked = timeout(PROBE, async {
            from.read_to_end(&mut said).await.map_err(|error| error.to_string())?;
            // One that has more to say is not waited for.
            drop(from);
            ended.await
        });
        let failed = |what: String| {
            RunnerError::new(format!("machine `{}` can't be asked what it is: {what}", machine.name))
        };
        match asked.await {
            Ok(Ok(())) => {}
            Ok(Err(why)) => return Err(failed(why)),
            Err(_) => return Err(failed(format!("it did not answer within {} s", PROBE.as_secs()))),
        }
        let said = String::from_utf8_lossy(&said);
        let words = |line: &str| line.trim().chars().take(128).collect::<String>();
        let mut lines = said.lines().filter_map(|line| line.trim_start().strip_prefix(PROBED).map(words));
        match lines.next() {
            Some(system) if !system.is_empty() => Ok((system, lines.next().filter(|line| !line.is_empty()))),
            _ => Err(failed("it said nothing; it needs `sh` and `uname`".to_owned())),
        }
    }
}

/// What workers need beside their bundle.
#[derive(Debug)]
pub struct Staging {
    executable: PathBuf,
    client_files: Vec<(String, PathBuf)>,
    staged: OnceCell<PathBuf>,
}

impl Staging {
    /// `executable` is this mst's own; `client_files` are what clients are started from, by their
    /// path in the bundle's `client/`.
    pub fn new(executable: PathBuf, client_files: Vec<(String, PathBuf)>) -> Staging {
        Staging { executable, client_files, staged: OnceCell::new() }
    }

    /// A directory with the executable alone in it, as `mst`. Made once a run, beside the first
    /// bundle. A copy and no link: a link changes the file itself (its ctime) under whoever copies it
    /// just then, another run too, and `tar` says so.
    async fn program(&self, bundle: &Path) -> Result<&Path, RunnerError> {
        let make = || async {
            let (from, dir) = (self.executable.clone(), bundle.with_file_name("bin"));
            let made = dir.clone();
            let stage = move || {
                std::fs::create_dir_all(&dir)?;
                std::fs::copy(&from, dir.join(PROGRAM)).map(drop)
            };
            blocking(stage).await.map(|()| made)
        };
        match self.staged.get_or_try_init(make).await {
            Ok(dir) => Ok(dir),
            Err(error) => Err(RunnerError::new(format!("mst's own executable can't be staged: {error}"))),
        }
    }

    /// Puts the clients' files into a bundle.
    async fn client_files(&self, bundle: &Path) -> Result<(), RunnerError> {
        let (files, dir) = (self.client_files.clone(), bundle.join(Bundle::CLIENT_DIR));
        let stage = move || {
            for (path, from) in files {
                let to = dir.join(path);
                if let Some(parent) = to.parent() {
                    std::fs::create_dir_all(parent)?;
                }
                std::fs::copy(from, to)?;
            }
            Ok(())
        };
        let staged = blocking(stage).await;
        staged.map_err(|error| RunnerError::new(format!("the clients' files can't be staged: {error}")))
    }

    /// Puts both into a bundle; says where the executable is in it.
    pub(crate) async fn fill_bundle(&self, bundle: &Path) -> Result<String, RunnerError> {
        self.client_files(bundle).await?;
        let from = self.program(bundle).await?.join(PROGRAM);
        let dir = bundle.join("bin");
        let copy = move || {
            std::fs::create_dir_all(&dir)?;
            std::fs::copy(from, dir.join(PROGRAM)).map(drop)
        };
        let copied = blocking(copy).await;
        copied.map_err(|error| RunnerError::new(format!("mst's own executable can't be staged: {error}")))?;
        Ok(format!("bin/{PROGRAM}"))
    }
}

/// Puts into a bundle on which machine it lies.
async fn say_where(bundle: &Path, machine: &Machine) -> Result<(), RunnerError> {
    let this = ThisMachine {
        schema: ThisMachine::SCHEMA.to_owned(),
        name: machine.name.clone(),
        image: machine.image.clone(),
    };
    let path = bundle.join(ThisMachine::FILE);
    let written = blocking(move || std::fs::write(path, serde_json::to_vec_pretty(&this)?)).await;
    written.map_err(|error| RunnerError::new(format!("the bundle can't be written: {error}")))
}

/// The worker's program.
const PROGRAM: &str = "mst";

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

/// Refuses a directory with a link that leads out of it.
async fn stays_inside(dir: &Path) -> io::Result<()> {
    let dir = dir.to_owned();
    blocking(move || links::stay_inside(&dir)).await
}

/// A name for a machine: a DNS label, and nobody else's.
pub(crate) fn mint(run: &RunId, shard: u32) -> Result<String, RunnerError> {
    let mut random = [0; 4];
    getrandom::fill(&mut random).map_err(|error| RunnerError::new(format!("no random bytes: {error}")))?;
    let suffix = random.map(|byte| char::from(b"abcdefghijkmnpqrstuvwxyz23456789"[usize::from(byte) % 32]));
    let run: String = run.as_str().chars().take(40).collect();
    Ok(format!("mst-{run}-{shard}-{}", suffix.iter().collect::<String>()))
}

#[async_trait]
impl Runner for OnMachines {
    async fn start(&self, spec: &ShardSpec) -> Result<Session, RunnerError> {
        // What is missing here is said before there is a machine.
        self.staging.client_files(&spec.bundle).await?;
        let machine = self.machine(spec).await?;
        let at = |name: &str| format!("{}/{name}", machine.root);
        let (bundle, results) = (at("bundle"), at("results"));
        say_where(&spec.bundle, &machine).await?;
        stays_inside(&spec.bundle).await.map_err(|error| {
            RunnerError::new(format!("the bundle can't go to machine `{}`: {error}", machine.name))
        })?;
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

    async fn end(
        &self,
        spec: &ShardSpec,
        ending: &ShardEnding,
        _: &CancellationToken,
    ) -> Result<(), RunnerError> {
        let Some(Making { name, made, task }) = self.made().remove(&spec.shard) else { return Ok(()) };
        // Without an answer there is no telling what a runner that is cut off leaves, or when.
        let (machine, cut_off) = match timeout(GIVEN_UP, answer(made)).await {
            Ok(Made::Nothing(_)) => return Ok(()),
            Ok(Made::Machine(machine)) => (Some(machine), false),
            Ok(Made::Broken(_, machine)) => (machine, false),
            Err(_) => (None, true),
        };
        if cut_off {
            task.abort();
        }
        let handle = machine.as_ref().map(|machine| &machine.handle);
        let destroy = async {
            self.machines.destroy(&spec.run, &name, handle).await?;
            if cut_off { Err(maybe_left()) } else { Ok(()) }
        };
        // What nobody has seen can't be looked at.
        let keep = if machine.is_some() { self.keep } else { Keep::Never };
        self.notes.remove(spec, &name, keep, ending, destroy).await
    }
}

/// What there is to say of a machine whose making got no answer: it may come to be after its removal.
pub(crate) fn maybe_left() -> RunnerError {
    RunnerError::new("its making was cut off, and may still come to something".to_owned())
}

/// What the making came to, once it came to something.
async fn answer(mut made: watch::Receiver<Option<Made>>) -> Made {
    let answer = made.wait_for(Option::is_some).await.ok().and_then(|made| made.clone());
    answer.unwrap_or_else(|| Made::Broken(RunnerError::new("mst failed while the machine was made"), None))
}

/// Makes a machine, each step in the ledger.
async fn make(machines: &dyn Machines, notes: &Notes, asked: MachineSpec) -> Made {
    if let Err(error) = notes.note(asked.shard, &asked.name, LedgerEvent::Intent).await {
        return Made::Nothing(error);
    }
    let machine = match guarded(machines.create(&asked)).await {
        Ok(Ok(machine)) => machine,
        Ok(Err(error)) => return Made::Broken(error, None),
        Err(panic) => return Made::Broken(RunnerError::new(panic), None),
    };
    if machine.name != asked.name {
        // Its handle is another machine's, and not ours to use.
        let why = format!(
            "the runner made `{}`, where `{}` was asked for",
            machine.name.escape_debug(),
            asked.name
        );
        return Made::Broken(RunnerError::new(why), None);
    }
    let created = LedgerEvent::Created {
        handle: machine.handle.clone(),
        root: machine.root.clone(),
        image: machine.image.clone(),
    };
    match notes.note(asked.shard, &asked.name, created).await {
        Ok(()) => Made::Machine(machine),
        Err(error) => Made::Broken(error, Some(machine)),
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
        stays_inside(&to).await?;
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
