//! Saying too much, or what a terminal should not hear.

use std::io::Write as _;

use mst_sdk::judge::Verdict;
use mst_sdk::log;

/// Clears the screen, sets the title, hides text, turns writing round, breaks the line.
const WICKED: &str =
    "a\u{1b}[2Jb\u{1b}]0;title\u{7}c\u{202e}d\u{2066}e\r\nf\0g\u{8}h\u{9b}31mi\u{2028}j\u{feff}k";

pub(crate) fn lines(count: u64) -> Verdict {
    for n in 0..count {
        log::info(format!("line {n}"));
    }
    Verdict::pass(format!("logged {count} lines"))
}

pub(crate) fn progress(count: u64) -> Verdict {
    for n in 0..count {
        log::progress(format!("step {n}"), Some(f32::NAN));
    }
    Verdict::pass(format!("told {count} steps"))
}

pub(crate) fn big_line(bytes: usize) -> Verdict {
    log::info("x".repeat(bytes));
    Verdict::pass(format!("logged a line of {bytes} bytes"))
}

pub(crate) fn escapes() -> Verdict {
    log::warn(WICKED);
    log::progress(WICKED, None);
    println!("{WICKED}");
    Verdict::pass(WICKED).measure("n", 1.0, WICKED)
}

pub(crate) fn std_streams() -> Verdict {
    for n in 0..1000 {
        println!("out {n}");
        eprintln!("err {n}");
    }
    print!("no newline on stdout");
    eprint!("no newline on stderr");
    let flushed = std::io::stdout().flush();
    let bytes = std::io::stdout().write_all(b"\xff\xfe no UTF-8\n");
    Verdict::pass(format!("{flushed:?} {bytes:?}"))
}
