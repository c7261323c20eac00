//! Names as components of a path.
//!
//! A case's id is the dataset's own words; its directory's name must be one component, on any
//! file system, and no other case's. `HumanEval/0` becomes `HumanEval%2F0=21`:
//!
//! - `A-Z a-z 0-9 . _ -` stand as they are, any other byte as `%XX`. So does a dot at either
//!   end (no `.`, no `..`, nothing hidden, nothing that Windows would trim) and the first
//!   character of a name that Windows keeps for a device.
//! - A name with capitals gets `=` and, in hexadecimal, which of its letters they are (bit 0 is
//!   the first letter), for a file system may hold `Ab` and `aB` to be one name.
//! - A name longer than 150 bytes is cut, and gets `+` and 16 digits of the id's SHA-256.
//!
//! `%`, `=` and `+` are escaped themselves, so two names that differ in no more than their
//! letters' case come from one id; only between two cut names do 64 bits of SHA-256 stand for
//! that. [`CasesWriter`](crate::CasesWriter) refuses a dataset in which they are not enough.

use mst_model::{CaseId, Digest};

/// The longest name, in bytes.
pub const MAX_BYTES: usize = 150;

/// Digits of SHA-256 at the end of a name that was cut.
const HASH_DIGITS: usize = 16;

/// The name of a case's directory.
pub fn escape(id: &CaseId) -> String {
    component(id.as_str())
}

/// [`escape`] for any text that is not empty. The ids of variants and judges change only where
/// Windows has a device of that name.
pub(crate) fn component(text: &str) -> String {
    use std::fmt::Write as _;

    let device = is_device(text);
    let last = text.len().saturating_sub(1);
    let mut name = String::with_capacity(text.len() + 8);
    let mut letters = 0;
    let mut capitals: u128 = 0;
    // Too many letters for the mask is as good as too long.
    let mut fits = true;
    for (at, byte) in text.bytes().enumerate() {
        let plain = match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'-' => !(device && at == 0),
            b'.' => at != 0 && at != last,
            _ => false,
        };
        if !plain {
            // Writing to a String does not fail.
            let _ = write!(name, "%{byte:02X}");
            continue;
        }
        name.push(char::from(byte));
        if byte.is_ascii_alphabetic() {
            if byte.is_ascii_uppercase() {
                match 1u128.checked_shl(letters) {
                    Some(bit) => capitals |= bit,
                    None => fits = false,
                }
            }
            letters += 1;
        }
    }
    let body = name.len();
    if capitals != 0 {
        let _ = write!(name, "={capitals:x}");
    }
    if fits && name.len() <= MAX_BYTES {
        return name;
    }
    let mut end = body.min(MAX_BYTES - 1 - HASH_DIGITS);
    // Half a `%XX` would be no harm, only ugly.
    if let Some(percent) = name[..end].rfind('%')
        && percent + 3 > end
    {
        end = percent;
    }
    name.truncate(end);
    name.push('+');
    name.push_str(&Digest::of(text.as_bytes()).hex()[..HASH_DIGITS]);
    name
}

/// Whether Windows takes `text` for a device, whatever stands after its first dot.
fn is_device(text: &str) -> bool {
    let stem = text.split('.').next().unwrap_or_default();
    match stem.len() {
        3 => ["con", "prn", "aux", "nul"].iter().any(|device| stem.eq_ignore_ascii_case(device)),
        4 if stem.is_ascii() => {
            let (device, digit) = stem.split_at(3);
            digit.bytes().all(|digit| digit.is_ascii_digit())
                && (device.eq_ignore_ascii_case("com") || device.eq_ignore_ascii_case("lpt"))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn escaped(id: &str) -> String {
        escape(&id.parse().expect("a case id"))
    }

    /// The id that an uncut name came from, whatever case a file system made of it.
    fn unescape(name: &str) -> Vec<u8> {
        let name = name.to_ascii_lowercase();
        let (body, capitals) = name.split_once('=').unwrap_or((&name, "0"));
        let capitals = u128::from_str_radix(capitals, 16).expect("a mask");
        let (mut bytes, mut letters) = (Vec::new(), 0);
        let mut rest = body.bytes();
        while let Some(byte) = rest.next() {
            if byte == b'%' {
                let digits = [rest.next().expect("a digit"), rest.next().expect("a digit")];
                let digits = std::str::from_utf8(&digits).expect("ascii");
                bytes.push(u8::from_str_radix(digits, 16).expect("hexadecimal"));
            } else if byte.is_ascii_alphabetic() {
                let capital = capitals >> letters & 1 == 1;
                bytes.push(if capital { byte.to_ascii_uppercase() } else { byte });
                letters += 1;
            } else {
                bytes.push(byte);
            }
        }
        bytes
    }

    #[test]
    fn names_stay_readable() {
        assert_eq!(escaped("case-17_b.v2"), "case-17_b.v2");
        assert_eq!(escaped("HumanEval/0"), "HumanEval%2F0=21");
        assert_eq!(escaped("a b"), "a%20b");
        assert_eq!(escaped("é"), "%C3%A9");
    }

    #[test]
    fn wicked_ids_are_tame_names() {
        assert_eq!(escaped("."), "%2E");
        assert_eq!(escaped(".."), "%2E%2E");
        assert_eq!(escaped("../../etc/passwd"), "%2E.%2F..%2Fetc%2Fpasswd");
        assert_eq!(escaped(".hidden"), "%2Ehidden");
        assert_eq!(escaped("dot."), "dot%2E");
        assert_eq!(escaped("space "), "space%20");
        assert_eq!(escaped("a\\b:c*?\"<>|"), "a%5Cb%3Ac%2A%3F%22%3C%3E%7C");
        assert_eq!(escaped("con"), "%63on");
        assert_eq!(escaped("CON"), "%43ON=3");
        assert_eq!(escaped("nul.tar.gz"), "%6Eul.tar.gz");
        assert_eq!(escaped("Com1.txt"), "%43om1.txt");
        assert_eq!(escaped("lpt0"), "%6Cpt0");
        assert_eq!(escaped("console"), "console");
        assert_eq!(escaped("com10"), "com10");
        assert_eq!(escaped("comé"), "com%C3%A9");
    }

    #[test]
    fn long_ids_are_cut_and_stay_apart() {
        let long = "x".repeat(200);
        let (a, b) = (escaped(&format!("{long}a")), escaped(&format!("{long}b")));
        assert_eq!((a.len(), b.len()), (150, 150));
        assert_ne!(a, b);
        assert_eq!(escaped(&"x".repeat(150)), "x".repeat(150));
        assert_ne!(
            escaped(&"x".repeat(200)).to_ascii_lowercase(),
            escaped(&"X".repeat(200)).to_ascii_lowercase()
        );
        assert!(escaped(&"é".repeat(128)).contains("%A9+"));
    }

    proptest! {
        #[test]
        fn one_component_that_names_one_id(id in "\\PC{1,60}") {
            prop_assume!(id.len() <= CaseId::MAX_BYTES);
            let name = escaped(&id);
            prop_assert!(!name.is_empty() && name.len() <= MAX_BYTES);
            prop_assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-%=+".contains(&byte)));
            prop_assert!(!name.starts_with('.') && !name.ends_with('.'));
            prop_assert!(!is_device(&name));
            match name.rsplit_once('+') {
                Some((_, hash)) => prop_assert_eq!(hash, &Digest::of(id.as_bytes()).hex()[..16]),
                None => prop_assert_eq!(unescape(&name), id.as_bytes()),
            }
        }

        #[test]
        fn ids_of_few_letters_meet_only_themselves(
            a in "[aA.%=+1/ ]{1,12}",
            b in "[aA.%=+1/ ]{1,12}",
        ) {
            prop_assert_eq!(a == b, escaped(&a).eq_ignore_ascii_case(&escaped(&b)));
        }
    }
}
