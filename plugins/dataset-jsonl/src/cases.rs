//! The file's cases, one after the other.

use std::io::Read;

use mst_sdk::dataset::{Case, Error};

use crate::array::Items;
use crate::element::Element;
use crate::fault::{Fault, unreadable};
use crate::input;
use crate::lines::Lines;
use crate::mapping::Mapping;
use crate::options::Format;

/// The cases, in the order of the file.
pub(crate) struct Cases {
    name: String,
    gzip: bool,
    elements: Box<dyn Iterator<Item = Result<Element, Fault>>>,
    mapping: Mapping,
    any: bool,
    ended: bool,
}

impl Cases {
    /// Looks at the beginning of the file; `name` is what messages call it.
    pub(crate) fn new(
        name: String,
        file: impl Read + 'static,
        format: Format,
        mapping: Mapping,
    ) -> Result<Self, Error> {
        let (gzip, text) = input::unpack(file).map_err(|error| unreadable(&name, false, "", &error))?;
        let input = input::begin(text).map_err(|error| unreadable(&name, gzip, "", &error))?;
        let array = match format {
            Format::Auto => input.array,
            Format::Jsonl => false,
            Format::Json => true,
        };
        let elements: Box<dyn Iterator<Item = _>> =
            if array { Box::new(Items::new(input.text)) } else { Box::new(Lines::new(input.text)) };
        Ok(Self { name, gzip, elements, mapping, any: false, ended: false })
    }

    fn read(&mut self) -> Result<Option<Case>, Error> {
        match self.elements.next() {
            Some(element) => {
                self.any = true;
                let case = element.and_then(|element| {
                    let object = element.parse()?;
                    self.mapping.case(&object).map_err(|what| Fault::in_line(element.line, what))
                });
                case.map(Some).map_err(|fault| fault.in_file(&self.name, self.gzip))
            }
            None => {
                self.ended = true;
                match self.mapping.never_seen() {
                    Some(what) if self.any => Err(Error::invalid(format!("`{}`: {what}", self.name))),
                    _ => Ok(None),
                }
            }
        }
    }
}

impl Iterator for Cases {
    type Item = Result<Case, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let case = self.read();
        self.ended |= case.is_err();
        case.transpose()
    }
}

#[cfg(test)]
mod tests;
