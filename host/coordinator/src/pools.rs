//! Which pools a run has, and which of them a trial needs.

use std::collections::{BTreeMap, BTreeSet};

use mst_model::eval::Eval;
use mst_model::limits::{Capacity, Limits};
use mst_model::{Case, VariantId};
use mst_protocol::Uses;

use crate::room::{Limit, Needs};

/// The pools of a run: what has a capacity, then the limited providers, then the limited servers. Who
/// waits keeps places in this order: what is scarce is waited for without a place at a provider.
#[derive(Debug)]
pub(crate) struct Pools {
    pub(crate) limits: Vec<Limit>,
    capacity: Vec<(u16, Capacity)>,
    limited: Limits,
}

/// What the trials of a variant need.
#[derive(Debug, Clone, Default)]
pub(crate) struct VariantNeeds {
    /// Whatever the case.
    always: Needs,
    /// Where the case has it.
    may: BTreeSet<u16>,
}

impl Pools {
    pub(crate) fn new(eval: &Eval, limited: &Limits) -> Pools {
        let of_service = |limit: &mst_model::limits::Limit| Limit {
            concurrency: limit.concurrency,
            starts_per_minute: limit.starts_per_minute,
        };
        let of_capacity = |pool: &Capacity| Limit { concurrency: Some(pool.limit), starts_per_minute: None };
        let services = limited.providers.values().chain(limited.servers.values()).map(of_service);
        let limits = eval.capacity.iter().map(of_capacity).chain(services).collect();
        let capacity = (0..).zip(eval.capacity.iter().cloned()).collect();
        Pools { limits, capacity, limited: limited.clone() }
    }

    /// The pools that a case uses, in the variants that do.
    pub(crate) fn of_case(&self, case: &Case) -> Box<[u16]> {
        self.capacity.iter().filter(|(_, pool)| pool.is_of(case)).map(|(at, _)| *at).collect()
    }

    /// What the trials of a variant need that talk to these.
    pub(crate) fn of_variant(&self, variant: &VariantId, uses: &Uses) -> VariantNeeds {
        fn at<K: Ord, V>(map: &BTreeMap<K, V>, key: &K) -> Option<usize> {
            map.keys().position(|known| known == key)
        }
        let before = self.capacity.len();
        let providers =
            uses.providers.iter().filter_map(|name| Some(before + at(&self.limited.providers, name)?));
        let after = before + self.limited.providers.len();
        let servers = uses.servers.iter().filter_map(|name| Some(after + at(&self.limited.servers, name)?));
        VariantNeeds {
            always: providers.chain(servers).map(|at| at as u16).collect(),
            may: self.capacity.iter().filter(|(_, pool)| pool.is_in(variant)).map(|(at, _)| *at).collect(),
        }
    }
}

impl VariantNeeds {
    /// What a trial of a case needs, in order.
    pub(crate) fn with(&self, of_case: &[u16]) -> Needs {
        let mut of_case = of_case.iter().filter(|pool| self.may.contains(pool)).peekable();
        if of_case.peek().is_none() {
            return self.always.clone();
        }
        of_case.chain(self.always.iter()).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_trial_needs_what_its_client_and_its_case_use() {
        let eval = Eval::read(&json!({
            "dataset": {"plugin": "mst/dataset/jsonl"},
            "judges": [{"plugin": "mst/judge/text"}],
            "client": {"kind": "echo", "providers": ["fast", "free"], "servers": ["db"]},
            "variants": [{"id": "a"}, {"id": "b"}],
            "limits": {"providers": {"fast": {"concurrency": 3}}, "servers": {"db": {"starts_per_minute": 9}}},
            "capacity": [
                {"key": "gpu", "limit": 2, "variants": ["a"]},
                {"key": "disk", "limit": 1, "tags": ["big", "huge"], "metadata": {"on": "disk"}},
            ],
        }))
        .expect("an eval");
        let pools = Pools::new(&eval, &eval.limits);
        assert_eq!(pools.limits.len(), 4);
        let case = |value| -> Case { serde_json::from_value(value).expect("a case") };
        let plain = case(json!({"id": "1", "prompt": []}));
        let big = case(json!({"id": "2", "prompt": [], "tags": ["big"], "metadata": {"on": "disk", "x": 1}}));
        let tagged = case(json!({"id": "3", "prompt": [], "tags": ["big"]}));
        let needs = |variant: &str, case: &Case| {
            let variant: VariantId = variant.parse().expect("an id");
            let client = eval.client_of(&eval.variants[0]).expect("a client");
            let uses = Uses { providers: client.providers, servers: client.servers };
            pools.of_variant(&variant, &uses).with(&pools.of_case(case)).to_vec()
        };
        // 0 is `gpu`, 1 is `disk`, 2 is `fast`, 3 is `db`; nobody limits `free`.
        assert_eq!(needs("a", &plain), [0, 2, 3]);
        assert_eq!(needs("b", &plain), [2, 3]);
        assert_eq!(needs("b", &big), [1, 2, 3]);
        assert_eq!(needs("a", &tagged), [0, 2, 3]);
    }
}
