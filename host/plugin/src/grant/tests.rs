use super::*;

const RUNNER: &str = r#"
    id = "acme/runner/box"
    version = "1.0.0"
    world = "machine-runner"
    description = "Boxes."
    env = ["BOX_HOST"]
    [[http]]
    to = "https://api.acme.com"
    methods = ["GET"]
    [[http]]
    to = "https://*.acme.com"
    methods = ["GET", "POST"]
    [[secret]]
    name = "api-key"
    about = "Signs requests."
    to = ["https://api.acme.com"]
    [[secret]]
    name = "box-key"
    about = "Opens boxes."
    [[dir]]
    name = "state"
    access = "read"
    [[exec]]
    id = "create"
    argv = ["box", "new"]
    timeout = "1m"
    env = ["BOX_KEY={{secret:box-key}}"]
"#;

fn manifest() -> Arc<Manifest> {
    Arc::new(Manifest::from_toml(RUNNER).expect("valid"))
}

fn keys(texts: &[&str]) -> Vec<Key> {
    texts.iter().map(|text| text.parse().expect("a key")).collect()
}

/// The rule, and the command where there is one.
#[track_caller]
fn told<T: fmt::Debug>(answer: Result<Admitted<'_, T>, Refusal>) -> String {
    let refusal = answer.expect_err("refused");
    match refusal.command {
        Some(command) => format!("{}\n  {command}", refusal.rule),
        None => refusal.rule,
    }
}

#[test]
fn what_is_granted_is_admitted_by_its_key() {
    let bindings = Bindings {
        dirs: BTreeMap::from([("state".to_owned(), PathBuf::from("/srv/state"))]),
        secrets: BTreeMap::from([
            ("api-key".to_owned(), Source::Env("KEY".to_owned())),
            ("box-key".to_owned(), Source::File("/key".into())),
        ]),
    };
    let granted = Granted::all(manifest()).bound(bindings);
    let rule = |rule: Key| rule.to_string();
    assert_eq!(granted.exec("create").map(|admitted| rule(admitted.rule)), Ok("exec:create".into()));
    assert_eq!(
        granted.dir("state", Access::Read).map(|admitted| rule(admitted.rule)),
        Ok("dir:state".into())
    );
    let http = |method, host| granted.http(method, host, 443).map(|admitted| rule(admitted.rule));
    assert_eq!(http("GET", "api.acme.com"), Ok("http:https://api.acme.com".into()));
    assert_eq!(http("POST", "api.acme.com"), Ok("http:https://*.acme.com".into()));
    assert_eq!(granted.env("BOX_HOST").map(|admitted| rule(admitted.rule)), Ok("env:BOX_HOST".into()));
    assert_eq!(
        granted.secret_to("api-key", "api.acme.com", 443).map(|admitted| rule(admitted.rule)),
        Ok("secret:api-key".into())
    );
    let create = granted.exec("create").expect("admitted").what;
    assert!(granted.secret_in("box-key", create).is_ok());
    assert_eq!(granted.env_names().collect::<Vec<_>>(), ["BOX_HOST"]);
    assert_eq!(granted.bound_dirs().count(), 1);
}

#[test]
fn a_refusal_says_the_rule_and_what_would_change_it() {
    let none = Granted::only(manifest(), []).in_lock("evals/mst.lock".into());
    let all = Granted::all(manifest());
    let policy = Granted::all(manifest()).refused(BTreeMap::from([(
        "exec:create".parse().expect("a key"),
        "`/etc/mst/policy.toml` admits no program `box`".to_owned(),
    )]));
    let create = manifest().exec("create").expect("there").clone();
    let all = [
        told(none.exec("create")),
        told(none.exec("x")),
        told(none.workspace("x")),
        told(none.dir("state", Access::Read)),
        told(all.dir("state", Access::ReadWrite)),
        told(none.http("GET", "x.acme.com", 443)),
        told(all.http("DELETE", "x.acme.com", 443)),
        told(none.http("POST", "api.acme.com", 443)),
        told(all.http("GET", "evil.com", 443)),
        told(all.http("GET", "api.acme.com", 8443)),
        told(none.env("BOX_HOST")),
        told(all.env("HOME")),
        told(all.secret_to("api-key", "x.acme.com", 443)),
        told(all.secret_to("box-key", "api.acme.com", 443)),
        told(all.secret_to("api-key", "api.acme.com", 443)),
        told(none.secret_to("api-key", "api.acme.com", 443)),
        told(all.secret_to("other", "api.acme.com", 443)),
        told(all.secret_in("api-key", &create)),
        told(policy.exec("create")),
    ];
    insta::assert_snapshot!(all.join("\n"), @r"
    its manifest asks for `exec:create`, which is not granted
      mst plugin grant acme/runner/box exec:create --lock evals/mst.lock
    its manifest has no `[[exec]]` template of that id, only `create`
    its manifest asks for no `[[workspace]]` template
    its manifest asks for `dir:state`, which is not granted
      mst plugin grant acme/runner/box dir:state --lock evals/mst.lock
    its manifest asks for `dir:state` to read only
    its manifest asks for `http:https://*.acme.com`, which is not granted
      mst plugin grant acme/runner/box 'http:https://*.acme.com' --lock evals/mst.lock
    its manifest asks for `http:https://*.acme.com` by `GET`, `POST`, and not by `DELETE`
    its manifest asks for `http:https://*.acme.com`, which is not granted
      mst plugin grant acme/runner/box 'http:https://*.acme.com' --lock evals/mst.lock
    its manifest has no `[[http]]` for that host, only `https://api.acme.com`, `https://*.acme.com`
    its manifest has no `[[http]]` for that host, only `https://api.acme.com`, `https://*.acme.com`
    its manifest asks for `env:BOX_HOST`, which is not granted
      mst plugin grant acme/runner/box env:BOX_HOST --lock evals/mst.lock
    its manifest has no variable of that name, only `BOX_HOST`
    its manifest has `secret:api-key` go to `https://api.acme.com` only
    its manifest has `secret:box-key` go into commands, and into no request
    `secret:api-key` is granted, and nothing says where its value comes from
      mst plugin grant acme/runner/box secret:api-key --bind secret:api-key=env:NAME
    its manifest asks for `secret:api-key`, which is not granted
      mst plugin grant acme/runner/box secret:api-key --lock evals/mst.lock
    its manifest has no `[[secret]]` of that name, only `api-key`, `box-key`
    the template `create` has no variable with `secret:api-key`
    `/etc/mst/policy.toml` admits no program `box`
    ");
}

#[test]
fn only_what_was_granted_stands() {
    let granted = Granted::only(manifest(), keys(&["exec:create", "env:BOX_HOST"]));
    assert!(granted.exec("create").is_ok() && granted.env("BOX_HOST").is_ok());
    assert!(granted.dir("state", Access::Read).is_err());
    assert!(granted.http("GET", "api.acme.com", 443).is_err());
    let policy = granted.refused(BTreeMap::from([("env:BOX_HOST".parse().expect("a key"), "no".to_owned())]));
    assert_eq!(policy.env_names().count(), 0);
}
