//! The broker: every call from a plugin into the host passes [`Broker::pass`], which decides
//! before anything acts.

use std::fmt;
use std::sync::Arc;

use mst_plugin::{CommandTemplate, Manifest};

/// A call that a plugin makes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Call<'a> {
    /// `log.write` or `log.progress`.
    Log,
    /// Any function of `evidence`.
    Evidence,
    /// `workspace.run` of this template.
    Workspace {
        /// The template's id.
        template: &'a str,
    },
    /// `process.run` or `process.start` of this template.
    Exec {
        /// The template's id.
        template: &'a str,
    },
    /// Something about a child that it started.
    Child,
    /// Any function of `shard`.
    Shard,
}

/// A call that was refused: what was called, and the rule that decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    /// As `workspace.run("deploy")`.
    pub call: String,
    /// As "its manifest has no `[[workspace]]` template of that id".
    pub rule: String,
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: {}", self.call, self.rule)
    }
}

/// Marks the end of a guest call in wasmtime's errors: the call was refused.
#[derive(Debug, thiserror::Error)]
#[error("denied {0}")]
pub(crate) struct Denied(pub(crate) Denial);

/// Decides for one instance of one plugin.
pub(crate) struct Broker {
    manifest: Arc<Manifest>,
    denials: Vec<Denial>,
}

impl Broker {
    pub(crate) fn new(manifest: Arc<Manifest>) -> Broker {
        Broker { manifest, denials: Vec::new() }
    }

    /// Admits a call, or refuses it and remembers that. What a plugin may call is what its
    /// manifest says.
    pub(crate) fn pass(&mut self, call: Call<'_>) -> Result<(), Denied> {
        let denial = match call {
            // Said and shown of the trial that the call is about: nothing to ask for.
            Call::Log | Call::Evidence | Call::Child | Call::Shard => return Ok(()),
            Call::Workspace { template } if self.manifest.workspace(template).is_some() => return Ok(()),
            Call::Exec { template } if self.manifest.exec(template).is_some() => return Ok(()),
            Call::Workspace { template } => {
                no_template("workspace.run", "[[workspace]]", template, &self.manifest.workspace)
            }
            Call::Exec { template } => no_template("process.run", "[[exec]]", template, &self.manifest.exec),
        };
        self.denials.push(denial.clone());
        Err(Denied(denial))
    }

    /// The first refusal, if there was one.
    pub(crate) fn first_denial(&self) -> Option<&Denial> {
        self.denials.first()
    }
}

fn no_template(function: &str, table: &str, template: &str, known: &[CommandTemplate]) -> Denial {
    let ids: Vec<String> = known.iter().map(|template| format!("`{}`", template.id)).collect();
    Denial {
        call: format!("{function}({:?})", crate::clean(template, 64, false)),
        rule: match &ids[..] {
            [] => format!("its manifest asks for no `{table}` template"),
            ids => format!("its manifest has no `{table}` template of that id, only {}", ids.join(", ")),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broker(templates: &str) -> Broker {
        let manifest = Manifest::from_toml(&format!(
            "id='acme/judge/x'\nversion='1.0.0'\nworld='judge'\ndescription='Tests.'\n{templates}"
        ));
        Broker::new(Arc::new(manifest.expect("a manifest")))
    }

    #[test]
    fn what_the_manifest_has_passes() {
        let mut broker = broker("[[workspace]]\nid='test'\nargv=['true']\ntimeout='1s'\n");
        for call in [Call::Log, Call::Evidence, Call::Workspace { template: "test" }] {
            broker.pass(call).expect("admitted");
        }
        assert_eq!(broker.first_denial(), None);
    }

    #[test]
    fn what_it_has_not_is_denied_with_the_rule() {
        let call = Call::Workspace { template: "deploy\u{1b}[2J" };
        let denied = broker("").pass(call).expect_err("denied");
        said(&denied, "its manifest asks for no `[[workspace]]` template");

        let mut broker = broker("[[workspace]]\nid='test'\nargv=['true']\ntimeout='1s'\n");
        let denied = broker.pass(call).expect_err("denied");
        said(&denied, "its manifest has no `[[workspace]]` template of that id, only `test`");
        // Names are whole names.
        for template in ["", "Test", "test ", "tes", "test\0"] {
            broker.pass(Call::Workspace { template }).expect_err("denied");
        }
        let first = broker.first_denial().expect("remembered").clone();
        assert_eq!(first, denied.0, "the first is the one that is told");
    }

    #[track_caller]
    fn said(denied: &Denied, rule: &str) {
        assert_eq!(denied.0.call, "workspace.run(\"deploy\u{fffd}[2J\")");
        assert_eq!(denied.0.rule, rule);
    }
}
