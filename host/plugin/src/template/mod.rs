//! Command templates: the whole of what a plugin can execute.
//!
//! An argv of literals and typed slots. `parse` is the one parser and `fill` the one matcher, and
//! there is no way from a plugin's text to a command line but through both. DESIGN.md, "A command
//! template".
//!
//! The grammar of one element:
//! - text stands for itself; `{{` and `}}` are a brace each;
//! - `{name:type}` is a slot, with text around it or without;
//! - `{name:type...}` takes any number of values, each an argument of its own, and is a whole element;
//! - `{machine}`, `{run}`, `{command...}`, `{command:shell}` and `{name:host-dir}` are filled by the host;
//! - `{option(NAME)}` is the user's own option, put in by the host; an array of strings there
//!   is so many arguments;
//! - the first element is the program: text, `{name:enum(a|b)}` or `{option(NAME)}`;
//! - in an element with several slots the plugin can't move the place where two of them meet;
//! - `[…]` around a whole element leaves it out when its slots are empty; `[[` at the start
//!   is a bracket.

mod fill;
mod parse;
mod slot;

pub use fill::{FillError, HostValues};
pub use parse::TemplateError;
pub use slot::{Filler, Pattern, SlotType};

/// Where a template runs, which decides what it may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// `[[exec]]`: on the host, in an empty directory.
    Exec,
    /// `[[workspace]]`: in a restored copy of a trial's workspace.
    Workspace,
}

/// A command with typed slots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    elements: Vec<Element>,
}

/// One element of a template's argv.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Element {
    /// As it stands in the manifest.
    pub source: String,
    /// Whether it is in `[…]`.
    pub optional: bool,
    /// Its text and slots, in order; none for an empty argument.
    pub parts: Vec<Part>,
}

/// A piece of an element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Text that stands for itself.
    Literal(String),
    /// Something to fill in.
    Slot(Slot),
}

/// Something to fill in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    /// What the plugin calls it. For an option slot without a name of its own, the option's.
    pub name: String,
    /// What it admits.
    pub kind: SlotType,
    /// Whether it takes any number of values.
    pub many: bool,
}

impl Template {
    /// The longest argv of a manifest.
    pub const MAX_ELEMENTS: usize = 128;
    /// The longest element of a manifest, and the longest value that a plugin fills in.
    pub const MAX_BYTES: usize = 4 * 1024;

    /// Reads an argv as it stands in a manifest.
    pub fn parse<S: AsRef<str>>(argv: &[S], place: Place) -> Result<Template, TemplateError> {
        parse::parse(argv, place)
    }

    /// The elements, the program first.
    pub fn elements(&self) -> &[Element] {
        &self.elements
    }

    /// The argv as it stands in the manifest.
    pub fn argv(&self) -> Vec<&str> {
        self.elements.iter().map(|element| element.source.as_str()).collect()
    }

    /// The programs that it may start: one, or as many as the plugin may choose from; none where
    /// it is the user's option.
    pub fn programs(&self) -> Vec<&str> {
        match self.elements.first().map(|element| element.parts.as_slice()) {
            Some([Part::Literal(program)]) => vec![program],
            Some([Part::Slot(Slot { kind: SlotType::Enum(programs), .. })]) => {
                programs.iter().map(String::as_str).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Every slot, in order; one that stands twice comes twice.
    pub fn slots(&self) -> impl Iterator<Item = &Slot> {
        self.elements.iter().flat_map(Element::slots)
    }

    /// The argv for these values.
    ///
    /// `slots` are the plugin's: each slot at most once, with one value, or several where the slot
    /// takes several; none is as good as not named. `options` is the user's options, an object.
    /// No argument comes back that the template does not admit, whatever the plugin says.
    pub fn fill(
        &self,
        slots: &[(String, Vec<String>)],
        options: &serde_json::Value,
        host: &HostValues,
    ) -> Result<Vec<String>, FillError> {
        fill::fill(self, slots, options, host)
    }
}

impl Element {
    /// Its slots, in order.
    pub fn slots(&self) -> impl Iterator<Item = &Slot> {
        self.parts.iter().filter_map(|part| match part {
            Part::Slot(slot) => Some(slot),
            Part::Literal(_) => None,
        })
    }

    /// The slot, where the element is nothing else.
    pub fn whole(&self) -> Option<&Slot> {
        match self.parts.as_slice() {
            [Part::Slot(slot)] => Some(slot),
            _ => None,
        }
    }
}
