//! What is still to be asked for, in the order of the bundle: a lane for each kind of need, so that what
//! waits for one thing holds up nothing that needs another.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use mst_model::bundle::{CaseWork, Planned};
use mst_model::{Case, Digest, TrialKey};

use super::CollectError;
use super::bundle::{WorkLines, case_at};

/// A trial that is to be done.
pub(super) struct Next {
    /// None, where it was given up to be read again.
    pub(super) case: Option<Arc<Case>>,
    pub(super) key: TrialKey,
    pub(super) sha256: Digest,
    pub(super) planned: Planned,
    /// Where it stands in the bundle: where the case's line begins, and where in that.
    at: (u64, usize),
}

impl Next {
    /// Its case, read again where it was given up.
    pub(super) async fn case(&mut self, bundle: &Arc<Path>) -> Result<Arc<Case>, CollectError> {
        if let Some(case) = self.case.take() {
            return Ok(case);
        }
        let (bundle, at) = (bundle.clone(), self.at.0);
        let read = tokio::task::spawn_blocking(move || case_at(&bundle, at)).await;
        Ok(Arc::new(read.map_err(|error| CollectError::Host(error.to_string()))??))
    }
}

/// The trials of one lane. Each lane goes over the whole of the work by itself, and holds no more of it
/// than a case: the work may be long.
struct Lane {
    work: WorkLines,
    /// Of the case that it is at.
    rest: VecDeque<Next>,
    /// How many of its trials ask leave.
    asking: usize,
}

/// All lanes of a bundle.
pub(super) struct Lanes(Vec<Lane>);

impl Lanes {
    pub(super) fn open(bundle: &Path, count: u32) -> Result<Lanes, CollectError> {
        let open = |_| WorkLines::open(bundle);
        let works = (0..count.max(1)).map(open).collect::<Result<Vec<_>, _>>()?;
        let lane = |work| Lane { work, rest: VecDeque::new(), asking: 0 };
        let mut lanes = Lanes(works.into_iter().map(lane).collect());
        (0..lanes.0.len()).try_for_each(|lane| lanes.fill(lane))?;
        Ok(lanes)
    }

    /// The next trial of those that `may` ask, of lanes in which fewer than `most` do; in the bundle's
    /// order. It asks from here on.
    pub(super) fn next(
        &mut self,
        most: usize,
        may: impl Fn(&Planned) -> bool,
    ) -> Result<Option<(usize, Next)>, CollectError> {
        let heads = self.0.iter().enumerate().filter(|(_, lane)| lane.asking < most);
        let heads = heads.filter_map(|(at, lane)| Some((lane.rest.front()?, at)));
        let first = heads.filter(|(next, _)| may(&next.planned)).min_by_key(|(next, _)| next.at);
        let Some((_, at)) = first else { return Ok(None) };
        let Some(next) = self.0[at].rest.pop_front() else { return Ok(None) };
        self.0[at].asking += 1;
        self.fill(at)?;
        Ok(Some((at, next)))
    }

    /// One of this lane has its answer.
    pub(super) fn answered(&mut self, lane: usize) {
        self.0[lane].asking -= 1;
    }

    /// Whether there is nothing more to ask for.
    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(|lane| lane.rest.is_empty())
    }

    /// Goes on to the next case with trials of this lane, where it is through with one.
    fn fill(&mut self, at: usize) -> Result<(), CollectError> {
        let last = self.0.len() - 1;
        let lane = &mut self.0[at];
        while lane.rest.is_empty() {
            let Some(line) = lane.work.next()? else { break };
            // What is in no lane that there is, is done all the same.
            let is_mine = |planned: &Planned| (planned.lane as usize).min(last) == at;
            if !line.trials.iter().any(is_mine) {
                continue;
            }
            let CaseWork { sha256, trials, case } = lane.work.case(&line)?;
            let case = Arc::new(case);
            let mine = trials.into_iter().enumerate().filter(|(_, planned)| is_mine(planned));
            lane.rest.extend(mine.map(|(place, planned)| Next {
                key: TrialKey {
                    case: case.id.clone(),
                    variant: planned.variant.clone(),
                    index: planned.index,
                },
                case: Some(case.clone()),
                sha256,
                planned,
                at: (line.at, place),
            }));
        }
        Ok(())
    }
}
