//! SECURITY.md says of each claim which tests show it; this holds that they are there.

use std::collections::BTreeSet;
use std::path::Path;

/// What stands beside tests in a row of SECURITY.md: where they are, and what they look at.
const PLACES: [&str; 13] = [
    "e2e",
    "mst",
    "mst-coordinator",
    "mst-model",
    "mst-plugin",
    "mst-process",
    "mst-protocol",
    "mst-sandbox",
    "mst-store",
    "mst-worker",
    "wasi:http",
    "/proc",
    "mst-report",
];

/// Every test in the sources below `dir`: the modules that it stands in, by file and by block, and its name.
fn tests_below(dir: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(dir).expect("lists") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        if path.is_dir() {
            if name != "target" && name != "guests" {
                tests_below(&path, found);
            }
            continue;
        }
        let Some(stem) = name.strip_suffix(".rs") else { continue };
        let mut modules: Vec<String> =
            path.parent().expect("a parent").iter().map(|part| part.to_string_lossy().into_owned()).collect();
        if !matches!(stem, "mod" | "lib" | "main") {
            modules.push(stem.to_owned());
        }
        let text = std::fs::read_to_string(&path).expect("reads");
        // How far a line of code stands in says which `mod` it is in.
        let (mut blocks, mut is_test) = (Vec::<(usize, &str)>::new(), false);
        for line in text.lines() {
            let (indent, line) = (line.len() - line.trim_start().len(), line.trim_start());
            let ident = |after: &'static str| {
                let rest = line.split_once(after)?.1;
                Some(rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default())
            };
            if let Some(name) = ident("mod ").filter(|_| line.ends_with('{') && !line.starts_with("//")) {
                blocks.retain(|(at, _)| *at < indent);
                blocks.push((indent, name));
            } else if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
                is_test = true;
            } else if let Some(name) = ident("fn ").filter(|_| is_test && !line.starts_with("//")) {
                is_test = false;
                blocks.retain(|(at, _)| *at < indent);
                let inner = blocks.iter().map(|(_, name)| (*name).to_owned());
                let path: Vec<String> =
                    modules.iter().cloned().chain(inner).chain([name.to_owned()]).collect();
                found.insert(path.join("::"));
            }
        }
    }
}

/// Whether a page's `a::b` names such a test: the end of its path, or the modules that it is in. A `*` stands
/// for the rest of a word.
fn names(filter: &str, test: &str) -> bool {
    let fits = |wanted: &str, word: &str| match wanted.split_once('*') {
        None => wanted == word,
        Some((start, end)) => {
            let inner = word.strip_prefix(start);
            inner.is_some_and(|rest| match end.rsplit_once('*') {
                None => rest.ends_with(end),
                Some((inner, last)) => rest.contains(inner) && rest.ends_with(last),
            })
        }
    };
    let (wanted, words): (Vec<&str>, Vec<&str>) = (filter.split("::").collect(), test.split("::").collect());
    words.windows(wanted.len()).any(|at| wanted.iter().zip(at).all(|(wanted, word)| fits(wanted, word)))
}

#[test]
fn every_test_that_a_claim_of_security_names_is_there() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let mut tests = BTreeSet::new();
    for room in ["host", "plugins", "sdk", "tests"] {
        tests_below(&root.join(room), &mut tests);
    }
    assert!(tests.len() > 500, "{} tests were found", tests.len());
    let missing = |page: &str| -> Vec<String> {
        let rows = page.lines().filter(|line| line.starts_with('|') && line.contains('`'));
        let shown = rows.filter_map(|row| row.trim_end_matches(['|', ' ']).rsplit('|').next());
        let words = shown.flat_map(|cell| cell.split('`').skip(1).step_by(2).map(str::to_owned));
        let names_one = |word: &String| tests.iter().any(|test| names(word, test));
        words.filter(|word| !PLACES.contains(&word.as_str()) && !names_one(word)).collect()
    };
    let page = std::fs::read_to_string(root.join("SECURITY.md")).expect("reads");
    assert_eq!(missing(&page), [""; 0], "SECURITY.md names tests that are not there");
    // What is not there is seen.
    let of = |name: &str| missing(&format!("| a | b | `{name}` |"));
    for name in
        ["oauth2::an_interrupt_*", "web::no_such_test", "no_such_module", "tests::*no_such*", "brokered::"]
    {
        assert_eq!(of(name), [name]);
    }
    assert_eq!(of("every_test_that_a_*"), [""; 0]);
}
