//! The judge as a whole, on made-up trials.

use mst_sdk::judge::testing::Sample;
use mst_sdk::judge::{Case, Citation, Error, Finding, Verdict};
use serde_json::{Value, json};

use crate::Text;

fn grade(expected: Value, report: &str, options: Value) -> Result<Verdict, Error> {
    Sample::new(Case::new("1", "q").with_expected(expected)).report(report).grade::<Text>(options)
}

fn passes(expected: Value, report: &str, options: Value) -> bool {
    let verdict = grade(expected, report, options).expect("a verdict");
    for Citation { quote, .. } in &verdict.citations {
        assert!(!quote.is_empty() && report.contains(quote), "`{quote}` stands in `{report}`");
    }
    match verdict.finding {
        Finding::Pass => true,
        Finding::Fail => false,
        other => panic!("{other:?}"),
    }
}

fn invalid(result: Result<Verdict, Error>) -> String {
    match result {
        Err(Error::Invalid(text)) => text,
        other => panic!("{other:?}"),
    }
}

#[test]
fn exact() {
    let mode = |more: Value| merge(json!({"mode": "exact"}), more);
    assert!(passes(json!("Paris"), " Paris\n", mode(json!({}))));
    assert!(!passes(json!("Paris"), " Paris\n", mode(json!({"trim": false}))));
    assert!(!passes(json!("Paris"), "paris", mode(json!({}))));
    assert!(passes(json!("STRAẞE"), "straße", mode(json!({"ignore_case": true}))));
    assert!(passes(json!(42), "42", mode(json!({}))));
    assert!(passes(json!(""), "  ", mode(json!({}))));
    assert!(passes(json!("no"), "yes", mode(json!({"value": "yes"}))));
    assert!(passes(json!({"a": ["x", "y"]}), "y", mode(json!({"expected_pointer": "/a/1"}))));
}

#[test]
fn contains() {
    let mode = |more: Value| merge(json!({"mode": "contains"}), more);
    assert!(passes(json!("Paris"), "It is Paris.", mode(json!({}))));
    assert!(!passes(json!("Paris"), "It is PARIS.", mode(json!({}))));
    let found = grade(json!("paris"), "İt is PARIS.", mode(json!({"ignore_case": true}))).expect("a verdict");
    assert_eq!(found.citations, [Citation { entry: "report".into(), quote: "PARIS".into() }]);
    assert!(invalid(grade(json!(" "), "x", mode(json!({})))).contains("empty"));
}

#[test]
fn regex() {
    let mode = |more: Value| merge(json!({"mode": "regex"}), more);
    assert!(passes(json!(null), "answer: 42", mode(json!({"pattern": r"\b\d+$"}))));
    assert!(passes(json!("^a+$"), "aaa", mode(json!({}))));
    assert!(!passes(json!("^a+$"), "AAA", mode(json!({}))));
    assert!(passes(json!("^a+$"), "AAA", mode(json!({"ignore_case": true}))));
    assert!(passes(json!("x*"), "b", mode(json!({}))), "an empty match passes and cites nothing");
    assert!(invalid(grade(json!("("), "x", mode(json!({})))).contains("`(` is no pattern"));
    let none = Sample::new(Case::new("1", "q")).report("x").grade::<Text>(mode(json!({})));
    assert!(invalid(none).contains("needs the option `pattern`"));
}

#[test]
fn json_equal() {
    let mode = |more: Value| merge(json!({"mode": "json-equal"}), more);
    assert!(passes(
        json!({"a": 1, "b": [true, null]}),
        "{\"b\": [true, null], \"a\": 1.0}\n",
        mode(json!({}))
    ));
    assert!(
        !passes(json!(9007199254740993u64), "9007199254740992", mode(json!({}))),
        "integers are not rounded"
    );
    assert!(passes(json!({"a": 1.0}), r#"{"a": 1.01}"#, mode(json!({"tolerance": 0.1}))));
    assert!(passes(json!(null), "null", mode(json!({"value": null}))));
    for (report, reason) in [
        (r#"{"a": {"b": 3}}"#, "`/a/b` is `3` where `4` was expected"),
        (r#"{"a": {}}"#, "`/a/b` is missing"),
        (r#"{"a": {"b": 4, "c": 1}}"#, "`/a` has a member `c` that was not expected"),
        ("[1]", "as a whole it is `[1]`"),
        ("{", "no JSON"),
    ] {
        let verdict = grade(json!({"a": {"b": 4}}), report, mode(json!({}))).expect("a verdict");
        assert!(verdict.finding == Finding::Fail && verdict.reason.contains(reason), "{verdict:?}");
    }
}

#[test]
fn number() {
    let mode = |more: Value| merge(json!({"mode": "number"}), more);
    assert!(passes(json!(4), "4.0", mode(json!({}))));
    assert!(passes(json!("1,234"), "so it is 1234 km", mode(json!({"extract": "last"}))));
    assert!(!passes(json!(4), "it is 4", mode(json!({}))));
    assert!(!passes(json!(4), "4.1", mode(json!({}))));
    assert!(passes(json!(4), "4.1", mode(json!({"tolerance": 0.2}))));
    assert!(passes(json!(-100), "-101", mode(json!({"relative_tolerance": 0.01}))));
    assert!(
        !passes(json!(1e308), "1e999", mode(json!({"relative_tolerance": 1e300}))),
        "infinity never passes"
    );
    assert!(!passes(json!(1), "NaN", mode(json!({"tolerance": 1e308}))));
    assert!(invalid(grade(json!("x"), "1", mode(json!({})))).contains("needs a finite number"));
    assert!(invalid(grade(json!("1e999"), "1", mode(json!({})))).contains("needs a finite number"));
    assert!(invalid(grade(json!(1), "1", mode(json!({"tolerance": -1})))).contains("`tolerance`"));
}

#[test]
fn files_and_missing_things() {
    let sample = Sample::new(Case::new("1", "q").with_expected("4")).file("out.txt", "4\n");
    let verdict =
        sample.grade::<Text>(json!({"mode": "exact", "against": "files/out.txt"})).expect("a verdict");
    assert_eq!(verdict, Verdict::pass("the file `out.txt` is `4`, as expected").cite("files/out.txt", "4"));
    let verdict = sample.grade::<Text>(json!({"mode": "exact", "against": "files/none"})).expect("a verdict");
    assert_eq!(verdict, Verdict::fail("the client left no file `none`"));
    let verdict = sample.grade::<Text>(json!({"mode": "exact"})).expect("a verdict");
    assert_eq!(verdict, Verdict::fail("the client gave no report"));
}

#[test]
fn what_is_wrong_for_every_trial_is_an_error_even_without_a_report() {
    let none = Sample::new(Case::new("1", "q"));
    assert!(invalid(none.grade::<Text>(json!({"mode": "exact"}))).contains("no `expected`"));
    assert!(invalid(grade(json!({"a": 1}), "x", json!({"mode": "exact"}))).contains("json-equal"));
    assert!(
        invalid(grade(json!({"a": 1}), "x", json!({"mode": "exact", "expected_pointer": "/b"})))
            .contains("nothing at `/b`")
    );
    assert!(invalid(grade(json!("a"), "x", json!({"mode": "exact", "pattern": "x"}))).contains("`pattern`"));
    assert!(
        invalid(grade(json!("a"), "x", json!({"mode": "exact", "against": "stderr"}))).contains("`against`")
    );
    assert!(invalid(grade(json!("a"), "x", json!({"mode": "fuzzy"}))).contains("unknown variant `fuzzy`"));
}

#[test]
fn bytes_that_are_no_text_are_compared_and_not_cited() {
    let sample = Sample::new(Case::new("1", "q").with_expected("4")).report(b"\xff4".to_vec());
    let verdict = sample.grade::<Text>(json!({"mode": "contains"})).expect("a verdict");
    assert_eq!((verdict.finding, verdict.citations), (Finding::Pass, vec![]));
}

#[test]
fn reasons_and_quotes_are_short() {
    let long = "ä\u{1b}".repeat(10_000);
    let verdict = grade(json!(long), &long, json!({"mode": "exact"})).expect("a verdict");
    assert!(verdict.reason.len() < 1000 && !verdict.reason.contains('\u{1b}'), "{}", verdict.reason);
    assert!(verdict.citations[0].quote.len() <= 200 && long.contains(&verdict.citations[0].quote));
    let other = format!("{long}x");
    let verdict = grade(json!(other), &long, json!({"mode": "exact"})).expect("a verdict");
    assert!(
        !verdict.reason.contains("they differ") || verdict.reason.contains("character"),
        "{}",
        verdict.reason
    );
}

fn merge(mut base: Value, more: Value) -> Value {
    if let (Value::Object(base), Value::Object(more)) = (&mut base, more) {
        base.extend(more);
    }
    base
}
