//! The `process` interface: local programs from a runner's command templates, and the things of
//! the host's that a runner hands on without seeing into them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use mst_plugin::template::SlotType;
use mst_plugin::{CommandTemplate, HostValues, Stdin};
use mst_process::{Exit, Running, Spec, resolve_program};
use wasmtime::component::Resource;

use crate::bindings::{commands, process, types};
use crate::broker::Call;
use crate::call::HostFault;
use crate::guest::Guest;

/// How long the end of a program may take to be sure of.
const CLEANUP: Duration = Duration::from_secs(10);

/// What a program that saw a directory of the host's may say on stderr, in bytes.
const MAX_WORDS: u64 = 2048;

/// What a runner's programs find around them, beside what their template names.
#[derive(Debug, Clone, Default)]
pub struct ExecEnvironment {
    /// Their PATH, on which programs are looked for.
    pub path: String,
    /// Their HOME.
    pub home: String,
    /// Values of the variables that templates may name.
    pub vars: BTreeMap<String, String>,
}

/// What a runner's call is about.
pub(crate) struct Exec {
    pub(crate) environment: ExecEnvironment,
    pub(crate) options: serde_json::Value,
    /// For `{machine}`.
    pub(crate) machine: Option<String>,
    /// For `{run}`.
    pub(crate) run: String,
    /// The programs' own, empty directory.
    pub(crate) cwd: PathBuf,
}

/// What a guest holds as `directory`.
#[expect(unreachable_pub, reason = "the bindings name it in a public place")]
pub struct DirectoryHandle(pub(crate) PathBuf);

/// What a guest holds as `remote-command`.
#[expect(unreachable_pub, reason = "the bindings name it in a public place")]
pub struct CommandHandle(pub(crate) Vec<String>);

/// What a guest holds as `child`. Dropped, it ends the program and all that it started.
#[expect(unreachable_pub, reason = "the bindings name it in a public place")]
pub struct ChildHandle(pub(crate) Running);

type Answer<T> = wasmtime::Result<Result<T, types::Error>>;

impl Guest {
    /// The program of a template, filled and checked, or what to tell the guest.
    fn fill(&mut self, template: &str, slots: Vec<process::Slot>) -> Answer<(Spec, CommandTemplate)> {
        self.broker.pass(Call::Exec { template })?;
        let manifest = self.manifest.clone();
        let (Some(command), Some(exec)) = (manifest.exec(template), &self.exec) else {
            return Err(HostFault("a program outside of a runner's call".to_owned()).into());
        };
        let mut host = HostValues {
            machine: exec.machine.clone(),
            run: Some(exec.run.clone()),
            ..HostValues::default()
        };
        let mut filled = Vec::new();
        for slot in slots {
            match slot.value {
                process::Value::Text(text) => filled.push((slot.name, vec![text])),
                process::Value::Items(items) => filled.push((slot.name, items)),
                process::Value::Directory(directory) => {
                    let path = self.table.get(&directory)?.0.to_string_lossy().into_owned();
                    host.directories.insert(slot.name, path);
                }
                process::Value::Command(command) => {
                    host.command = Some(self.table.get(&command)?.0.clone());
                }
            }
        }
        let invalid = |what: String| Ok(Err(types::Error::Invalid(format!("template `{template}`: {what}"))));
        let argv = match command.template.fill(&filled, &exec.options, &host) {
            Ok(argv) => argv,
            Err(error) => return invalid(error.to_string()),
        };
        let Some((program, args)) = argv.split_first() else {
            return invalid("it is empty".to_owned());
        };
        let program = match resolve_program(program, &exec.environment.path, &exec.cwd) {
            Ok(program) => program,
            Err(error) => return Ok(Err(types::Error::NotFound(error.to_string()))),
        };
        let mut env = vec![
            ("PATH".to_owned(), exec.environment.path.clone()),
            ("HOME".to_owned(), exec.environment.home.clone()),
        ];
        for name in &command.env {
            env.extend(exec.environment.vars.get(name).map(|value| (name.clone(), value.clone())));
        }
        let spec = Spec {
            program,
            args: args.iter().map(Into::into).collect(),
            env,
            cwd: exec.cwd.clone(),
            cwd_is_own: false,
            stdin: mst_process::Stdin::Null,
            time: command.timeout.0,
            max_stdout_bytes: command.max_output_bytes,
            max_stderr_bytes: command.max_output_bytes,
            cleanup: CLEANUP,
        };
        Ok(Ok((spec, command.clone())))
    }
}

impl process::Host for Guest {
    async fn run(
        &mut self,
        template: String,
        slots: Vec<process::Slot>,
        stdin: Option<Vec<u8>>,
    ) -> Answer<commands::Output> {
        let (mut spec, command) = match self.fill(&template, slots)? {
            Ok(filled) => filled,
            Err(error) => return Ok(Err(error)),
        };
        let invalid = |what: &str| Ok(Err(types::Error::Invalid(format!("template `{template}` {what}"))));
        let has = |wanted: &[SlotType]| command.template.slots().any(|slot| wanted.contains(&slot.kind));
        // What a command on a machine says (frames, transcripts) is the host's alone.
        if has(&[SlotType::CommandArgs, SlotType::CommandShell]) {
            return invalid("takes a command of the host's: it can be started, and not run");
        }
        // What lies in a directory of the host's is not the plugin's to read: how the program
        // ended, and a few words on why, is all that comes back.
        if has(&[SlotType::HostDir]) {
            spec.max_stdout_bytes = 0;
            spec.max_stderr_bytes = spec.max_stderr_bytes.min(MAX_WORDS);
        }
        if let Some(bytes) = stdin {
            if command.stdin != Stdin::Plugin {
                return Ok(Err(types::Error::Invalid(format!("template `{template}` takes no stdin"))));
            }
            spec.stdin = mst_process::Stdin::Bytes(bytes);
        }
        Ok(match mst_process::run(spec).await {
            Ok(finished) => Ok(commands::Output {
                status: match finished.exit {
                    _ if finished.timed_out => commands::ExitStatus::TimedOut,
                    Exit::Code(code) => commands::ExitStatus::Code(code),
                    Exit::Signal(signal) => commands::ExitStatus::Signal(signal),
                },
                cut: finished.stdout.cut + finished.stderr.cut,
                stdout: finished.stdout.bytes,
                stderr: finished.stderr.bytes,
            }),
            Err(error) => Err(types::Error::Failed(error.to_string())),
        })
    }

    async fn start(&mut self, template: String, slots: Vec<process::Slot>) -> Answer<Resource<ChildHandle>> {
        let spec = match self.fill(&template, slots)? {
            Ok((spec, _)) => spec,
            Err(error) => return Ok(Err(error)),
        };
        Ok(match mst_process::start(spec).await {
            Ok(running) => Ok(self.table.push(ChildHandle(running))?),
            Err(error) => Err(types::Error::Failed(error.to_string())),
        })
    }
}

impl process::HostDirectory for Guest {
    async fn drop(&mut self, directory: Resource<DirectoryHandle>) -> wasmtime::Result<()> {
        self.table.delete(directory)?;
        Ok(())
    }
}

impl process::HostRemoteCommand for Guest {
    async fn drop(&mut self, command: Resource<CommandHandle>) -> wasmtime::Result<()> {
        self.table.delete(command)?;
        Ok(())
    }
}

impl process::HostChild for Guest {
    async fn kill(&mut self, child: Resource<ChildHandle>) -> wasmtime::Result<()> {
        self.broker.pass(Call::Child)?;
        self.table.get_mut(&child)?.0.kill();
        Ok(())
    }

    async fn drop(&mut self, child: Resource<ChildHandle>) -> wasmtime::Result<()> {
        self.table.delete(child)?;
        Ok(())
    }
}
