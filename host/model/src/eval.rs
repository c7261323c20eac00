//! The eval: what a user writes in `eval.yaml`, `.json` or `.toml`.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::deadlines::Deadlines;
use crate::id::Kind;
use crate::limits::{Capacity, Limit, Limits};
use crate::schema::{self, Problem};
use crate::tokens::TokenUse;
use crate::{Digest, JudgeId, PluginId, ServiceId, TokenId, VariantId};

/// An eval: a dataset's cases, asked of a client in several variants, graded by judges.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Eval {
    /// What the eval is called in reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Where the cases come from.
    pub dataset: DatasetUse,
    /// What grades the trials; at least one.
    #[schemars(length(min = 1))]
    pub judges: Vec<JudgeUse>,
    /// The client that every variant without one of its own asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<Client>,
    /// The arms; at least one.
    #[schemars(length(min = 1))]
    pub variants: Vec<Variant>,
    /// How often each case is asked in each variant.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 10_000))]
    pub trials: u32,
    /// How long each part of a trial may take.
    #[serde(default)]
    pub deadlines: Deadlines,
    /// The tokens that clients name, and where they come from.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tokens: BTreeMap<TokenId, TokenUse>,
    /// What the trials of all shards together may not exceed, by provider and by server.
    #[serde(default, skip_serializing_if = "Limits::is_empty")]
    pub limits: Limits,
    /// Pools that trials share.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000))]
    pub capacity: Vec<Capacity>,
}

fn one() -> u32 {
    1
}

/// The dataset of an eval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DatasetUse {
    /// The plugin, as `mst/dataset/jsonl`.
    pub plugin: PluginId,
    /// Its options; `mst plugin inspect` shows their schema. Paths are relative to the eval's file.
    #[serde(default)]
    pub options: Map<String, Value>,
}

/// A judge of an eval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JudgeUse {
    /// Its name in reports; the last part of the plugin's id where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<JudgeId>,
    /// The plugin, as `mst/judge/text`.
    pub plugin: PluginId,
    /// Its options; `mst plugin inspect` shows their schema.
    #[serde(default)]
    pub options: Map<String, Value>,
    /// The score from which on a trial passes, for a judge that scores.
    #[serde(default = "full")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub pass_score: f64,
    /// The pass rate that every variant must reach, or `mst run` exits with 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub min_pass_rate: Option<f64>,
}

fn full() -> f64 {
    1.0
}

impl JudgeUse {
    /// Its name, given or derived.
    pub fn name(&self) -> JudgeId {
        match &self.id {
            Some(id) => id.clone(),
            // A plugin's last part obeys the same alphabet as a judge's name.
            None => self.plugin.name().parse().unwrap_or_else(|_| unreachable!("a plugin's name is a name")),
        }
    }
}

/// An arm of an eval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// Its name in reports.
    pub id: VariantId,
    /// Its client, where it is not the eval's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<Client>,
    /// Environment variables on top of the client's own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
}

/// How a client is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum ClientKind {
    /// A program, started afresh for each trial in a workspace of its own. It gets the prompt on
    /// stdin and in the file that `MST_PROMPT_FILE` names; what it writes to stdout is its report.
    Command,
    /// Answers with the prompt itself, without a process.
    Echo,
}

impl ClientKind {
    /// The word for it, in evals, in transcripts and in `hello`.
    pub fn as_str(self) -> &'static str {
        match self {
            ClientKind::Command => "command",
            ClientKind::Echo => "echo",
        }
    }
}

/// What is being evaluated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Client {
    /// How it is asked.
    pub kind: ClientKind,
    /// For `command`: the program and its arguments. A program with a `/` is looked for beside
    /// the eval's file, another on the PATH.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub argv: Vec<String>,
    /// For `command`: a program and its arguments that say which version of the client this is, as
    /// `[my-agent, --version]`. Each worker asks it once, before its first trial, without tokens and
    /// variables of `pass_env`; the first line that it prints stands in transcripts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub version_argv: Vec<String>,
    /// For `command`: environment variables. They are recorded; put no secret here.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// For `command`: names of variables of your own environment that the client gets, for
    /// secrets. Their values are recorded nowhere.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub pass_env: BTreeSet<String>,
    /// Tokens that it needs, of the eval's `tokens`. It finds the value of each in a file of the
    /// token's name, in the directory that `MST_TOKENS` names; a file is replaced when its token is
    /// renewed.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub tokens: BTreeSet<TokenId>,
    /// Providers of models that it talks to. The eval's `limits` hold for them.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub providers: BTreeSet<ServiceId>,
    /// Servers that it talks to. The eval's `limits` hold for them.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub servers: BTreeSet<ServiceId>,
    /// Bytes of stdout, and of stderr, that are kept; what comes after is counted and dropped.
    #[serde(default = "sixteen_mib")]
    #[schemars(range(min = 1, max = 1_073_741_824))]
    pub max_output_bytes: u64,
}

fn sixteen_mib() -> u64 {
    16 << 20
}

impl Eval {
    /// The JSON Schema of an eval's file.
    pub fn json_schema() -> Value {
        schemars::schema_for!(Eval).to_value()
    }

    /// Reads an eval: its schema first, then the rules between its parts.
    pub fn read(value: &Value) -> Result<Eval, Vec<Problem>> {
        let eval: Eval = schema::read(value)?;
        let problems = eval.problems();
        if problems.is_empty() { Ok(eval) } else { Err(problems) }
    }

    /// The digest of what it asks: of all of it but how it is paced, and where tokens come from.
    pub fn digest(&self) -> Result<Digest, serde_json::Error> {
        let asked =
            Eval { limits: Limits::default(), capacity: Vec::new(), tokens: BTreeMap::new(), ..self.clone() };
        Digest::of_json(&asked)
    }

    /// What is wrong with limits for this eval.
    pub fn limit_problems(&self, limits: &Limits) -> Vec<Problem> {
        let clients: Vec<Client> =
            self.variants.iter().filter_map(|variant| self.client_of(variant)).collect();
        let mut problems = Vec::new();
        type Named = fn(&Client) -> &BTreeSet<ServiceId>;
        let kinds: [(&str, &str, &BTreeMap<ServiceId, Limit>, Named); 2] = [
            ("provider", "providers", &limits.providers, |client| &client.providers),
            ("server", "servers", &limits.servers, |client| &client.servers),
        ];
        for (one, many, limited, named) in kinds {
            for (name, limit) in limited {
                let mut say = |message: String, hint: Option<String>| {
                    problems.push(Problem { at: format!("limits.{many}.{name}"), message, hint });
                };
                if limit.concurrency.is_none() && limit.starts_per_minute.is_none() {
                    let hint = "give it `concurrency` or `starts_per_minute`".to_owned();
                    say("it limits nothing".to_owned(), Some(hint));
                }
                if !clients.iter().any(|client| named(client).contains(name)) {
                    let known: BTreeSet<&str> = clients
                        .iter()
                        .flat_map(|client| named(client).iter().map(ServiceId::as_str))
                        .collect();
                    let hint = match schema::near(name.as_str(), known.iter().copied()) {
                        Some(near) => format!("did you mean `{near}`?"),
                        None => format!("name it in a client's `{many}`"),
                    };
                    say(format!("no client talks to a {one} `{name}`"), Some(hint));
                }
            }
        }
        problems
    }

    /// The client that `variant` asks, with the variant's environment merged in.
    pub fn client_of(&self, variant: &Variant) -> Option<Client> {
        let mut client = variant.client.clone().or_else(|| self.client.clone())?;
        client.env.extend(variant.env.clone());
        Some(client)
    }

    fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut say = |at: String, message: String, hint: Option<&str>| {
            problems.push(Problem { at, message, hint: hint.map(str::to_owned) });
        };
        if self.dataset.plugin.kind() != Kind::Dataset {
            say(
                "dataset.plugin".into(),
                format!("`{}` is a {}, not a dataset", self.dataset.plugin, self.dataset.plugin.kind()),
                None,
            );
        }
        let mut judges = BTreeSet::new();
        for (at, judge) in self.judges.iter().enumerate() {
            if judge.plugin.kind() != Kind::Judge {
                say(
                    format!("judges[{at}].plugin"),
                    format!("`{}` is a {}, not a judge", judge.plugin, judge.plugin.kind()),
                    None,
                );
            }
            if !judges.insert(judge.name()) {
                say(
                    format!("judges[{at}]"),
                    format!("two judges are called `{}`", judge.name()),
                    Some("give one an `id` of its own"),
                );
            }
        }
        let mut variants = BTreeSet::new();
        for (at, variant) in self.variants.iter().enumerate() {
            if !variants.insert(&variant.id) {
                say(format!("variants[{at}].id"), format!("two variants are called `{}`", variant.id), None);
            }
            if variant.client.is_none() && self.client.is_none() {
                say(
                    format!("variants[{at}]"),
                    format!("variant `{}` has no client", variant.id),
                    Some("add `client` to it or to the eval"),
                );
            }
            check_env(&format!("variants[{at}].env"), variant.env.keys(), &mut say);
            check_values(&format!("variants[{at}].env"), &variant.env, &mut say);
        }
        let clients = self.client.iter().map(|client| ("client".to_owned(), client));
        let own =
            self.variants.iter().enumerate().filter_map(|(at, variant)| {
                Some((format!("variants[{at}].client"), variant.client.as_ref()?))
            });
        for (at, client) in clients.chain(own) {
            match client.kind {
                ClientKind::Command if client.argv.first().is_none_or(String::is_empty) => {
                    say(
                        format!("{at}.argv"),
                        "a `command` client needs a program".into(),
                        Some("as argv: [python3, agent.py]"),
                    );
                }
                ClientKind::Command if client.argv.iter().any(|arg| arg.contains('\0')) => {
                    say(format!("{at}.argv"), "an argument holds a NUL".into(), None);
                }
                ClientKind::Command if client.version_argv.first().is_some_and(String::is_empty) => {
                    say(
                        format!("{at}.version_argv"),
                        "it has no program".into(),
                        Some("as version_argv: [my-agent, --version]"),
                    );
                }
                ClientKind::Command if client.version_argv.iter().any(|arg| arg.contains('\0')) => {
                    say(format!("{at}.version_argv"), "an argument holds a NUL".into(), None);
                }
                ClientKind::Echo
                    if !client.argv.is_empty()
                        || !client.version_argv.is_empty()
                        || !client.env.is_empty()
                        || !client.pass_env.is_empty() =>
                {
                    say(
                        at.clone(),
                        "an `echo` client starts no program and takes no `argv`, `version_argv`, `env` or \
                         `pass_env`"
                            .into(),
                        None,
                    );
                }
                _ => {}
            }
            check_env(&format!("{at}.env"), client.env.keys(), &mut say);
            check_values(&format!("{at}.env"), &client.env, &mut say);
            check_env(&format!("{at}.pass_env"), client.pass_env.iter(), &mut say);
        }
        let clients = self.client.iter().map(|client| ("client".to_owned(), client));
        let own = self.variants.iter().enumerate();
        let own = own
            .filter_map(|(at, variant)| Some((format!("variants[{at}].client"), variant.client.as_ref()?)));
        for (at, client) in clients.chain(own) {
            for name in client.tokens.iter().filter(|name| !self.tokens.contains_key(name)) {
                say(
                    format!("{at}.tokens"),
                    format!("the token `{name}` has no source"),
                    Some("say in the eval's `tokens` where it comes from"),
                );
            }
        }
        let mut pools = BTreeSet::new();
        for (at, pool) in self.capacity.iter().enumerate() {
            if !pools.insert(&pool.key) {
                say(format!("capacity[{at}].key"), format!("two pools are called `{}`", pool.key), None);
            }
            for variant in pool.variants.iter().filter(|variant| !variants.contains(variant)) {
                say(format!("capacity[{at}].variants"), format!("there is no variant `{variant}`"), None);
            }
        }
        for (name, token) in &self.tokens {
            problems.extend(token.problems(&format!("tokens.{name}")));
        }
        problems.extend(self.limit_problems(&self.limits));
        let dataset = [("dataset.options".to_owned(), &self.dataset.options)];
        let judges = self.judges.iter().enumerate();
        let judges = judges.map(|(at, judge)| (format!("judges[{at}].options"), &judge.options));
        for (at, options) in dataset.into_iter().chain(judges) {
            for (key, option) in options {
                problems.extend(schema::with_nul(&format!("{at}.{key}"), option));
            }
        }
        problems
    }
}

fn check_env<'a>(
    at: &str,
    names: impl Iterator<Item = &'a String>,
    say: &mut impl FnMut(String, String, Option<&str>),
) {
    for name in names {
        if name.is_empty() || name.contains(['=', '\0']) {
            say(
                at.to_owned(),
                format!("`{}` is no name of an environment variable", name.escape_debug()),
                None,
            );
        } else if name.starts_with("MST_") {
            say(
                at.to_owned(),
                format!("`{name}` is one of mst's own variables"),
                Some("names that start with `MST_` are set by mst"),
            );
        }
    }
}

fn check_values(
    at: &str,
    env: &BTreeMap<String, String>,
    say: &mut impl FnMut(String, String, Option<&str>),
) {
    for (name, _) in env.iter().filter(|(_, value)| value.contains('\0')) {
        say(format!("{at}.{name}"), "it holds a NUL, which no program can be given".into(), None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Span;
    use serde_json::json;

    fn minimal() -> Value {
        json!({
            "dataset": {"plugin": "mst/dataset/jsonl", "options": {"path": "cases.jsonl"}},
            "judges": [{"plugin": "mst/judge/text"}],
            "client": {"kind": "echo"},
            "variants": [{"id": "a"}],
        })
    }

    fn said(change: impl FnOnce(&mut Value)) -> Vec<String> {
        let mut value = minimal();
        change(&mut value);
        match Eval::read(&value) {
            Ok(_) => Vec::new(),
            Err(problems) => problems.iter().map(ToString::to_string).collect(),
        }
    }

    #[test]
    fn the_least_eval_has_the_documented_defaults() {
        let eval = Eval::read(&minimal()).expect("valid");
        assert_eq!(eval.trials, 1);
        assert_eq!(eval.deadlines.client, Span::secs(600));
        assert_eq!(eval.judges[0].name().as_str(), "text");
        // Read, written and read again it is the same: run.json keeps it.
        let again = Eval::read(&serde_json::to_value(&eval).expect("writes")).expect("valid");
        assert_eq!(eval, again);
    }

    #[test]
    fn how_it_is_paced_is_no_part_of_what_it_asks() {
        let digest = |change: fn(&mut Value)| {
            let mut value = minimal();
            value["client"]["providers"] = json!(["models"]);
            change(&mut value);
            Eval::read(&value).expect("valid").digest().expect("a digest")
        };
        let plain = digest(|_| {});
        assert_eq!(plain, digest(|v| v["limits"] = json!({"providers": {"models": {"concurrency": 3}}})));
        assert_eq!(plain, digest(|v| v["capacity"] = json!([{"key": "gpu", "limit": 2, "tags": ["big"]}])));
        assert_ne!(plain, digest(|v| v["deadlines"] = json!({"client": "1s"})));
    }

    #[test]
    fn tokens_have_one_source_each() {
        let with = |tokens: Value| {
            said(|v| {
                v["client"]["tokens"] = json!(["gateway"]);
                v["tokens"] = tokens;
            })
        };
        assert_eq!(with(json!({"gateway": {"env": "TOKEN"}})), [""; 0]);
        assert_eq!(
            with(json!({})),
            [
                "`client.tokens`: the token `gateway` has no source (say in the eval's `tokens` where it comes from)"
            ]
        );
        assert_eq!(
            with(json!({"gateway": {"env": "TOKEN", "file": "token"}})),
            [
                "`tokens.gateway`: a token has one source, not 2 (give it one of `env`, `file`, `command` and `oauth2`)"
            ]
        );
        assert_eq!(
            with(json!({"gateway": {"env": "TOKEN", "on_failure": "weit"}})),
            ["`tokens.gateway.on_failure`: `weit` is none of `end`, `wait` (did you mean `wait`?)"]
        );
    }

    #[test]
    fn limits_that_limit_nothing_are_refused() {
        let with = |limits: Value| {
            said(|v| {
                v["client"]["providers"] = json!(["models"]);
                v["limits"] = limits;
            })
        };
        assert_eq!(with(json!({"providers": {"models": {"concurrency": 3}}})), [""; 0]);
        assert_eq!(
            with(json!({"providers": {"model": {"concurrency": 3}}})),
            ["`limits.providers.model`: no client talks to a provider `model` (did you mean `models`?)"]
        );
        assert_eq!(
            with(json!({"servers": {"db": {}}})),
            [
                "`limits.servers.db`: it limits nothing (give it `concurrency` or `starts_per_minute`)",
                "`limits.servers.db`: no client talks to a server `db` (name it in a client's `servers`)"
            ]
        );
        assert_eq!(
            with(json!({"providers": {"models": {"concurrency": 0}}})),
            ["`limits.providers.models.concurrency`: 0 is less than the minimum of 1"]
        );
        assert_eq!(
            said(|v| v["capacity"] =
                json!([{"key": "gpu", "limit": 1, "variants": ["b"]}, {"key": "gpu", "limit": 1}])),
            [
                "`capacity[0].variants`: there is no variant `b`",
                "`capacity[1].key`: two pools are called `gpu`"
            ]
        );
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place_and_a_way_out() {
        assert_eq!(said(|v| v["trails"] = json!(3)), ["unknown key `trails` (did you mean `trials`?)"]);
        assert_eq!(
            said(|v| v["client"]["kind"] = json!("comand")),
            ["`client.kind`: `comand` is none of `command`, `echo` (did you mean `command`?)"]
        );
        assert_eq!(
            said(|v| v["client"] = json!({"kind": "command"})),
            ["`client.argv`: a `command` client needs a program (as argv: [python3, agent.py])"]
        );
        assert_eq!(
            said(|v| v["judges"][0]["plugin"] = json!("mst/dataset/jsonl")),
            ["`judges[0].plugin`: `mst/dataset/jsonl` is a dataset, not a judge"]
        );
        assert_eq!(
            said(|v| v["variants"] = json!([{"id": "a"}, {"id": "a"}])),
            ["`variants[1].id`: two variants are called `a`"]
        );
        assert_eq!(said(|v| v["trials"] = json!(0)), ["`trials`: 0 is less than the minimum of 1"]);
        assert_eq!(
            said(|v| v["deadlines"] = json!({"client": "soon"})),
            [
                "`deadlines.client`: `soon` is no length of time: write a number and a unit, as `90s`, `10m` or `1h 30m`; at least `1ms`, at most `30days`"
            ]
        );
        assert_eq!(
            said(|v| v["variants"][0]["id"] = json!("A b")),
            [
                "`variants[0].id`: `A b` is no variant name: it must be 1 to 64 of `a-z`, `0-9` and `-`, and start with a letter or digit"
            ]
        );
        assert_eq!(
            said(|v| v["variants"][0]["env"] = json!({"MST_TRIAL": "7"})),
            [
                "`variants[0].env`: `MST_TRIAL` is one of mst's own variables (names that start with `MST_` are set by mst)"
            ]
        );
        let command = json!({"kind": "command", "argv": ["a"], "env": {"A": "x\u{0}", "B": "x"}});
        assert_eq!(
            said(|v| {
                v["client"] = command;
                v["judges"][0]["options"] = json!({"command": ["true", "\u{0}"], "of": {"a": "b\u{0}c"}});
            }),
            [
                "`client.env.A`: it holds a NUL, which no program can be given",
                "`judges[0].options.command[1]`: it holds a NUL, which no program can be given",
                "`judges[0].options.of.a`: it holds a NUL, which no program can be given",
            ]
        );
    }
}
