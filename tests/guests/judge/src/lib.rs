//! `test/judge/hostile`: one judge that does what no judge should, one thing a call.
//!
//! The option `behaviour` names it. What a behaviour could find out stands in the verdict's
//! reason, for a test to look at.

mod dir;
mod exhaust;
mod reach;
mod slots;
mod talk;
mod verdicts;

use mst_sdk::judge::{Error, Judge, Trial, Verdict};
use serde::Deserialize;
use serde::de::IgnoredAny;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Options {
    behaviour: String,
    count: Option<u64>,
    #[serde(default)]
    attempt: String,
    #[serde(rename = "cmd", default)]
    _cmd: IgnoredAny,
}

struct Hostile;

impl Judge for Hostile {
    type Options = Options;

    fn judge(trial: &Trial<'_>, options: Options) -> Result<Verdict, Error> {
        let count = |default| options.count.unwrap_or(default);
        match &*options.behaviour {
            "pass" => Ok(Verdict::pass("told to")),
            "fail" => Ok(Verdict::fail("told to")),

            "loop" => exhaust::spin(),
            "sleep-in-guest" => exhaust::sleep(count(600)),
            "memory" => Ok(exhaust::memory()),
            "deep-recursion" => Ok(exhaust::recursion()),
            "deep-recursion-plain" => Ok(exhaust::plain_recursion()),
            "trap" => std::process::abort(),
            "panic" => panic!("told to panic"),
            "exit" => std::process::exit(0),
            "handles" => Ok(exhaust::pollables(count(1_000_000))),
            "handles-streams" => Ok(exhaust::streams(count(1_000_000))),
            "host-call-flood" => Ok(exhaust::host_calls(trial, count(1_000_000))),

            "log-flood" => Ok(talk::lines(count(100_000))),
            "progress-flood" => Ok(talk::progress(count(100_000))),
            "big-log-line" => Ok(talk::big_line(count(1 << 20) as usize)),
            "escapes" => Ok(talk::escapes()),
            "stdout" => Ok(talk::std_streams()),

            "cites-unseen" => Ok(Verdict::pass("from nowhere").cite("files/nope", "words")),
            "cites-wrong-quote" => Ok(verdicts::wrong_quote(trial)),
            "cites-often" => Ok(verdicts::many_citations(trial, count(100_000))),
            "score-nan" => Ok(Verdict::score(f64::NAN, "not a number")),
            "score-2" => Ok(Verdict::score(2.0, "too much")),
            "score-negative" => Ok(Verdict::score(-0.1, "too little")),
            "measure-nan" => Ok(Verdict::pass("measured").measure("n", f64::INFINITY, "")),
            "measure-name" => Ok(Verdict::pass("measured").measure("A name\n", 1.0, "")),
            "reason-huge" => Ok(Verdict::pass("x".repeat(count(10 << 20) as usize))),
            "abstain" => Ok(Verdict::abstain("told to")),
            "error-invalid" => Err(Error::invalid("told to be invalid")),
            "error-not-found" => Err(Error::not_found("told not to be found")),
            "error-unavailable" => Err(Error::unavailable("told to be unavailable")),
            "error-denied" => Err(Error::denied("told to be denied")),
            "error-failed" => Err(Error::failed("told to fail")),

            "read-past" => Ok(reach::read_past(trial)),
            "workspace-undeclared" => Ok(reach::run("nope", &[], None)),
            "slot-option" => Ok(reach::run("opt", &[("cmd", "id")], None)),
            "slot-unknown" => Ok(reach::run("flag", &[("value", "a"), ("other", "b")], None)),
            "slot-dash" => Ok(reach::run("flag", &[("value", "-n")], None)),
            "slot-missing" => Ok(reach::run("flag", &[], None)),
            "slot-good" => Ok(reach::run("flag", &[("value", "fine")], None)),
            "slot-texts" => Ok(slots::texts(&options.attempt)),
            "slot-forms" => Ok(slots::forms(&options.attempt)),
            "run-opt" => Ok(reach::run("opt", &[], None)),
            "stdin-not-admitted" => Ok(reach::run("echo-stdin", &[], Some("input"))),
            "sleep-in-host-call" => Ok(reach::run("sleep", &[], None)),
            "fs-escape" => Ok(reach::files()),
            "dir" => dir::attempt(&options.attempt),
            "dir-race" => Ok(dir::race(trial)),
            "env-dump" => Ok(reach::environment()),
            "state" => Ok(reach::state()),
            "echo-evidence" => reach::evidence(trial),

            other => Err(Error::invalid(format!("`{other}` is no behaviour of this guest"))),
        }
    }
}

mst_sdk::export_judge!(Hostile);
