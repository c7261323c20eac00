//! The fuzz target's rule without a fuzzer: over what is kept beside it, and over random bytes.

use std::fs;
use std::path::Path;

use proptest::prelude::*;

use crate::any_bytes::hold;

#[test]
fn what_was_found_once_holds() {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fuzz");
    let mut held = 0;
    // The first is in the repository, the others are where somebody fuzzed.
    for folder in ["seeds/codec", "corpus/codec", "artifacts/codec"] {
        for entry in fs::read_dir(fuzz.join(folder)).into_iter().flatten() {
            hold(&fs::read(entry.expect("lists").path()).expect("reads"));
            held += 1;
        }
    }
    assert!(held > 0, "no seeds in `{}`", fuzz.display());
}

#[test]
fn long_lines_hold() {
    const MAX: usize = mst_protocol::MAX_LINE_BYTES;
    for size in [MAX - 1, MAX, MAX + 1, MAX + 300] {
        for tail in [&b""[..], b"\n", b"\n{}\n"] {
            hold(&[&[255][..], b"one\n", &vec![b'x'; size], tail].concat());
        }
    }
    // Short as lists, too long as objects.
    let trial = r#"[["a","v",0],1,2],"#.repeat(50_000);
    hold(
        format!("x{{\"seq\":1,\"type\":\"heartbeat\",\"trials\":[{}]}}\n", trial.trim_end_matches(','))
            .as_bytes(),
    );
}

/// Pieces of which messages are made, so that random lines get somewhere.
fn nearly_a_line() -> impl Strategy<Value = Vec<u8>> {
    const PIECES: &[&str] = &[
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\n",
        "\"type\":",
        "\"seq\":",
        "\"hello\"",
        "\"heartbeat\"",
        "\"cancel\"",
        "\"done\"",
        "\"granted\"",
        "\"waits\"",
        "\"tokens\"",
        "\"need-tokens\"",
        "\"value\":",
        "\"acquire\"",
        "\"trial\":",
        "\"trials\":",
        "\"why\":",
        "\"grace_ms\":",
        "\"clean\":",
        "true",
        "null",
        "1",
        "-1",
        "1e3",
        "18446744073709551616",
        "\"\\u0000\"",
        "\"\\ud800\"",
        "\"a\"",
        "\u{feff}",
    ];
    let piece = prop_oneof![
        8 => prop::sample::select(PIECES).prop_map(|piece| piece.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..4),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn random_bytes_hold(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        hold(&bytes);
    }

    #[test]
    fn random_lines_hold(cut in any::<u8>(), line in nearly_a_line()) {
        hold(&[&[cut], &line[..]].concat());
    }
}
