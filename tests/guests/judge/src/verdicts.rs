//! Verdicts that the host must refuse.

use mst_sdk::judge::{Trial, Verdict};

pub(crate) fn wrong_quote(trial: &Trial<'_>) -> Verdict {
    let entry = trial.entries().into_iter().next().map_or_else(|| "report".to_owned(), |entry| entry.name);
    Verdict::pass("made up").cite(entry, "words that no client ever wrote, 0xdecaf")
}

pub(crate) fn many_citations(trial: &Trial<'_>, count: u64) -> Verdict {
    let report = trial.report().unwrap_or_default();
    let first = report.chars().take(1).collect::<String>();
    (0..count).fold(Verdict::pass("over and over"), |verdict, _| verdict.cite("report", first.clone()))
}
