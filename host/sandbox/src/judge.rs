//! Judges: a fresh instance for each trial, and a verdict held to the contract and to the
//! evidence before the host believes it.

use std::sync::Arc;
use std::time::Duration;

use mst_model::grade::{Citation, Finding, Measure, Usage, Verdict};
use mst_model::{Kind, PluginId};
use mst_plugin::PluginFile;
use serde_json::Value;
use wasmtime::error::Context as _;

use crate::bindings::judge::JudgePre;
use crate::bindings::judge::exports::mst::plugin::grading;
use crate::cache::CacheEvent;
use crate::call::{Instantiating, call};
use crate::engine::Sandbox;
use crate::error::{CallError, LoadError};
use crate::evidence::{Evidence, TrialHandle};
use crate::guest::{Given, Guest, Identity, Judging, Sinks, new_store};
use crate::link;
use crate::permit::Permit;
use crate::text::clean;
use crate::workspace::Workspace;

const MAX_REASON: usize = 4096;
const MAX_QUOTE: usize = 4096;
const MAX_CITATIONS: usize = 64;
const MAX_MEASURES: usize = 256;

/// A judge plugin, compiled and linked.
pub struct JudgePlugin {
    sandbox: Sandbox,
    plugin: Identity,
    pre: JudgePre<Guest>,
}

/// A judge's options, ready for many calls.
#[derive(Debug)]
pub struct JudgeOptions {
    value: Arc<Value>,
    /// As the guest gets them.
    text: String,
}

impl From<Value> for JudgeOptions {
    fn from(value: Value) -> JudgeOptions {
        JudgeOptions { text: value.to_string(), value: Arc::new(value) }
    }
}

/// A trial that was not judged.
#[derive(Debug, thiserror::Error)]
pub enum JudgeError {
    /// An instance could not be made.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The judge gave no verdict, or none that counts.
    #[error(transparent)]
    Call(#[from] CallError),
}

impl JudgePlugin {
    /// Makes a plugin ready. None of its code runs.
    pub fn load(
        sandbox: &Sandbox,
        file: &PluginFile,
        permit: &Permit,
    ) -> Result<(JudgePlugin, CacheEvent), LoadError> {
        let id = &file.manifest().id;
        if id.kind() != Kind::Judge {
            return Err(LoadError::Kind { plugin: id.clone(), is: id.kind(), wanted: Kind::Judge });
        }
        let (pre, event) = sandbox.prepare(file, link::judge)?;
        let pre = JudgePre::new(pre)
            .map_err(|error| LoadError::Link { plugin: id.clone(), what: format!("{error:#}") })?;
        Ok((JudgePlugin { sandbox: sandbox.clone(), plugin: Identity::of(file, permit), pre }, event))
    }

    /// Judges one trial in a new instance, within `time`.
    pub async fn judge(
        &self,
        evidence: Arc<dyn Evidence>,
        workspace: Arc<dyn Workspace>,
        options: &JudgeOptions,
        time: Duration,
        sinks: &Sinks,
    ) -> Result<Verdict, JudgeError> {
        let mut limits = self.sandbox.limits().clone();
        limits.call_time = time;
        let judging = Judging { evidence: evidence.clone(), workspace, options: options.value.clone() };
        let about = Some(evidence.trial());
        let given = Given { limits: &limits, sinks, about, dirs: &[], judging: Some(judging) };
        let mut store = new_store(&self.sandbox, &self.plugin, given)?;
        let options = &options.text;
        let pre = &self.pre;
        let verdict = call(&mut store, &limits, "judge", async move |store| {
            let instance = pre.instantiate_async(&mut *store).await.context(Instantiating)?;
            let owned = store.data_mut().table.push(TrialHandle)?;
            // The guest borrows what the host keeps; it is gone with the store.
            let borrowed = wasmtime::component::Resource::new_borrow(owned.rep());
            instance.mst_plugin_grading().call_judge(&mut *store, borrowed, options).await
        })
        .await?;
        checked(verdict, &*evidence).map_err(|what| JudgeError::Call(wrong(self.plugin.id(), what)))
    }
}

fn wrong(plugin: &PluginId, what: String) -> CallError {
    CallError::Answer { plugin: plugin.clone(), function: "judge", what }
}

/// A guest's verdict as the host's own, or what is wrong with it.
fn checked(verdict: grading::Verdict, evidence: &dyn Evidence) -> Result<Verdict, String> {
    let finding = match verdict.finding {
        grading::Finding::Pass => Finding::Pass,
        grading::Finding::Fail => Finding::Fail,
        grading::Finding::Score(score) if (0.0..=1.0).contains(&score) => Finding::Score(score),
        grading::Finding::Score(score) => {
            return Err(format!("a score of {score}, where it must be 0.0 to 1.0"));
        }
        grading::Finding::Abstain(why) => Finding::Abstain(clean(&why, MAX_REASON, true)),
    };
    if verdict.citations.len() > MAX_CITATIONS {
        return Err(format!(
            "{} citations, where at most {MAX_CITATIONS} are admitted",
            verdict.citations.len()
        ));
    }
    let mut citations = Vec::with_capacity(verdict.citations.len());
    for citation in verdict.citations {
        check_citation(&citation, evidence)?;
        citations.push(Citation { entry: citation.entry, quote: citation.quote });
    }
    if verdict.measures.len() > MAX_MEASURES {
        return Err(format!(
            "{} measures, where at most {MAX_MEASURES} are admitted",
            verdict.measures.len()
        ));
    }
    let mut measures = Vec::with_capacity(verdict.measures.len());
    for measure in verdict.measures {
        let name = || clean(&measure.name, 64, false);
        let named = !measure.name.is_empty()
            && measure.name.len() <= 64
            && measure
                .name
                .bytes()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || b"_.-".contains(&c));
        if !named {
            return Err(format!(
                "a measure called `{}`, where a name is 1 to 64 of `a-z`, `0-9`, `_`, `.` and `-`",
                name()
            ));
        }
        if !measure.value.is_finite() {
            return Err(format!("the measure `{}` is {}, where it must be finite", name(), measure.value));
        }
        measures.push(Measure {
            name: measure.name,
            value: measure.value,
            unit: clean(&measure.unit, 32, false),
        });
    }
    let usage = verdict.usage.map(|usage| Usage {
        model: usage.model.map(|model| clean(&model, 256, false)),
        input_tokens: usage.input_tokens,
        output_tokens: usage.output_tokens,
        cost_usd: usage.cost_usd.filter(|cost| cost.is_finite() && *cost >= 0.0),
    });
    Ok(Verdict { finding, reason: clean(&verdict.reason, MAX_REASON, true), citations, measures, usage })
}

/// A citation counts only where its words stand in the entry that it names.
fn check_citation(citation: &grading::Citation, evidence: &dyn Evidence) -> Result<(), String> {
    let entry = || clean(&citation.entry, 256, false);
    if citation.quote.is_empty() || citation.quote.len() > MAX_QUOTE {
        return Err(format!(
            "a citation of `{}` with a quote of {} bytes, where 1 to {MAX_QUOTE} are admitted",
            entry(),
            citation.quote.len()
        ));
    }
    let quote = citation.quote.as_bytes();
    // Linear, whatever the bytes are.
    let finder = memchr::memmem::Finder::new(quote);
    // Read in windows that overlap by the quote's length, so that a large entry is not held whole.
    let (mut window, mut offset) = (Vec::new(), 0u64);
    loop {
        let part = evidence
            .read(&citation.entry, offset, 1 << 20)
            .map_err(|error| format!("its citation of `{}` can't be checked: {error}", entry()))?
            .ok_or_else(|| format!("it cites `{}`, which the trial does not have", entry()))?;
        offset += part.bytes.len() as u64;
        window.extend_from_slice(&part.bytes);
        if finder.find(&window).is_some() {
            return Ok(());
        }
        if part.rest == 0 || part.bytes.is_empty() {
            return Err(format!(
                "it cites words that do not stand in `{}`: `{}`",
                entry(),
                clean(&citation.quote, 128, false)
            ));
        }
        window.drain(..window.len().saturating_sub(quote.len() - 1));
    }
}
