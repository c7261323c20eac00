//! What a run found, as `mst.summary/v1`.

use mst_model::run::Collect;
use mst_model::{JudgeId, RunId, VariantId};
use serde::Serialize;

use crate::broken::Broken;
use crate::interval::Clusters;
use crate::tally::RowTally;

/// How the intervals were made; [`crate::interval`] has the formula.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Wilson's score interval: one trial a case.
    Wilson,
    /// Wilson's score interval on the effective sample size, with cases as clusters.
    WilsonCluster,
}

/// The trials of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct TrialCounts {
    /// By the plan: `finished` and `missing` together.
    pub planned: u64,
    /// Those with a transcript.
    pub finished: u64,
    /// Those without.
    pub missing: u64,
    /// Finished ones after which something could not be cleaned up. That changes no outcome.
    pub cleanup_errors: u64,
    /// Attempts that later ones stand in for. They are kept and counted nowhere else.
    #[serde(skip_serializing_if = "is_zero")]
    pub earlier_attempts: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// The cases of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct CaseCounts {
    /// By the plan: `complete` and `incomplete` together.
    pub planned: u64,
    /// Those of which no trial is missing.
    pub complete: u64,
    /// The others, which are left out of rates and means.
    pub incomplete: u64,
}

/// What a judge says of a variant's planned trials, each in exactly one of these.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// The judge passed it, or gave it a score from `pass_score` on.
    pub passed: u64,
    /// The judge failed it, or gave it a lower score.
    pub failed: u64,
    /// The judge could not say.
    pub abstained: u64,
    /// The trial's instrument broke, or the judge did.
    pub instrument_errors: u64,
    /// There is no trial.
    pub missing: u64,
    /// There is a trial and the judge has not graded it.
    pub ungraded: u64,
}

impl Counts {
    /// All of them.
    pub fn planned(&self) -> u64 {
        self.passed + self.failed + self.abstained + self.instrument_errors + self.missing + self.ungraded
    }
}

/// A pass rate, over the scored trials of the cases that count.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Rate {
    /// `passed / scored`.
    pub value: f64,
    /// The interval's lower end.
    pub low: f64,
    /// The interval's upper end.
    pub high: f64,
    /// Passes. Fewer than the row's where a case was left out.
    pub passed: u64,
    /// Passes and failures.
    pub scored: u64,
    /// Cases with one.
    pub cases: u64,
}

impl Rate {
    fn of(clusters: &Clusters) -> Option<Rate> {
        let (value, interval) = (clusters.rate()?, clusters.interval()?);
        Some(Rate {
            value,
            low: interval.low,
            high: interval.high,
            passed: clusters.passed(),
            scored: clusters.trials(),
            cases: clusters.clusters(),
        })
    }
}

/// A mean score, over the trials with a score of the cases that count.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Mean {
    /// 0.0 to 1.0.
    pub value: f64,
    /// Over so many trials.
    pub trials: u64,
}

/// A judge's view of a variant.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// The variant.
    pub variant: VariantId,
    /// The judge.
    pub judge: JudgeId,
    /// Of all planned trials.
    #[serde(flatten)]
    pub counts: Counts,
    /// Cases that are in `counts` and not in `pass_rate` and `mean_score`: incomplete ones, and
    /// those that the judge has not graded in full.
    pub cases_left_out: u64,
    /// None where nothing was scored.
    pub pass_rate: Option<Rate>,
    /// None where the judge gave no score.
    pub mean_score: Option<Mean>,
}

impl Row {
    pub(crate) fn new(variant: VariantId, judge: JudgeId, tally: &RowTally) -> Row {
        let mean = Mean { value: tally.score_sum / tally.scores as f64, trials: tally.scores };
        Row {
            variant,
            judge,
            counts: tally.counts,
            cases_left_out: tally.cases_left_out,
            pass_rate: Rate::of(&tally.clusters),
            mean_score: (tally.scores > 0).then_some(mean),
        }
    }
}

/// A pass rate that the eval asks for, and what a variant reached.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Threshold {
    /// The variant.
    pub variant: VariantId,
    /// The judge.
    pub judge: JudgeId,
    /// What the eval asks for.
    pub min_pass_rate: f64,
    /// What was reached; none where nothing was scored.
    pub pass_rate: Option<f64>,
    /// Whether that is enough. No rate is not enough.
    pub met: bool,
}

/// What a run found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// [`Summary::SCHEMA`].
    pub schema: &'static str,
    /// The run.
    pub run: RunId,
    /// What the eval is called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// How far collecting is, by the run's record.
    pub collect: Collect,
    /// Its trials.
    pub trials: TrialCounts,
    /// Its cases.
    pub cases: CaseCounts,
    /// How the intervals of the rows were made.
    pub method: Method,
    /// Their level, as 0.95.
    pub level: f64,
    /// Variant by variant in the eval's order, each judge by judge.
    pub rows: Vec<Row>,
    /// One for each row whose judge asks for a pass rate.
    pub thresholds: Vec<Threshold>,
    /// What broke.
    pub instrument_errors: Broken,
}

impl Summary {
    /// The schema's name.
    pub const SCHEMA: &'static str = "mst.summary/v1";

    /// The rows of a table: variant by variant in the eval's order, each judge by judge.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The thresholds that were missed: where there is one, `mst run` exits with 100.
    pub fn missed(&self) -> impl Iterator<Item = &Threshold> {
        self.thresholds.iter().filter(|threshold| !threshold.met)
    }
}
