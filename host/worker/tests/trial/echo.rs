//! The client that answers with the prompt.

use super::*;

#[tokio::test]
async fn it_answers_with_the_prompt_and_starts_nothing() {
    let place = Place::new();
    fs::remove_dir(place.at("scratch")).expect("removed");
    fs::write(place.at("scratch"), "no directory can be made here").expect("written");
    let case: Case = read(case());
    let sha256 = case.digest().expect("digests");
    let runner = place.runner(json!({"kind": "echo"}));
    let variant = "arm".parse().expect("a name");
    let transcript =
        runner.run(&case, sha256, &variant, 2, 1, &place.at("into")).await.expect("a transcript");
    assert_eq!(transcript.outcome, Outcome::answered());
    assert_eq!(place.left("report"), "2 + 2?");
    assert_eq!((transcript.shard, transcript.trial.index, transcript.attempt), (3, 2, 1));
    assert_eq!((transcript.case_sha256, transcript.client.name.as_str()), (sha256, "echo"));
    assert_eq!((transcript.stderr.clone(), transcript.files.len()), (None, 0));
    place.assert_whole(&transcript);
}

#[tokio::test]
async fn the_cases_files_are_what_it_leaves() {
    let place = Place::new();
    let mut case = case();
    case["files"] = json!([{"path": "a/run.sh", "content": "x", "executable": true}]);
    let transcript = place.run(json!({"kind": "echo"}), case).await;
    assert_eq!(transcript.files.len(), 1);
    assert!(transcript.files[0].executable);
    assert_eq!(place.left("files/a/run.sh"), "x");
}

#[tokio::test]
async fn its_answer_is_bounded_like_any_other() {
    let place = Place::new();
    let transcript = place.run(json!({"kind": "echo", "max_output_bytes": 4}), case()).await;
    let report = transcript.report.expect("a report");
    assert_eq!((report.size_bytes, report.cut_bytes, place.left("report").as_str()), (4, 2, "2 + "));
}

#[tokio::test]
async fn a_variant_without_a_client_is_the_plans_fault() {
    let place = Place::new();
    let case: Case = read(case());
    let variant = "other".parse().expect("a name");
    let runner = place.runner(json!({"kind": "echo"}));
    let refused = runner.run(&case, Digest::of(b""), &variant, 0, 0, &place.at("into")).await;
    assert_eq!(refused.expect_err("refused").to_string(), "variant `other` has no client");
}
