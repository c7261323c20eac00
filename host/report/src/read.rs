//! A run's files, read by its plan into a summary.

use mst_model::eval::{Eval, JudgeUse};
use mst_model::grade::{Finding, Graded};
use mst_model::outcome::{InstrumentError, Stage, Status};
use mst_model::run::RunRecord;
use mst_model::transcript::Transcript;
use mst_model::{Digest, JudgeId, TrialKey};
use mst_store::{RunDir, trials_of_case};

use crate::broken::Broken;
use crate::error::ReportError;
use crate::interval::LEVEL;
use crate::summary::{CaseCounts, Method, Row, Summary, Threshold, TrialCounts};
use crate::tally::{Said, Tally};

impl Summary {
    /// Reads a run, which may still be running. Goes by its plan, one trial in memory. A file
    /// that is damaged is an error and never a missing trial.
    pub fn of(run: &RunDir) -> Result<Summary, ReportError> {
        let record = run.read_record()?;
        let mut reader = Reader::new(run, &record.eval);
        for head in run.case_heads()? {
            // The plan goes through a case variant by variant, the same number of trials each.
            for (at, key) in trials_of_case(&record.eval, &head?.id).enumerate() {
                reader.trial(at / record.eval.trials as usize, &key)?;
            }
            reader.tally.end_case();
        }
        reader.finish(&record)
    }
}

struct Reader<'a> {
    run: &'a RunDir,
    judges: Vec<(JudgeId, &'a JudgeUse)>,
    tally: Tally,
    trials: TrialCounts,
    broken: Broken,
    said: Vec<Said>,
}

impl<'a> Reader<'a> {
    fn new(run: &'a RunDir, eval: &'a Eval) -> Reader<'a> {
        let judges: Vec<_> = eval.judges.iter().map(|judge| (judge.name(), judge)).collect();
        Reader {
            run,
            tally: Tally::new(eval.variants.len(), judges.len()),
            judges,
            trials: TrialCounts::default(),
            broken: Broken::default(),
            said: Vec::new(),
        }
    }

    fn trial(&mut self, variant: usize, key: &TrialKey) -> Result<(), ReportError> {
        self.trials.planned += 1;
        self.said.clear();
        match self.run.transcript(key)? {
            None => {
                self.trials.missing += 1;
                self.said.resize(self.judges.len(), Said::Missing);
            }
            Some((transcript, sha256)) => {
                self.trials.finished += 1;
                self.trials.earlier_attempts += u64::from(transcript.attempt);
                self.trials.cleanup_errors += u64::from(transcript.outcome.cleanup.is_some());
                self.finished(key, &transcript, sha256)?;
            }
        }
        self.tally.trial(variant, &self.said);
        Ok(())
    }

    fn finished(
        &mut self,
        key: &TrialKey,
        transcript: &Transcript,
        sha256: Digest,
    ) -> Result<(), ReportError> {
        if transcript.outcome.status == Status::Error {
            let unknown = || InstrumentError::new(Stage::Client, "no reason was recorded");
            let error = transcript.outcome.error.clone().unwrap_or_else(unknown);
            self.broken.add(None, &error, key);
            // Whatever a judge may have said of it: it was asked about nothing.
            self.said.resize(self.judges.len(), Said::Broken);
            return Ok(());
        }
        for (name, judge) in &self.judges {
            let grade = self.run.grade(name, key)?.filter(|grade| grade.transcript_sha256 == sha256);
            self.said.push(match grade.map(|grade| grade.result) {
                None => Said::Ungraded,
                Some(Graded::Error(error)) => {
                    self.broken.add(Some(name), &error, key);
                    Said::Broken
                }
                Some(Graded::Verdict(verdict)) => match verdict.finding {
                    Finding::Pass => Said::Scored { passed: true, score: None },
                    Finding::Fail => Said::Scored { passed: false, score: None },
                    Finding::Score(score) => {
                        Said::Scored { passed: score >= judge.pass_score, score: Some(score) }
                    }
                    Finding::Abstain(_) => Said::Abstained,
                },
            });
        }
        Ok(())
    }

    fn finish(self, record: &RunRecord) -> Result<Summary, ReportError> {
        let Reader { judges, tally, trials, mut broken, .. } = self;
        broken.add_shards(record);
        let (complete, incomplete) = (tally.complete, tally.incomplete);
        let cases = CaseCounts { planned: complete + incomplete, complete, incomplete };
        let plans = [("cases", record.cases.count, cases.planned), ("trials", record.trials, trials.planned)];
        for (what, recorded, found) in plans {
            if recorded != found {
                return Err(ReportError::Plan { what, recorded, found });
            }
        }
        let heads = record
            .eval
            .variants
            .iter()
            .flat_map(|variant| judges.iter().map(move |judge| (&variant.id, judge)));
        let mut rows = Vec::new();
        let mut thresholds = Vec::new();
        for ((variant, (name, judge)), tally) in heads.zip(tally.rows()) {
            let row = Row::new(variant.clone(), name.clone(), tally);
            if let Some(min_pass_rate) = judge.min_pass_rate {
                let pass_rate = row.pass_rate.map(|rate| rate.value);
                thresholds.push(Threshold {
                    variant: variant.clone(),
                    judge: name.clone(),
                    min_pass_rate,
                    pass_rate,
                    met: pass_rate.is_some_and(|rate| rate >= min_pass_rate),
                });
            }
            rows.push(row);
        }
        Ok(Summary {
            schema: Summary::SCHEMA,
            run: record.id.clone(),
            name: record.eval.name.clone(),
            collect: record.collect,
            trials,
            cases,
            method: if record.eval.trials == 1 { Method::Wilson } else { Method::WilsonCluster },
            level: LEVEL,
            rows,
            thresholds,
            instrument_errors: broken,
        })
    }
}
