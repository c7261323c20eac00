//! What trials of all shards together may not exceed.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Case, ServiceId, VariantId};

/// Limits by provider and by server. They pace a run and change nothing of what it asks, so they are
/// no part of its identity.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Of the providers that clients name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub providers: BTreeMap<ServiceId, Limit>,
    /// Of the servers that clients name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub servers: BTreeMap<ServiceId, Limit>,
}

impl Limits {
    /// Whether nothing is limited.
    pub fn is_empty(&self) -> bool {
        self.providers.is_empty() && self.servers.is_empty()
    }

    /// These with each number of `others` in its place.
    pub fn with(&self, others: &Limits) -> Limits {
        let mut limits = self.clone();
        let pairs = [(&mut limits.providers, &others.providers), (&mut limits.servers, &others.servers)];
        for (mine, others) in pairs {
            for (name, other) in others {
                let limit = mine.entry(name.clone()).or_default();
                limit.concurrency = other.concurrency.or(limit.concurrency);
                limit.starts_per_minute = other.starts_per_minute.or(limit.starts_per_minute);
            }
        }
        limits
    }
}

/// What one provider or server admits; at least one of the two.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Limit {
    /// Trials at a time, over all shards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub concurrency: Option<u32>,
    /// Trials that may start in any minute, over all shards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub starts_per_minute: Option<u32>,
}

/// A pool of something of which there is so much and no more, shared by the trials that use it. It
/// paces a run, and is no part of its identity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Capacity {
    /// What the pool is called.
    pub key: ServiceId,
    /// How many trials may use it at a time, over all shards.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub limit: u32,
    /// The variants whose trials use it; all of them where none is named.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub variants: BTreeSet<VariantId>,
    /// Only cases with one of these tags use it.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub tags: BTreeSet<String>,
    /// Only cases with each of these values in their metadata use it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, Value>,
}

impl Capacity {
    /// Whether the trials of a case use it, in the variants that do.
    pub fn is_of(&self, case: &Case) -> bool {
        let tagged = self.tags.is_empty() || case.tags.iter().any(|tag| self.tags.contains(tag));
        let has = |(name, value): (&String, &Value)| case.metadata.get(name) == Some(value);
        tagged && self.metadata.iter().all(has)
    }

    /// Whether trials of a variant use it, in the cases that do.
    pub fn is_in(&self, variant: &VariantId) -> bool {
        self.variants.is_empty() || self.variants.contains(variant)
    }
}
