//! `example/runner/ssh`: a machine is a directory on a host that is always there.
//!
//! All that it may do stands in `plugin.toml`: `ssh` to the user's own host, with the user's own
//! key, and a check of the host's key that nothing turns off.

use mst_sdk::runner::channel::{Below, Ssh};
use mst_sdk::runner::{Error, Machine, MachineRunner, Request, process};
use serde::Deserialize;

/// What the user may set; `plugin.toml` says the same as a JSON Schema. The rest of it is put into
/// the templates by the host.
#[derive(Debug, Deserialize)]
pub struct Options {
    host: String,
}

/// The runner.
pub struct OverSsh;

impl MachineRunner for OverSsh {
    type Options = Options;

    fn create_machine(request: &Request, options: Options) -> Result<Machine, Error> {
        let doing = format!("make a directory on `{}`", options.host);
        let made = process::template("create").done(&doing)?;
        // `pwd -P` comes last: what a login script prints stands before it.
        let text = made.stdout_text();
        let root = text.lines().last().unwrap_or_default().trim();
        if root.ends_with(&format!("/{}", request.name)) {
            Ok(Machine::new(request, root))
        } else {
            Err(Error::failed(format!("can't {doing}: the shell there says that it is `{root}`")))
        }
    }

    // `destroy_machine` and `list_machines` are the templates `destroy` and `list`.
}

// `Ssh`: `exec`, `copy-to`, `copy-from` and `forward-port`. `Below`: they are given paths below the
// machine's root, so that a copy can't leave it.
mst_sdk::export_runner!(OverSsh, channel = Below<Ssh>);

#[cfg(test)]
mod tests {
    use mst_sdk::runner::testing::{Script, ended, request};

    use super::*;

    fn create(code: i32, stdout: &str, stderr: &str) -> Result<Machine, Error> {
        let options = Options { host: "h".to_owned() };
        let script = Script::new().answer("create", ended(code, stdout, stderr));
        script.run(|| OverSsh::create_machine(&request("m-1"), options))
    }

    #[test]
    fn the_root_is_what_the_host_says() {
        assert_eq!(create(0, "Welcome!\n/home/u/.mst/m-1\n", "").expect("made").root, "/home/u/.mst/m-1");
        assert!(matches!(create(0, "Welcome!\n", ""), Err(Error::Failed(_))));
        let refused = "ssh: connect to host h port 22: Connection refused\r\n";
        assert!(matches!(create(255, "", refused), Err(Error::Unavailable(_))));
        assert!(matches!(create(255, "", "Host key verification failed.\r\n"), Err(Error::Failed(_))));
    }
}
