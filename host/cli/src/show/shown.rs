//! How a run looks while it goes: a bar on a terminal, plain lines elsewhere, JSON for programs.

use std::io::Write;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use mst_coordinator::Event;
use mst_coordinator::plan::Choice;
use mst_model::PluginId;
use mst_model::outcome::Status;
use mst_model::run::ShardEnding;
use mst_sandbox::{Level, LogLine};
use mst_worker::grade::GradeEvent;
use serde_json::{Value, json};

/// For whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// A person at a terminal.
    Bar,
    /// A log.
    Lines,
    /// A program, on stdout.
    Json,
}

/// What is shown of a run. One thread has it, so that what is said of it comes in its order.
pub(super) struct Shown {
    how: How,
    /// Where people read.
    lines: Box<dyn Write + Send>,
    bar: ProgressBar,
    done: u64,
    total: u64,
    broken: u64,
}

impl Shown {
    pub(super) fn new(how: How, lines: Box<dyn Write + Send>) -> Shown {
        let bar = match how {
            How::Bar => ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()),
            How::Lines | How::Json => ProgressBar::hidden(),
        };
        Shown { how, lines, bar, done: 0, total: 0, broken: 0 }
    }

    /// One line for a person.
    pub(super) fn note(&mut self, text: &str) {
        let lines = &mut self.lines;
        // A reader who is gone is no reason to lose a trial.
        let mut line = || {
            // As one: others write there too.
            let _ = lines.write_all(format!("{}\n", super::safe(text)).as_bytes());
        };
        match self.how {
            How::Bar => self.bar.suspend(line),
            How::Lines => line(),
            How::Json => {}
        }
    }

    /// The same, also for a program: of what no other event tells.
    pub(super) fn tell(&mut self, text: &str) {
        self.event(&json!({"event": "note", "text": text}));
        self.note(text);
    }

    fn event(&self, value: &Value) {
        if self.how == How::Json {
            // A reader that went away is no reason to lose a trial; the last word says of it.
            let _ = self.line_of_json(value);
        }
    }

    fn line_of_json(&self, value: &Value) -> std::io::Result<()> {
        let mut stdout = std::io::stdout().lock();
        writeln!(stdout, "{value}")?;
        stdout.flush()
    }

    /// The run has a name and a directory.
    pub(super) fn run_started(&mut self, run: &str, path: &str) {
        self.event(&json!({"event": "run-started", "run": run, "path": path}));
        self.note(&format!("run {run} in {path}"));
    }

    /// So many cases were read from the dataset.
    pub(super) fn cases(&self, count: u64) {
        if self.how == How::Bar {
            self.bar.set_style(style("{spinner} reading cases: {msg}"));
            self.bar.set_message(count.to_string());
            self.bar.tick();
        }
    }

    /// The dataset is at its end.
    pub(super) fn cases_resolved(&mut self, count: u64) {
        self.event(&json!({"event": "cases-resolved", "cases": count}));
        self.note(&super::counted(count, "case"));
    }

    /// Counting from here on: `total` of `what`.
    fn phase(&mut self, what: &str, total: u64) {
        (self.done, self.total, self.broken) = (0, total, 0);
        if self.how == How::Bar {
            self.bar.reset();
            self.bar.set_message("");
            self.bar.set_length(total);
            self.bar.set_style(style(&format!(
                "{what} [{{bar:32}}] {{pos}}/{{len}} {{msg}} {{elapsed}} gone, {{eta}} left"
            )));
            self.bar.enable_steady_tick(Duration::from_millis(250));
        }
    }

    fn step(&mut self, broken: bool) -> u64 {
        self.broken += u64::from(broken);
        if self.broken > 0 {
            self.bar.set_message(format!("({})", super::counted(self.broken, "instrument error")));
        }
        self.bar.inc(1);
        self.done += 1;
        self.done
    }

    /// What the coordinator says.
    pub(super) fn collecting(&mut self, event: Event) {
        match event {
            Event::Planned { trials, shards } => {
                self.event(&json!({"event": "collect-planned", "trials": trials, "shards": shards}));
                self.phase("collect", trials);
            }
            Event::Chosen { trial, choice } => {
                let (word, why) = match choice {
                    Choice::Missing => ("run", "it is missing".to_owned()),
                    Choice::Kept { status: Status::Crashed } => ("reused", "it ended, by a crash".to_owned()),
                    Choice::Kept { .. } => ("reused", "it ended".to_owned()),
                    Choice::Broken { why } => (
                        "reused",
                        format!("its instrument broke, and `--retry-unfinished` was not said: {why}"),
                    ),
                    Choice::Again { why, attempt, .. } => {
                        ("run again", format!("attempt {attempt}, as its instrument broke: {why}"))
                    }
                };
                self.event(&json!({"event": "trial-chosen", "trial": trial, "choice": word, "why": why}));
                self.note(&format!("{trial}: {word}: {why}"));
            }
            Event::ShardStarted { shard } => self.event(&json!({"event": "shard-started", "shard": shard})),
            Event::TrialStarted { trial } => self.event(&json!({"event": "trial-started", "trial": trial})),
            Event::TrialStored { trial, status } => {
                let done = self.step(status == Status::Error);
                self.event(&json!({"event": "trial-stored", "trial": trial, "status": status}));
                if self.how == How::Lines {
                    let word = match status {
                        Status::Completed => "completed",
                        Status::Crashed => "crashed",
                        Status::Error => "instrument error",
                    };
                    self.note(&format!("collect {done}/{} {trial}: {word}", self.total));
                }
            }
            Event::Noise { shard, line } => {
                self.event(&json!({"event": "noise", "shard": shard, "line": line}));
                self.note(&format!("shard {shard} says: {line}"));
            }
            Event::Trouble { shard, what } => {
                self.event(&json!({"event": "trouble", "shard": shard, "what": what}));
                self.note(&format!("shard {shard}: {what}"));
            }
            Event::Stopping { in_flight } => {
                self.event(&json!({"event": "stopping", "in_flight": in_flight}));
                self.note(&format!("waiting for {}", super::counted(in_flight, "trial")));
            }
            Event::ShardEnded { shard, ending } => {
                self.event(&json!({"event": "shard-ended", "shard": shard, "ending": ending}));
                if let ShardEnding::Broken { why } = ending {
                    self.note(&format!("shard {shard} broke: {why}"));
                }
            }
        }
    }

    /// Grading begins: `total` grades at the most.
    pub(super) fn grading(&mut self, total: u64) {
        self.event(&json!({"event": "grade-planned", "grades": total}));
        self.phase("grade", total);
    }

    /// What the grader says.
    pub(super) fn graded(&mut self, event: GradeEvent) {
        let (judge, trial, error) = match event {
            GradeEvent::Graded { judge, trial, error } => (judge, trial, error),
            GradeEvent::Stopping { in_flight } => {
                self.event(&json!({"event": "stopping", "in_flight": in_flight}));
                return self.note(&format!("waiting for {}", super::counted(in_flight, "grade")));
            }
        };
        let done = self.step(error.is_some());
        self.event(&json!({"event": "graded", "judge": judge, "trial": trial, "error": error}));
        if self.how == How::Lines {
            let total = self.total;
            match error {
                Some(error) => {
                    self.note(&format!("grade {done}/{total} {judge} {trial}: instrument error: {error}"));
                }
                // A tenth at a time: grades come faster than anybody reads.
                None if done == total || done.is_multiple_of(total.div_ceil(10).max(1)) => {
                    self.note(&format!("grade {done}/{total}"));
                }
                None => {}
            }
        }
    }

    /// The last word of a run, for programs.
    pub(super) fn summary(&self, summary: &Value) -> std::io::Result<()> {
        match self.line_of_json(&json!({"event": "summary", "summary": summary})) {
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
            written => written,
        }
    }

    /// Clears the bar.
    pub(super) fn end(&self) {
        self.bar.finish_and_clear();
    }

    /// What a plugin logs.
    pub(super) fn line(&mut self, line: LogLine) {
        let LogLine { plugin, level, message } = line;
        let word = match level {
            Level::Debug => "debug",
            Level::Info => "info",
            Level::Warn => "warning",
            Level::Error => "error",
        };
        self.event(&json!({"event": "log", "plugin": plugin, "level": word, "message": message}));
        if level > Level::Debug {
            self.note(&format!("{plugin}: {word}: {message}"));
        }
    }

    /// How far a plugin is.
    pub(super) fn plugin_progress(&self, plugin: &PluginId, message: String, fraction: Option<f32>) {
        self.event(
            &json!({"event": "plugin-progress", "plugin": plugin, "message": message, "fraction": fraction}),
        );
        if self.how == How::Bar {
            self.bar.set_message(format!("{plugin}: {message}"));
        }
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("=> ")
}
