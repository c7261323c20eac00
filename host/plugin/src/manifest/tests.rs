use mst_model::Span;

use super::*;
use crate::request::{Method, Stdin};

const RUNNER: &str = r#"
    id = "acme/runner/box"
    version = "1.2.0"
    world = "machine-runner"
    description = "Machines in boxes."
    license = "Apache-2.0"
    homepage = "https://acme.example/box"
    max_shards = 8
    forward_port = true
    env = ["BOX_ZONE"]

    [options]
    type = "object"
    additionalProperties = false
    [options.properties.image]
    type = "string"
    [options.properties.extra]
    type = "array"
    items = { type = "string" }
    [options.properties.keys]
    type = "string"
    format = "path"

    [[dir]]
    name = "keys"
    access = "read"
    option = "keys"

    [[exec]]
    id = "create"
    argv = ["box", "new", "--name", "{machine}", "[--memory={memory:quantity}]", "{option(image)}", "{option(extra)}"]
    timeout = "2m"
    env = ["BOX_HOST", "BOX_KEY={{secret:box-key}}"]

    [[http]]
    to = "https://API.box.example:443"
    methods = ["POST", "GET", "GET"]

    [[http]]
    to = "https://*.box.example"
    methods = ["GET"]
    private = true

    [[secret]]
    name = "box-key"
    about = "Opens boxes."
    to = ["https://api.box.example"]

    [[exec]]
    id = "send"
    argv = ["box", "send", "{machine}"]
    timeout = "10s"
    stdin = "plugin"
    max_output_bytes = 4096
"#;

fn toml(text: &str) -> Result<Manifest, ManifestError> {
    Manifest::from_toml(text)
}

#[track_caller]
fn refused(text: &str) -> ManifestError {
    toml(text).expect_err("refused")
}

/// The message with its causes, and the hint.
fn told(error: &ManifestError) -> String {
    let mut out = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(source) = cause {
        out += &format!(": {source}");
        cause = source.source();
    }
    match error.hint() {
        Some(hint) => format!("{out} ({hint})"),
        None => out,
    }
}

#[test]
fn toml_and_json_read_alike() {
    let manifest = toml(RUNNER).expect("valid");
    assert_eq!((manifest.exec.len(), manifest.dirs.len()), (2, 1));
    let keys: Vec<String> = manifest.requests().iter().map(|request| request.key().to_string()).collect();
    assert_eq!(
        keys,
        [
            "exec:create",
            "exec:send",
            "dir:keys",
            "http:https://api.box.example",
            "http:https://*.box.example",
            "secret:box-key",
            "env:BOX_ZONE"
        ]
    );
    assert_eq!(manifest.http[0].methods, [Method::Get, Method::Post]);
    assert_eq!(manifest.exec[0].env_lines(), ["BOX_HOST", "BOX_KEY={{secret:box-key}}"]);
    assert_eq!(manifest.exec("create").map(|create| create.timeout), Some(Span::secs(120)));
    assert_eq!(
        manifest.exec("send").map(|send| (send.stdin, send.max_output_bytes)),
        Some((Stdin::Plugin, 4096))
    );
    let json = serde_json::to_vec(&manifest.to_json()).expect("JSON");
    assert_eq!(Manifest::from_json(&json).expect("reads back"), manifest);
}

#[test]
fn what_only_runners_have() {
    let head = |world: &str| {
        let kind = world.rsplit('-').next().unwrap_or_default();
        format!("id='a/{kind}/b'\nversion='0.1.0'\nworld='{world}'\ndescription='d'\n")
    };
    let read = |world: &str, more: &str| {
        toml(&(head(world) + more)).map(|manifest| (manifest.max_shards, manifest.forward_port))
    };
    assert_eq!(read("machine-runner", "").expect("valid"), (64, false));
    assert_eq!(read("machine-runner", "max_shards=10000\nforward_port=true").expect("valid"), (10_000, true));
    assert_eq!(read("shard-runner", "max_shards=1").expect("valid"), (1, false));
    for (world, key) in [
        ("shard-runner", "forward_port=false"),
        ("judge", "max_shards=1"),
        ("dataset", "max_shards=1"),
        ("judge", "forward_port=false"),
    ] {
        assert!(matches!(read(world, key), Err(ManifestError::Rule { .. })), "{world} {key}");
    }
    for world in World::ALL {
        let json = toml(&head(world.as_str())).expect("valid").to_json();
        assert_eq!(json.get("max_shards").is_some(), world.kind() == Kind::Runner, "{world}");
        assert_eq!(json.get("forward_port").is_some(), world == World::MachineRunner, "{world}");
        Manifest::from_json(json.to_string().as_bytes()).expect("reads back");
    }
}

#[test]
fn the_json_is_what_the_design_names() {
    let manifest = toml("id='a/judge/b'\nversion='0.1.0'\nworld='judge'\ndescription='d'\n[[workspace]]\nid='t'\nargv=['make']\ntimeout='1s'").expect("valid");
    insta::assert_snapshot!(serde_json::to_string_pretty(&manifest.to_json()).expect("JSON"), @r#"
    {
      "contract": "mst:plugin@0.1.0",
      "description": "d",
      "id": "a/judge/b",
      "options": {
        "additionalProperties": false,
        "properties": {},
        "type": "object"
      },
      "schema": "mst.manifest/v1",
      "version": "0.1.0",
      "workspace": [
        {
          "argv": [
            "make"
          ],
          "env": [],
          "id": "t",
          "max_output_bytes": 1048576,
          "stdin": "none",
          "timeout": "1s"
        }
      ],
      "world": "judge"
    }
    "#);
}

#[test]
fn a_command_in_a_workspace_gets_no_environment() {
    let with = |env: &str| {
        toml(&format!(
            "id='a/judge/b'\nversion='0.1.0'\nworld='judge'\ndescription='d'\n\
             [[secret]]\nname='key'\nabout='k'\n[[workspace]]\nid='t'\nargv=['make']\ntimeout='1s'\nenv={env}"
        ))
    };
    assert!(with("[]").is_ok());
    for env in ["['HOME_DIR']", "['KEY={{secret:key}}']"] {
        let error = with(env).expect_err("refused").to_string();
        assert!(error.starts_with("`workspace[0].env`: a command in a workspace gets none"), "{error}");
    }
}

#[test]
fn messages_say_where_what_and_how() {
    let with = |from: &str, to: &str| {
        assert!(RUNNER.contains(from), "{from}");
        told(&refused(&RUNNER.replacen(from, to, 1)))
    };
    let all = [
        with("license =", "licence ="),
        with("timeout = \"2m\"", "timeout = \"2m\"\nmax_output = 1"),
        with("timeout = \"2m\"", ""),
        with("timeout = \"2m\"", "timeout = \"soon\""),
        with("timeout = \"2m\"", "timeout = 120"),
        with("env = [\"BOX_HOST\", \"BOX_KEY", "env = [\"BOX_*\", \"BOX_KEY"),
        with("acme/runner/box", "acme/judge/box"),
        with("\"machine-runner\"", "\"runner\""),
        with("1.2.0", "1.2"),
        with("access = \"read\"", "access = \"write\""),
        with("option = \"keys\"", "option = \"image\""),
        with("option = \"keys\"", "option = \"key\""),
        with("{option(image)}", "{option(imgae)}"),
        with("{memory:quantity}", "{memory:amount}"),
        with("id = \"send\"", "id = \"create\""),
        with("[[exec]]", "[[workspace]]"),
        with("[[dir]]", "[[socket]]\nhosts = ['x']\n[[dir]]"),
        with("to = \"https://API.box.example:443\"", "to = \"http://box.example\""),
        with("to = \"https://API.box.example:443\"", "to = \"https://*.box.example\""),
        with("methods = [\"GET\"]", "methods = [\"get\"]"),
        with("methods = [\"GET\"]", ""),
        with("private = true", "private = \"yes\""),
        with("to = [\"https://api.box.example\"]", "to = [\"https://other.example\"]"),
        with("to = [\"https://api.box.example\"]", "to = [\"box.example\"]"),
        with("about = \"Opens boxes.\"", ""),
        with("{{secret:box-key}}", "{{secret:key}}"),
        with("{{secret:box-key}}", "1"),
        with("BOX_KEY=", "PATH="),
        with("BOX_KEY=", "BOX_HOST="),
        with("[\"BOX_ZONE\"]", "[\"BOX_*\"]"),
        with("format = \"path\"", "format = \"path\"\ndefault = \"/\""),
        with("Machines in", "Machines\u{202e} in"),
        with("type = \"object\"", "type = \"array\""),
        with("type = \"object\"", "type = \"object\"\nminProperties = \"x\""),
        with("type = \"object\"", "type = \"object\"\n\"$ref\" = \"file:///etc/passwd\""),
        with("type = \"object\"", "type = \"object\"\nx = 1979-05-27"),
        with("max_output_bytes = 4096", "max_output_bytes = 67108865"),
        with("max_output_bytes = 4096", "max_output_bytes = -1"),
        with("max_shards = 8", "max_shards = 0"),
        with("max_shards = 8", "max_shards = 10001"),
        with("forward_port = true", "forward_port = 1"),
        with("\"machine-runner\"", "\"shard-runner\""),
    ];
    insta::assert_snapshot!(all.join("\n"), @r#"
    unknown key `licence` (did you mean `license`?)
    unknown key `max_output` in `exec[0]` (known keys: `id`, `argv`, `timeout`, `stdin`, `max_output_bytes`, `env`)
    `exec[0].timeout` is missing
    `exec[0].timeout` can't be `soon`: `soon` is no length of time: write a number and a unit, as `90s`, `10m` or `1h 30m`; at least `1ms`, at most `30days`
    `exec[0].timeout` must be text, and is a number
    `exec[0].env`: `BOX_*` must be one variable's exact name, of letters, digits and `_`; there are no wildcards
    `world`: `machine-runner` is no world of a judge (`acme/judge/box`): it must be `judge`
    `world` can't be `runner`: a world is `machine-runner`, `shard-runner`, `dataset`, `judge`
    `version` can't be `1.2`: unexpected end of input while parsing minor version number
    `dir[0].access`: `write` must be `read` or `read-write`
    `dir[0].option`: the schema of `image` must say `type = "string"` and `format = "path"`: naming a path there is the grant to it
    `dir[0].option`: `options` has no property `key`: it has `extra`, `image`, `keys`
    `exec[0].argv`: `options` has no property `imgae`: it has `extra`, `image`, `keys`
    `exec[0]` is no command template: `argv[4]` (`[--memory={memory:amount}]`): `amount` is no slot type (the types are `ident`, `uint(a..b)`, `quantity`, `enum(a|b)`, `oci-ref`, `machine-path`, `text(/regex/)`, `option(NAME)` and `host-dir`; the host's own slots are `{machine}`, `{run}`, `{command...}` and `{command:shell}`)
    `exec[1].id`: `create` stands twice
    `workspace`: a plugin of world `machine-runner` can't run these: `[[workspace]]` is for `judge`
    unknown key `socket` (did you mean `secret`?)
    `http[0].to` can't be `http://box.example`: `http://box.example` is no destination: it does not begin with `https://`; it must be as `https://api.acme.com`, `https://api.acme.com:8443` or `https://*.acme.com`
    `http[1].to`: `https://*.box.example` stands twice
    `http[1].methods`: `get` must be one of `GET`, `HEAD`, `POST`, `PUT`, `PATCH`, `DELETE`, `OPTIONS`
    `http[1].methods`: it must name at least one method, as `GET`
    `http[1].private` must be true or false, and is text
    `secret[0].to`: `https://other.example` is asked for by no `[[http]]`: a secret goes only where requests may go
    `secret[0].to` can't be `box.example`: `box.example` is no destination: it does not begin with `https://`; it must be as `https://api.acme.com`, `https://api.acme.com:8443` or `https://*.acme.com`
    `secret[0].about` is missing
    `exec[0].env`: `key` is asked for by no `[[secret]]`
    `exec[0].env`: `BOX_KEY=1`: what stands behind the `=` must be `{{secret:NAME}}`
    `exec[0].env`: `PATH` is the host's, and no secret
    `exec[0].env`: `BOX_HOST` stands twice
    `env`: `BOX_*` must be one variable's exact name, of letters, digits and `_`; there are no wildcards
    `dir[0].option`: the schema of `keys` must have no `default`: naming a path there is the user's grant to it
    `description`: it holds `\u{202e}`, which a reader would not see
    `options.type`: it must be `object`: options are named
    `options` is not a JSON Schema: "x" is not of type "integer"
    `options.$ref`: a `$ref` must stay in this schema, as `#/$defs/NAME`
    `options.x`: a date has no place in a manifest
    `exec[1].max_output_bytes`: 67108865 bytes; at most 67108864 are admitted
    `exec[1].max_output_bytes` must be a whole number, 0 or more, and is a number
    `max_shards`: 0 shards; 1 to 10000 are admitted
    `max_shards`: 10001 shards; 1 to 10000 are admitted
    `forward_port` must be true or false, and is a number
    `forward_port`: a plugin of world `shard-runner` has no channel: it is for `machine-runner`
    "#);
}

#[test]
fn no_toml_says_where() {
    let error = refused("id = \nversion");
    assert!(told(&error).contains("line 2, column 8"), "{}", told(&error));
}

#[test]
fn json_of_another_format_is_told_apart() {
    let json = |edit: &dyn Fn(&mut Value)| {
        let mut value = toml(RUNNER).expect("valid").to_json();
        edit(&mut value);
        Manifest::from_json(value.to_string().as_bytes()).map_err(|error| told(&error))
    };
    assert_eq!(
        json(&|value| value["schema"] = "mst.manifest/v2".into()),
        Err("the manifest's format is `mst.manifest/v2`, and this mst reads `mst.manifest/v1` (upgrade mst)"
            .to_owned())
    );
    assert!(
        json(&|value| value["schema"] = "other".into()).is_err_and(|told| told.contains("mst plugin build"))
    );
    assert!(json(&|value| value["contract"] = "mst:plugin@x".into()).is_err());
    assert!(json(&|value| drop(value.as_object_mut().map(|all| all.remove("schema")))).is_err());
    assert!(json(&|value| value["sockets"] = json!(["X"])).is_err_and(|told| told.contains("newer mst")));
    assert_eq!(json(&|value| value["contract"] = "mst:plugin@0.2.0".into()).expect("read").contract.minor, 2);
    assert!(matches!(Manifest::from_json(b"{\"id\":1,\"id\":2}"), Err(ManifestError::Json(_))));
    assert!(matches!(Manifest::from_json(b"[]"), Err(ManifestError::Type { .. })));
}

#[test]
fn bounds() {
    assert!(matches!(toml(&" ".repeat(MAX_BYTES + 1)), Err(ManifestError::TooLarge { .. })));
    let many: String = (0..65).map(|n| format!("[[exec]]\nid='t{n}'\nargv=['x']\ntimeout='1s'\n")).collect();
    let head = "id='a/runner/b'\nversion='0.1.0'\nworld='shard-runner'\ndescription='d'\n";
    assert!(told(&refused(&format!("{head}{many}"))).contains("65 templates"));
    let deep = "[".repeat(200) + &"]".repeat(200);
    assert!(Manifest::from_json(deep.as_bytes()).is_err());
}

proptest::proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..64)) {
        let _ = Manifest::from_json(&bytes);
        let _ = Manifest::from_toml(&String::from_utf8_lossy(&bytes));
    }
}
