//! What a trial costs the host: `mst run` as it is, beside a bare loop over the same files with
//! the same syncs, and beside bare spawns of the same client.

mod common;

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use common::{Used, children_cpu, median, ms, mst, row, thread_cpu, used};
use tempfile::TempDir;

const TRIALS: u32 = 1000;
const ROUNDS: u32 = 3;

/// A directory for everything that one file system is measured with. Nothing in it is removed
/// before the end: ext4 makes the next files slower for a minute after many were removed.
struct Place {
    name: &'static str,
    root: TempDir,
}

impl Place {
    fn all() -> Vec<Place> {
        let disk = Place { name: "on disk", root: tempfile::tempdir().expect("a directory") };
        let memory = tempfile::tempdir_in("/dev/shm").ok();
        let memory = memory.map(|root| Place { name: "in memory (tmpfs)", root });
        [Some(disk), memory].into_iter().flatten().collect()
    }

    fn new_dir(&self) -> PathBuf {
        tempfile::tempdir_in(self.root.path()).expect("a directory").keep()
    }
}

struct Eval<'a> {
    dir: PathBuf,
    mst: &'a Path,
    place: &'a Place,
}

impl<'a> Eval<'a> {
    fn new(mst: &'a Path, place: &'a Place, client: &str, cases: u32) -> Eval<'a> {
        let dir = place.new_dir();
        let mut lines = String::new();
        for n in 0..cases {
            lines += &format!("{{\"id\":\"case-{n}\",\"prompt\":\"Say {n}.\",\"expected\":\"Say {n}.\"}}\n");
        }
        fs::write(dir.join("cases.jsonl"), lines).expect("written");
        let eval = format!(
            "name: bench\ndataset:\n  plugin: mst/dataset/jsonl\n  options: {{ path: cases.jsonl }}\n\
             client: {client}\nvariants: [{{ id: only }}]\ntrials: 1\n\
             judges: [{{ id: text, plugin: mst/judge/text, options: {{ mode: exact }} }}]\n"
        );
        fs::write(dir.join("eval.yaml"), eval).expect("written");
        Eval { dir, mst, place }
    }

    fn run(&self) -> Used {
        let root = self.place.root.path();
        let mut command = Command::new(self.mst);
        command.args(["run", "eval.yaml", "--runs", "runs"]).current_dir(&self.dir);
        // Workspaces are made in the same place.
        used(command.env("MST_CACHE_DIR", root.join("cache")).env("TMPDIR", root))
    }

    /// The sizes of what one trial left: report, transcript, grade.
    fn sizes(&self) -> [usize; 3] {
        let find = |name: &str| {
            let mut dirs = vec![self.dir.join("runs")];
            while let Some(dir) = dirs.pop() {
                for entry in fs::read_dir(dir).expect("listed") {
                    let path = entry.expect("an entry").path();
                    if path.is_dir() {
                        dirs.push(path);
                    } else if path.to_string_lossy().contains(name) {
                        return fs::metadata(path).expect("is there").len() as usize;
                    }
                }
            }
            0
        };
        [find("/report"), find("/transcript.json"), find("/grades/")]
    }
}

/// Medians over several runs.
fn cost(eval: &Eval<'_>) -> Used {
    let all: Vec<Used> = (0..ROUNDS).map(|_| eval.run()).collect();
    let of = |pick: fn(&Used) -> Duration| median(all.iter().map(pick).collect());
    Used { own: of(|used| used.own), children: of(|used| used.children), wall: of(|used| used.wall) }
}

/// The same files with the same syncs, and nothing else.
fn bare_files(dir: &Path, sizes: [usize; 3]) -> Duration {
    let [report, transcript, grade] = sizes.map(|size| vec![b'x'; size]);
    let write = |path: &Path, bytes: &[u8]| {
        let mut file = File::create(path).expect("made");
        file.write_all(bytes).expect("written");
        file.sync_data().expect("synced");
    };
    let (tmp, grades) = (dir.join("tmp"), dir.join("grades"));
    fs::create_dir_all(&tmp).expect("made");
    fs::create_dir_all(&grades).expect("made");
    let before = thread_cpu();
    for n in 0..TRIALS {
        let stage = tmp.join(format!("trial-{n}"));
        fs::create_dir(&stage).expect("made");
        write(&stage.join("report"), &report);
        write(&stage.join("transcript.json"), &transcript);
        let place = dir.join(format!("trials/case-{n}/only"));
        fs::create_dir_all(&place).expect("made");
        fs::rename(&stage, place.join("0")).expect("moved");
        let grade_tmp = tmp.join(format!("grade-{n}"));
        write(&grade_tmp, &grade);
        let place = grades.join(format!("case-{n}"));
        fs::create_dir(&place).expect("made");
        fs::rename(&grade_tmp, place.join("grade.json")).expect("moved");
    }
    thread_cpu() - before
}

fn bare_spawns(program: &str) -> (Duration, Duration) {
    let (own, children) = (thread_cpu(), children_cpu());
    for _ in 0..TRIALS {
        let mut command = Command::new(program);
        command.env_clear().stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("it starts").wait_with_output().expect("it ends");
    }
    (thread_cpu() - own, children_cpu() - children)
}

fn main() {
    let Some(mst) = mst() else { return };
    println!("trial_cost: {TRIALS} trials, medians of {ROUNDS} runs; user and system time, a trial");
    for place in Place::all() {
        for (name, client) in
            [("echo", "{ kind: echo }"), ("command /bin/true", "{ kind: command, argv: [/bin/true] }")]
        {
            println!("\n  {name}, with mst/judge/text, {}", place.name);
            measure(&mst, &place, client);
        }
    }
}

fn measure(mst: &Path, place: &Place, client: &str) {
    // The first fills the cache.
    let one = Eval::new(mst, place, client, 1);
    one.run();
    let alone = cost(&one).own;
    let eval = Eval::new(mst, place, client, TRIALS);
    let Used { own, children, wall } = cost(&eval);
    let files = common::of(ROUNDS, || bare_files(&place.new_dir(), eval.sizes()));
    row("host", ms(own / TRIALS), "goal for echo < 1 ms");
    row("host, without what a run of one trial costs", ms(own.saturating_sub(alone) / TRIALS), "");
    row("wall", ms(wall / TRIALS), "");
    row("baseline: the same files and syncs in a bare loop", ms(files / TRIALS), "");
    if children == Duration::ZERO {
        row("host beyond the baseline", ms(own.saturating_sub(files) / TRIALS), "");
        return;
    }
    row("clients", ms(children / TRIALS), "");
    let (spawning, spawned) = bare_spawns("/bin/true");
    row("baseline: bare spawn, the parent's side", ms(spawning / TRIALS), "");
    row("baseline: bare spawn, the child's side", ms(spawned / TRIALS), "");
    let beyond = (own + children).saturating_sub(files + spawning + spawned) / TRIALS;
    row("beyond both baselines", ms(beyond), "goal of the design ≤ 0.5 ms");
}
