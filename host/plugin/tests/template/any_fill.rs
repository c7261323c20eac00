//! The rule that holds for any template and whatever a plugin fills in: nothing comes out that the
//! template does not admit. The crate's property test and a fuzz target share it.
//!
//! What is admitted is said here a second time, from the design and not from the code: each argument
//! must fit, in order, an expression made from an element of the manifest's argv.

use mst_plugin::template::{HostValues, Part, Place, Slot, SlotType, Template};
use regex_lite::{Regex, escape};

/// Between the elements of a template, and between the parts of a slot's line.
const UNIT: char = '\u{1f}';
/// Between templates and slots, and between slots.
const RECORD: char = '\u{1e}';

/// Reads `bytes` as a template and slots, `ELEMENT␟ELEMENT…␞NAME␟VALUE␟VALUE…␞NAME…`, fills the one
/// with the others, and holds what comes out to the rule. Says whether something came out.
pub(crate) fn hold(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let mut records = text.split(RECORD);
    let argv: Vec<&str> = records.next().unwrap_or_default().split(UNIT).collect();
    let slots: Vec<(String, Vec<String>)> = records
        .map(|record| {
            let mut parts = record.split(UNIT).map(str::to_owned);
            (parts.next().unwrap_or_default(), parts.collect())
        })
        .collect();
    let mut filled = false;
    for place in [Place::Exec, Place::Workspace] {
        let Ok(template) = Template::parse(&argv, place) else { continue };
        let Ok(out) = template.fill(&slots, &options(), &host()) else { continue };
        check(&template, &out);
        filled = true;
    }
    filled
}

/// The user's: plain, so that whatever is not plain in an argument is the plugin's doing.
fn options() -> serde_json::Value {
    serde_json::json!({"word": "word", "list": ["one", "two"], "none": [], "number": 7})
}

fn host() -> HostValues {
    HostValues {
        machine: Some("mst-run-0".to_owned()),
        run: Some("run".to_owned()),
        directories: [("dir".to_owned(), "/host/dir".to_owned())].into(),
        command: Some(vec!["prog".to_owned(), "arg".to_owned()]),
    }
}

fn check(template: &Template, out: &[String]) {
    let elements: Vec<(Regex, bool)> = template
        .elements()
        .iter()
        .map(|element| {
            let text: String = element.parts.iter().map(part).collect();
            let several = element.whole().is_some_and(takes_several);
            (Regex::new(&format!(r"\A(?:{text})\z")).expect("an expression"), several)
        })
        .collect();
    assert!(fits(&elements, out), "{:?} gives {out:?}", template.argv());
    for argument in out {
        assert!(!argument.chars().any(char::is_control), "a control character in {argument:?}");
        if argument.starts_with('-') {
            let may = template.elements().iter().any(|element| match element.parts.first() {
                Some(Part::Literal(text)) => argument.starts_with(text.as_str()) && text.starts_with('-'),
                Some(Part::Slot(Slot { kind: SlotType::Enum(words), .. })) => {
                    words.iter().any(|word| argument.starts_with(word.as_str()))
                }
                _ => false,
            });
            assert!(may, "{argument:?} looks like an option of {:?}", template.argv());
        }
    }
    let program = out.first().expect("a program");
    let programs = template.programs();
    assert!(
        programs.contains(&program.as_str())
            || (programs.is_empty() && ["word", "one", "7"].contains(&program.as_str())),
        "{program:?} is no program of {:?}",
        template.argv()
    );
}

fn takes_several(slot: &Slot) -> bool {
    slot.many || matches!(slot.kind, SlotType::CommandArgs | SlotType::Option(_))
}

fn part(part: &Part) -> String {
    let slot = match part {
        Part::Literal(text) => return escape(text),
        Part::Slot(slot) => slot,
    };
    match &slot.kind {
        SlotType::Ident => "[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}".to_owned(),
        SlotType::Uint { .. } => "(?:0|[1-9][0-9]{0,19})".to_owned(),
        SlotType::Quantity => "[0-9]{1,15}(?:[.][0-9]{1,6})?[A-Za-z]{0,3}".to_owned(),
        SlotType::Enum(words) => {
            format!("(?:{})", words.iter().map(|word| escape(word)).collect::<Vec<_>>().join("|"))
        }
        SlotType::OciRef => "[A-Za-z0-9_][A-Za-z0-9_./:@+-]{0,511}".to_owned(),
        SlotType::MachinePath => "(?:/|(?:/[A-Za-z0-9_.+=,@%-]{1,255})+/?)".to_owned(),
        SlotType::Text(pattern) => format!("(?:{})", pattern.as_str()),
        SlotType::Option(_) => "(?:word|one|two|7)".to_owned(),
        SlotType::Machine => "mst-run-0".to_owned(),
        SlotType::Run => "run".to_owned(),
        SlotType::HostDir => "/host/dir".to_owned(),
        SlotType::CommandArgs => "(?:prog|arg)".to_owned(),
        SlotType::CommandShell => "prog arg".to_owned(),
    }
}

/// Whether the arguments come from the elements in order, each from one; an element gives none, one,
/// or where it takes several so many.
fn fits(elements: &[(Regex, bool)], out: &[String]) -> bool {
    // Positions in `out` that the elements so far can have reached.
    let mut reached = vec![false; out.len() + 1];
    reached[0] = true;
    for (regex, several) in elements {
        let mut next = reached.clone();
        for at in 0..out.len() {
            let from = reached[at] || (*several && next[at]);
            if from && regex.is_match(&out[at]) {
                next[at + 1] = true;
            }
        }
        reached = next;
    }
    reached[out.len()]
}
