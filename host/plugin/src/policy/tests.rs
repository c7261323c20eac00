use super::*;

const PLUGIN: &str = r#"
    id = "acme/runner/box"
    version = "1.0.0"
    world = "machine-runner"
    description = "Boxes."
    env = ["BOX_ZONE"]
    [options]
    type = "object"
    [options.properties.command]
    type = "array"
    [[http]]
    to = "https://api.acme.com"
    methods = ["GET"]
    private = true
    [[exec]]
    id = "create"
    argv = ["{engine:enum(docker|podman)}", "run"]
    timeout = "2m"
    [[exec]]
    id = "own"
    argv = ["{option(command)}"]
    timeout = "2m"
"#;

fn policy(texts: &[&str]) -> Policy {
    let mut policy = Policy::default();
    for (at, text) in texts.iter().enumerate() {
        policy.add(&format!("p{at}.toml"), &format!("schema = \"{SCHEMA}\"\n{text}")).expect("a policy");
    }
    policy
}

fn refused(texts: &[&str]) -> String {
    let manifest = Manifest::from_toml(PLUGIN).expect("valid");
    let policy = policy(texts);
    let whole = policy.refuses_plugin(&manifest.id).map(|rule| format!("all: {rule}"));
    let each = policy.refused(&manifest).into_iter().map(|(key, rule)| format!("{key}: {rule}"));
    whole.into_iter().chain(each).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_list_refuses_what_it_does_not_have() {
    assert_eq!(refused(&[]), "");
    assert_eq!(refused(&[""]), "");
    assert_eq!(
        refused(&[
            "plugins = ['acme/*/*']\nkinds = ['runner']\ncapabilities = ['exec', 'http', 'env']\nprograms = ['docker', 'podman', '{option(command)}']\nhosts = ['https://*.acme.com']"
        ]),
        ""
    );
    let all = [
        refused(&["plugins = ['mst/*/*', 'acme/judge/*']"]),
        refused(&["kinds = ['judge']"]),
        refused(&["capabilities = ['exec']"]),
        refused(&["capabilities = []"]),
        refused(&["programs = ['docker']"]),
        refused(&["hosts = ['https://api.acme.com:8443', 'https://other.com']"]),
        refused(&["private_addresses = false"]),
    ];
    insta::assert_snapshot!(all.join("\n--\n"), @r"
    all: the policy `p0.toml` admits no plugin `acme/runner/box`: `plugins` has `mst/*/*`, `acme/judge/*`
    --
    all: the policy `p0.toml` admits no runner: `kinds` has `judge`
    --
    http:https://api.acme.com: the policy `p0.toml` admits no `http`: `capabilities` has `exec`
    env:BOX_ZONE: the policy `p0.toml` admits no `env`: `capabilities` has `exec`
    --
    exec:create: the policy `p0.toml` admits no `exec`: `capabilities` is empty
    exec:own: the policy `p0.toml` admits no `exec`: `capabilities` is empty
    http:https://api.acme.com: the policy `p0.toml` admits no `http`: `capabilities` is empty
    env:BOX_ZONE: the policy `p0.toml` admits no `env`: `capabilities` is empty
    --
    exec:create: the policy `p0.toml` admits no program `podman`: `programs` has `docker`
    exec:own: the policy `p0.toml` admits no program `{option(command)}`: `programs` has `docker`
    --
    http:https://api.acme.com: the policy `p0.toml` admits no host `https://api.acme.com`: `hosts` has `https://api.acme.com:8443`, `https://other.com`
    --
    http:https://api.acme.com: the policy `p0.toml` admits no private addresses: `private_addresses` is false
    ");
}

#[test]
fn a_program_that_the_user_chooses_is_held_to_the_list_when_it_is_chosen() {
    let manifest = Manifest::from_toml(
        "id='a/runner/b'\nversion='1.0.0'\nworld='machine-runner'\ndescription='d'\n\
         [options]\ntype='object'\n[options.properties.engine]\ntype='string'\n\
         enum=['docker', 'podman']\ndefault='docker'\n\
         [[exec]]\nid='run'\nargv=['{option(engine)}', 'run']\ntimeout='1s'",
    )
    .expect("valid");
    let requests = manifest.requests();
    let of = |texts: &[&str]| {
        let policy = policy(texts);
        let chosen = |word: &str| {
            let options = serde_json::json!({"engine": word});
            policy.refuses_choice(&requests, &options).is_some()
        };
        let some = policy.refuses_some(&requests[0]);
        let some = some.into_iter().map(|(program, _)| program).collect::<Vec<_>>().join(" ");
        (policy.refuses(&requests[0]).is_some(), some, chosen("docker"), chosen("podman"))
    };
    let with = |whole: bool, some: &str, docker: bool, podman: bool| (whole, some.to_owned(), docker, podman);
    assert_eq!(of(&[]), with(false, "", false, false));
    assert_eq!(of(&["programs = ['docker']"]), with(false, "podman", false, true));
    assert_eq!(of(&["programs = ['podman']"]), with(false, "docker", true, false));
    assert_eq!(of(&["programs = ['ssh']"]), with(true, "", true, true));
    assert_eq!(of(&["programs = ['docker', 'podman']"]), with(false, "", false, false));
    assert_eq!(of(&["programs = ['{option(engine)}']"]), with(false, "", false, false));
    // Each file admits one, and together they admit none.
    assert_eq!(of(&["programs = ['docker']", "programs = ['podman']"]), with(true, "", true, true));
    let policy = policy(&["programs = ['docker']"]);
    let options = serde_json::json!({"engine": "podman"});
    let (option, program, rule) = policy.refuses_choice(&requests, &options).expect("refused");
    assert_eq!((option, program), ("engine", "podman"));
    assert_eq!(rule, "the policy `p0.toml` admits no program `podman`: `programs` has `docker`");
    // What is no choice is not looked at here: it was refused as it stands.
    assert!(policy.refuses_choice(&requests, &serde_json::json!({})).is_none());
}

#[test]
fn a_secrets_program_is_held_to_the_list_too() {
    let source = |text: &str| text.parse::<Source>().expect("a source");
    let with = policy(&["programs = ['pass']"]);
    for admitted in ["command:pass show acme", "env:ACME_KEY", "file:key"] {
        assert_eq!(with.refuses_source(&source(admitted)), None, "{admitted}");
    }
    let refused = with.refuses_source(&source("command:sh get.sh"));
    assert_eq!(
        refused.as_deref(),
        Some("the policy `p0.toml` admits no secret from the program `sh`: `programs` has `pass`")
    );
    assert_eq!(policy(&["kinds = ['runner']"]).refuses_source(&source("command:sh get.sh")), None);
    let bindings = Bindings {
        secrets: [("a", "command:pass a"), ("b", "command:sh b")]
            .map(|(name, text)| (name.to_owned(), source(text)))
            .into(),
        ..Bindings::default()
    };
    let keys: Vec<String> = with.refused_sources(&bindings).keys().map(ToString::to_string).collect();
    assert_eq!(keys, ["secret:b"]);
}

#[test]
fn the_strictest_wins() {
    let both = ["programs = ['docker', 'podman', '{option(command)}']", "programs = ['{option(command)}']"];
    for order in [both, [both[1], both[0]]] {
        let refused = refused(&order);
        assert!(refused.starts_with("exec:create: ") && refused.contains("`docker`"), "{refused}");
        assert_eq!(refused.lines().count(), 1, "{refused}");
    }
}

#[test]
fn the_schema_has_what_is_read() {
    let schema = json_schema();
    mst_model::schema::check_schema(&schema).expect("a schema");
    let properties = schema["properties"].as_object().expect("an object");
    let mut whole = json!({"schema": SCHEMA});
    for (name, property) in properties {
        if let Some(example) = property["examples"].get(0).or_else(|| property.get("default")) {
            whole[name] = example.clone();
        }
    }
    assert_eq!(whole.as_object().map(serde_json::Map::len), Some(properties.len()));
    assert_eq!(mst_model::schema::check(&schema, &whole).expect("a schema"), []);
    let table: toml::Table = serde_json::from_value(whole).expect("TOML");
    let mut policy = Policy::default();
    policy.add("p", &table.to_string()).expect("a policy");
    // Each of them is known: nothing stands in its place by itself.
    let Rules { file: _, plugins, kinds, capabilities, programs, hosts, private_addresses } =
        policy.files.remove(0);
    for list in [plugins, kinds, capabilities, programs] {
        assert!(list.is_some_and(|list| !list.is_empty()));
    }
    assert!(hosts.is_some_and(|hosts| !hosts.is_empty()) && private_addresses);
}

#[test]
fn what_is_no_policy() {
    let told = |text: &str| {
        let error = Policy::default().add("p", text).expect_err("refused");
        format!("{error}{}", error.hint().map(|hint| format!(" ({hint})")).unwrap_or_default())
    };
    let with = |text: &str| told(&format!("schema = \"{SCHEMA}\"\n{text}"));
    let all = [
        told(""),
        told("schema = 'mst.policy/v2'"),
        told("schema ="),
        with("program = ['x']"),
        with("plugins = ['acme']"),
        with("plugins = ['acme/tool/x']"),
        with("kinds = ['tool']"),
        with("capabilities = ['sockets']"),
        with("hosts = ['acme.com']"),
        with("programs = 'docker'"),
        with("private_addresses = 'no'"),
    ];
    insta::assert_snapshot!(all.join("\n"), @r#"
    `schema` is missing (a policy begins with `schema = "mst.policy/v1"`)
    its format is `mst.policy/v2`, and this mst reads `mst.policy/v1` (upgrade mst)
    it is no TOML
    unknown key `program` (did you mean `programs`?)
    `plugins`: `acme` must be as `acme/runner/*`, with `*` for a whole part
    `plugins`: `acme/tool/x` must be as `acme/runner/*`, with `*` for a whole part
    `kinds`: `tool` must be `runner`, `dataset` or `judge`
    `capabilities`: `sockets` must be `exec`, `workspace`, `dir`, `http`, `secret` or `env`
    `hosts`: `acme.com` must be as `https://*.acme.com`
    `programs` must be a list, and is text
    `private_addresses` must be true or false, and is text
    "#);
}
