//! `example/runner/dir`: a machine is a directory on this computer.
//!
//! The smallest real runner. It shields nothing from anything: what a client does there, it does
//! as you. Copy it for the shape; all that it may do stands in `plugin.toml`.

use mst_sdk::runner::channel::{Below, Templates};
use mst_sdk::runner::{Error, Machine, MachineRunner, Request, process};
use serde::Deserialize;

/// What the user may set; `plugin.toml` says the same as a JSON Schema.
#[derive(Debug, Deserialize)]
pub struct Options {
    base: String,
}

/// The runner.
pub struct Dir;

impl MachineRunner for Dir {
    type Options = Options;

    fn create_machine(request: &Request, options: Options) -> Result<Machine, Error> {
        let base = options.base.trim_end_matches('/');
        // Before anything is made: the host takes no other root from a runner.
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
        let odd = |part| matches!(part, "" | "." | "..");
        if !base.chars().all(plain) || base.split('/').skip(1).any(odd) {
            return Err(Error::invalid(format!(
                "the option `base` is `{base}`; only a path of letters, digits and `. _ -`, without `..`, can hold machines"
            )));
        }
        process::template("create").done("make the machine's directory")?;
        Ok(Machine::new(request, format!("{base}/{}", request.name)))
    }

    // `destroy_machine` and `list_machines` are the templates `destroy` and `list`.
}

// `Templates`: `exec`, `copy-to` and `copy-from`. `Below`: they are given paths below the machine's
// root, so that a copy can't leave it.
mst_sdk::export_runner!(Dir, channel = Below<Templates>);

#[cfg(test)]
mod tests {
    use mst_sdk::runner::testing::{Script, ended, request};

    use super::*;

    fn create(base: &str, script: &Script) -> Result<Machine, Error> {
        script.run(|| Dir::create_machine(&request("m-1"), Options { base: base.to_owned() }))
    }

    #[test]
    fn a_machine_is_a_directory_in_base() {
        let script = Script::new().answer("create", ended(0, "", ""));
        assert_eq!(create("/tmp/b/", &script).expect("made").root, "/tmp/b/m-1");
        assert_eq!(script.ran(), ["create"]);
    }

    #[test]
    fn what_can_not_be_is_told_before_anything_is_made() {
        let script = Script::new();
        for odd in ["/tmp/a b", "/tmp/$x", "/tmp/../b", "/tmp//b"] {
            assert!(matches!(create(odd, &script), Err(Error::Invalid(_))), "{odd}");
        }
        assert!(script.ran().is_empty());
        let script = Script::new()
            .answer("create", ended(1, "", "mkdir: cannot create directory '/b/m-1': File exists\n"));
        assert!(matches!(create("/b", &script), Err(Error::Failed(text)) if text.contains("File exists")));
    }
}
