//! The machines that it says it made.

use crate::bindings::exports::mst::plugin::machine::{Image, Machine, MachineRequest};

/// Clears the screen, turns writing round, breaks the line.
pub(crate) const WICKED: &str = "a\u{1b}[2Jb\u{202e}c\r\nd\0e\u{9b}31mf";

/// What was asked for, but for what `behaviour` says.
pub(crate) fn machine(behaviour: &str, request: &MachineRequest, base: &str) -> Machine {
    let root = format!("{base}/{}", request.name);
    let mut machine = Machine {
        name: request.name.clone(),
        handle: serde_json::json!({ "behaviour": behaviour }).to_string(),
        root: root.clone(),
        image: None,
    };
    match behaviour {
        "name-of-none" => machine.name = String::new(),
        "name-of-another-shard" => machine.name = request.name.replacen("-0-", "-1-", 1),
        "name-of-another-run" => machine.name = "mst-of-another-run-0-aaaa".to_owned(),
        "name-in-other-letters" => machine.name = request.name.replacen("mst", "MST", 1),
        "name-with-escapes" => machine.name = format!("{}{WICKED}", request.name),

        "handle-empty" => machine.handle = String::new(),
        "handle-no-json" => machine.handle = WICKED.to_owned(),
        "handle-long" => machine.handle = format!("\"{}\"", "x".repeat(16 << 10)),
        "handle-deep" => machine.handle = "[".repeat(8000) + &"]".repeat(8000),
        "handle-with-escapes" => machine.handle = serde_json::json!({ "x": WICKED }).to_string(),

        "root-empty" => machine.root = String::new(),
        "root-relative" => machine.root = format!("machines/{}", request.name),
        "root-of-all" => machine.root = "/".to_owned(),
        "root-with-dots" => machine.root = format!("{root}/../../home"),
        "root-with-a-dot" => machine.root = format!("{root}/."),
        "root-doubled" => machine.root = format!("/{root}"),
        "root-with-a-command" => machine.root = format!("{root}/$(id)"),
        "root-with-escapes" => machine.root = format!("{root}/{WICKED}"),
        "root-long" => machine.root = format!("/{}", "x".repeat(256)),

        "image-with-escapes" => {
            machine.image = Some(Image { reference: WICKED.to_owned(), digest: WICKED.to_owned() });
        }
        "image-long" => {
            machine.image = Some(Image { reference: "x".repeat(1 << 20), digest: "y".repeat(1 << 20) });
        }
        _ => {}
    }
    machine
}
