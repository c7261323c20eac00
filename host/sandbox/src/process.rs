//! The `process` interface: local programs from a runner's command templates, and the things of
//! the host's that a runner hands on without seeing into them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use mst_plugin::template::{Slot, SlotType};
use mst_plugin::{CommandTemplate, HostValues, Stdin};
use mst_process::{Exit, Running, Spec, resolve_program};
use wasmtime::component::Resource;

use crate::audit::{MAX_ARGS, Pass};
use crate::bindings::{commands, process, types};
use crate::broker::{Ambient, Call};
use crate::call::HostFault;
use crate::guest::Guest;
use crate::secret::Scrubber;
use crate::text::clean;

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
pub struct ChildHandle {
    pub(crate) running: Running,
    /// Whether a command of the host's was put into its template. The host speaks with no other: a
    /// reviewer of the templates sees which of them may be given the values of tokens.
    pub(crate) bears_command: bool,
}

/// What is wrong with a child that bears no command of the host's.
pub(crate) const BEARS_NONE: &str = "a child that bears no command of the host's: only one of a template with \
    `{command...}` or `{command:shell}` is handed on";

type Answer<T> = wasmtime::Result<Result<T, types::Error>>;

/// A program of a template, filled and checked.
struct Filled {
    spec: Spec,
    command: CommandTemplate,
    bears_command: bool,
}

/// A slot's value, as the audit shows it.
pub(crate) enum Shown<'a> {
    Text(&'a str),
    Values(&'a [String]),
    /// Of the host's, and not shown.
    Host(&'static str),
}

/// What a template is run with, in words.
pub(crate) fn args_in_words<'a>(
    template: &str,
    slots: impl Iterator<Item = (&'a str, Shown<'a>)>,
    stdin: Option<&[u8]>,
) -> String {
    let mut words = clean(template, 64, false);
    for (name, value) in slots {
        let value = match value {
            Shown::Text(text) => format!("{:?}", clean(text, 256, false)),
            Shown::Values(values) => {
                let values: Vec<String> =
                    values.iter().take(16).map(|value| format!("{:?}", clean(value, 128, false))).collect();
                format!("[{}]", values.join(" "))
            }
            Shown::Host(what) => what.to_owned(),
        };
        words += &format!(" {}={value}", clean(name, 64, false));
        if words.len() > MAX_ARGS {
            break;
        }
    }
    if let Some(stdin) = stdin {
        words += &format!(" stdin={} bytes", stdin.len());
    }
    clean(&words, MAX_ARGS, false)
}

/// Ends the audit's line of a command.
pub(crate) fn end(pass: Pass, answer: &Result<commands::Output, types::Error>, given: u64) {
    match answer {
        Ok(output) => {
            let gave = (output.stdout.len() + output.stderr.len()) as u64;
            let result = match output.status {
                commands::ExitStatus::Code(0) => "ok".into(),
                commands::ExitStatus::Code(code) => format!("code {code}").into(),
                commands::ExitStatus::Signal(signal) => format!("signal {signal}").into(),
                commands::ExitStatus::TimedOut => std::borrow::Cow::Borrowed("timed out"),
            };
            pass.end(result, gave, given);
        }
        Err(error) => pass.end(name(error), 0, given),
    }
}

/// Which of the contract's errors it is.
pub(crate) fn name(error: &types::Error) -> &'static str {
    match error {
        types::Error::Invalid(_) => "invalid",
        types::Error::NotFound(_) => "not-found",
        types::Error::Unavailable(_) => "unavailable",
        types::Error::Denied(_) => "denied",
        types::Error::Failed(_) => "failed",
    }
}

impl Guest {
    /// Has the broker decide on a template.
    fn pass_exec(
        &self,
        function: &'static str,
        template: &str,
        slots: &[process::Slot],
        stdin: Option<&[u8]>,
    ) -> wasmtime::Result<Pass> {
        let mut pass = self.broker.pass(Call::Exec { function, template })?;
        pass.args(|| {
            let slots = slots.iter().map(|slot| {
                let value = match &slot.value {
                    process::Value::Text(text) => Shown::Text(text),
                    process::Value::Items(items) => Shown::Values(items),
                    process::Value::Directory(_) => Shown::Host("(a directory of the host's)"),
                    process::Value::Command(_) => Shown::Host("(a command of the host's)"),
                };
                (slot.name.as_str(), value)
            });
            args_in_words(template, slots, stdin)
        });
        Ok(pass)
    }

    /// The program of a template that the broker admitted, filled and checked, or what to tell the
    /// guest.
    fn fill(&mut self, template: &str, slots: Vec<process::Slot>) -> Answer<Filled> {
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
        let msts = |slot: &Slot| matches!(slot.kind, SlotType::CommandArgs | SlotType::CommandShell);
        let bears_command = host.command.is_some() && command.template.slots().any(msts);
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
        Ok(Ok(Filled { spec, command: command.clone(), bears_command }))
    }
}

impl process::Host for Guest {
    async fn run(
        &mut self,
        template: String,
        slots: Vec<process::Slot>,
        stdin: Option<Vec<u8>>,
    ) -> Answer<commands::Output> {
        let mut pass = self.pass_exec("process.run", &template, &slots, stdin.as_deref())?;
        let given = stdin.as_ref().map_or(0, Vec::len) as u64;
        let answer = match self.fill_to_run(&template, slots, stdin)? {
            Ok(mut spec) => match self.put_in(&template, &mut spec).await? {
                Ok(()) => {
                    pass.leave()?;
                    ran(spec, &self.scrubber).await
                }
                Err(error) => Err(error),
            },
            Err(error) => Err(error),
        };
        end(pass, &answer, given);
        Ok(answer)
    }

    async fn start(&mut self, template: String, slots: Vec<process::Slot>) -> Answer<Resource<ChildHandle>> {
        let mut pass = self.pass_exec("process.start", &template, &slots, None)?;
        let answer = match self.fill(&template, slots)? {
            Ok(Filled { mut spec, bears_command, .. }) => match self.put_in(&template, &mut spec).await? {
                Ok(()) => {
                    pass.leave()?;
                    match mst_process::start(spec).await {
                        Ok(running) => {
                            running.stderr().cover(self.scrubber.known());
                            Ok(self.table.push(ChildHandle { running, bears_command })?)
                        }
                        Err(error) => Err(types::Error::Failed(error.to_string())),
                    }
                }
                Err(error) => Err(error),
            },
            Err(error) => Err(error),
        };
        pass.end(answer.as_ref().err().map_or("ok", name), 0, 0);
        Ok(answer)
    }
}

impl Guest {
    /// Puts the secrets of a template into the environment of its program.
    async fn put_in(&mut self, template: &str, spec: &mut Spec) -> Answer<()> {
        let manifest = self.manifest.clone();
        let Some(command) = manifest.exec(template) else { return Ok(Ok(())) };
        for var in &command.secrets {
            let pass = self.broker.pass(Call::SecretIn { name: &var.secret, command })?;
            let Some(source) = self.permit.granted.source(&var.secret) else {
                return Err(HostFault("the broker admitted a secret without a source".to_owned()).into());
            };
            match self.permit.secrets.value(source).await {
                Ok(value) => {
                    self.scrubber.know(&value);
                    spec.env.push((var.name.clone(), value.expose().to_owned()));
                    pass.ok();
                }
                Err(why) => {
                    pass.end("unavailable", 0, 0);
                    let why = format!("the secret `{}` can't be had: {why}", var.secret);
                    return Ok(Err(types::Error::Unavailable(why)));
                }
            }
        }
        Ok(Ok(()))
    }

    /// A program that the plugin reads the output of.
    fn fill_to_run(
        &mut self,
        template: &str,
        slots: Vec<process::Slot>,
        stdin: Option<Vec<u8>>,
    ) -> Answer<Spec> {
        let Filled { mut spec, command, .. } = match self.fill(template, slots)? {
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
                return invalid("takes no stdin");
            }
            spec.stdin = mst_process::Stdin::Bytes(bytes);
        }
        Ok(Ok(spec))
    }
}

/// Runs a program to its end.
async fn ran(spec: Spec, scrubber: &Scrubber) -> Result<commands::Output, types::Error> {
    let mut finished =
        mst_process::run(spec).await.map_err(|error| types::Error::Failed(error.to_string()))?;
    for stream in [&mut finished.stdout, &mut finished.stderr] {
        let cut = stream.cut > 0;
        scrubber.scrub_cut(&mut stream.bytes, cut);
    }
    Ok(commands::Output {
        status: match finished.exit {
            _ if finished.timed_out => commands::ExitStatus::TimedOut,
            Exit::Code(code) => commands::ExitStatus::Code(code),
            Exit::Signal(signal) => commands::ExitStatus::Signal(signal),
        },
        cut: finished.stdout.cut + finished.stderr.cut,
        stdout: finished.stdout.bytes,
        stderr: finished.stderr.bytes,
    })
}

impl process::HostDirectory for Guest {
    async fn drop(&mut self, directory: Resource<DirectoryHandle>) -> wasmtime::Result<()> {
        self.counted(Ambient::Drop).table.delete(directory)?;
        Ok(())
    }
}

impl process::HostRemoteCommand for Guest {
    async fn drop(&mut self, command: Resource<CommandHandle>) -> wasmtime::Result<()> {
        self.counted(Ambient::Drop).table.delete(command)?;
        Ok(())
    }
}

impl process::HostChild for Guest {
    async fn kill(&mut self, child: Resource<ChildHandle>) -> wasmtime::Result<()> {
        let pass = self.broker.pass(Call::Child("child.kill"))?;
        self.table.get_mut(&child)?.running.kill();
        pass.ok();
        Ok(())
    }

    async fn drop(&mut self, child: Resource<ChildHandle>) -> wasmtime::Result<()> {
        self.counted(Ambient::Drop).table.delete(child)?;
        Ok(())
    }
}
