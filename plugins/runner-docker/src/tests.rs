//! What is run, in which order, and what is made of the answers.

use mst_sdk::runner::testing::{Script, ended, request};
use serde_json::json;

use super::*;

const NO_IMAGE: &str = "Error response from daemon: no such image: a:1: No such image: a:1\n";

fn create(script: &Script, options: Value) -> Result<Machine, Error> {
    let options = serde_json::from_value(options).expect("options");
    script.run(|| Docker::create_machine(&request("mst-r-0"), options))
}

#[test]
fn an_image_that_is_here_and_runs_as_root() {
    let script = Script::new()
        .answer("image", ended(0, "\n", ""))
        .answer("create", ended(0, "bf43\n", ""))
        .answer("container", ended(0, "bf43 sha256:49\n", ""));
    let machine = create(&script, json!({"image": "a:1", "memory": "2g", "cpus": 2})).expect("made");
    assert_eq!(machine.handle, json!({"id": "bf43"}));
    assert_eq!((machine.name.as_str(), machine.root.as_str()), ("mst-r-0", ROOT));
    assert_eq!(
        machine.image.map(|image| (image.reference, image.digest)),
        Some(("a:1".into(), "sha256:49".into()))
    );
    assert_eq!(script.ran(), ["image", "create", "container"]);
}

#[test]
fn an_image_that_is_not_here_and_runs_as_somebody() {
    let script = Script::new()
        .answer("image", ended(125, "", "Error: a:1: image not known\n"))
        .answer("pull", ended(0, "49\n", ""))
        .answer("image", ended(0, "agent\n", ""))
        .answer("create", ended(0, "", ""))
        .answer("container", ended(0, "bf43 49\n", ""))
        .answer("id", ended(0, "1000\n", ""))
        .answer("id", ended(0, "100\n", ""))
        .answer("make-dir", ended(0, "", ""))
        .answer("own", ended(0, "", ""))
        .answer("own", ended(0, "", ""));
    let machine = create(&script, json!({"image": "a:1", "engine": "podman"})).expect("made");
    assert_eq!(machine.handle, json!({"id": "bf43", "user": "agent", "owner": "1000:100"}));
    assert_eq!(machine.image.map(|image| image.digest), Some("sha256:49".into()));
    assert_eq!(
        script.ran()[5..],
        [
            "id user=agent which=-u",
            "id user=agent which=-g",
            "make-dir target=/var/lib/mst",
            "own owner=1000:100 target=/var/lib/mst",
            "own owner=1000:100 target=/run/mst"
        ]
    );
}

#[test]
fn the_users_word_goes_before_the_images_and_root_is_root() {
    let script = Script::new()
        .answer("image", ended(0, "agent\n", ""))
        .answer("create", ended(0, "", ""))
        .answer("container", ended(0, "b sha256:4\n", ""))
        .answer("id", ended(0, "0\n", ""))
        .answer("id", ended(0, "0\n", ""));
    let machine = create(&script, json!({"image": "a:1", "user": "root"})).expect("made");
    assert_eq!((machine.text("user"), machine.text("owner")), (None, None));
    assert_eq!(script.ran()[3], "id user=root which=-u");
}

#[test]
fn what_goes_wrong_is_told() {
    let daemon = "Cannot connect to the Docker daemon at unix:///x. Is the docker daemon running?";
    let script = Script::new().answer("image", ended(1, "", daemon));
    let error = create(&script, json!({"image": "a:1"})).expect_err("no daemon");
    assert_eq!(error, Error::unavailable(format!("can't find the image `a:1`: {daemon}")));

    let script = Script::new().answer("image", ended(1, "", NO_IMAGE)).answer(
        "pull",
        ended(1, "", "Error response from daemon: pull access denied for a, repository does not exist"),
    );
    let error = create(&script, json!({"image": "a:1"})).expect_err("no image");
    assert!(
        matches!(&error, Error::NotFound(text) if text.starts_with("can't pull the image `a:1`: pull access denied")),
        "{error}"
    );

    let script = Script::new().answer("image", Err(Error::not_found("`docker` is not on PATH")));
    let error = create(&script, json!({"image": "a:1"})).expect_err("no docker");
    assert_eq!(error, Error::failed("can't find the image `a:1`: `docker` is not on PATH"));
    assert_eq!(script.ran().len(), 1, "nothing is pulled with a program that is not there");
}

#[test]
fn what_is_not_ours_stays() {
    for label in ["\n", "mst-another\n", "<no value>\n"] {
        let script = Script::new().answer("label", ended(0, label, ""));
        let options = serde_json::from_value(json!({"image": "a:1"})).expect("options");
        let error = script.run(|| Docker::destroy_machine("m", None, options)).expect_err("it is not ours");
        assert!(error.to_string().contains("it has not the label `mst.machine=m`"), "{error}");
        assert_eq!(script.ran(), ["label"], "nothing is removed");
    }
    let daemon = "Cannot connect to the Docker daemon at unix:///x. Is the docker daemon running?";
    let script = Script::new().answer("label", ended(1, "", daemon));
    let options = serde_json::from_value(json!({"image": "a:1"})).expect("options");
    assert!(script.run(|| Docker::destroy_machine("m", None, options)).is_err());
}

#[test]
fn removed_is_removed() {
    let options = || serde_json::from_value(json!({"image": "a:1"})).expect("options");
    for (answer, fits) in [
        (ended(0, "m\n", ""), true),
        (ended(0, "", "Error response from daemon: No such container: m\n"), true),
        (ended(1, "", "Error: no container with name or ID \"m\" found: no such container\n"), true),
        (ended(1, "", "Error response from daemon: removal of container m is already in progress\n"), true),
        (ended(1, "", "Error response from daemon: driver failed to remove root filesystem\n"), false),
    ] {
        let script = Script::new().answer("label", ended(0, "m\n", "")).answer("destroy", answer);
        assert_eq!(script.run(|| Docker::destroy_machine("m", None, options())).is_ok(), fits);
    }
    for gone in ["Error response from daemon: No such container: m\n", "Error: no such container m\n"] {
        let script = Script::new().answer("label", ended(1, "", gone));
        script.run(|| Docker::destroy_machine("m", None, options())).expect("it is gone");
        assert_eq!(script.ran(), ["label"]);
    }
    let script = Script::new().answer("list", ended(0, "mst-r-0\nmst-r-1\n", ""));
    let names = script.run(|| Docker::list_machines("r", options())).expect("listed");
    assert_eq!(names, ["mst-r-0", "mst-r-1"]);
}
