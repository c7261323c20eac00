//! `test/runner/shard`: a `shard-runner` on the bare bindings. Each shard is a directory on this
//! computer.

mod bindings {
    wit_bindgen::generate!({ path: "../../../wit", world: "shard-runner" });
}

use bindings::exports::mst::plugin::whole_shard::{Ending, Error, Guest};
use bindings::mst::plugin::commands::ExitStatus;
use bindings::mst::plugin::process::{self, Child, Directory, Slot, Value};
use bindings::mst::plugin::shard::Shard;

struct Shards;

fn option(options: &str, name: &str) -> Option<String> {
    let options: serde_json::Value = serde_json::from_str(options).ok()?;
    Some(options.get(name)?.as_str()?.to_owned())
}

fn run(template: &str, slots: &[Slot<'_>]) -> Result<String, Error> {
    let output = process::run(template, slots, None)?;
    match output.status {
        ExitStatus::Code(0) => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        status => {
            let stderr = String::from_utf8_lossy(&output.stderr);
            Err(Error::Failed(format!("`{template}`: {status:?}: {stderr}")))
        }
    }
}

/// Hands the host a number that it never gave out.
fn forged(behaviour: &str, shard: &Shard) -> Result<Ending, Error> {
    const NUMBER: u32 = 4242;
    if behaviour == "forged-child" {
        return shard.attach(unsafe { Child::from_handle(NUMBER) });
    }
    let directory = unsafe { Directory::from_handle(NUMBER) };
    run("copy-in", &[Slot { name: "source".to_owned(), value: Value::Directory(&directory) }])?;
    Err(Error::Failed("it was taken".to_owned()))
}

impl Guest for Shards {
    fn run_shard(shard: &Shard) -> Result<Ending, Error> {
        let options = shard.options();
        let base = option(&options, "base").ok_or_else(|| Error::Invalid("`base` is missing".to_owned()))?;
        let behaviour = option(&options, "behaviour").unwrap_or_else(|| "good".to_owned());
        if behaviour == "no-attach" {
            return Err(Error::Unavailable("no machine is free".to_owned()));
        }
        run("make", &[])?;
        let bundle = shard.bundle();
        if behaviour == "peek" {
            let slots = [Slot { name: "source".to_owned(), value: Value::Directory(&bundle) }];
            let output = process::run("peek", &slots, None)?;
            let (out, err, cut) = (output.stdout.len(), output.stderr.len(), output.cut > 0);
            return Err(Error::Failed(format!("it read {out} bytes and {err} of stderr, cut: {cut}")));
        }
        run("copy-in", &[Slot { name: "source".to_owned(), value: Value::Directory(&bundle) }])?;
        let at = format!("{base}/{}", shard.name());
        let worker = shard.worker(&format!("{at}/bundle"), &format!("{at}/results"));
        if behaviour == "run-the-worker" {
            run("worker", &[Slot { name: "command".to_owned(), value: Value::Command(&worker) }])?;
        }
        let start = || {
            process::start("worker", &[Slot { name: "command".to_owned(), value: Value::Command(&worker) }])
        };
        if behaviour == "ended-child" {
            let child = start()?;
            child.kill();
            child.kill();
            return shard.attach(child);
        }
        if behaviour == "another-child" {
            return shard.attach(process::start("idle", &[])?);
        }
        if behaviour == "forged-child" || behaviour == "forged-directory" {
            return forged(&behaviour, shard);
        }
        let ending = shard.attach(start()?)?;
        if behaviour == "twice" {
            shard.attach(start()?)?;
        }
        if behaviour == "error-after" {
            return Err(Error::Failed("the way back is gone".to_owned()));
        }
        if behaviour != "no-results" {
            let results = shard.results();
            run("copy-out", &[Slot { name: "target".to_owned(), value: Value::Directory(&results) }])?;
        }
        Ok(ending)
    }

    fn destroy_machine(_name: String, _options: String) -> Result<(), Error> {
        run("destroy", &[]).map(drop)
    }

    fn list_machines(_run: String, _options: String) -> Result<Vec<String>, Error> {
        Ok(run("list", &[])?.lines().map(str::to_owned).collect())
    }
}

bindings::export!(Shards with_types_in bindings);
