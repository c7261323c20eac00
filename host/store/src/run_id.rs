//! Names for new runs.

use jiff::Timestamp;
use mst_model::RunId;

/// 32 characters, none of which looks like another.
const ALPHABET: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";

/// The most characters of chance: more would be no DNS label.
const MAX_RANDOM: usize = 32;

/// `20261130-015240-k3f9`: `now` to the second in UTC, so that names sort by age, and one
/// character for each byte of `random` (5 bits of it; bytes after the 32nd add none). Before 1970
/// counts as 1970.
pub fn new_run_id<const N: usize>(now: Timestamp, random: [u8; N]) -> RunId {
    let mut text = now.max(Timestamp::UNIX_EPOCH).strftime("%Y%m%d-%H%M%S").to_string();
    if N > 0 {
        text.push('-');
    }
    for byte in random.iter().take(MAX_RANDOM) {
        text.push(char::from(ALPHABET[usize::from(byte % 32)]));
    }
    text.parse().unwrap_or_else(|_| unreachable!("digits, `-` and the alphabet make a run's name"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_sort_by_age_and_are_names() {
        let at = |text: &str| text.parse::<Timestamp>().expect("a time");
        let id = new_run_id(at("2026-11-30T01:52:40.9Z"), [10, 26, 5, 255]);
        assert_eq!(id.as_str(), "20261130-015240-k4f9");
        assert_eq!(new_run_id(at("2026-11-30T01:52:40Z"), []).as_str(), "20261130-015240");
        for extreme in [Timestamp::MIN, Timestamp::MAX] {
            assert!(new_run_id(extreme, [7; 100]).as_str().len() <= 64);
        }
    }
}
