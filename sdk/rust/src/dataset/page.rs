//! From an iterator of cases to the pages of a cursor.

use crate::dataset::bindings::exports::mst::plugin::cases as wire;
use crate::{Case, Error};

/// Bytes of cases after which a page ends, whatever the host's limit: a page is held twice,
/// here and as the host copies it out.
const PAGE_BYTES: usize = 4 << 20;

/// The pages of an iterator. It ends for good at the iterator's end or first error.
pub(crate) struct Pages<I> {
    cases: Option<I>,
}

impl<I: Iterator<Item = Result<Case, Error>>> Pages<I> {
    pub(crate) fn new(cases: I) -> Self {
        Self { cases: Some(cases) }
    }

    /// The next at most `limit` cases; none at the end.
    pub(crate) fn next(&mut self, limit: u32) -> Result<Vec<wire::EvalCase>, Error> {
        let mut page = Vec::new();
        let mut bytes = 0;
        while let Some(cases) = &mut self.cases
            && page.len() < limit as usize
            && bytes < PAGE_BYTES
        {
            match cases.next() {
                Some(Ok(case)) => {
                    let case = to_wire(case);
                    bytes += weight(&case);
                    page.push(case);
                }
                Some(Err(error)) => {
                    self.cases = None;
                    return Err(error);
                }
                None => self.cases = None,
            }
        }
        Ok(page)
    }
}

fn to_wire(case: Case) -> wire::EvalCase {
    wire::EvalCase {
        id: case.id,
        prompt: case
            .prompt
            .into_iter()
            .map(|it| wire::Message { role: it.role.as_str().to_owned(), content: it.content })
            .collect(),
        files: case
            .files
            .into_iter()
            .map(|it| wire::File { path: it.path, content: it.content, executable: it.executable })
            .collect(),
        expected: case.expected.map(|it| it.to_string()),
        tags: case.tags,
        metadata: serde_json::Value::Object(case.metadata).to_string(),
        deadline_ms: case.deadline_ms,
    }
}

/// The bytes of a case's texts and files.
fn weight(case: &wire::EvalCase) -> usize {
    let prompt: usize = case.prompt.iter().map(|message| message.content.len()).sum();
    let files: usize = case.files.iter().map(|file| file.path.len() + file.content.len()).sum();
    let tags: usize = case.tags.iter().map(String::len).sum();
    case.id.len()
        + prompt
        + files
        + tags
        + case.metadata.len()
        + case.expected.as_ref().map_or(0, String::len)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cases(count: usize) -> impl Iterator<Item = Result<Case, Error>> {
        (0..count).map(|n| Ok(Case::new(n.to_string(), "q")))
    }

    fn sizes<I: Iterator<Item = Result<Case, Error>>>(mut pages: Pages<I>, limit: u32) -> Vec<usize> {
        std::iter::repeat_with(|| pages.next(limit).expect("no error").len())
            .take_while(|&size| size > 0)
            .collect()
    }

    #[test]
    fn pages_are_full_but_the_last() {
        assert_eq!(sizes(Pages::new(cases(7)), 3), [3, 3, 1]);
        assert_eq!(sizes(Pages::new(cases(6)), 3), [3, 3]);
        assert_eq!(sizes(Pages::new(cases(0)), 3), [0; 0]);
    }

    #[test]
    fn heavy_cases_make_short_pages() {
        let heavy = (0..3).map(|n| Ok(Case::new(n.to_string(), "x".repeat(3 << 20))));
        assert_eq!(sizes(Pages::new(heavy), 1000), [2, 1]);
        let heavy = (0..3).map(|n| Ok(Case::new(n.to_string(), "q").with_expected("x".repeat(3 << 20))));
        assert_eq!(sizes(Pages::new(heavy), 1000), [2, 1]);
    }

    #[test]
    fn nothing_comes_after_an_error() {
        let mut pages = Pages::new(cases(1).chain([Err(Error::failed("no"))]).chain(cases(1)));
        assert_eq!(pages.next(1).expect("the first").len(), 1);
        assert_eq!(pages.next(1).err(), Some(Error::failed("no")));
        assert!(pages.next(1).expect("the end").is_empty());
    }
}
