//! How a run is paced, as the command line says it.

use mst_model::deadlines::Part;
use mst_model::eval::Eval;
use mst_model::limits::{Limit, Limits};
use mst_model::run::RunRecord;
use mst_model::{ServiceId, Span};

use crate::error::Failure;

/// One `--limit`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LimitArg {
    server: bool,
    name: ServiceId,
    limit: Limit,
}

/// Reads `provider:NAME=3` (trials at a time) or `server:NAME=60/min` (starts a minute).
pub(crate) fn limit_arg(text: &str) -> Result<LimitArg, String> {
    let how = "write it as provider:NAME=3 (trials at a time) or server:NAME=60/min (starts a minute)";
    let (of, number) = text.split_once('=').ok_or(how)?;
    let (kind, name) = of.split_once(':').ok_or(how)?;
    let server = match kind {
        "provider" => false,
        "server" => true,
        _ => return Err(how.to_owned()),
    };
    let name = name.parse().map_err(|error: mst_model::id::IdError| error.to_string())?;
    let (number, per_minute) = match number.strip_suffix("/min") {
        Some(number) => (number, true),
        None => (number, false),
    };
    let number: u32 = number.parse().ok().filter(|number| (1..=1_000_000).contains(number)).ok_or(how)?;
    let limit = match per_minute {
        false => Limit { concurrency: Some(number), starts_per_minute: None },
        true => Limit { concurrency: None, starts_per_minute: Some(number) },
    };
    Ok(LimitArg { server, name, limit })
}

/// All of them together, each in place of what `before` says of the same.
pub(crate) fn limits(before: &Limits, args: &[LimitArg]) -> Limits {
    args.iter().fold(before.clone(), |limits, LimitArg { server, name, limit }| {
        let mut one = Limits::default();
        let of = if *server { &mut one.servers } else { &mut one.providers };
        of.insert(name.clone(), *limit);
        limits.with(&one)
    })
}

/// Holds them to the eval: what nobody talks to can't be limited.
pub(crate) fn check(eval: &Eval, limits: &Limits) -> Result<(), Failure> {
    let problems = eval.limit_problems(limits);
    if problems.is_empty() {
        return Ok(());
    }
    Err(Failure::problems("`--limit` does not fit the eval", &problems))
}

/// Puts what an eval says now of how a run is paced, and of its tokens, into the record of one that is
/// taken up again. Says what that changes, and what `--limit` leaves unchanged.
pub(crate) fn take_up(record: &mut RunRecord, now: &Eval) -> Vec<String> {
    let then = &mut record.eval;
    let parts = [
        ("`limits`", then.limits != now.limits),
        ("`capacity`", then.capacity != now.capacity),
        ("`tokens`", then.tokens != now.tokens),
    ];
    then.limits.clone_from(&now.limits);
    then.capacity.clone_from(&now.capacity);
    then.tokens.clone_from(&now.tokens);
    let changed: Vec<&str> = parts.iter().filter(|(_, differs)| *differs).map(|(name, _)| *name).collect();
    let said = spelled(&record.policy.limits);
    let mut lines = Vec::new();
    if !changed.is_empty() {
        let changed = changed.join(", ");
        lines.push(format!(
            "the eval changed in {changed} since the run was begun: it goes on with what is said now"
        ));
    }
    if !said.is_empty() {
        lines.push(format!("`--limit` stands in for what the eval says: {}", said.join(", ")));
    }
    lines
}

/// As `--limit` says them.
fn spelled(limits: &Limits) -> Vec<String> {
    let of = |kind: &str, (name, limit): (&ServiceId, &Limit)| {
        let at_a_time = limit.concurrency.map(|number| format!("{kind}:{name}={number}"));
        let a_minute = limit.starts_per_minute.map(|number| format!("{kind}:{name}={number}/min"));
        at_a_time.into_iter().chain(a_minute)
    };
    let providers = limits.providers.iter().flat_map(|one| of("provider", one));
    providers.chain(limits.servers.iter().flat_map(|one| of("server", one))).collect()
}

/// Reads `client=20m`.
pub(crate) fn deadline_arg(text: &str) -> Result<(Part, Span), String> {
    let (part, span) = text.split_once('=').ok_or("write it as PART=TIME, as client=20m")?;
    let part = part.parse().map_err(|error: mst_model::deadlines::PartError| error.to_string())?;
    let span = span.parse().map_err(|error: mst_model::time::SpanError| error.to_string())?;
    Ok((part, span))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_at_a_time_and_a_minute_stand_side_by_side() {
        let read = |text| limit_arg(text).expect("reads");
        let args =
            ["provider:models=3", "provider:models=60/min", "server:db=1", "provider:models=4"].map(read);
        let limits = limits(&Limits::default(), &args);
        let models = limits.providers.values().next().expect("one");
        assert_eq!((models.concurrency, models.starts_per_minute), (Some(4), Some(60)));
        assert_eq!(spelled(&limits), ["provider:models=4", "provider:models=60/min", "server:db=1"]);
        for wrong in
            ["models=3", "provider:models", "host:x=3", "provider:X=3", "provider:x=0", "provider:x=3/s"]
        {
            assert!(limit_arg(wrong).is_err(), "`{wrong}`");
        }
    }
}
