//! Calling a runner in a `#[test]`, without a host: each template that it runs is answered by
//! the test.
//!
//! ```
//! use mst_sdk::runner::testing::{Script, ended, request};
//! use mst_sdk::runner::{Error, Machine, MachineRunner, Request, process};
//!
//! struct Box;
//!
//! impl MachineRunner for Box {
//!     type Options = serde_json::Value;
//!
//!     fn create_machine(request: &Request, _: serde_json::Value) -> Result<Machine, Error> {
//!         let made = process::template("create").slot("size", "2").done("make the box")?;
//!         Ok(Machine::new(request, "/mst").with("id", made.stdout_text().trim()))
//!     }
//! }
//!
//! let script = Script::new().answer("create", ended(0, "b-1\n", ""));
//! let machine = script.run(|| Box::create_machine(&request("m"), serde_json::json!({}))).expect("made");
//! assert_eq!(machine.text("id"), Some("b-1"));
//! assert_eq!(script.ran(), ["create size=2"]);
//! ```
//!
//! Channels pass on what only a host has, so that they are tested as components.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use crate::runner::bindings::mst::plugin::process as host;
use crate::runner::{Request, Work};
use crate::{Error, ExitStatus, Output};

thread_local! {
    static CURRENT: RefCell<Option<Script>> = const { RefCell::new(None) };
}

/// What a test answers to a runner's templates, in order, and what the runner ran.
#[derive(Debug, Clone, Default)]
pub struct Script {
    shared: Rc<RefCell<Shared>>,
}

#[derive(Debug, Default)]
struct Shared {
    answers: VecDeque<(String, Result<Output, Error>)>,
    ran: Vec<String>,
}

impl Script {
    /// Without any answer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Answers the next run, which must be of this template.
    pub fn answer(self, template: &str, answer: impl Into<Result<Output, Error>>) -> Self {
        self.shared.borrow_mut().answers.push_back((template.to_owned(), answer.into()));
        self
    }

    /// Calls a function of a runner. A template that has no answer is denied.
    pub fn run<T>(&self, call: impl FnOnce() -> T) -> T {
        struct Reset(Option<Script>);
        impl Drop for Reset {
            fn drop(&mut self) {
                let before = self.0.take();
                CURRENT.with(|current| *current.borrow_mut() = before);
            }
        }
        let before = CURRENT.with(|current| current.borrow_mut().replace(self.clone()));
        let _reset = Reset(before);
        call()
    }

    /// What was run: each template's id and its slots as the plugin filled them.
    pub fn ran(&self) -> Vec<String> {
        self.shared.borrow().ran.clone()
    }
}

/// A program that ended with this code.
pub fn ended(code: i32, stdout: &str, stderr: &str) -> Result<Output, Error> {
    Ok(Output { status: ExitStatus::Code(code), stdout: stdout.into(), stderr: stderr.into(), cut: 0 })
}

/// A request for the first and only machine of the run `r`.
pub fn request(name: &str) -> Request {
    Request { name: name.to_owned(), run: "r".to_owned(), shard: 0, shards: 1, work: Work::Collect }
}

/// The script's answer; none where no script runs.
pub(crate) fn answer(
    template: &str,
    slots: &[host::Slot<'_>],
    stdin: Option<&[u8]>,
) -> Option<Result<Output, Error>> {
    let script = CURRENT.with(|current| current.borrow().clone())?;
    let mut shared = script.shared.borrow_mut();
    let mut line = template.to_owned();
    for slot in slots {
        let value = match &slot.value {
            host::Value::Text(text) => text.clone(),
            host::Value::Items(items) => items.join(","),
            host::Value::Directory(_) => "DIRECTORY".to_owned(),
            host::Value::Command(_) => "COMMAND".to_owned(),
        };
        line += &format!(" {}={value}", slot.name);
    }
    if let Some(bytes) = stdin {
        line += &format!(" <{} bytes", bytes.len());
    }
    shared.ran.push(line);
    let expected = shared.answers.front().is_some_and(|(id, _)| id == template);
    Some(match shared.answers.pop_front() {
        Some((_, answer)) if expected => answer,
        Some((id, _)) => Err(Error::denied(format!("the script expected `{id}`, not `{template}`"))),
        None => Err(Error::denied(format!("the script has no answer for `{template}`"))),
    })
}
