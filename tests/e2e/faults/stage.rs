//! A run that meets faults, and what must hold however that went.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::json;

use crate::support::{Chance, Eval, Run, Space, case, files_below, sha256, wait_until};

/// What can go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// The worker is killed.
    KillWorker,
    /// The machine is removed from outside.
    RemoveMachine,
    /// What leads to the worker is killed, and not the worker.
    CutChannel,
    /// mst itself is killed.
    KillCoordinator,
    /// The next machine is made, and its making fails.
    FailCreate,
    /// The next removal fails.
    FailDestroy,
    /// The next machine is not made in time.
    HangCreate,
    /// What is fetched next breaks off in the middle of a file.
    CutCopy,
    /// Something befalls the next line that a worker says.
    Line(Line),
}

/// What can befall a line on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Line {
    /// It breaks off in its middle, and so does the channel.
    Cut,
    /// The channel ends before it.
    End,
    /// Garbage comes before it.
    Garbage,
    /// 2 MiB without an end come before it.
    Huge,
    /// It comes twice.
    Twice,
    /// Its digest is another.
    Digest,
    /// Its trial is one that nobody planned.
    Unplanned,
    /// It does not come.
    Lost,
    /// It comes when nobody waits any more.
    Late,
}

impl Line {
    /// What a file is called that lets it happen.
    pub(super) fn name(self) -> &'static str {
        match self {
            Line::Cut => "cut",
            Line::End => "end",
            Line::Garbage => "garbage",
            Line::Huge => "huge",
            Line::Twice => "twice",
            Line::Digest => "digest",
            Line::Unplanned => "unplanned",
            Line::Lost => "lost",
            Line::Late => "late",
        }
    }
}

impl Fault {
    /// Whether it lies in wait for what mst does.
    fn waits(self) -> bool {
        matches!(self, Fault::FailCreate | Fault::FailDestroy | Fault::HangCreate | Fault::CutCopy)
    }
}

/// Where machines come from.
pub(super) trait Ground {
    /// A command of mst's that says which runner, for a new run.
    fn run(&self, space: &Space) -> Command;
    /// A command of mst's about a run.
    fn about(&self, space: &Space, args: &[&str]) -> Command;
    /// The run's machines that are there.
    fn machines(&self, space: &Space, run: &str) -> Vec<String>;
    /// Lets something happen now.
    fn meet(&self, space: &Space, fault: Fault, chance: &mut Chance);
    /// From here on nothing more goes wrong.
    fn heal(&self, space: &Space);
    /// Whether programs that mst started are still at work.
    fn is_busy(&self, space: &Space) -> bool;
}

/// How big a run is, and what it may meet.
pub(super) struct Play {
    pub(super) cases: u64,
    pub(super) trials: u64,
    pub(super) faults: Vec<Fault>,
    /// How many attempts meet faults, at most.
    pub(super) attempts: u64,
    /// How long a fault waits after the line that it waits for.
    pub(super) after: Duration,
    /// Where clients write down that they were asked.
    pub(super) asked: String,
    /// What the run has to do beside.
    pub(super) load: Option<Load>,
}

/// Tokens and limits, and what holds of them.
pub(super) struct Load {
    /// Puts them into the eval.
    pub(super) eval: fn(Eval, &Space) -> Eval,
    /// How many trials may be under way at a time, and so be lost by each fault.
    pub(super) at_a_time: usize,
    /// How many more may have ended and be on their way, and so be lost with mst itself.
    pub(super) on_their_way: usize,
    /// The trials that ended on machines that are still there: mst was killed while they were on their way.
    pub(super) ended: fn(&Space) -> BTreeSet<String>,
    /// Looks at what must not be there once nothing of mst's is.
    pub(super) look: fn(&Space, &str),
}

impl Play {
    fn planned(&self) -> u64 {
        self.cases * self.trials
    }
}

/// The finished trials, with the digest of each one's transcript.
type Stored = BTreeMap<String, String>;

/// Plays a seed.
pub(super) fn play(seed: u64, space: &Space, ground: &dyn Ground, play: &Play) {
    let mut chance = Chance(seed);
    space.write("asked", "");
    // Its command line names the place: one that outlives its worker is waited for, too.
    let client = format!(
        ": {}; cat; echo $MST_CASE_ID/$MST_VARIANT/$MST_TRIAL >> \"$ASKED\"; sleep 0.01",
        space.dir().display()
    );
    let eval = Eval::new()
        .client(&client)
        .set("client.env", json!({ "ASKED": play.asked }))
        .set("trials", json!(play.trials))
        .cases((0..play.cases).map(|n| case(&format!("case-{n}"))));
    match &play.load {
        Some(load) => (load.eval)(eval, space).write(space),
        None => eval.write(space),
    }
    let mut stored = Stored::new();
    for attempt in 0..1 + chance.below(play.attempts) {
        let mut faults: Vec<(u64, Fault)> = (0..1 + chance.below(2))
            .map(|_| (chance.below(3 + 2 * play.planned()), chance.pick(&play.faults)))
            .collect();
        faults.sort_by_key(|(line, _)| *line);
        let what = format!("seed {seed}, attempt {attempt}, {faults:?}");
        stored = attempted(space, ground, &what, stored, play, faults.len(), |mst| {
            suffer(mst, space, ground, &faults, play.after, &mut chance)
        });
    }
    ground.heal(space);
    let what = format!("seed {seed}, healed");
    stored = attempted(space, ground, &what, stored, play, 0, |_| {});
    assert_eq!(stored.len() as u64, play.planned(), "{what}");
    let asked = asked(space);
    assert!(stored.keys().all(|key| asked.contains(key)), "{what}: only {asked:?} were asked");
    let run = space.run();
    assert_eq!(run.record()["collect"], "complete", "{what}");
    let reaped = space.finish(ground.about(space, &["machines", "reap", &run.name()]));
    assert_eq!(reaped.code, 0, "{what}: {reaped}");
    assert_eq!(ground.machines(space, &run.name()), [""; 0], "{what}: {reaped}");
    assert_eq!(space.mst(["machines", "list"]).exits(0).stdout, "", "{what}");
    // Whatever was done more than once is counted once.
    let summary = space.mst(["report", &run.name(), "--json"]).exits(0).json();
    assert_eq!(summary["trials"]["finished"], play.planned(), "{what}");
    assert_eq!(summary["rows"][0]["passed"], play.planned(), "{what}");
}

/// Collects what is missing, or begins, while `meanwhile` has its way with mst, with so many faults; then
/// looks at what is there now.
fn attempted(
    space: &Space,
    ground: &dyn Ground,
    what: &str,
    before: Stored,
    play: &Play,
    faults: usize,
    meanwhile: impl FnOnce(&mut Child),
) -> Stored {
    let asked_before = asked(space).len();
    let mut command = match space.runs().first() {
        Some(run) => ground.about(space, &["run", "--resume", &run.name(), "--json"]),
        None => ground.run(space),
    };
    let errors = space.dir().join("errors");
    command.stdout(Stdio::piped()).stderr(fs::File::create(&errors).expect("made"));
    let mut mst = command.spawn().expect("it starts");
    meanwhile(&mut mst);
    // Whatever it still has to say.
    let _ = mst.stdout.take().map(std::io::read_to_string);
    let mut status = None;
    wait_until("the end of mst", || {
        status = mst.try_wait().expect("it is ours");
        status.is_some()
    });
    wait_until("the end of what mst started", || !ground.is_busy(space));
    let code = status.and_then(|status| status.code());
    let said = fs::read_to_string(&errors).expect("reads");
    let what = format!("{what}, ended with {code:?}:\n{said}");
    let asked = asked(space).split_off(asked_before);
    for key in &asked {
        assert!(!before.contains_key(key), "{key} is finished and was done again; {what}");
    }
    if let Some(load) = &play.load {
        (load.look)(space, &what);
    }
    let Some(run) = space.runs().into_iter().next() else {
        // It was killed before it was a run, or no machine could be made and nothing is left of it.
        assert!(before.is_empty() && matches!(code, None | Some(105)), "{what}");
        assert_eq!(ground.machines(space, ""), [""; 0], "{what}");
        return before;
    };
    if !run.dir().join("run.json").exists() {
        assert!(before.is_empty() && code.is_none(), "{what}");
        assert_eq!(ground.machines(space, &run.name()), [""; 0], "{what}");
        fs::remove_dir_all(run.dir()).expect("removed");
        return before;
    }
    run.assert_whole();
    let stored = stored(&run);
    for (key, digest) in &before {
        assert_eq!(stored.get(key), Some(digest), "{key} is lost or another; {what}");
    }
    for key in stored.keys() {
        let (case, _) = key.split_once('/').expect("a case");
        assert_eq!(run.report_text(key), case, "{key} was invented; {what}");
    }
    assert!(stored.len() as u64 <= play.planned(), "{what}");
    if let Some(load) = &play.load {
        let once: BTreeSet<&String> = asked.iter().collect();
        assert_eq!(once.len(), asked.len(), "one was asked twice: {asked:?}; {what}");
        let ended = (load.ended)(space);
        let lost: Vec<_> = once.into_iter().filter(|key| !stored.contains_key(*key)).collect();
        let under_way = load.at_a_time * faults;
        let most = under_way + if code.is_none() { load.on_their_way } else { 0 };
        assert!(lost.len() <= most, "{lost:?} are lost; {what}");
        let lost: Vec<_> = lost.into_iter().filter(|key| !ended.contains(*key)).collect();
        assert!(lost.len() <= under_way, "{lost:?} were under way; {what}");
    }
    let whole = stored.len() as u64 == play.planned();
    match code {
        Some(0) => assert!(whole, "{what}"),
        Some(106) => assert!(!whole, "{what}"),
        // Nothing began, and what the runner did meanwhile stays to be read.
        Some(105) => assert!(stored.is_empty(), "{what}"),
        None => {}
        Some(_) => panic!("{what}"),
    }
    // What is there can be found by its ledger.
    let listed = space.mst(["machines", "list", "--json"]).exits(0).json();
    let listed: Vec<&str> =
        listed.as_array().expect("a list").iter().filter_map(|line| line["machine"].as_str()).collect();
    for machine in ground.machines(space, &run.name()) {
        assert!(listed.contains(&machine.as_str()), "`{machine}` is not listed; {what}");
    }
    stored
}

/// Lets things go wrong, each after so many lines of mst's.
fn suffer(
    mst: &mut Child,
    space: &Space,
    ground: &dyn Ground,
    faults: &[(u64, Fault)],
    after: Duration,
    chance: &mut Chance,
) {
    // These wait for what mst does.
    for (_, fault) in faults {
        if fault.waits() {
            ground.meet(space, *fault, chance);
        }
    }
    let mut lines = BufReader::new(mst.stdout.take().expect("piped")).lines();
    let mut said = 0;
    for (line, fault) in faults {
        while said < *line && lines.next().is_some() {
            said += 1;
        }
        // Not to wait for anything: to meet it somewhere else each time.
        std::thread::sleep(Duration::from_micros(chance.below(after.as_micros() as u64)));
        match fault {
            Fault::KillCoordinator => {
                let _ = mst.kill();
                return;
            }
            other if other.waits() => {}
            other => ground.meet(space, *other, chance),
        }
    }
    for _ in lines {}
}

/// The trials whose client was asked, in their order.
fn asked(space: &Space) -> Vec<String> {
    space.read("asked").lines().map(str::to_owned).collect()
}

fn stored(run: &Run) -> Stored {
    let trials = run.dir().join("trials");
    let transcripts = files_below(&trials).into_iter().filter(|path| path.ends_with("transcript.json"));
    let key = |path: &std::path::Path| {
        let dir = path.parent().expect("a directory").strip_prefix(&trials).expect("is below");
        dir.to_str().expect("UTF-8").to_owned()
    };
    transcripts.map(|path| (key(&path), sha256(&fs::read(&path).expect("reads")))).collect()
}
