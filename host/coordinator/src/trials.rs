//! A shard's trials and how far each of them is: small, for a run may have a million.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use mst_model::bundle::Planned;
use mst_model::eval::Eval;
use mst_model::{CaseId, Digest, TrialKey, VariantId};

/// How far a trial is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TrialState {
    /// It is not to be done: the run has it already.
    Unplanned,
    Planned,
    Asked,
    Granted,
    Ended,
}

/// What the plan says of a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PlannedCase {
    /// Its digest.
    pub(crate) sha256: Digest,
    /// What its client may take.
    pub(crate) deadline: Duration,
    /// The pools that it uses, in the variants that do.
    pub(crate) pools: Box<[u16]>,
}

/// What every case is asked in.
#[derive(Debug)]
pub(crate) struct Arms {
    variants: Vec<VariantId>,
    /// In each variant.
    trials: u32,
}

impl Arms {
    pub(crate) fn new(variants: Vec<VariantId>, trials: u32) -> Arc<Arms> {
        Arc::new(Arms { variants, trials })
    }

    pub(crate) fn of(eval: &Eval) -> Arc<Arms> {
        Arms::new(eval.variants.iter().map(|variant| variant.id.clone()).collect(), eval.trials)
    }

    /// How many trials a case has.
    fn width(&self) -> usize {
        self.variants.len() * self.trials as usize
    }

    /// Which of a case's trials it is.
    fn place(&self, variant: &VariantId, index: u32) -> Option<usize> {
        let at = self.variants.iter().position(|known| known == variant)?;
        (index < self.trials).then(|| at * self.trials as usize + index as usize)
    }
}

/// The trials of a shard: some words a case, and a byte a trial.
#[derive(Debug)]
pub struct Trials {
    arms: Arc<Arms>,
    /// Where each case is in `planned`.
    cases: HashMap<CaseId, u32>,
    planned: Vec<PlannedCase>,
    /// Of each case's trials, one case after the other.
    states: Vec<TrialState>,
    /// Of those that are not the first, by their place in `states`: which they are, and the digest of
    /// the one before.
    attempts: HashMap<usize, (u32, Option<Digest>)>,
    count: u64,
}

impl Trials {
    pub(crate) fn new(arms: Arc<Arms>) -> Trials {
        Trials {
            arms,
            cases: HashMap::new(),
            planned: Vec::new(),
            states: Vec::new(),
            attempts: HashMap::new(),
            count: 0,
        }
    }

    /// Adds a case, of which these trials are to be done.
    pub(crate) fn add(&mut self, case: CaseId, planned: PlannedCase, trials: &[Planned]) {
        let first = self.states.len();
        self.states.resize(first + self.arms.width(), TrialState::Unplanned);
        for trial in trials {
            let Some(at) = self.arms.place(&trial.variant, trial.index) else { continue };
            self.states[first + at] = TrialState::Planned;
            self.count += 1;
            if trial.attempt > 0 {
                self.attempts.insert(first + at, (trial.attempt, trial.previous));
            }
        }
        self.cases.insert(case, self.planned.len() as u32);
        self.planned.push(planned);
    }

    /// How many are to be done.
    pub fn len(&self) -> u64 {
        self.count
    }

    /// Whether none is to be done.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// How far a trial is; none where it is not to be done in this shard.
    pub(crate) fn state(&mut self, key: &TrialKey) -> Option<&mut TrialState> {
        let place = self.place(key)?;
        self.states.get_mut(place).filter(|state| **state != TrialState::Unplanned)
    }

    /// The case of a trial.
    pub(crate) fn case(&self, key: &TrialKey) -> Option<&PlannedCase> {
        self.planned.get(*self.cases.get(&key.case)? as usize)
    }

    /// Which attempt at a trial it is, from 0, and the digest of the one before.
    pub(crate) fn attempt(&self, key: &TrialKey) -> (u32, Option<Digest>) {
        let attempt = self.place(key).and_then(|place| self.attempts.get(&place));
        attempt.copied().unwrap_or_default()
    }

    fn place(&self, key: &TrialKey) -> Option<usize> {
        let case = *self.cases.get(&key.case)? as usize;
        Some(case * self.arms.width() + self.arms.place(&key.variant, key.index)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(case: &str, variant: &str, index: u32) -> TrialKey {
        TrialKey { case: case.parse().expect("an id"), variant: variant.parse().expect("an id"), index }
    }

    #[test]
    fn each_trial_has_a_state_of_its_own_and_no_other_has_one() {
        let variants = ["a", "b"].map(|id| id.parse().expect("an id")).to_vec();
        let mut trials = Trials::new(Arms::new(variants, 3));
        let all = |case| ["a", "b"].into_iter().flat_map(move |v| (0..3).map(move |n| key(case, v, n)));
        let case = |bytes| PlannedCase {
            sha256: Digest::of(bytes),
            deadline: Duration::from_secs(1),
            pools: Box::default(),
        };
        let of_x: Vec<_> = all("x").collect();
        // Of `y` some are in the run already.
        let of_y = [key("y", "a", 2), key("y", "b", 0)];
        for (id, planned, keys) in [("x", case(b"x"), &of_x[..]), ("y", case(b"y"), &of_y[..])] {
            let attempt = |key: &TrialKey| u32::from(*key == of_y[1]) * 7;
            let trial = |key: &TrialKey| Planned {
                variant: key.variant.clone(),
                index: key.index,
                attempt: attempt(key),
                lane: 0,
                previous: (attempt(key) > 0).then(|| Digest::of(b"before")),
            };
            trials.add(id.parse().expect("an id"), planned, &keys.iter().map(trial).collect::<Vec<_>>());
        }
        assert_eq!((trials.len(), trials.is_empty()), (8, false));
        for planned in of_x.iter().chain(&of_y) {
            let state = trials.state(planned).expect("it is to be done");
            assert_eq!(std::mem::replace(state, TrialState::Ended), TrialState::Planned, "{planned}");
            let sha256 = Digest::of(planned.case.as_str().as_bytes());
            assert_eq!(trials.case(planned).map(|case| case.sha256), Some(sha256));
            let before = Some(Digest::of(b"before"));
            assert_eq!(trials.attempt(planned), if *planned == of_y[1] { (7, before) } else { (0, None) });
        }
        for other in [key("x", "a", 3), key("x", "c", 0), key("z", "a", 0), key("y", "a", 0)] {
            assert_eq!(trials.state(&other), None, "{other}");
        }
        assert_eq!(all("y").filter(|key| trials.state(key).is_some()).count(), 2);
    }
}
