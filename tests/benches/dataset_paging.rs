//! Cases through `mst/dataset/jsonl`: how fast, and in how much memory. Each measurement has a
//! process of its own, so that its largest resident size is its own too.

mod common;
#[path = "common/plugin.rs"]
mod plugin_file;

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{mib, peak_rss, row};
use mst_sandbox::{Cache, DatasetPlugin, Limits, Permit, Quiet, Sandbox, Settings, Sinks};
use mst_store::RunDir;
use plugin_file::shipped;
use serde_json::{Value, json};

const COUNTS: [u64; 2] = [1_000, 100_000];

/// What `mst run` asks for at a time.
const PAGE: u32 = 256;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if let [_, child, how, dir] = &args[..]
        && child == "child"
    {
        return self::child(how, Path::new(dir));
    }
    println!("dataset_paging: JSONL lines of about 300 bytes, pages of {PAGE}");
    for count in COUNTS {
        let dir = tempfile::tempdir().expect("a directory");
        write(dir.path(), count);
        println!("\n  {count} cases");
        let bare = measure("bare", dir.path());
        // Fills the cache, so that compiling is in no one's memory.
        measure("plugin", dir.path());
        let plugin = measure("plugin", dir.path());
        let stored = measure("stored", dir.path());
        for (what, (time, rss)) in [
            ("baseline: bare serde_json over the file", bare),
            ("through the plugin", plugin),
            ("through the plugin, and into cases.jsonl", stored),
        ] {
            let rate = format!("{:.0}/s", count as f64 / time.as_secs_f64());
            row(what, rate, &format!("{:.2} s, peak {}", time.as_secs_f64(), mib(rss)));
        }
    }
}

fn write(dir: &Path, count: u64) {
    let mut file = std::io::BufWriter::new(File::create(dir.join("cases.jsonl")).expect("made"));
    for n in 0..count {
        let case = json!({
            "id": format!("case-{n}"),
            "prompt": format!("Question {n}: {}", "what is to be done here, and by whom? ".repeat(5)),
            "expected": n,
            "metadata": {"source": "bench", "level": n % 7},
        });
        writeln!(file, "{case}").expect("written");
    }
    file.flush().expect("written");
}

fn measure(how: &str, dir: &Path) -> (Duration, u64) {
    let runs = dir.join("runs");
    let _ = fs::remove_dir_all(&runs);
    let mut command = Command::new(std::env::current_exe().expect("this bench"));
    let output = command.args(["child", how]).arg(dir).output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8(output.stdout).expect("text");
    let mut numbers = said.split_whitespace().map(|number| number.parse::<u64>().expect("a number"));
    let mut next = || numbers.next().expect("a number");
    (Duration::from_nanos(next()), next())
}

fn child(how: &str, dir: &Path) {
    let time = if how == "bare" { bare(dir) } else { plugin(dir, how == "stored") };
    println!("{} {}", time.as_nanos(), peak_rss());
}

fn bare(dir: &Path) -> Duration {
    let started = Instant::now();
    let file = BufReader::new(File::open(dir.join("cases.jsonl")).expect("opened"));
    let mut bytes = 0;
    for line in file.lines() {
        let case: Value = serde_json::from_str(&line.expect("a line")).expect("JSON");
        bytes += case["prompt"].as_str().map_or(0, str::len);
    }
    assert!(bytes > 0);
    started.elapsed()
}

fn plugin(dir: &Path, store: bool) -> Duration {
    let file = shipped("mst.dataset.jsonl.wasm");
    // Beside the runs: the second time it is a hit, as in every day's use.
    let settings = || Settings { cache: Cache::at(&dir.join("cache")), limits: Limits::default() };
    let sandbox = Sandbox::new(settings()).expect("an engine");
    let (plugin, _) = DatasetPlugin::load(&sandbox, &file, &Permit::all(&file)).expect("loaded");
    let name = file.manifest().dirs[0].name.clone();
    let options = json!({"path": format!("/{name}/cases.jsonl")});
    let dirs = [(name, dir.to_owned())];
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let run =
        store.then(|| RunDir::create(&dir.join("runs"), &"bench".parse().expect("an id")).expect("a run"));
    let mut cases = run.as_ref().map(|run| run.write_cases().expect("begun"));
    let started = Instant::now();
    runtime.block_on(async {
        let mut cursor =
            plugin.open(&options, &dirs, &Sinks::unrecorded(Arc::new(Quiet))).await.expect("opened");
        let mut count = 0;
        loop {
            let page = cursor.next(PAGE).await.expect("a page");
            if page.is_empty() {
                break;
            }
            count += page.len();
            if let Some(cases) = &mut cases {
                for case in &page {
                    cases.push(case).expect("written");
                }
            }
        }
        assert!(count > 0);
    });
    if let Some(cases) = cases {
        cases.finish().expect("finished");
    }
    started.elapsed()
}
