//! The plugins that come with mst, as they are shipped.

use std::path::Path;
use std::sync::Arc;

use mst_model::grade::Finding;
use mst_plugin::PluginFile;
use mst_sandbox::{
    Cache, CacheEvent, CallError, DatasetPlugin, JudgePlugin, Limits, OpenError, Permit, Sandbox, Settings,
    Sinks,
};
use serde_json::json;

use crate::world::{Heard, LONG, judge, load, sandbox};

fn shipped(name: &str) -> PluginFile {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plugins/dist").join(name);
    let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    mst_plugin::open(bytes).unwrap_or_else(|error| panic!("{error}"))
}

#[tokio::test]
async fn the_text_judge_judges_compiled_and_from_the_cache() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = shipped("mst.judge.text.wasm");
    for expected in [CacheEvent::Miss, CacheEvent::Hit] {
        let settings = Settings { cache: Cache::at(dir.path()), limits: Limits::default() };
        let (plugin, event) =
            JudgePlugin::load(&Sandbox::new(settings).expect("an engine"), &file, &Permit::all(&file))
                .expect("loaded");
        assert_eq!(event, expected);
        for (value, finding) in [("yes", Finding::Pass), ("no", Finding::Fail)] {
            let options = json!({"mode": "exact", "value": value});
            let verdict = judge(&plugin, options, LONG, &Arc::default()).await.expect("a verdict");
            assert_eq!(verdict.finding, finding);
        }
    }
}

#[tokio::test]
async fn a_wrong_option_is_the_guests_error() {
    let plugin = load(&sandbox(Limits::default()), &shipped("mst.judge.text.wasm"));
    let error = judge(&plugin, json!({"mode": "regex", "pattern": "("}), LONG, &Arc::default()).await;
    let error = error.expect_err("no pattern");
    assert!(error.to_string().starts_with("`mst/judge/text`: "), "{error}");
}

#[tokio::test]
async fn jsonl_is_paged_in_its_order() {
    let dir = tempfile::tempdir().expect("a directory");
    let lines: String = (0..2500)
        .map(|n| format!("{{\"id\":\"c{n}\",\"prompt\":\"Say {n}.\",\"expected\":{n}}}\n"))
        .collect();
    std::fs::write(dir.path().join("cases.jsonl"), lines).expect("written");
    let file = shipped("mst.dataset.jsonl.wasm");
    let (plugin, _) =
        DatasetPlugin::load(&sandbox(Limits::default()), &file, &Permit::all(&file)).expect("loaded");
    let manifest = shipped("mst.dataset.jsonl.wasm").manifest().clone();
    let name = manifest.dirs.first().expect("it reads a directory").name.clone();
    let options = json!({"path": format!("/{name}/cases.jsonl")});
    let dirs = [(name, dir.path().to_owned())];
    let mut cursor =
        plugin.open(&options, &dirs, &Sinks::unrecorded(Arc::new(Heard::default()))).await.expect("opened");
    let mut seen = 0;
    loop {
        // More than a page may have: it is 1000 then.
        let page = cursor.next(5000).await.expect("a page");
        assert!(page.len() <= 1000, "{}", page.len());
        if page.is_empty() {
            break;
        }
        for case in page {
            assert_eq!(case.id.as_str(), format!("c{seen}"));
            seen += 1;
        }
    }
    assert_eq!(seen, 2500);
    assert!(cursor.next(1).await.expect("the end stays the end").is_empty());
}

#[tokio::test]
async fn a_file_that_is_not_there_is_the_guests_error() {
    let file = shipped("mst.dataset.jsonl.wasm");
    let (plugin, _) =
        DatasetPlugin::load(&sandbox(Limits::default()), &file, &Permit::all(&file)).expect("loaded");
    match plugin
        .open(&json!({"path": "/data/nope.jsonl"}), &[], &Sinks::unrecorded(Arc::new(Heard::default())))
        .await
    {
        Err(OpenError::Call(CallError::Guest { error, .. })) => {
            assert!(error.message.contains("nope.jsonl"), "{error}")
        }
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("opened"),
    }
}
