//! The simple commands of a shell's text, as words with slots in them, as far as a glance tells: what is
//! quoted is one word, and what a variable holds stands as a slot.

use crate::template::{Element, Part, Slot, SlotType};

/// What makes a word be read again: it may quote a text. Whatever follows a place's sign is read so too.
const QUOTES: &str = "(`;|&<>";

/// The commands of a text, and of what its words and the places of its streams quote. `variable` is what a
/// variable of the text's counts as.
pub(super) fn commands(text: &Element, variable: &SlotType) -> Vec<Vec<Element>> {
    let mut out = Vec::new();
    // What a word quotes is shorter than the text that it stands in, or is all of it.
    let mut texts = vec![text.parts.clone()];
    while let Some(parts) = texts.pop() {
        let mut reader =
            Reader { variable, commands: vec![Vec::new()], word: None, places: Vec::new(), is_place: false };
        reader.read(&parts);
        for word in reader.commands.iter().flatten().chain(&reader.places) {
            if quotes(word) && word.parts != parts {
                texts.push(word.parts.clone());
            }
        }
        out.extend(reader.commands.into_iter().filter(|words| !words.is_empty()));
    }
    out
}

/// Whether a word may quote a text, of which it is read again.
pub(super) fn quotes(word: &Element) -> bool {
    let divides = |c: char| c.is_whitespace() || QUOTES.contains(c);
    word.parts.iter().any(|part| matches!(part, Part::Literal(text) if text.contains(divides)))
}

struct Reader<'a> {
    variable: &'a SlotType,
    commands: Vec<Vec<Element>>,
    word: Option<Vec<Part>>,
    /// Where streams go.
    places: Vec<Element>,
    /// Whether the next word is where a stream goes, and no argument.
    is_place: bool,
}

impl Reader<'_> {
    fn read(&mut self, parts: &[Part]) {
        let mut quote = None;
        for part in parts {
            match part {
                Part::Slot(slot) => self.part(Part::Slot(slot.clone())),
                Part::Literal(text) => self.text(text, &mut quote),
            }
        }
        self.end_command();
    }

    fn text(&mut self, text: &str, quote: &mut Option<char>) {
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            match (*quote, c) {
                (Some(open), _) if c == open => *quote = None,
                (Some('\''), _) => self.push(c),
                (_, '\\') => match chars.next() {
                    Some('\n') | None => {}
                    Some(escaped) => self.push(escaped),
                },
                (_, '$') => {
                    let in_braces = chars.next_if_eq(&'{').is_some();
                    let is_name = |c: &char| c.is_ascii_alphanumeric() || "_@*#".contains(*c);
                    let name: String = std::iter::from_fn(|| chars.next_if(is_name)).collect();
                    chars.next_if(|c| in_braces && *c == '}');
                    self.variable(&name, quote.is_some());
                }
                (Some(_), _) => self.push(c),
                (None, '\'' | '"') => {
                    *quote = Some(c);
                    self.word.get_or_insert_default();
                }
                (None, '#') if self.word.is_none() => while chars.next_if(|c| *c != '\n').is_some() {},
                (None, '<' | '>') => {
                    self.redirect();
                    // `>&2` is no end of a command.
                    while chars.next_if(|c| matches!(c, '&' | '<' | '>')).is_some() {}
                }
                (None, ';' | '|' | '&' | '\n' | '(' | ')' | '`') => self.end_command(),
                (None, _) if c.is_whitespace() => self.end_word(),
                (None, _) => self.push(c),
            }
        }
    }

    fn variable(&mut self, name: &str, is_quoted: bool) {
        match name {
            // A blank by another name.
            "IFS" if is_quoted => self.push(' '),
            "IFS" => self.end_word(),
            _ => {
                let name = "$".to_owned();
                self.part(Part::Slot(Slot { name, kind: self.variable.clone(), many: true }));
            }
        }
    }

    fn push(&mut self, c: char) {
        let word = self.word.get_or_insert_default();
        match word.last_mut() {
            Some(Part::Literal(text)) => text.push(c),
            _ => word.push(Part::Literal(c.into())),
        }
    }

    fn part(&mut self, part: Part) {
        self.word.get_or_insert_default().push(part);
    }

    fn end_word(&mut self) {
        let Some(parts) = self.word.take() else { return };
        let word = Element { source: String::new(), optional: false, parts };
        if std::mem::take(&mut self.is_place) {
            self.places.push(word);
        } else if let Some(command) = self.commands.last_mut() {
            command.push(word);
        }
    }

    fn redirect(&mut self) {
        let is_stream = |parts: &mut Vec<Part>| matches!(parts.as_slice(), [Part::Literal(text)] if text.bytes().all(|c| c.is_ascii_digit()));
        // The number of a stream.
        self.word.take_if(is_stream);
        self.end_word();
        self.is_place = true;
    }

    fn end_command(&mut self) {
        self.end_word();
        self.is_place = false;
        self.commands.push(Vec::new());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_read_as_a_shell_would_divide_it() {
        let read = |text: &str| {
            let parts = vec![Part::Literal(text.to_owned())];
            let text = Element { source: String::new(), optional: false, parts };
            let word = |word: &Element| {
                let part = |part: &Part| match part {
                    Part::Literal(text) => text.clone(),
                    Part::Slot(_) => "…".to_owned(),
                };
                word.parts.iter().map(part).collect::<String>()
            };
            let line = |words: &Vec<Element>| words.iter().map(word).collect::<Vec<_>>().join("|");
            commands(&text, &SlotType::Run).iter().map(line).collect::<Vec<_>>().join(" ; ")
        };
        for (text, words) in [
            ("a b; c", "a|b ; c"),
            ("a 'b; c' d", "a|b; c|d ; b ; c"),
            ("a \"b c\" d", "a|b c|d ; b|c"),
            (r#"sh -c "docker run $1" x"#, "sh|-c|docker run …|x ; docker|run|…"),
            (r#"x="$(docker run y)""#, "x=…(docker run y) ; x=… ; docker|run|y"),
            ("a ${x} $y/z `b c`", "a|…|…/z ; b|c"),
            ("a >&2 b 2>&1 c >> d <e f", "a|b|c|f"),
            ("a >; b 2> c", "a ; b"),
            (r#"a >"$(b c)""#, "a ; … ; b|c"),
            ("a <<<'b;c' >d", "a ; b ; c"),
            ("a \"`b</c`\"", "a|`b</c` ; b"),
            (r#"a "$(b${IFS}c$IFS"d e")""#, "a|…(b c d|e) ; … ; b|c|d"),
            ("a$IFS\"b${IFS}c\"", "a|b c ; b|c"),
            ("a \\\n b\\ c # it's\nd", "a|b c ; d ; b|c"),
            ("a && b || c | d & e", "a ; b ; c ; d ; e"),
            ("'a", "a"),
            ("' a b'", " a b ; a|b"),
            ("", ""),
        ] {
            assert_eq!(read(text), words, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_to_its_end(text in "[ab $'\"\\\\`();|&<>#\n]{0,48}") {
            let parts = vec![Part::Literal(text.clone())];
            let element = Element { source: String::new(), optional: false, parts };
            for word in commands(&element, &SlotType::Run).iter().flatten() {
                for part in &word.parts {
                    let Part::Literal(literal) = part else { continue };
                    let mut chars = text.chars();
                    proptest::prop_assert!(literal.chars().all(|c| chars.any(|own| own == c)), "{literal:?}");
                }
            }
        }
    }
}
