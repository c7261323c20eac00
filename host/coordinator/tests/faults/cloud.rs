//! Where machines come from: directories that stand for them, and everything that can go wrong
//! with them.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use mst_coordinator::RunnerError;
use mst_coordinator::machines::{MachineSpec, Machines, Started};
use mst_coordinator::whole::{Attachment, WholeShards, WholeSpec};
use mst_model::Digest;
use mst_model::RunId;
use mst_model::ledger::MachineStatus;
use mst_model::machine::{Image, Machine};
use mst_store::RunDir;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::time::sleep;

use crate::copy::copy;
use crate::crew::{Fetch, Machine as Fault, Shard, begin};
use crate::pipe::Heard;

/// A provider of machines.
#[derive(Clone)]
pub(crate) struct Cloud(Arc<Inner>);

struct Inner {
    root: PathBuf,
    run: PathBuf,
    shards: Vec<(Shard, Heard)>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Those that are there, and whose they are.
    there: BTreeMap<String, usize>,
    /// Those that ever were.
    ever: BTreeSet<String>,
    fetched: BTreeMap<String, usize>,
}

impl Cloud {
    /// `root` is where machines are made, `run` the run's directory.
    pub(crate) fn new(root: PathBuf, run: PathBuf, shards: Vec<(Shard, Heard)>) -> Cloud {
        Cloud(Arc::new(Inner { root, run, shards, state: Mutex::default() }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().expect("locks")
    }

    /// The machines that are there.
    pub(crate) fn there(&self) -> BTreeSet<String> {
        self.state().there.keys().cloned().collect()
    }

    pub(crate) fn ever(&self) -> BTreeSet<String> {
        self.state().ever.clone()
    }

    fn make(&self, name: &str, shard: usize) -> Machine {
        let root = self.0.root.join(name);
        std::fs::create_dir_all(&root).expect("makes");
        self.state().there.insert(name.to_owned(), shard);
        self.state().ever.insert(name.to_owned());
        let root = root.to_string_lossy().into_owned();
        Machine { name: name.to_owned(), handle: json!({ "is": name }), root, image: Some(image()) }
    }

    fn shard_of(&self, name: &str) -> Result<usize, RunnerError> {
        let shard = self.state().there.get(name).copied();
        shard.ok_or_else(|| RunnerError::new(format!("there is no machine `{name}`")))
    }

    fn fault(&self, shard: usize) -> Option<Fault> {
        self.0.shards[shard].0.machine
    }

    /// What the run's ledger says of a machine.
    fn noted(&self, name: &str) -> Option<MachineStatus> {
        let run = RunDir::open_read(&self.0.run).expect("opens");
        let machines = run.machines().expect("reads");
        machines.into_iter().find(|state| state.machine == name).map(|state| state.status)
    }
}

fn failed<T>(what: &str) -> Result<T, RunnerError> {
    Err(RunnerError::new(what.to_owned()))
}

async fn forever<T>() -> T {
    std::future::pending().await
}

#[async_trait]
impl Machines for Cloud {
    async fn create(&self, spec: &MachineSpec) -> Result<Machine, RunnerError> {
        assert_eq!(self.noted(&spec.name), Some(MachineStatus::Intended), "its intent was written before");
        let shard = spec.shard as usize;
        match self.fault(shard) {
            Some(Fault::CreateHangs) => forever().await,
            Some(Fault::CreateLate(time)) => {
                let (cloud, name) = (self.clone(), spec.name.clone());
                tokio::spawn(async move {
                    sleep(time).await;
                    cloud.make(&name, shard);
                });
                forever().await
            }
            Some(Fault::CreateSlow(time)) => sleep(time).await,
            Some(Fault::CreateFails) => return failed("no more room in this zone"),
            _ => sleep(Duration::from_secs(1)).await,
        }
        let machine = self.make(&spec.name, shard);
        match self.fault(shard) {
            Some(Fault::CreateFailsAfter) => failed("it was made and is not well"),
            Some(Fault::CreatePanicsAfter) => panic!("a bug in create"),
            Some(Fault::OtherName) => Ok(Machine { name: "mst-of-another-run".to_owned(), ..machine }),
            _ => Ok(machine),
        }
    }

    async fn destroy(&self, _run: &RunId, name: &str, handle: Option<&Value>) -> Result<(), RunnerError> {
        assert!(handle.is_none_or(|handle| *handle == json!({ "is": name })), "{name} is not {handle:?}");
        let shard = self.state().there.get(name).copied();
        match shard.and_then(|shard| self.fault(shard)) {
            Some(Fault::DestroyFails) => return failed("it is protected"),
            Some(Fault::DestroyHangs) => forever().await,
            Some(Fault::DestroyPanics) => panic!("a bug in destroy"),
            _ => {}
        }
        self.state().there.remove(name);
        Ok(())
    }

    async fn list(&self, _run: &RunId) -> Result<Vec<String>, RunnerError> {
        Ok(self.there().into_iter().collect())
    }

    async fn start(&self, _run: &RunId, machine: &Machine, argv: &[String]) -> Result<Started, RunnerError> {
        let shard = self.shard_of(&machine.name)?;
        assert_eq!(
            self.noted(&machine.name),
            Some(MachineStatus::Created),
            "it is in the ledger before it is used"
        );
        let fault = self.fault(shard);
        if argv[0] == "sh" {
            return probe(fault);
        }
        assert!(Path::new(&argv[0]).is_file(), "its program is there: {}", argv[0]);
        if fault == Some(Fault::WorkerDoesNotStart) {
            return failed("no such container");
        }
        let at = |flag: &str| {
            let flag = argv.iter().position(|arg| arg == flag).expect("is there");
            PathBuf::from(&argv[flag + 1])
        };
        let (shard, heard) = &self.0.shards[shard];
        let running = begin(shard, heard.clone(), at("--bundle"), at("--results"));
        Ok(Started { from: running.from, to: running.to, ended: running.ended })
    }

    async fn copy_to(
        &self,
        _run: &RunId,
        machine: &Machine,
        from: &Path,
        to: &str,
    ) -> Result<(), RunnerError> {
        let shard = self.shard_of(&machine.name)?;
        match self.fault(shard) {
            Some(Fault::CopyFails) => return failed("no space left on device"),
            Some(Fault::CopyHangs) => forever().await,
            _ => {}
        }
        copy(from, Path::new(to), false).map_err(|error| RunnerError::new(error.to_string()))
    }

    async fn copy_from(
        &self,
        _run: &RunId,
        machine: &Machine,
        from: &str,
        to: &Path,
    ) -> Result<(), RunnerError> {
        let shard = self.shard_of(&machine.name)?;
        let count = {
            let mut state = self.state();
            let count = state.fetched.entry(machine.name.clone()).or_default();
            *count += 1;
            *count - 1
        };
        let fault = self.0.shards[shard].0.fetch.filter(|(_, at)| *at == count).map(|(fault, _)| fault);
        meet(fault).await.map_err(RunnerError::new)?;
        copy(Path::new(from), to, fault == Some(Fetch::Torn))
            .map_err(|error| RunnerError::new(error.to_string()))
    }
}

/// What a fetch meets before it is done.
pub(crate) async fn meet(fault: Option<Fetch>) -> Result<(), String> {
    match fault {
        Some(Fetch::Fails | Fetch::NoRoom) => Err("the connection was reset".to_owned()),
        Some(Fetch::Hangs) => forever().await,
        Some(Fetch::Panics) => panic!("a bug in copy-from"),
        Some(Fetch::Slow(time)) => {
            sleep(time).await;
            Ok(())
        }
        Some(Fetch::Torn) | None => Ok(()),
    }
}

fn probe(fault: Option<Fault>) -> Result<Started, RunnerError> {
    if fault == Some(Fault::Babbles) {
        // As a program does whose pipe is full, it ends only when nobody reads any more.
        let (from, mut to) = tokio::io::duplex(1024);
        let babbling = tokio::spawn(async move { while to.write_all(&[b'y'; 1024]).await.is_ok() {} });
        let ended = Box::pin(async move {
            let _ = babbling.await;
            Err("signal 13 ended it".to_owned())
        });
        return Ok(Started { from: Box::new(from), to: Box::new(tokio::io::sink()), ended });
    }
    let ours = format!("welcome to the cloud\nmst-probe: Linux {}\n", std::env::consts::ARCH);
    let (said, ended): (Box<dyn tokio::io::AsyncRead + Send + Sync + Unpin>, Result<(), String>) = match fault
    {
        Some(Fault::OtherArchitecture) => (Box::new(Cursor::new("mst-probe: Linux vax\n")), Ok(())),
        Some(Fault::ProbeHangs) => (Box::new(Hangs), Ok(())),
        Some(Fault::ProbeFails) => {
            (Box::new(Cursor::new("")), Err("it ended with code 126: no sh".to_owned()))
        }
        _ => (Box::new(Cursor::new(ours)), Ok(())),
    };
    let ended: std::pin::Pin<Box<dyn Future<Output = _> + Send + Sync>> = Box::pin(std::future::ready(ended));
    Ok(Started { from: said, to: Box::new(tokio::io::sink()), ended })
}

struct Hangs;

impl tokio::io::AsyncRead for Hangs {
    fn poll_read(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
        _: &mut tokio::io::ReadBuf<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        std::task::Poll::Pending
    }
}

#[async_trait]
impl WholeShards for Cloud {
    async fn run(&self, spec: WholeSpec, attach: Attachment) -> Result<(), RunnerError> {
        let name = spec.name.clone();
        assert_eq!(self.noted(&name), Some(MachineStatus::Intended), "its intent was written before");
        assert!(spec.bundle.join(&spec.program).is_file(), "its program is in its bundle");
        let state = RunDir::open_read(&self.0.run).and_then(|run| run.machines()).expect("reads");
        let state = state.into_iter().find(|state| state.machine == name).expect("is there");
        let asked = MachineSpec { name: name.clone(), run: spec.run.clone(), shard: state.shard, shards: 0 };
        Machines::create(self, &asked).await?;
        let fault = self.fault(state.shard as usize);
        match fault {
            Some(Fault::CopyFails) => return failed("no space left on device"),
            Some(Fault::CopyHangs) => forever().await,
            Some(Fault::WorkerDoesNotStart) => return Ok(()),
            _ => {}
        }
        let (shard, heard) = &self.0.shards[state.shard as usize];
        let there = self.0.root.join(&name).join("results");
        let running = begin(shard, heard.clone(), spec.bundle, there.clone());
        let started = Started { from: running.from, to: running.to, ended: running.ended };
        attach(started).await.map_err(RunnerError::new)?;
        meet(shard.fetch.map(|(fault, _)| fault)).await.map_err(RunnerError::new)?;
        if there.exists() {
            copy(&there, &spec.results, false).map_err(|error| RunnerError::new(error.to_string()))?;
        }
        Ok(())
    }

    async fn destroy(&self, run: &RunId, name: &str) -> Result<(), RunnerError> {
        Machines::destroy(self, run, name, None).await
    }

    async fn list(&self, run: &RunId) -> Result<Vec<String>, RunnerError> {
        Machines::list(self, run).await
    }
}

fn image() -> Image {
    Image { reference: "debian:12".to_owned(), digest: Digest::of(b"debian:12").to_string() }
}
