//! What the worker knows of a judge.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use mst_model::grade::Verdict;
use mst_model::{Denial, Digest, JudgeId, PluginId};

use crate::grade::{GradeWorkspace, StoredTrial};

/// Grades one trial at a time; several calls may be under way. Dropping a call ends it.
#[async_trait]
pub trait Judge: Send + Sync {
    /// The verdict, within `time`, or why there is none.
    async fn judge(
        &self,
        trial: Arc<StoredTrial>,
        workspace: Arc<GradeWorkspace>,
        time: Duration,
    ) -> Result<Verdict, NoVerdict>;
}

/// Why a judge gave no verdict.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct NoVerdict {
    /// For people.
    pub message: String,
    /// What it was denied, where that is why.
    pub denial: Option<Denial>,
}

/// A judge of an eval.
pub struct Named {
    /// Its name there.
    pub name: JudgeId,
    /// Its plugin.
    pub plugin: PluginId,
    /// Its component.
    pub plugin_sha256: Digest,
    /// Itself.
    pub judge: Box<dyn Judge>,
}
