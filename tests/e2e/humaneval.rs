//! HumanEval: the whole of it, each answer graded by the problem's own tests.

use std::fs;

use crate::support::{Space, human_eval, need, python, repository};

#[test]
fn canonical_answers_pass_and_silence_fails() {
    let file = need!(human_eval());
    let python = need!(python());
    let space = Space::new();
    fs::copy(repository().join("examples/humaneval/eval.yaml"), space.path("eval.yaml")).expect("copied");
    fs::copy(file, space.path("HumanEval.jsonl.gz")).expect("copied");
    let mut command = space.command(["run", "eval.yaml", "--concurrency", "4"]);
    command.env("PATH", format!("{}:/usr/bin:/bin", python.display()));
    let output = space.finish(command).exits(0);
    insta::assert_snapshot!(output.stdout, @"

    humaneval · [RUN]
    164 cases, 328 trials, complete

     variant    judge  passed  failed  instrument errors  missing                  pass rate
     canonical  tests     164       0                  0        0  100.0 % [97.7 %, 100.0 %]
     silent     tests       0     164                  0        0       0.0 % [0.0 %, 2.3 %]
    pass rates with their 95 % interval (Wilson)
    ");
    let run = space.run();
    run.assert_whole();
    assert_eq!(run.cases().len(), 164);
    space.assert_tidy();
}
