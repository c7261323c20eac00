//! The summary of a run, for people.

use comfy_table::{CellAlignment, Table, presets};
use mst_model::run::Collect;
use mst_report::{DeniedShards, Rate, Row, Summary};

use super::counted;

/// The whole of a run on one screen.
pub(crate) fn summary(summary: &Summary) -> String {
    let mut text = String::new();
    let name = summary.name.as_deref().map(|name| format!("{name} · ")).unwrap_or_default();
    text.push_str(&format!("\n{name}{}\n", summary.run));
    let (trials, cases) = (&summary.trials, &summary.cases);
    text.push_str(&format!("{}, {}", counted(cases.planned, "case"), counted(trials.planned, "trial")));
    match summary.collect {
        Collect::Complete if trials.missing == 0 => text.push_str(", complete\n"),
        // Also where the record says otherwise: a trial that was lost since is missing.
        Collect::Complete | Collect::Running | Collect::Partial => {
            let are = if cases.incomplete == 1 { "is" } else { "are" };
            let incomplete = counted(cases.incomplete, "incomplete case");
            text.push_str(&format!(
                ", partial: {} missing; {incomplete} {are} left out of the rates\n",
                trials.missing
            ));
        }
    }
    if trials.earlier_attempts > 0 {
        let earlier = counted(trials.earlier_attempts, "earlier attempt");
        text.push_str(&format!("{earlier} kept beside the trials that were done again\n"));
    }
    text.push_str(&format!("\n{}\n", table(summary)));
    if summary.rows().iter().any(|row| row.pass_rate.is_some()) {
        let clustered = if summary.method == mst_report::Method::WilsonCluster {
            ", trials of a case taken together"
        } else {
            ""
        };
        text.push_str(&format!("pass rates with their 95 % interval (Wilson{clustered})\n"));
    }
    for threshold in summary.missed() {
        let reached = threshold.pass_rate.map_or("no rate".to_owned(), percent);
        text.push_str(&format!(
            "missed: {} of {} by {}, the eval asks for {}\n",
            reached,
            threshold.variant,
            threshold.judge,
            percent(threshold.min_pass_rate)
        ));
    }
    broken(summary, &mut text);
    super::safe(&text)
}

fn table(summary: &Summary) -> String {
    // A column that nobody needs is left out; the five of every run stay.
    let any = |count: fn(&Row) -> u64| summary.rows().iter().any(|row| count(row) > 0);
    let abstained = any(|row| row.counts.abstained);
    let ungraded = any(|row| row.counts.ungraded);
    let scored = summary.rows().iter().any(|row| row.mean_score.is_some());

    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let mut head = vec!["variant", "judge", "passed", "failed"];
    head.extend(abstained.then_some("abstained"));
    head.extend(["instrument errors", "missing"]);
    head.extend(ungraded.then_some("not graded"));
    head.push("pass rate");
    head.extend(scored.then_some("mean score"));
    table.set_header(head);
    for row in summary.rows() {
        let counts = &row.counts;
        let mut cells = vec![row.variant.to_string(), row.judge.to_string()];
        cells.extend([counts.passed, counts.failed].map(|count| count.to_string()));
        cells.extend(abstained.then(|| counts.abstained.to_string()));
        cells.extend([counts.instrument_errors, counts.missing].map(|count| count.to_string()));
        cells.extend(ungraded.then(|| counts.ungraded.to_string()));
        cells.push(row.pass_rate.as_ref().map_or("–".to_owned(), rate));
        cells.extend(
            scored.then(|| row.mean_score.map_or("–".to_owned(), |mean| format!("{:.3}", mean.value))),
        );
        table.add_row(cells);
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let lines: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    lines.join("\n")
}

fn rate(rate: &Rate) -> String {
    format!("{} [{}, {}]", percent(rate.value), percent(rate.low), percent(rate.high))
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn broken(summary: &Summary, text: &mut String) {
    let errors = &summary.instrument_errors;
    if errors.groups.is_empty() && errors.shards.is_empty() {
        return;
    }
    text.push_str("\ninstrument errors:\n");
    for DeniedShards { denial, count, first } in &errors.shards {
        let what = denial.with_grant();
        text.push_str(&format!("  {count:>4} × shard: {what}\n         first at shard {first}\n"));
    }
    for group in &errors.groups {
        let judges: Vec<&str> = group.judges.iter().map(|judge| judge.as_str()).collect();
        let judges = if judges.is_empty() { String::new() } else { format!("{}: ", judges.join(", ")) };
        let message = match &group.denial {
            Some(denial) => denial.with_grant(),
            None => group.message.replace('\n', "\n        "),
        };
        text.push_str(&format!(
            "  {:>4} × {judges}{message}\n         first at {}\n",
            group.count, group.first
        ));
    }
    if errors.others > 0 {
        text.push_str(&format!("  {:>4} × others\n", errors.others));
    }
}
