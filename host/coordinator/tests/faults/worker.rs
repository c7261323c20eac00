//! A worker that follows a script: honest up to one trial, and there it does something else.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use mst_model::bundle::{Bundle, CaseWork, ThisMachine};
use mst_model::outcome::Status;
use mst_model::transcript::ClientInfo;
use mst_model::{Digest, TrialKey};
use mst_protocol::{
    FromCoordinator, FromWorker, Lines, Need, Numbered, PROTOCOL, TrialDone, Uses, Work, encode,
};
use mst_store::ResultsDir;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::transcript::leave;

/// What a worker does at a trial instead of doing it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lie {
    Killed,
    CutOff,
    CutInFrame,
    Silent,
    Garbage,
    Huge,
    Twice,
    Unplanned,
    Unasked,
    WrongDigest,
    OtherTrial,
    OtherRun,
    PathOut,
    PathAbsolute,
    Gap,
    Repeat,
    OtherProtocol,
    OtherVersion,
    OtherShard,
    OtherWork,
    OtherImage,
    OtherClient,
    OtherCase,
    OtherAttempt,
    OtherPlace,
    OtherUses,
    NeedsToken,
    Untidy,
    WrongCount,
    Early,
    /// Asks leave, and is gone before it comes.
    AsksAndGoes,
    /// Says of each token that it was refused, whether it has come or not. Of runs with a token.
    Refuses,
    /// Goes on for ever when it is told to stop.
    Deaf,
    /// Never says `hello`, but this line again and again.
    Mumbles,
}

impl Lie {
    pub(crate) const ALL: [Lie; 32] = [
        Lie::Killed,
        Lie::CutOff,
        Lie::CutInFrame,
        Lie::Silent,
        Lie::Garbage,
        Lie::Huge,
        Lie::Twice,
        Lie::Unplanned,
        Lie::Unasked,
        Lie::WrongDigest,
        Lie::OtherTrial,
        Lie::OtherRun,
        Lie::PathOut,
        Lie::PathAbsolute,
        Lie::Gap,
        Lie::Repeat,
        Lie::OtherProtocol,
        Lie::OtherVersion,
        Lie::OtherShard,
        Lie::OtherWork,
        Lie::OtherImage,
        Lie::OtherClient,
        Lie::OtherCase,
        Lie::OtherAttempt,
        Lie::OtherPlace,
        Lie::OtherUses,
        Lie::NeedsToken,
        Lie::WrongCount,
        Lie::Early,
        Lie::AsksAndGoes,
        Lie::Deaf,
        Lie::Mumbles,
    ];

    /// Whether what it announces can't be kept, so that what comes after it may be lost.
    pub(crate) fn spoils(self) -> bool {
        use Lie::{
            OtherAttempt, OtherCase, OtherPlace, OtherRun, OtherTrial, PathAbsolute, PathOut, WrongDigest,
        };
        matches!(
            self,
            WrongDigest
                | OtherTrial
                | OtherRun
                | OtherCase
                | OtherAttempt
                | OtherPlace
                | PathOut
                | PathAbsolute
        )
    }
}

/// A worker's script.
#[derive(Debug, Clone)]
pub(crate) struct Script {
    /// What it does, and at which trial.
    pub(crate) lie: Option<(Lie, usize)>,
    /// Lines that are no message, before `hello`.
    pub(crate) noise: usize,
    /// How long each trial takes.
    pub(crate) takes: Duration,
}

impl Script {
    pub(crate) fn honest() -> Script {
        Script { lie: None, noise: 0, takes: Duration::from_secs(12) }
    }

    pub(crate) fn lies(lie: Lie, at: usize) -> Script {
        Script { lie: Some((lie, at)), ..Script::honest() }
    }
}

/// Why a worker stops before its end; what a system would say of it.
type Cut = Result<(), String>;

pub(crate) struct Worker<R, W> {
    from: R,
    to: W,
    lines: Lines,
    seq: u64,
    script: Script,
    results: PathBuf,
    bundle: PathBuf,
    cancelled: Option<Duration>,
    /// What its trials talk to.
    uses: Uses,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Worker<R, W> {
    pub(crate) fn new(script: Script, bundle: PathBuf, results: PathBuf, from: R, to: W) -> Worker<R, W> {
        let lines = Lines::default();
        Worker { from, to, lines, seq: 0, script, results, bundle, cancelled: None, uses: Uses::default() }
    }

    /// Works; how it ended, as its system would say.
    pub(crate) async fn work(mut self) -> Result<(), String> {
        let bundle: Bundle =
            serde_json::from_slice(&std::fs::read(self.bundle.join(Bundle::FILE)).expect("is there"))
                .expect("reads");
        if let Some(client) = bundle.clients.values().next() {
            self.uses = Uses { providers: client.providers.clone(), servers: client.servers.clone() };
        }
        let work = std::fs::read_to_string(self.bundle.join(Bundle::WORK_FILE)).expect("is there");
        let work: Vec<CaseWork> =
            work.lines().map(|line| serde_json::from_str(line).expect("a line of work")).collect();
        let mut planned = Vec::new();
        for CaseWork { sha256, trials, case } in work {
            for trial in trials {
                let key = TrialKey { case: case.id.clone(), variant: trial.variant, index: trial.index };
                planned.push((key, sha256));
            }
        }
        let machine = std::fs::read(self.bundle.join(ThisMachine::FILE)).ok();
        let machine = machine.map(|bytes| serde_json::from_slice::<ThisMachine>(&bytes).expect("reads"));
        let image = machine.and_then(|machine| machine.image).map(|image| image.digest);
        let results = ResultsDir::open(&self.results).expect("opens");
        for line in 0..self.script.noise {
            self.raw(format!("motd {line}\n").as_bytes()).await?;
        }
        self.greet(bundle.shard, image).await?;
        let mut ended = 0;
        for (at, (trial, case)) in planned.into_iter().enumerate() {
            let lie = self.script.lie.filter(|(_, when)| *when == at).map(|(lie, _)| lie);
            if lie.is_some_and(|lie| lie.spoils() || matches!(lie, Lie::Twice)) {
                self.ask(&trial).await?;
            } else if let Some(lie) = lie {
                self.lie(lie, &trial, ended).await?;
            } else {
                self.ask(&trial).await?;
            }
            if !self.granted(&trial).await? {
                break;
            }
            if !self.busy(self.script.takes).await? {
                break;
            }
            let run = match lie {
                Some(Lie::OtherRun) => "20010101-000000-aaaa".parse().expect("a run"),
                _ => bundle.run.clone(),
            };
            let kept = match lie {
                Some(Lie::OtherTrial) => TrialKey { index: trial.index + 7, ..trial.clone() },
                _ => trial.clone(),
            };
            let mut place = (bundle.shard, 0);
            place.0 += u32::from(lie == Some(Lie::OtherPlace));
            place.1 += u32::from(lie == Some(Lie::OtherAttempt));
            let case = if lie == Some(Lie::OtherCase) { Digest::of(b"another case") } else { case };
            let left = leave(&results, &run, &kept, case, place);
            let path =
                left.dir.strip_prefix(results.path()).expect("is in it").to_string_lossy().into_owned();
            let done = TrialDone {
                trial,
                status: Status::Completed,
                path: match lie {
                    Some(Lie::PathOut) => format!("../{path}"),
                    Some(Lie::PathAbsolute) => left.dir.to_string_lossy().into_owned(),
                    _ => path,
                },
                size_bytes: left.size_bytes,
                sha256: if lie == Some(Lie::WrongDigest) { Digest::of(b"another") } else { left.sha256 },
            };
            self.say(FromWorker::Trial(done.clone())).await?;
            if lie == Some(Lie::Twice) {
                self.say(FromWorker::Trial(done)).await?;
            }
            ended += 1;
        }
        let clean = self.script.lie.is_none_or(|(lie, _)| lie != Lie::Untidy);
        self.say(FromWorker::Done { trials: ended, clean }).await
    }

    async fn greet(&mut self, shard: u32, image: Option<String>) -> Cut {
        let lie = self.script.lie.map(|(lie, _)| lie);
        while lie == Some(Lie::Mumbles) {
            self.raw(b"bash: warning: setlocale\n").await?;
            sleep(Duration::from_secs(5)).await;
        }
        let text = |is: bool, lie: &str, truth: &str| if is { lie } else { truth }.to_owned();
        let client =
            ClientInfo { name: text(lie == Some(Lie::OtherClient), "command", "echo"), version: None };
        self.say(FromWorker::Hello {
            protocol: text(lie == Some(Lie::OtherProtocol), "mst.shard/v2", PROTOCOL),
            mst: text(lie == Some(Lie::OtherVersion), "9.9.9", "0.1.0"),
            shard: shard + u32::from(lie == Some(Lie::OtherShard)) * 7,
            work: if lie == Some(Lie::OtherWork) { Work::Grade } else { Work::Collect },
            image: if lie == Some(Lie::OtherImage) { Some("sha256:00".to_owned()) } else { image },
            clients: BTreeMap::from([("a".parse().expect("a variant"), client)]),
        })
        .await
    }

    /// Returns where the worker goes on as if nothing had been.
    async fn lie(&mut self, lie: Lie, trial: &TrialKey, ended: u64) -> Cut {
        let done = TrialDone {
            trial: trial.clone(),
            status: Status::Completed,
            path: "trials/x".to_owned(),
            size_bytes: 1,
            sha256: Digest::of(b""),
        };
        match lie {
            Lie::Killed => return Err("signal 9 ended it".to_owned()),
            Lie::CutOff => return self.leave().await,
            Lie::AsksAndGoes => {
                self.ask(trial).await?;
                return self.leave().await;
            }
            Lie::CutInFrame => {
                self.raw(br#"{"seq":2,"type":"acqu"#).await?;
                return self.leave().await;
            }
            Lie::Silent => std::future::pending().await,
            Lie::Garbage => self.raw(b"\x1b[2J\xff segmentation fault\n").await?,
            Lie::Huge => self.raw(&[b'x'; 2 << 20]).await?,
            Lie::Unplanned => {
                let trial = TrialKey { index: trial.index + 1000, ..trial.clone() };
                self.ask(&trial).await?;
            }
            Lie::OtherUses => {
                let uses =
                    Uses { servers: BTreeSet::from(["other".parse().expect("a name")]), ..Uses::default() };
                self.say(FromWorker::Acquire { trial: trial.clone(), uses }).await?;
            }
            Lie::NeedsToken => {
                let names = BTreeSet::from(["other".parse().expect("a name")]);
                self.say(FromWorker::NeedTokens { names, why: Need::Start }).await?;
            }
            Lie::Refuses => loop {
                let names = BTreeSet::from(["gateway".parse().expect("a name")]);
                self.say(FromWorker::NeedTokens { names, why: Need::Connector }).await?;
                if let Ok(heard) =
                    timeout(Duration::from_secs(12), Self::hear(&mut self.from, &mut self.lines)).await
                {
                    heard?;
                }
            },
            Lie::Unasked => self.say(FromWorker::Trial(done)).await?,
            Lie::Gap => {
                self.seq += 1;
                self.beat().await?;
            }
            Lie::Repeat => {
                self.seq -= 1;
                self.beat().await?;
            }
            Lie::WrongCount => self.say(FromWorker::Done { trials: 99, clean: true }).await?,
            Lie::Early => self.say(FromWorker::Done { trials: ended, clean: true }).await?,
            Lie::Deaf => {
                self.ask(trial).await?;
                loop {
                    sleep(Duration::from_secs(10)).await;
                    self.beat().await?;
                }
            }
            _ => self.ask(trial).await?,
        }
        Ok(())
    }

    /// Ends without a word and without a fault.
    async fn leave(&mut self) -> Cut {
        self.to.shutdown().await.map_err(|error| error.to_string())?;
        std::future::pending().await
    }

    async fn granted(&mut self, trial: &TrialKey) -> Result<bool, String> {
        let mut beat = Instant::now() + Duration::from_secs(10);
        while self.cancelled.is_none() {
            tokio::select! {
                biased;
                message = Self::hear(&mut self.from, &mut self.lines) => match message? {
                    FromCoordinator::Tokens { .. } => return Err("tokens came unasked".to_owned()),
                    FromCoordinator::Granted { trial: granted } if granted == *trial => return Ok(true),
                    FromCoordinator::Waits { trial: waits } if waits == *trial => {}
                    FromCoordinator::Waits { trial } => return Err(format!("{trial} waits unasked")),
                    FromCoordinator::Granted { trial } => return Err(format!("{trial} was granted unasked")),
                    FromCoordinator::Cancel { grace_ms, .. } => self.cancelled = Some(grace(grace_ms)),
                },
                () = sleep_until(beat) => {
                    beat += Duration::from_secs(10);
                    self.beat().await?;
                }
            }
        }
        Ok(false)
    }

    /// Works for so long; false where it is ended before.
    async fn busy(&mut self, takes: Duration) -> Result<bool, String> {
        let until = Instant::now() + takes;
        let mut end = self.cancelled.map(|grace| Instant::now() + grace);
        let mut beat = Instant::now() + Duration::from_secs(10);
        loop {
            tokio::select! {
                biased;
                () = sleep_until(until) => return Ok(true),
                () = sleep_until(end.unwrap_or(until)), if end.is_some() => return Ok(false),
                message = Self::hear(&mut self.from, &mut self.lines) => match message? {
                    FromCoordinator::Tokens { .. } => return Err("tokens came unasked".to_owned()),
                    FromCoordinator::Granted { trial } => return Err(format!("{trial} was granted unasked")),
                    FromCoordinator::Waits { trial } => return Err(format!("{trial} waits unasked")),
                    FromCoordinator::Cancel { grace_ms, .. } => {
                        self.cancelled = Some(grace(grace_ms));
                        end = Some(Instant::now() + grace(grace_ms));
                    }
                },
                () = sleep_until(beat) => {
                    beat += Duration::from_secs(10);
                    self.beat().await?;
                }
            }
        }
    }

    async fn hear(from: &mut R, lines: &mut Lines) -> Result<FromCoordinator, String> {
        let mut buffer = [0; 1024];
        loop {
            if let Some(message) = lines.next().map_err(|error| error.to_string())? {
                return Ok(message);
            }
            let read = from.read(&mut buffer).await.map_err(|error| error.to_string())?;
            if read == 0 {
                return Err("nobody listens any more".to_owned());
            }
            lines.push(&buffer[..read]).map_err(|error| error.to_string())?;
        }
    }

    async fn ask(&mut self, trial: &TrialKey) -> Cut {
        self.say(FromWorker::Acquire { trial: trial.clone(), uses: self.uses.clone() }).await
    }

    async fn beat(&mut self) -> Cut {
        self.say(FromWorker::Heartbeat { trials: Vec::new() }).await
    }

    async fn say(&mut self, message: FromWorker) -> Cut {
        self.seq += 1;
        let line = encode(&Numbered { seq: self.seq, message }).expect("fits");
        self.raw(&line).await
    }

    async fn raw(&mut self, bytes: &[u8]) -> Cut {
        self.to.write_all(bytes).await.map_err(|error| error.to_string())
    }
}

/// Without a grace, for as long as it takes.
fn grace(grace_ms: Option<u64>) -> Duration {
    grace_ms.map_or(Duration::from_secs(100_000), Duration::from_millis)
}
