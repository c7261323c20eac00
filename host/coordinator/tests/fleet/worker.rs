//! A simulated worker: it keeps the rules of the protocol up to where its fate has something else, and
//! holds the coordinator to them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use mst_coordinator::ShardSpec;
use mst_model::bundle::{Bundle, CaseWork};
use mst_model::outcome::Status;
use mst_model::transcript::ClientInfo;
use mst_model::{Digest, RunId, TokenId, TrialKey};
use mst_protocol::{
    FromCoordinator, FromWorker, InFlight, Need, Numbered, PROTOCOL, Token, TrialDone, Uses, Work, encode,
};
use mst_store::ResultsDir;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::time::{Instant, sleep_until};

use crate::bank::good_until;
use crate::chance::Chance;
use crate::plan::{End, Fate, PROBE, Plan};
use crate::transcript::leave;
use crate::world::World;

const BEAT: Duration = Duration::from_secs(10);

/// It does not ask for tokens again sooner than after this.
const SOONEST: Duration = Duration::from_secs(1);

/// When everybody else is gone, and a minute's starts are forgotten.
const AFTER_ALL: Duration = Duration::from_secs(61);

/// A trial that is to be done.
#[derive(Debug, Clone)]
struct Todo {
    trial: TrialKey,
    case: Digest,
    uses: Uses,
    lane: u32,
}

/// How far the shard is that asks last.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Probe {
    /// Others are still there.
    Waits,
    /// They are gone, and it asks from then on.
    Rests(Instant),
    /// It has asked for all that it can, and looks then at what it got.
    Looks(Instant),
    Over,
}

pub(crate) struct Worker {
    plan: Arc<Plan>,
    world: World,
    fate: Fate,
    shard: u32,
    bundle: PathBuf,
    results: PathBuf,
    out: UnboundedSender<Vec<u8>>,
    inbox: UnboundedReceiver<(Instant, FromCoordinator)>,
    chance: Chance,
    began: Instant,
    seq: u64,
    todo: VecDeque<Todo>,
    asked: BTreeMap<TrialKey, Todo>,
    waits: BTreeSet<TrialKey>,
    /// What was let start and waits for a token.
    granted: VecDeque<Todo>,
    running: BTreeMap<TrialKey, (Todo, Instant, Instant)>,
    /// Since when and until when each token is good.
    tokens: BTreeMap<TokenId, (Instant, Instant)>,
    need: Option<BTreeSet<TokenId>>,
    /// When it may ask for tokens again.
    renews: Instant,
    asks: usize,
    ended: u64,
    stopped: bool,
    kill_at: Option<Instant>,
    probe: Probe,
    /// How many of its trials use everything, where it is the shard that asks last.
    all: u32,
}

impl Worker {
    pub(crate) fn new(
        plan: Arc<Plan>,
        world: World,
        spec: &ShardSpec,
        out: UnboundedSender<Vec<u8>>,
        inbox: UnboundedReceiver<(Instant, FromCoordinator)>,
        seed: u64,
    ) -> Worker {
        let fate = plan.fates[spec.shard as usize].clone();
        let watches = spec.shard == PROBE && plan.finish.or(plan.cancel).is_none();
        Worker {
            fate,
            shard: spec.shard,
            bundle: spec.bundle.clone(),
            results: spec.staging.clone(),
            out,
            inbox,
            chance: Chance(seed),
            began: Instant::now(),
            seq: 0,
            todo: VecDeque::new(),
            asked: BTreeMap::new(),
            waits: BTreeSet::new(),
            granted: VecDeque::new(),
            running: BTreeMap::new(),
            tokens: BTreeMap::new(),
            need: None,
            renews: Instant::now(),
            asks: 0,
            ended: 0,
            stopped: false,
            kill_at: None,
            all: 0,
            probe: if watches { Probe::Waits } else { Probe::Over },
            plan,
            world,
        }
    }

    /// Works; how it ended, as its system would say.
    pub(crate) async fn work(mut self) -> Result<(), String> {
        let read = std::fs::read(self.bundle.join(Bundle::FILE)).expect("is there");
        let bundle: Bundle = serde_json::from_slice(&read).expect("reads");
        self.read_work(&bundle);
        let clients = bundle.clients.keys().cloned();
        let echo = || ClientInfo { name: "echo".to_owned(), version: None };
        self.say(FromWorker::Hello {
            protocol: PROTOCOL.to_owned(),
            mst: "0.1.0".to_owned(),
            shard: self.shard,
            work: Work::Collect,
            image: None,
            clients: clients.map(|variant| (variant, echo())).collect(),
        });
        let mut beat = self.began + BEAT;
        let dies = match self.fate.end {
            End::Dies(after, in_frame) => Some((self.began + after, in_frame)),
            _ => None,
        };
        loop {
            let now = Instant::now();
            self.go_on(&bundle.run, now);
            if self.is_over() {
                self.say(FromWorker::Done { trials: self.ended, clean: true });
                return Ok(());
            }
            if matches!(self.fate.end, End::AsksAndGoes(many) if self.asks >= many) {
                return self.go().await;
            }
            let next = self.next_event(beat);
            tokio::select! {
                biased;
                said = self.inbox.recv() => match said {
                    Some((at, message)) => {
                        sleep_until(at).await;
                        self.hear(message);
                    }
                    None => {
                        self.kill();
                        return Err("nobody listens any more".to_owned());
                    }
                },
                () = at(dies.map(|(at, _)| at)) => {
                    if dies.is_some_and(|(_, in_frame)| in_frame) {
                        let _ = self.out.send(br#"{"seq":7,"type":"heartb"#.to_vec());
                    }
                    return self.go().await;
                }
                () = sleep_until(next) => if Instant::now() >= beat {
                    beat += BEAT;
                    self.beat();
                },
            }
        }
    }

    fn read_work(&mut self, bundle: &Bundle) {
        let work = std::fs::read_to_string(self.bundle.join(Bundle::WORK_FILE)).expect("is there");
        for line in work.lines() {
            let CaseWork { sha256, trials, case } = serde_json::from_str(line).expect("a line of work");
            for planned in trials {
                let client = &bundle.clients[&planned.variant];
                let uses = Uses { providers: client.providers.clone(), servers: client.servers.clone() };
                let trial =
                    TrialKey { case: case.id.clone(), variant: planned.variant, index: planned.index };
                self.todo.push_back(Todo { trial, case: sha256, uses, lane: planned.lane });
            }
        }
        if self.shard == PROBE {
            // What uses everything comes first.
            let all = self.plan.services.len();
            let (first, rest): (VecDeque<_>, VecDeque<_>) =
                self.todo.drain(..).partition(|todo| self.plan.uses(&todo.trial).len() == all);
            self.all = first.len() as u32;
            self.todo = first.into_iter().chain(rest).collect();
        }
    }

    /// It is gone without a word. What it started goes on until its machine is.
    async fn go(self) -> Result<(), String> {
        let Worker { out, inbox, .. } = self;
        drop((out, inbox));
        Err("signal 9 ended it".to_owned())
    }

    fn kill(&mut self) {
        for trial in self.running.keys() {
            self.world.end(self.shard, trial);
        }
        self.running.clear();
        self.granted.clear();
    }

    /// Does what can be done now.
    fn go_on(&mut self, run: &RunId, now: Instant) {
        if self.kill_at.is_some_and(|at| at <= now) {
            self.kill();
        }
        let over = self.running.iter().filter(|(_, (_, _, end))| *end <= now);
        for trial in over.map(|(trial, _)| trial.clone()).collect::<Vec<_>>() {
            if let Some((todo, _, _)) = self.running.remove(&trial) {
                self.end(run, todo);
            }
        }
        self.renew(now);
        for _ in 0..self.granted.len() {
            let Some(todo) = self.granted.pop_front() else { break };
            if self.stopped && !self.is_good(&todo.trial, now) {
                continue;
            }
            if self.is_good(&todo.trial, now) {
                self.begin(todo, now);
            } else {
                self.granted.push_back(todo);
            }
        }
        self.look_round(now);
        if !self.stopped && matches!(self.probe, Probe::Looks(_) | Probe::Over) {
            self.ask(now);
        }
    }

    fn is_over(&self) -> bool {
        let busy = !self.running.is_empty() || !self.granted.is_empty();
        !busy && (self.stopped || (self.asked.is_empty() && self.todo.is_empty()))
    }

    fn next_event(&self, beat: Instant) -> Instant {
        let ends = self.running.values().map(|(_, _, end)| *end);
        let probe = match self.probe {
            Probe::Rests(at) | Probe::Looks(at) => Some(at),
            // Others are looked for now and then.
            Probe::Waits | Probe::Over => None,
        };
        let renew = self.tokens.values().filter(|_| self.need.is_none() && !self.stopped);
        let renew = renew.map(|(_, until)| ask_at(*until)).min();
        let renew = renew.map(|at| at.max(self.renews));
        ends.chain(self.kill_at).chain(probe).chain(renew).fold(beat, Instant::min).max(self.floor())
    }

    /// Not before now: what is overdue is looked at again at once, and time goes on.
    fn floor(&self) -> Instant {
        Instant::now() + Duration::from_millis(1)
    }

    fn is_good(&self, trial: &TrialKey, now: Instant) -> bool {
        let good = |name: &str| {
            let name = name.parse::<TokenId>().expect("a name");
            self.tokens.get(&name).is_some_and(|(_, until)| *until > now)
        };
        self.plan.tokens(trial.variant.as_str()).iter().all(|name| good(name))
    }

    /// Asks for tokens that it does not have, or not for long; sometimes for one at a time.
    fn renew(&mut self, now: Instant) {
        if self.need.is_some() || self.stopped || now < self.renews {
            return;
        }
        let needed: BTreeSet<TokenId> = ["a", "b"]
            .iter()
            .flat_map(|v| self.plan.tokens(v))
            .map(|name| name.parse().expect("a name"))
            .collect();
        let lacks = |name: &&TokenId| self.tokens.get(name).is_none_or(|(_, until)| ask_at(*until) <= now);
        let mut names: BTreeSet<TokenId> = needed.iter().filter(lacks).cloned().collect();
        if names.len() > 1 && self.chance.one_in(2) {
            names.pop_first();
        }
        if !names.is_empty() {
            let why = if self.tokens.is_empty() { Need::Start } else { Need::Expiring };
            self.say(FromWorker::NeedTokens { names: names.clone(), why });
            self.need = Some(names);
            self.renews = now + SOONEST;
        }
    }

    fn ask(&mut self, now: Instant) {
        // One of more than its trials that wait would break a rule: of each lane so many may.
        let most = self.plan.concurrency as usize;
        loop {
            let waits = if self.fate.heeds { self.waits.len() } else { 0 };
            if self.running.len() + self.granted.len() + self.asked.len() - waits >= self.fate.busy {
                return;
            }
            let may = |todo: &Todo| {
                let of_lane = self.asked.values().filter(|asked| asked.lane == todo.lane).count();
                of_lane < most && self.is_good(&todo.trial, now)
            };
            let Some(at) = self.todo.iter().position(may) else { return };
            let Some(todo) = self.todo.remove(at) else { return };
            self.asks += 1;
            self.say(FromWorker::Acquire { trial: todo.trial.clone(), uses: todo.uses.clone() });
            self.asked.insert(todo.trial.clone(), todo);
        }
    }

    fn begin(&mut self, todo: Todo, now: Instant) {
        self.world.begin(self.shard, &todo.trial, self.plan.uses(&todo.trial));
        let least = if self.probe == Probe::Over { 0 } else { 20 };
        let takes = Duration::from_secs(least) + self.chance.time(self.fate.takes);
        self.running.insert(todo.trial.clone(), (todo, now, now + takes));
        let at_a_time = self.running.len();
        if at_a_time > self.plan.concurrency as usize {
            self.world.wrong(format!("shard {} does {at_a_time} at a time", self.shard));
        }
    }

    fn end(&mut self, run: &RunId, todo: Todo) {
        let Todo { trial, case, .. } = todo;
        self.world.finish(self.shard, &trial);
        let results = ResultsDir::open(&self.results).expect("opens");
        let left = leave(&results, run, &trial, case, (self.shard, 0));
        let path = left.dir.strip_prefix(results.path()).expect("is in it").to_string_lossy().into_owned();
        let (size_bytes, sha256) = (left.size_bytes, left.sha256);
        let done =
            FromWorker::Trial(TrialDone { trial, status: Status::Completed, path, size_bytes, sha256 });
        self.say(done.clone());
        if matches!(self.fate.end, End::Doubles(at) if at as u64 == self.ended) {
            self.say(done);
        }
        self.ended += 1;
    }

    /// What the shard does that asks last.
    fn look_round(&mut self, now: Instant) {
        match self.probe {
            Probe::Waits if self.world.are_gone(self.plan.busy_shards().len() as u32 - 1) => {
                self.probe = Probe::Rests(now + AFTER_ALL);
            }
            Probe::Rests(at) if at <= now => {
                let way = self.fate.way;
                let there_and_back = Duration::from_millis(way.up_ms as u64 + way.down_ms);
                self.probe = Probe::Looks(now + there_and_back + Duration::from_secs(2));
            }
            Probe::Looks(at) if at <= now => {
                let (got, room) = (self.running.len() as u32, self.plan.room().min(self.all));
                // Where a token was late nothing can be said.
                if got < room && self.granted.is_empty() && self.has_tokens_since(now, at - AFTER_ALL) {
                    self.world.wrong(format!("room was lost: {got} start where there is room for {room}"));
                }
                self.probe = Probe::Over;
            }
            _ => {}
        }
    }

    /// Whether it had all its tokens all the time.
    fn has_tokens_since(&self, now: Instant, then: Instant) -> bool {
        let needed = ["a", "b"].iter().flat_map(|variant| self.plan.tokens(variant));
        let named = |name: &str| name.parse::<TokenId>().expect("a name");
        let mut held = needed.map(|name| self.tokens.get(&named(name)));
        held.all(|held| held.is_some_and(|(since, until)| *since <= then && *until > now))
    }

    fn hear(&mut self, message: FromCoordinator) {
        match message {
            FromCoordinator::Tokens { tokens } => self.take(tokens),
            FromCoordinator::Granted { trial } => {
                self.waits.remove(&trial);
                match self.asked.remove(&trial) {
                    None => self.world.wrong(format!("{trial} is granted to shard {} unasked", self.shard)),
                    Some(_) if self.stopped => {
                        self.world.wrong(format!("{trial} is granted after a stop"));
                    }
                    Some(todo) => self.granted.push_back(todo),
                }
            }
            FromCoordinator::Waits { trial } => {
                if !self.asked.contains_key(&trial) || !self.waits.insert(trial.clone()) {
                    self.world.wrong(format!("{trial} of shard {} waits and does not ask", self.shard));
                }
            }
            FromCoordinator::Cancel { grace_ms, .. } => {
                self.stopped = true;
                let over = grace_ms.map(|grace| Instant::now() + Duration::from_millis(grace));
                self.kill_at = self.kill_at.into_iter().chain(over).min();
            }
        }
    }

    fn take(&mut self, tokens: Vec<Token>) {
        let names: BTreeSet<TokenId> = tokens.iter().map(|token| token.name.clone()).collect();
        if self.need.take().is_none_or(|asked| asked != names) {
            self.world.wrong(format!("shard {} is given {names:?}, and did not ask for that", self.shard));
        }
        let now = Instant::now();
        for Token { name, value, expires_in_ms } in tokens {
            let lives = Duration::from_millis(expires_in_ms.unwrap_or(0));
            let ends = good_until(name.as_str(), value.reveal());
            let good = ends.is_some_and(|ends| now + lives <= self.world.began() + ends);
            if !good || lives.is_zero() {
                let what = format!("shard {} holds `{name}` for {lives:?}, which has ended then", self.shard);
                self.world.wrong(what);
            }
            // Without a gap it is as if it were the one before.
            let since =
                self.tokens.get(&name).filter(|(_, until)| *until > now).map_or(now, |(since, _)| *since);
            self.tokens.insert(name, (since, now + lives));
        }
    }

    fn beat(&mut self) {
        let now = Instant::now();
        let in_flight = |(trial, (_, start, _)): (&TrialKey, &(Todo, Instant, Instant))| InFlight {
            trial: trial.clone(),
            age_ms: (now - *start).as_millis() as u64,
            deadline_ms: 600_000,
        };
        let trials = self.running.iter().map(in_flight).collect();
        self.say(FromWorker::Heartbeat { trials });
    }

    fn say(&mut self, message: FromWorker) {
        self.seq += 1;
        let line = encode(&Numbered { seq: self.seq, message }).expect("fits").to_vec();
        if matches!(self.fate.end, End::Repeats(at) if at == self.seq) {
            let _ = self.out.send(line.clone());
        }
        let _ = self.out.send(line);
    }
}

/// When a token is asked for again that ends then.
fn ask_at(until: Instant) -> Instant {
    until.checked_sub(Duration::from_secs(12)).unwrap_or(until)
}

/// Returns then; never, where there is no such time.
async fn at(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}
