//! What is wrong with an eval beyond its schema: the rules between its parts.

use std::collections::{BTreeMap, BTreeSet};

use crate::eval::{Client, ClientKind, Eval};
use crate::limits::{Limit, Limits};
use crate::schema::{self, Problem};
use crate::{Kind, ServiceId, VariantId};

impl Eval {
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

    pub(super) fn problems(&self) -> Vec<Problem> {
        let mut check = Check { eval: self, problems: Vec::new() };
        check.dataset();
        check.judges();
        check.variants();
        for (at, client) in self.clients() {
            check.client(&at, client);
        }
        for (at, client) in self.clients() {
            check.tokens_of(&at, client);
        }
        check.capacity();
        for (name, token) in &self.tokens {
            check.problems.extend(token.problems(&format!("tokens.{name}")));
        }
        check.problems.extend(self.limit_problems(&self.limits));
        check.options();
        check.problems
    }

    /// Each client that stands in it, and where.
    fn clients(&self) -> impl Iterator<Item = (String, &Client)> {
        let whole = self.client.iter().map(|client| ("client".to_owned(), client));
        let own = self.variants.iter().enumerate();
        let own = own
            .filter_map(|(at, variant)| Some((format!("variants[{at}].client"), variant.client.as_ref()?)));
        whole.chain(own)
    }
}

struct Check<'a> {
    eval: &'a Eval,
    problems: Vec<Problem>,
}

impl Check<'_> {
    fn say(&mut self, at: impl Into<String>, message: impl Into<String>, hint: Option<&str>) {
        let hint = hint.map(str::to_owned);
        self.problems.push(Problem { at: at.into(), message: message.into(), hint });
    }

    fn dataset(&mut self) {
        let plugin = &self.eval.dataset.plugin;
        if plugin.kind() != Kind::Dataset {
            self.say("dataset.plugin", format!("`{plugin}` is a {}, not a dataset", plugin.kind()), None);
        }
    }

    fn judges(&mut self) {
        let mut names = BTreeSet::new();
        for (at, judge) in self.eval.judges.iter().enumerate() {
            let plugin = &judge.plugin;
            if plugin.kind() != Kind::Judge {
                self.say(
                    format!("judges[{at}].plugin"),
                    format!("`{plugin}` is a {}, not a judge", plugin.kind()),
                    None,
                );
            }
            if !names.insert(judge.name()) {
                self.say(
                    format!("judges[{at}]"),
                    format!("two judges are called `{}`", judge.name()),
                    Some("give one an `id` of its own"),
                );
            }
        }
    }

    fn variants(&mut self) {
        let mut ids = BTreeSet::new();
        for (at, variant) in self.eval.variants.iter().enumerate() {
            if !ids.insert(&variant.id) {
                self.say(
                    format!("variants[{at}].id"),
                    format!("two variants are called `{}`", variant.id),
                    None,
                );
            }
            if variant.client.is_none() && self.eval.client.is_none() {
                self.say(
                    format!("variants[{at}]"),
                    format!("variant `{}` has no client", variant.id),
                    Some("add `client` to it or to the eval"),
                );
            }
            self.environment(&format!("variants[{at}].env"), &variant.env);
        }
    }

    fn client(&mut self, at: &str, client: &Client) {
        match client.kind {
            ClientKind::Command if client.argv.first().is_none_or(String::is_empty) => {
                self.say(
                    format!("{at}.argv"),
                    "a `command` client needs a program",
                    Some("as argv: [python3, agent.py]"),
                );
            }
            ClientKind::Command if client.argv.iter().any(|arg| arg.contains('\0')) => {
                self.say(format!("{at}.argv"), "an argument holds a NUL", None);
            }
            ClientKind::Command if client.version_argv.first().is_some_and(String::is_empty) => {
                self.say(
                    format!("{at}.version_argv"),
                    "it has no program",
                    Some("as version_argv: [my-agent, --version]"),
                );
            }
            ClientKind::Command if client.version_argv.iter().any(|arg| arg.contains('\0')) => {
                self.say(format!("{at}.version_argv"), "an argument holds a NUL", None);
            }
            ClientKind::Echo
                if !client.argv.is_empty()
                    || !client.version_argv.is_empty()
                    || !client.env.is_empty()
                    || !client.pass_env.is_empty() =>
            {
                self.say(
                    at,
                    "an `echo` client starts no program and takes no `argv`, `version_argv`, `env` or \
                     `pass_env`",
                    None,
                );
            }
            _ => {}
        }
        self.environment(&format!("{at}.env"), &client.env);
        self.names(&format!("{at}.pass_env"), client.pass_env.iter());
    }

    fn tokens_of(&mut self, at: &str, client: &Client) {
        for name in client.tokens.iter().filter(|name| !self.eval.tokens.contains_key(name)) {
            self.say(
                format!("{at}.tokens"),
                format!("the token `{name}` has no source"),
                Some("say in the eval's `tokens` where it comes from"),
            );
        }
    }

    fn capacity(&mut self) {
        let variants: BTreeSet<&VariantId> = self.eval.variants.iter().map(|variant| &variant.id).collect();
        let mut keys = BTreeSet::new();
        for (at, pool) in self.eval.capacity.iter().enumerate() {
            if !keys.insert(&pool.key) {
                self.say(format!("capacity[{at}].key"), format!("two pools are called `{}`", pool.key), None);
            }
            for variant in pool.variants.iter().filter(|variant| !variants.contains(variant)) {
                self.say(
                    format!("capacity[{at}].variants"),
                    format!("there is no variant `{variant}`"),
                    None,
                );
            }
        }
    }

    fn options(&mut self) {
        let dataset = [("dataset.options".to_owned(), &self.eval.dataset.options)];
        let judges = self.eval.judges.iter().enumerate();
        let judges = judges.map(|(at, judge)| (format!("judges[{at}].options"), &judge.options));
        for (at, options) in dataset.into_iter().chain(judges) {
            for (key, option) in options {
                self.problems.extend(schema::with_nul(&format!("{at}.{key}"), option));
            }
        }
    }

    fn environment(&mut self, at: &str, env: &BTreeMap<String, String>) {
        self.names(at, env.keys());
        for (name, _) in env.iter().filter(|(_, value)| value.contains('\0')) {
            self.say(format!("{at}.{name}"), "it holds a NUL, which no program can be given", None);
        }
    }

    /// Names of environment variables.
    fn names<'a>(&mut self, at: &str, names: impl Iterator<Item = &'a String>) {
        for name in names {
            if name.is_empty() || name.contains(['=', '\0']) {
                self.say(
                    at,
                    format!("`{}` is no name of an environment variable", name.escape_debug()),
                    None,
                );
            } else if name.starts_with("MST_") {
                self.say(
                    at,
                    format!("`{name}` is one of mst's own variables"),
                    Some("names that start with `MST_` are set by mst"),
                );
            }
        }
    }
}
