//! Datasets: a cursor over cases, each held to the contract before the host believes it.

use std::path::PathBuf;

use mst_model::case::{Message, Role, check_path};
use mst_model::{Bytes, Case, CaseId, Kind, PluginId};
use mst_plugin::PluginFile;
use serde_json::Value;
use wasmtime::Store;
use wasmtime::component::ResourceAny;
use wasmtime::error::Context as _;

use crate::bindings::dataset::exports::mst::plugin::cases;
use crate::bindings::dataset::{Dataset, DatasetPre};
use crate::cache::CacheEvent;
use crate::call::{Instantiating, call};
use crate::engine::Sandbox;
use crate::error::{CallError, LoadError};
use crate::guest::{Given, Guest, Identity, Preopen, Sinks, new_store};
use crate::limits::Limits;
use crate::link;
use crate::permit::Permit;
use crate::text::clean;

/// The most cases that a page may have.
const MAX_PAGE: u32 = 1000;

/// A dataset plugin, compiled and linked.
pub struct DatasetPlugin {
    sandbox: Sandbox,
    plugin: Identity,
    pre: DatasetPre<Guest>,
}

impl DatasetPlugin {
    /// Makes a plugin ready. None of its code runs.
    pub fn load(
        sandbox: &Sandbox,
        file: &PluginFile,
        permit: &Permit,
    ) -> Result<(DatasetPlugin, CacheEvent), LoadError> {
        let id = &file.manifest().id;
        if id.kind() != Kind::Dataset {
            return Err(LoadError::Kind { plugin: id.clone(), is: id.kind(), wanted: Kind::Dataset });
        }
        let (pre, event) = sandbox.prepare(file, link::dataset)?;
        let pre = DatasetPre::new(pre)
            .map_err(|error| LoadError::Link { plugin: id.clone(), what: format!("{error:#}") })?;
        Ok((DatasetPlugin { sandbox: sandbox.clone(), plugin: Identity::of(file, permit), pre }, event))
    }

    /// Opens the dataset that `options` names. `dirs` are the manifest's `dir`s by name, each
    /// bound to a directory that the guest sees as `/NAME`: to read, or to write too where its
    /// manifest asks for that.
    pub async fn open(
        &self,
        options: &Value,
        dirs: &[(String, PathBuf)],
        sinks: &Sinks,
    ) -> Result<Cursor, OpenError> {
        let limits = self.sandbox.limits().clone();
        let preopens: Vec<Preopen> =
            dirs.iter().map(|(name, path)| Preopen { name: name.clone(), path: path.clone() }).collect();
        let given = Given { limits: &limits, sinks, about: None, dirs: &preopens, judging: None };
        let mut store = new_store(&self.sandbox, &self.plugin, given)?;
        let options = options.to_string();
        let pre = &self.pre;
        let (instance, cursor) = call(&mut store, &limits, "open", async move |store| {
            let instance = pre.instantiate_async(&mut *store).await.context(Instantiating)?;
            let opened = instance.mst_plugin_cases().call_open(&mut *store, &options).await?;
            Ok(opened.map(|cursor| (instance, cursor)))
        })
        .await?;
        Ok(Cursor { plugin: self.plugin.id().clone(), store, instance, cursor, limits, seen: 0, over: false })
    }
}

/// A dataset that could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Its instance could not be made.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// Its `open` gave no cursor.
    #[error(transparent)]
    Call(#[from] CallError),
}

/// A place in a dataset, in the instance that opened it.
pub struct Cursor {
    plugin: PluginId,
    store: Store<Guest>,
    instance: Dataset,
    cursor: ResourceAny,
    limits: Limits,
    seen: u64,
    /// A call into its instance failed, or was broken off.
    over: bool,
}

impl Cursor {
    /// The next cases, at most `limit` and at most 1000; none at the end. After an error the
    /// cursor is of no more use.
    pub async fn next(&mut self, limit: u32) -> Result<Vec<Case>, CallError> {
        let limit = limit.clamp(1, MAX_PAGE);
        if std::mem::replace(&mut self.over, true) {
            return Err(CallError::Host {
                plugin: self.plugin.clone(),
                function: "next",
                what: "it was called after a call that failed or was broken off".to_owned(),
            });
        }
        let (instance, cursor) = (&self.instance, self.cursor);
        let page = call(&mut self.store, &self.limits, "next", async move |store| {
            instance.mst_plugin_cases().cursor().call_next(&mut *store, cursor, limit).await
        })
        .await?;
        if page.len() > limit as usize {
            return Err(
                self.wrong(format!("a page of {} cases, where at most {limit} were asked for", page.len()))
            );
        }
        let mut cases = Vec::with_capacity(page.len());
        for case in page {
            self.seen += 1;
            cases.push(checked(case).map_err(|what| self.wrong(format!("case {}: {what}", self.seen)))?);
        }
        self.over = false;
        Ok(cases)
    }

    fn wrong(&self, what: String) -> CallError {
        CallError::Answer { plugin: self.plugin.clone(), function: "next", what }
    }
}

/// A guest's case as the host's own, or what is wrong with it.
fn checked(case: cases::EvalCase) -> Result<Case, String> {
    let id: CaseId = case.id.parse().map_err(|error: mst_model::id::IdError| error.to_string())?;
    let named = |what: String| format!("`{}`: {what}", clean(id.as_str(), 128, false));
    if case.prompt.is_empty() {
        return Err(named("its prompt has no message".to_owned()));
    }
    let mut prompt = Vec::with_capacity(case.prompt.len());
    for message in case.prompt {
        let role = match message.role.as_str() {
            "system" => Role::System,
            "user" => Role::User,
            "assistant" => Role::Assistant,
            other => {
                return Err(named(format!(
                    "`{}` is no role: it must be `system`, `user` or `assistant`",
                    clean(other, 64, false)
                )));
            }
        };
        prompt.push(Message { role, content: message.content });
    }
    let mut files = Vec::with_capacity(case.files.len());
    let mut paths = std::collections::BTreeSet::new();
    for file in case.files {
        check_path(&file.path).map_err(|error| named(error.to_string()))?;
        if !paths.insert(file.path.clone()) {
            return Err(named(format!("two files are called `{}`", file.path)));
        }
        files.push(mst_model::case::CaseFile {
            path: file.path,
            content: Bytes(file.content),
            executable: file.executable,
        });
    }
    let json = |what: &str, text: &str| {
        serde_json::from_str::<Value>(text).map_err(|error| named(format!("its {what} is no JSON: {error}")))
    };
    let expected = case.expected.as_deref().map(|text| json("expected", text)).transpose()?;
    let metadata = match json("metadata", &case.metadata)? {
        Value::Object(metadata) => metadata,
        _ => return Err(named("its metadata is no JSON object".to_owned())),
    };
    if case.deadline_ms == Some(0) {
        return Err(named("its deadline is 0 ms".to_owned()));
    }
    Ok(Case { id, prompt, files, expected, tags: case.tags, metadata, deadline_ms: case.deadline_ms })
}
