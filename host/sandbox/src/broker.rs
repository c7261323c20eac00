//! The broker: every call from a plugin into the host passes [`Broker::pass`], which decides
//! before anything acts.

use std::fmt;
use std::sync::Arc;

use mst_plugin::Manifest;

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
            Call::Log | Call::Evidence => return Ok(()),
            Call::Workspace { template } if self.manifest.workspace(template).is_some() => return Ok(()),
            Call::Workspace { template } => Denial {
                call: format!("workspace.run({:?})", crate::clean(template, 64, false)),
                rule: match &self.manifest.workspace[..] {
                    [] => "its manifest asks for no `[[workspace]]` template".to_owned(),
                    known => {
                        let ids: Vec<String> =
                            known.iter().map(|template| format!("`{}`", template.id)).collect();
                        format!(
                            "its manifest has no `[[workspace]]` template of that id, only {}",
                            ids.join(", ")
                        )
                    }
                },
            },
        };
        self.denials.push(denial.clone());
        Err(Denied(denial))
    }

    /// The first refusal, if there was one.
    pub(crate) fn first_denial(&self) -> Option<&Denial> {
        self.denials.first()
    }
}
