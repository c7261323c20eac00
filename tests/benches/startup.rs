//! How long a person waits for nothing: `mst --version`, and a run of one trial.

mod common;

use std::fs;
use std::path::Path;
use std::process::Command;

use common::{ms, mst, of, row, used};

fn main() {
    let Some(mst) = mst() else { return };
    println!("startup: wall time, medians of 21");
    row("baseline: /bin/true", ms(of(21, || used(&mut Command::new("/bin/true")).wall)), "");
    row("mst --version", ms(of(21, || used(Command::new(&mst).arg("--version")).wall)), "goal ≤ 10 ms");
    let disk = tempfile::tempdir().expect("a directory");
    one_trial(&mst, "on disk", disk.path());
    if let Ok(memory) = tempfile::tempdir_in("/dev/shm") {
        one_trial(&mst, "in memory (tmpfs)", memory.path());
    }
}

fn one_trial(mst: &Path, place: &str, dir: &Path) {
    fs::write(dir.join("cases.jsonl"), "{\"id\":\"a\",\"prompt\":\"Hi.\",\"expected\":\"Hi.\"}\n")
        .expect("written");
    for (eval, client) in [("echo.yaml", "{ kind: echo }"), ("cat.yaml", "{ kind: command, argv: [cat] }")] {
        let text = format!(
            "name: one\ndataset: {{ plugin: mst/dataset/jsonl, options: {{ path: cases.jsonl }} }}\n\
             client: {client}\nvariants: [{{ id: only }}]\ntrials: 1\n\
             judges: [{{ id: text, plugin: mst/judge/text, options: {{ mode: exact }} }}]\n"
        );
        fs::write(dir.join(eval), text).expect("written");
    }
    let run = |eval: &str| {
        let mut command = Command::new(mst);
        command.args(["run", eval]).current_dir(dir);
        used(command.env("MST_CACHE_DIR", dir.join("cache")).env("TMPDIR", dir)).wall
    };
    println!("\n  a run of one trial, {place}");
    row("`echo`, nothing compiled yet", ms(run("echo.yaml")), "once");
    row("`echo`, warm", ms(of(21, || run("echo.yaml"))), "goal ≤ 60 ms");
    row("`command: cat`, warm", ms(of(21, || run("cat.yaml"))), "goal ≤ 60 ms");
}
