//! Machines: what the host asks for, and what is there.

use serde_json::{Map, Value, json};

use crate::runner::bindings::exports::mst::plugin::machine as wire;
use crate::{Error, options};

/// What the shard on a machine will do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// Run trials.
    Collect,
    /// Grade them.
    Grade,
}

/// A machine that the host wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Minted by the host and unique: a DNS label of at most 63 characters. The machine must bear
    /// it, so that it is found by name alone. In a template it is `{machine}`.
    pub name: String,
    /// The run that it is for; a DNS label too. In a template it is `{run}`.
    pub run: String,
    /// Which shard of the run, from 0.
    pub shard: u32,
    /// Of how many.
    pub shards: u32,
    /// What will be done there.
    pub work: Work,
}

/// The image that a machine was made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// What the user asked for, as `debian:12`.
    pub reference: String,
    /// What it resolved to, as `sha256:…`.
    pub digest: String,
}

/// A machine that is there.
#[derive(Debug, Clone, PartialEq)]
pub struct Machine {
    /// As it was asked for.
    pub name: String,
    /// The plugin's own words, at most 16 KiB: whatever the calls to come must know. The host
    /// records it, so no secret may stand in it. `slots` in it is for the ready-made channels, see
    /// [`Machine::slot`].
    pub handle: Value,
    /// An absolute directory on the machine that is the host's to use: it makes it where it is
    /// missing, and puts nothing anywhere else. At most 256 bytes of `A-Z a-z 0-9 . _ - /`.
    pub root: String,
    /// What it was made from, where that is an image.
    pub image: Option<Image>,
}

impl Machine {
    /// The machine that was asked for, with the host's directory there and an empty handle.
    pub fn new(request: &Request, root: impl Into<String>) -> Self {
        Self { name: request.name.clone(), handle: json!({}), root: root.into(), image: None }
    }

    /// The same machine with what it was made from.
    pub fn image(mut self, reference: impl Into<String>, digest: impl Into<String>) -> Self {
        self.image = Some(Image { reference: reference.into(), digest: digest.into() });
        self
    }

    /// The same machine with this member in its handle, which becomes an object where it is none.
    pub fn with(mut self, member: &str, value: impl Into<Value>) -> Self {
        object(&mut self.handle).insert(member.to_owned(), value.into());
        self
    }

    /// The same machine with this value for a slot that stands in every template of its channel,
    /// as an `engine` that may be one of two. It is kept in the handle, as `slots`.
    pub fn slot(mut self, name: &str, value: impl Into<String>) -> Self {
        let slots = object(&mut self.handle).entry("slots").or_insert_with(|| json!({}));
        object(slots).insert(name.to_owned(), Value::String(value.into()));
        self
    }

    /// The text of this member of the handle, where it is a text.
    pub fn text(&self, member: &str) -> Option<&str> {
        self.handle.get(member)?.as_str()
    }

    /// The slots that [`Machine::slot`] set.
    pub(crate) fn slots(&self) -> impl Iterator<Item = (&str, &str)> {
        let slots = self.handle.get("slots").and_then(Value::as_object).into_iter().flatten();
        slots.filter_map(|(name, value)| Some((name.as_str(), value.as_str()?)))
    }
}

fn object(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = json!({});
    }
    value.as_object_mut().expect("made one above")
}

impl From<wire::MachineRequest> for Request {
    fn from(asked: wire::MachineRequest) -> Self {
        let work = match asked.work {
            wire::Work::Collect => Work::Collect,
            wire::Work::Grade => Work::Grade,
        };
        Self { name: asked.name, run: asked.run, shard: asked.shard, shards: asked.shards, work }
    }
}

impl From<Machine> for wire::Machine {
    fn from(made: Machine) -> Self {
        Self { name: made.name, handle: made.handle.to_string(), root: made.root, image: made.image }
    }
}

impl TryFrom<wire::Machine> for Machine {
    type Error = Error;

    fn try_from(machine: wire::Machine) -> Result<Self, Error> {
        let handle = read_handle(&machine.handle)?;
        Ok(Self { name: machine.name, handle, root: machine.root, image: machine.image })
    }
}

/// A handle as the host kept it. It was the plugin's own, so that a fault in it is the host's.
pub(crate) fn read_handle(json: &str) -> Result<Value, Error> {
    options::parse_options(json)
        .map_err(|error: Error| Error::failed(format!("the host gave back another handle: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_is_kept_as_it_was() {
        let request =
            Request { name: "mst-r-0".into(), run: "r".into(), shard: 0, shards: 1, work: Work::Collect };
        let machine = Machine::new(&request, "/m")
            .slot("engine", "podman")
            .with("id", "abc")
            .slot("zone", "eu")
            .image("a:1", "sha256:00");
        assert_eq!(machine.handle, json!({"id": "abc", "slots": {"engine": "podman", "zone": "eu"}}));
        let back = Machine::try_from(wire::Machine::from(machine.clone())).expect("reads");
        assert_eq!(back, machine);
        assert_eq!(back.slots().collect::<Vec<_>>(), [("engine", "podman"), ("zone", "eu")]);
        assert_eq!((back.text("id"), back.text("slots"), back.text("no")), (Some("abc"), None, None));
        let odd = Machine { handle: json!(["a"]), ..machine };
        assert_eq!(odd.slots().count(), 0);
        assert_eq!(odd.slot("a", "b").handle, json!({"slots": {"a": "b"}}));
    }
}
