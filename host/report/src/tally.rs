//! Counts by case, without any file: the rules of this crate's lib.rs.

use crate::interval::Clusters;
use crate::summary::Counts;

/// What one judge has to say of one planned trial.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Said {
    /// There is no trial.
    Missing,
    /// The trial's instrument broke, or the judge did.
    Broken,
    /// The judge has not been asked yet.
    Ungraded,
    /// The judge can't say.
    Abstained,
    /// It passed or failed, and with which score where the judge scores.
    Scored { passed: bool, score: Option<f64> },
}

/// One row: a judge in a variant.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RowTally {
    /// Over all planned trials.
    pub(crate) counts: Counts,
    /// Over the cases that count.
    pub(crate) clusters: Clusters,
    pub(crate) scores: u64,
    pub(crate) score_sum: f64,
    pub(crate) cases_left_out: u64,
}

/// What the case under way adds to a row if it counts.
#[derive(Debug, Clone, Copy, Default)]
struct Pending {
    passed: u64,
    scored: u64,
    scores: u64,
    score_sum: f64,
    ungraded: bool,
}

/// All rows, variant by variant, each judge by judge.
#[derive(Debug)]
pub(crate) struct Tally {
    judges: usize,
    rows: Vec<RowTally>,
    pending: Vec<Pending>,
    missing: bool,
    pub(crate) complete: u64,
    pub(crate) incomplete: u64,
}

impl Tally {
    pub(crate) fn new(variants: usize, judges: usize) -> Tally {
        Tally {
            judges,
            rows: vec![RowTally::default(); variants * judges],
            pending: vec![Pending::default(); variants * judges],
            missing: false,
            complete: 0,
            incomplete: 0,
        }
    }

    /// Adds what each judge says of one trial of the case under way.
    pub(crate) fn trial(&mut self, variant: usize, said: &[Said]) {
        let first = variant * self.judges;
        let rows = self.rows[first..].iter_mut().zip(&mut self.pending[first..]);
        for ((row, pending), said) in rows.zip(said) {
            let counts = &mut row.counts;
            match *said {
                Said::Missing => {
                    counts.missing += 1;
                    self.missing = true;
                }
                Said::Broken => counts.instrument_errors += 1,
                Said::Ungraded => {
                    counts.ungraded += 1;
                    pending.ungraded = true;
                }
                Said::Abstained => counts.abstained += 1,
                Said::Scored { passed, score } => {
                    pending.scored += 1;
                    if passed {
                        counts.passed += 1;
                        pending.passed += 1;
                    } else {
                        counts.failed += 1;
                    }
                    if let Some(score) = score {
                        pending.scores += 1;
                        pending.score_sum += score;
                    }
                }
            }
        }
    }

    /// Ends the case: it counts for a judge if no variant misses a trial or that judge's grade.
    pub(crate) fn end_case(&mut self) {
        if self.missing {
            self.incomplete += 1;
        } else {
            self.complete += 1;
        }
        for judge in 0..self.judges {
            let of_judge = || (judge..self.rows.len()).step_by(self.judges);
            let counts = !self.missing && !of_judge().any(|at| self.pending[at].ungraded);
            for at in of_judge() {
                let (row, pending) = (&mut self.rows[at], self.pending[at]);
                if counts {
                    row.clusters.push(pending.passed, pending.scored);
                    row.scores += pending.scores;
                    row.score_sum += pending.score_sum;
                } else {
                    row.cases_left_out += 1;
                }
            }
        }
        self.pending.fill(Pending::default());
        self.missing = false;
    }

    pub(crate) fn rows(&self) -> &[RowTally] {
        &self.rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn said() -> impl Strategy<Value = Said> {
        prop_oneof![
            1 => Just(Said::Broken),
            1 => Just(Said::Ungraded),
            2 => Just(Said::Abstained),
            12 => (any::<bool>(), prop::option::of(0.0..=1.0)).prop_map(|(passed, score)| Said::Scored { passed, score }),
        ]
    }

    /// Cases × variants × trials × judges. A missing trial is missing to every judge.
    fn run() -> impl Strategy<Value = Vec<Vec<Vec<Vec<Said>>>>> {
        let trial = prop_oneof![9 => prop::collection::vec(said(), 2), 1 => Just(vec![Said::Missing; 2])];
        prop::collection::vec(prop::collection::vec(prop::collection::vec(trial, 2), 2), 0..12)
    }

    proptest! {
        #[test]
        fn rows_are_the_plan_and_rates_are_over_cases_that_count(run in run()) {
            let mut tally = Tally::new(2, 2);
            for case in &run {
                for (variant, trials) in case.iter().enumerate() {
                    for trial in trials {
                        tally.trial(variant, trial);
                    }
                }
                tally.end_case();
            }
            for (at, row) in tally.rows().iter().enumerate() {
                let (variant, judge) = (at / 2, at % 2);
                prop_assert_eq!(row.counts.planned(), run.len() as u64 * 2);
                let counts: Vec<_> = run
                    .iter()
                    .filter(|case| {
                        case.iter().flatten().all(|trial| trial[0] != Said::Missing && trial[judge] != Said::Ungraded)
                    })
                    .collect();
                let seen: Vec<Said> = counts.iter().flat_map(|case| case[variant].iter().map(|trial| trial[judge])).collect();
                let scored = seen.iter().filter(|said| matches!(said, Said::Scored { .. })).count();
                let passed = seen.iter().filter(|said| matches!(said, Said::Scored { passed: true, .. })).count();
                prop_assert_eq!((row.clusters.passed(), row.clusters.trials()), (passed as u64, scored as u64));
                prop_assert_eq!(row.cases_left_out, (run.len() - counts.len()) as u64);
            }
            prop_assert_eq!(tally.complete + tally.incomplete, run.len() as u64);
        }
    }
}
