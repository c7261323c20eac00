//! What broke on the way, grouped by what it said. How long something took is no other thing to say.

use mst_model::outcome::{InstrumentError, Stage};
use mst_model::run::RunRecord;
use mst_model::{Denial, JudgeId, TrialKey};
use serde::Serialize;

/// Messages may hold a path or a number of their own each; memory must not grow with them.
const MAX_GROUPS: usize = 20;
const MAX_MESSAGE_CHARS: usize = 500;

/// Instrument errors that say the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BrokenGroup {
    /// The judges that broke; none where the trial itself did. More than one where they are of one plugin,
    /// which was denied something.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub judges: Vec<JudgeId>,
    /// Where it broke.
    pub stage: Stage,
    /// What it said the first time, cut to 500 characters.
    pub message: String,
    /// What a plugin was denied, where that is what broke.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub denial: Option<Denial>,
    /// How often; another time may have taken longer.
    pub count: u64,
    /// The first trial with it, in the order of the plan.
    pub first: TrialKey,
}

/// Shards whose runner was denied the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DeniedShards {
    /// What.
    pub denial: Denial,
    /// How many shards.
    pub count: u64,
    /// The first of them.
    pub first: u32,
}

/// The instrument errors of a run. One that is a trial's own is counted once here, while it
/// stands in the row of every judge.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Broken {
    /// The first 20 kinds, in the order of the plan.
    pub groups: Vec<BrokenGroup>,
    /// Errors of further kinds.
    pub others: u64,
    /// What the run's runner was denied, where it was gone about last. Their trials may be missing, and
    /// count as that alone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shards: Vec<DeniedShards>,
}

impl Broken {
    pub(crate) fn add(&mut self, judge: Option<&JudgeId>, error: &InstrumentError, trial: &TrialKey) {
        let message = match error.message.char_indices().nth(MAX_MESSAGE_CHARS) {
            Some((end, _)) => &error.message[..end],
            None => &error.message,
        };
        // What is denied is denied to the plugin, whichever judge it is.
        let same = |group: &&mut BrokenGroup| {
            group.stage == error.stage
                && group.denial == error.denial
                && match &error.denial {
                    Some(_) => group.judges.is_empty() == judge.is_none(),
                    None => group.judges.first() == judge && says_the_same(&group.message, message),
                }
        };
        if let Some(group) = self.groups.iter_mut().find(same) {
            group.count += 1;
            group.judges.extend(judge.filter(|judge| !group.judges.contains(judge)).cloned());
        } else if self.groups.len() < MAX_GROUPS {
            self.groups.push(BrokenGroup {
                judges: judge.cloned().into_iter().collect(),
                stage: error.stage,
                message: message.to_owned(),
                denial: error.denial.clone(),
                count: 1,
                first: trial.clone(),
            });
        } else {
            self.others += 1;
        }
    }

    /// What the runner was denied in the shards of the last that went about the run: what those before met
    /// may be granted since.
    pub(crate) fn add_shards(&mut self, record: &RunRecord) {
        let before = record.shards.len().saturating_sub(record.runner.shards as usize);
        for shard in &record.shards[before..] {
            for denial in &shard.denials {
                if let Some(known) = self.shards.iter_mut().find(|known| known.denial == *denial) {
                    known.count += 1;
                } else if self.shards.len() < MAX_GROUPS {
                    self.shards.push(DeniedShards { denial: denial.clone(), count: 1, first: shard.index });
                } else {
                    self.others += 1;
                }
            }
        }
    }
}

/// Whether two messages differ in nothing but the numbers of seconds in them.
fn says_the_same(one: &str, other: &str) -> bool {
    let (one, other): (Vec<_>, Vec<_>) = (one.split(' ').collect(), other.split(' ').collect());
    let seconds = |words: &[&str], at: usize| {
        let unit = words.get(at + 1).map(|unit| unit.trim_end_matches([',', '.', ';', ':', ')']));
        words[at].parse::<f64>().is_ok() && matches!(unit, Some("s" | "ms"))
    };
    one.len() == other.len()
        && (0..one.len()).all(|at| one[at] == other[at] || seconds(&one, at) && seconds(&other, at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_long_it_took_is_no_other_thing_to_say() {
        let took = |time: &str| format!("`judge` met a limit: the call took {time}, its limit is 2.0 s");
        assert!(says_the_same(&took("2.0 s"), &took("2.1 s")));
        assert!(says_the_same("not within 30 s", "not within 31 s"));
        for (one, other) in [
            ("line 3 of the file", "line 4 of the file"),
            ("it took 2.0 s", "it took 2.0 s and more"),
            ("it took 2.0 s", "it took 2.0 MiB"),
            ("it took 2.0 s", "it lost 2.0 s"),
            ("it took x s", "it took y s"),
            ("9", "8"),
        ] {
            assert!(!says_the_same(one, other), "{one}, {other}");
        }
    }

    #[test]
    fn what_a_plugin_was_denied_is_one_group_whichever_judge_it_is() {
        let trial =
            TrialKey { case: "x".parse().expect("an id"), variant: "a".parse().expect("an id"), index: 0 };
        let denied = |call: &str| {
            let denial = Denial {
                plugin: "a/judge/b".parse().expect("an id"),
                call: call.to_owned(),
                rule: "no".to_owned(),
                grant: None,
            };
            InstrumentError {
                denial: Some(denial.clone()),
                ..InstrumentError::new(Stage::Scoring, denial.to_string())
            }
        };
        let judges: [JudgeId; 2] = ["one", "other"].map(|id| id.parse().expect("an id"));
        let mut broken = Broken::default();
        for judge in &judges {
            broken.add(Some(judge), &denied("x"), &trial);
            broken.add(Some(judge), &denied("x"), &trial);
        }
        broken.add(Some(&judges[1]), &denied("y"), &trial);
        let told: Vec<_> = broken.groups.iter().map(|group| (&group.judges[..], group.count)).collect();
        assert_eq!(told, [(&judges[..], 4), (&judges[1..], 1)]);
    }

    #[test]
    fn what_says_the_same_is_one_group_and_memory_is_bounded() {
        let trial =
            TrialKey { case: "x".parse().expect("an id"), variant: "a".parse().expect("an id"), index: 0 };
        let judge: JudgeId = "text".parse().expect("an id");
        let error = |message: &str| InstrumentError::new(Stage::Scoring, message);
        let mut broken = Broken::default();
        broken.add(None, &error("no room"), &trial);
        broken.add(Some(&judge), &error("no room"), &trial);
        broken.add(None, &error("no room"), &TrialKey { index: 1, ..trial.clone() });
        let counts: Vec<_> = broken
            .groups
            .iter()
            .map(|group| (!group.judges.is_empty(), group.count, group.first.index))
            .collect();
        assert_eq!(counts, [(false, 2, 0), (true, 1, 0)]);
        for at in 0..100 {
            broken.add(None, &error(&format!("{at} {}", "é".repeat(1000))), &trial);
        }
        assert_eq!((broken.groups.len(), broken.others), (20, 82));
        assert!(broken.groups.iter().all(|group| group.message.chars().count() <= 500));
    }
}
