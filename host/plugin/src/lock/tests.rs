use super::*;
use crate::component::with_manifest;
use crate::grant::Source;
use crate::manifest::Manifest;
use crate::world::tests::component_of;

const RUNNER: &str = r#"
    id = "acme/runner/box"
    version = "1.0.0"
    world = "machine-runner"
    description = "Boxes."
    env = ["BOX_ZONE"]
    [options]
    type = "object"
    [options.properties.engine]
    type = "string"
    default = "docker"
    [options.properties.keys]
    type = "string"
    format = "path"
    [[http]]
    to = "https://*.acme.com"
    methods = ["GET", "POST"]
    [[secret]]
    name = "api-key"
    about = "Signs requests."
    to = ["https://api.acme.com"]
    [[dir]]
    name = "state"
    access = "read-write"
    [[dir]]
    name = "keys"
    access = "read"
    option = "keys"
    [[exec]]
    id = "create"
    argv = ["{option(engine)}", "run", "--name={machine}", "{size:quantity}"]
    timeout = "2m"
    stdin = "plugin"
    env = ["BOX_HOST", "BOX_KEY={{secret:api-key}}"]
"#;

fn file(toml: &str) -> PluginFile {
    let manifest = Manifest::from_toml(toml).expect("valid");
    crate::open(with_manifest(&component_of("machine-runner", None), &manifest).expect("embedded"))
        .expect("a plugin")
}

fn key(text: &str) -> Key {
    text.parse().expect("a key")
}

/// All granted, and bound.
fn pinned(toml: &str) -> Pinned {
    let mut pinned = Pinned::new(&file(toml), "plugins/box.wasm".into());
    pinned.requests.values_mut().for_each(|asked| asked.granted = true);
    pinned.bindings.dirs.insert("state".to_owned(), "state".into());
    pinned.bindings.secrets.insert("api-key".to_owned(), Source::Env("ACME_KEY".to_owned()));
    pinned
}

fn lock(pinned: Pinned) -> Lock {
    let mut lock = Lock::default();
    lock.put(pinned);
    lock
}

#[test]
fn its_text_is_what_a_reviewer_reads_and_reads_back() {
    let mut plugin = pinned(RUNNER);
    plugin.asked(&key("env:BOX_ZONE")).expect("asked").granted = false;
    let lock = lock(plugin);
    let text = lock.to_toml().expect("TOML");
    assert_eq!(Lock::from_toml(&text).expect("reads back"), lock);
    let shown = text.replace(&lock.plugins().next().expect("one").sha256.to_string(), "sha256:…");
    insta::assert_snapshot!(shown, @r#"
    # What plugins may do here, and who they are. `mst plugin add`, `grant` and `revoke` write this file;
    # commit it beside the eval.
    schema = "mst.lock/v1"

    [[plugin]]
    id = "acme/runner/box"
    version = "1.0.0"
    source = "plugins/box.wasm"
    sha256 = "sha256:…"
    world = "machine-runner"
    max_shards = 64
    forward_port = false

    [[plugin.exec]]
    id = "create"
    granted = true
    argv = ["{option(engine)}", "run", "--name={machine}", "{size:quantity}"]
    timeout = "2m"
    stdin = "plugin"
    max_output_bytes = 1048576
    env = ["BOX_HOST", "BOX_KEY={{secret:api-key}}"]

    [plugin.exec.defaults]
    engine = '"docker"'

    [plugin.exec.options]
    engine = '{"type":"string"}'

    [[plugin.dir]]
    name = "keys"
    granted = true
    access = "read"
    option = "keys"

    [[plugin.dir]]
    name = "state"
    granted = true
    access = "read-write"
    path = "state"

    [[plugin.http]]
    to = "https://*.acme.com"
    granted = true
    methods = ["GET", "POST"]
    private = false

    [[plugin.secret]]
    name = "api-key"
    granted = true
    about = "Signs requests."
    to = ["https://api.acme.com"]
    from = "env:ACME_KEY"

    [[plugin.env]]
    name = "BOX_ZONE"
    granted = false
    "#);
}

#[test]
fn only_what_the_lock_grants_stands() {
    let file = file(RUNNER);
    let mut plugin = pinned(RUNNER);
    plugin.asked(&key("exec:create")).expect("asked").granted = false;
    let granted = plugin.granted(&file, Path::new("/evals")).expect("the pinned one");
    assert!(granted.exec("create").is_err());
    assert!(granted.http("POST", "api.acme.com", 443).is_ok());
    let dirs: Vec<_> = granted.bound_dirs().map(|(_, path)| path.to_owned()).collect();
    assert_eq!(dirs, [PathBuf::from("/evals/state")]);
    // Naming it in an option is the grant.
    plugin.asked(&key("dir:keys")).expect("asked").granted = false;
    let granted = plugin.granted(&file, Path::new("/evals")).expect("the pinned one");
    assert!(granted.dir("keys", crate::Access::Read).is_ok());
}

#[test]
fn the_locks_text_counts_and_not_its_word() {
    let file = file(RUNNER);
    let text = lock(pinned(RUNNER)).to_toml().expect("TOML");
    for (from, to, call) in [
        ("\"--name={machine}\"", "\"--label={machine}\"", "exec:create"),
        ("timeout = \"2m\"", "timeout = \"1m\"", "exec:create"),
        ("\"docker\"", "\"podman\"", "exec:create"),
        ("\"GET\", \"POST\"", "\"GET\"", "http:https://*.acme.com"),
        ("access = \"read-write\"", "access = \"read\"", "dir:state"),
    ] {
        assert!(text.contains(from), "{from}: {text}");
        let lock = Lock::from_toml(&text.replacen(from, to, 1)).expect("reads");
        let granted = lock.plugins().next().expect("one").granted(&file, Path::new("/")).expect("its bytes");
        assert!(!granted.has(&key(call)), "{from}");
    }
}

#[test]
fn other_bytes_do_not_load() {
    let other = file(&RUNNER.replace("Boxes.", "Boxes!"));
    let error = pinned(RUNNER).granted(&other, Path::new("/")).expect_err("refused").to_string();
    assert!(error.contains(&other.digest().to_string()), "{error}");
    assert!(error.contains(&file(RUNNER).digest().to_string()), "{error}");
}

#[test]
fn an_upgrade_takes_over_what_narrowed_and_stops_at_what_widened() {
    let upgraded = |edit: &dyn Fn(String) -> String| {
        let new = Pinned::new(&file(&edit(RUNNER.to_owned())), "plugins/box.wasm".into());
        let (new, diff) = new.taking_over(&pinned(RUNNER));
        let granted: Vec<String> =
            new.requests.iter().filter(|(_, asked)| !asked.granted).map(|(key, _)| key.to_string()).collect();
        (diff, granted)
    };
    // Less of everything: nothing to ask.
    let (diff, not_granted) = upgraded(&|text| {
        text.replace("\"GET\", \"POST\"", "\"GET\"").replace("read-write", "read").replace("2m", "1m")
    });
    assert_eq!((diff.widened.len(), not_granted.len(), diff.narrowed.len()), (0, 0, 3));
    // A host below the wildcard that was granted.
    let (diff, not_granted) = upgraded(&|text| text.replace("https://*.acme.com", "https://api.acme.com"));
    assert_eq!((diff.widened.len(), not_granted.len()), (0, 0));
    assert_eq!(diff.dropped, [key("http:https://*.acme.com")]);
    // More.
    let (diff, not_granted) = upgraded(&|text| {
        text.replace("default = \"docker\"", "default = \"rm\"")
            .replace("\"GET\", \"POST\"", "\"GET\", \"POST\", \"DELETE\"")
            .replace("[\"BOX_ZONE\"]", "[\"HOME_DIR\"]")
    });
    assert_eq!(not_granted, ["exec:create", "http:https://*.acme.com", "env:HOME_DIR"]);
    let digests = [diff.digests.0, diff.digests.1].map(|digest| digest.to_string());
    let text = diff.to_string().replace(&digests[0], "sha256:1…").replace(&digests[1], "sha256:2…");
    insta::assert_snapshot!(text, @r#"
    version 1.0.0 -> 1.0.0: the same version, and another file
    file sha256:1…
      -> sha256:2…
    ~ exec:create
      - default option engine = "docker"
      + default option engine = "rm"
    ~ http:https://*.acme.com
      + method DELETE
    + env:HOME_DIR
    - env:BOX_ZONE
    "#);
}

#[test]
fn what_was_not_granted_is_not_asked_again() {
    let mut old = pinned(RUNNER);
    old.asked(&key("env:BOX_ZONE")).expect("asked").granted = false;
    let new = Pinned::new(&file(&RUNNER.replace("1.0.0", "1.1.0")), "plugins/box.wasm".into());
    let (new, diff) = new.taking_over(&old);
    assert!(!diff.widens() && diff.narrowed.is_empty() && diff.dropped.is_empty(), "{diff}");
    assert!(!new.requests[&key("env:BOX_ZONE")].granted && new.requests[&key("exec:create")].granted);
    assert_eq!(new.bindings, old.bindings);
}

#[test]
fn what_is_no_lock() {
    let text = lock(pinned(RUNNER)).to_toml().expect("TOML");
    let told = |text: &str| {
        let error = Lock::from_toml(text).expect_err("refused");
        let hint = error.hint().map(|hint| format!(" ({hint})")).unwrap_or_default();
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
        format!("{error}{}{hint}", cause.lines().next().unwrap_or_default())
    };
    let with = |from: &str, to: &str| {
        assert!(text.contains(from), "{from}");
        told(&text.replacen(from, to, 1))
    };
    let all = [
        told("schema = "),
        told(""),
        with("mst.lock/v1", "mst.lock/v2"),
        with("mst.lock/v1", "other"),
        with("granted = true", "granted = 1"),
        with("granted = true", "given = true"),
        with("[[plugin.exec]]", "[[plugin.socket]]"),
        with("from = \"env:ACME_KEY\"", "from = \"ACME_KEY\""),
        with("sha256:", "sha1:"),
        with("source = \"", "source = \"\\u202e"),
        told(&format!(
            "{text}{}",
            text.split_once("[[plugin]]").map(|(_, rest)| format!("[[plugin]]{rest}")).expect("one")
        )),
        told(&" ".repeat(MAX_BYTES + 1)),
    ];
    insta::assert_snapshot!(all.join("\n"), @r"
    it is no TOML: TOML parse error at line 1, column 10 (`mst plugin add` writes it; bring back the one that was committed)
    `schema` is missing (`mst plugin add` writes it; bring back the one that was committed)
    its format is `mst.lock/v2`, and this mst reads `mst.lock/v1` (upgrade mst)
    its format is `other`, and this mst reads `mst.lock/v1` (`mst plugin add` writes it; bring back the one that was committed)
    `plugin[0].exec[0].granted` must be true or false, and is a number (`mst plugin add` writes it; bring back the one that was committed)
    `plugin[0].exec[0].granted` is missing (`mst plugin add` writes it; bring back the one that was committed)
    `plugin[0].exec` must be a list, and is a table (`mst plugin add` writes it; bring back the one that was committed)
    `plugin[0].secret[0].from` can't be `ACME_KEY`: a secret comes from `env:NAME`, `file:PATH`, `keyring:SERVICE/USERNAME` or `command:PROGRAM ARGUMENTS` (`mst plugin add` writes it; bring back the one that was committed)
    `plugin[0].sha256` can't be `sha1:23dfd2c6ae6d50a46da77fba2b82f470accc2ea9a546cbcd94acbb909e1eac4b`: `sha1:23dfd2c6ae6d50a46da77fba2b82f470accc2ea9a546cbcd94acbb909e1eac4b` is no digest: it must be `sha256:` and 64 hex digits (`mst plugin add` writes it; bring back the one that was committed)
    `plugin[0].source`: a path has at least one character, and none that a reader would not see (`mst plugin add` writes it; bring back the one that was committed)
    `acme/runner/box` stands twice (`mst plugin add` writes it; bring back the one that was committed)
    it has 4194305 bytes; at most 4194304 are admitted (`mst plugin add` writes it; bring back the one that was committed)
    ");
}

proptest::proptest! {
    #[test]
    fn any_text_is_read_or_refused(from in 0usize..2000, length in 0usize..40, text in "[\\x00-\u{300}]{0,20}") {
        let lock = lock(pinned(RUNNER)).to_toml().expect("TOML");
        let cut = |at: usize| (0..=at.min(lock.len())).rev().find(|at| lock.is_char_boundary(*at)).unwrap_or(0);
        let (before, after) = (&lock[..cut(from)], &lock[cut(from + length)..]);
        // What was written to is refused, or reads back as what it says.
        if let Ok(read) = Lock::from_toml(&format!("{before}{text}{after}")) {
            proptest::prop_assert_eq!(Lock::from_toml(&read.to_toml().expect("TOML")).expect("reads back"), read);
        }
    }
}

#[test]
fn no_entry_bears_an_id_of_msts_own() {
    let text = lock(pinned(RUNNER)).to_toml().expect("TOML");
    for id in ["mst/runner/box", "mst/runner/docker"] {
        let error = Lock::from_toml(&text.replacen("acme/runner/box", id, 1)).expect_err("refused");
        assert!(matches!(&error, LockError::Own(own) if own.as_str() == id), "{error}");
        assert!(error.hint().is_some());
    }
    assert!(Lock::from_toml(&text.replacen("acme/runner/box", "mstx/runner/box", 1)).is_ok());
}

#[test]
fn a_binding_gives_no_directory_that_an_option_names_now() {
    let mut earlier = pinned(RUNNER);
    earlier.asked(&key("dir:state")).expect("asked").granted = false;
    let upgraded = RUNNER.replacen("access = \"read-write\"", "access = \"read\"\n    option = \"keys\"", 1);
    let file = file(&upgraded);
    let (upgraded, _) = Pinned::new(&file, "box.wasm".into()).taking_over(&earlier);
    assert!(upgraded.bindings.dirs.is_empty(), "{:?}", upgraded.bindings);
    assert_eq!(upgraded.bindings.secrets, earlier.bindings.secrets);
    // Nor where the lock has one all the same.
    let mut written = upgraded;
    written.bindings = earlier.bindings;
    let granted = written.granted(&file, Path::new("/evals")).expect("the pinned one");
    assert_eq!(granted.bound_dirs().count(), 0);
}

#[test]
fn what_guards_a_command_and_is_no_request_widens_too() {
    let with = |schema: &str, head: &str| {
        let text = RUNNER.replace("default = \"docker\"", schema);
        text.replace("description = \"Boxes.\"", &format!("description = \"Boxes.\"\n{head}"))
    };
    let old = with("enum = ['docker', 'podman']\npattern = '^[a-z]+$'", "max_shards = 64");
    let upgraded = |schema: &str, head: &str| {
        let mut earlier = Pinned::new(&file(&old), "box.wasm".into());
        earlier.requests.values_mut().for_each(|asked| asked.granted = true);
        let file = file(&with(schema, head));
        let (later, diff) = Pinned::new(&file, "box.wasm".into()).taking_over(&earlier);
        let text = diff.clone().explained(file.manifest()).to_string();
        let text = text.replace(&diff.digests.0.to_string(), "sha256:1…");
        let text = text.replace(&diff.digests.1.to_string(), "sha256:2…");
        (diff.widens(), later.requests[&key("exec:create")].granted, text)
    };
    // Less, and the same in other words: taken over.
    for (schema, head) in [
        ("enum = ['podman']\npattern = '^[a-z]+$'", "max_shards = 8"),
        ("enum = ['docker', 'podman']\npattern = '^[a-z]+$'\ndescription = 'It.'", "max_shards = 64"),
    ] {
        let (widens, granted, text) = upgraded(schema, head);
        assert!(!widens && granted, "{text}");
    }
    let (widens, granted, guard) = upgraded("pattern = '.*'", "max_shards = 64");
    assert!(widens && !granted, "{guard}");
    let (widens, granted, facts) = upgraded(
        "enum = ['docker', 'podman']\npattern = '^[a-z]+$'",
        "max_shards = 1000\nforward_port = true",
    );
    assert!(widens && granted, "{facts}");
    insta::assert_snapshot!(format!("{guard}--\n{facts}"), @r#"
    version 1.0.0 -> 1.0.0: the same version, and another file
    file sha256:1…
      -> sha256:2…
    ~ exec:create
      - option engine as
          {"enum":["docker","podman"],"pattern":"^[a-z]+$","type":"string"}
      + option engine as {"pattern":".*","type":"string"}
      ! the user's own command, run as you: your option `engine`
      ! free stdin from the plugin into a program
      ! gets the secret `api-key`, in its variable `BOX_KEY`
      ! gets of your environment: `BOX_HOST`
    --
    version 1.0.0 -> 1.0.0: the same version, and another file
    file sha256:1…
      -> sha256:2…
    ~ max_shards 64 -> 1000
    ~ forward_port false -> true
    "#);
    // What an older lock does not say was seen by nobody.
    let text = lock(Pinned::new(&file(&old), "box.wasm".into())).to_toml().expect("TOML");
    assert!(text.contains("max_shards = 64\nforward_port = false\n"), "{text}");
    let older = Lock::from_toml(&text.replace("max_shards = 64\nforward_port = false\n", "")).expect("reads");
    let earlier = older.plugins().next().expect("one");
    let (_, diff) =
        Pinned::new(&file(&old.replace("Boxes.", "Boxes!")), "box.wasm".into()).taking_over(earlier);
    assert_eq!(diff.wider.iter().map(|wider| wider.name).collect::<Vec<_>>(), ["max_shards"]);
    assert!(!Pinned::new(&file(&old), "box.wasm".into()).taking_over(earlier).1.widens());
}

#[test]
fn what_an_option_refers_to_and_what_stands_over_all_of_them_guards_it_too() {
    let with = |engine: &str, root: &str| {
        RUNNER
            .replace(
                "    type = \"string\"\n    default = \"docker\"",
                &format!("    type = \"string\"\n    default = \"docker\"\n    {engine}"),
            )
            .replace(
                "    [options]\n    type = \"object\"",
                &format!("    [options]\n    type = \"object\"\n    {root}"),
            )
    };
    let granted = |was: &str, now: &str| {
        let (upgraded, diff) = Pinned::new(&file(now), "box.wasm".into()).taking_over(&pinned(was));
        let create = key("exec:create");
        assert_eq!(upgraded.requests[&create].granted, !diff.widened_keys().any(|widened| widened == create));
        upgraded.requests[&create].granted
    };
    let word = |pattern: &str| format!("\"$defs\" = {{ word = {{ pattern = '{pattern}' }} }}");
    for refers in ["\"$ref\" = '#/$defs/word'", "allOf = [{ \"$ref\" = '#/$defs/word' }]"] {
        let was = with(refers, &word("^docker$"));
        assert!(granted(&was, &was.replace("1.0.0", "1.1.0")), "{refers}");
        assert!(!granted(&was, &with(refers, &word(".*"))), "{refers}");
    }
    let over = with("", "allOf = [{ properties = { engine = { enum = ['docker'] } } }]");
    assert!(!granted(&over, &with("", "")));
}

#[test]
fn what_nobody_could_read_any_more_is_not_written() {
    let mut lock = Lock::default();
    let mut pinned = pinned(RUNNER);
    pinned.source = "x".repeat(MAX_BYTES).into();
    lock.put(pinned);
    let error = lock.to_toml().expect_err("refused");
    assert!(matches!(error, LockError::TooLarge { .. }), "{error}");
    assert!(error.hint().is_some());
}
