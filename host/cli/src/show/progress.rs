//! Where all that is said of a run goes: plugins, workers, the coordinator and signals speak at the same
//! time, and none of them waits for whoever reads.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use mst_coordinator::Event;
use mst_model::PluginId;
use mst_sandbox::{LogLine, LogSink};
use mst_worker::grade::GradeEvent;
use serde_json::Value;
use tokio::sync::oneshot;

use super::shown::{How, Shown};
use crate::error::Failure;

/// So many words may wait for their reader; then lines of plugins are left out, which are as many as
/// plugins like.
const WAITING: usize = 10_000;

/// How long nothing is shown after something was: to be woken for each word would be a tenth of what a trial
/// costs.
const BREATH: Duration = Duration::from_millis(5);

type Word = Box<dyn FnOnce(&mut Shown) + Send>;

/// A run's progress. What is said first is shown first.
pub(crate) struct Progress {
    words: mpsc::Sender<Word>,
    /// How many are said and not shown yet.
    waiting: Arc<AtomicUsize>,
    /// How many lines of plugins were left out and not told of yet.
    left_out: AtomicU64,
    /// Whether nothing is shown any more but a last word.
    muted: AtomicBool,
}

impl Progress {
    pub(crate) fn new(how: How) -> Result<Progress, Failure> {
        Progress::to(Shown::new(how, Box::new(io::stderr())))
    }

    fn to(mut shown: Shown) -> Result<Progress, Failure> {
        let (words, said) = mpsc::channel::<Word>();
        let waiting = Arc::<AtomicUsize>::default();
        let left = waiting.clone();
        // A thread of its own: a reader who does not read holds up it and nothing else.
        let show = move || {
            while let Ok(first) = said.recv() {
                for word in std::iter::once(first).chain(said.try_iter()) {
                    word(&mut shown);
                    left.fetch_sub(1, Ordering::Relaxed);
                }
                // What is said meanwhile is shown together, and wakes nobody.
                std::thread::sleep(BREATH);
            }
        };
        std::thread::Builder::new()
            .name("show".to_owned())
            .spawn(show)
            .map_err(|error| Failure::because("mst can't start", &error))?;
        Ok(Progress { words, waiting, left_out: AtomicU64::new(0), muted: AtomicBool::new(false) })
    }

    fn say(&self, word: impl FnOnce(&mut Shown) + Send + 'static) {
        if !self.muted.load(Ordering::SeqCst) {
            self.send(word);
        }
    }

    fn send(&self, word: impl FnOnce(&mut Shown) + Send + 'static) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        // Where nobody shows anything any more, nobody is told.
        let _ = self.words.send(Box::new(word));
    }

    /// Comes when all is shown that was said until now.
    pub(crate) fn shown(&self) -> oneshot::Receiver<()> {
        let (say, shown) = oneshot::channel();
        self.say(|_| {
            let _ = say.send(());
        });
        shown
    }

    /// Nothing is shown from here on but a last word.
    pub(crate) fn mute(&self) {
        self.muted.store(true, Ordering::SeqCst);
    }

    /// Tells it whatever is muted, and waits a little until it is shown.
    pub(crate) fn last_word(&self, text: &str, limit: Duration) {
        let (text, (say, shown)) = (text.to_owned(), mpsc::channel());
        self.send(move |to| {
            to.tell(&text);
            let _ = say.send(());
        });
        let _ = shown.recv_timeout(limit);
    }

    /// One line for a person.
    pub(crate) fn note(&self, text: &str) {
        let text = text.to_owned();
        self.say(move |shown| shown.note(&text));
    }

    /// The same, also for a program: of what no other event tells.
    pub(crate) fn tell(&self, text: &str) {
        let text = text.to_owned();
        self.say(move |shown| shown.tell(&text));
    }

    /// The run has a name and a directory.
    pub(crate) fn run_started(&self, run: &str, path: &str) {
        let (run, path) = (run.to_owned(), path.to_owned());
        self.say(move |shown| shown.run_started(&run, &path));
    }

    /// So many cases were read from the dataset.
    pub(crate) fn cases(&self, count: u64) {
        self.say(move |shown| shown.cases(count));
    }

    /// The dataset is at its end.
    pub(crate) fn cases_resolved(&self, count: u64) {
        self.say(move |shown| shown.cases_resolved(count));
    }

    /// What the coordinator says.
    pub(crate) fn collecting(&self, event: Event) {
        self.say(move |shown| shown.collecting(event));
    }

    /// Grading begins: `total` grades at the most.
    pub(crate) fn grading(&self, total: u64) {
        self.say(move |shown| shown.grading(total));
    }

    /// What the grader says.
    pub(crate) fn graded(&self, event: GradeEvent) {
        self.say(move |shown| shown.graded(event));
    }

    /// The last word of a run, for programs.
    pub(crate) fn summary(&self, summary: Value) -> io::Result<()> {
        let (say, written) = mpsc::channel();
        self.say(move |shown| drop(say.send(shown.summary(&summary))));
        written.recv().unwrap_or_else(|_| Err(io::Error::other("nothing is shown any more")))
    }

    /// Clears the bar, once all is shown that was said: whoever prints after this comes after it.
    pub(crate) fn end(&self) {
        self.tell_what_was_left_out();
        let (say, ended) = mpsc::channel();
        self.say(move |shown| {
            shown.end();
            let _ = say.send(());
        });
        let _ = ended.recv();
    }

    /// Whether a line more may wait that is no event of the run.
    fn has_room(&self) -> bool {
        let room = self.waiting.load(Ordering::Relaxed) < WAITING;
        if room {
            self.tell_what_was_left_out();
        } else {
            self.left_out.fetch_add(1, Ordering::Relaxed);
        }
        room
    }

    fn tell_what_was_left_out(&self) {
        let count = self.left_out.swap(0, Ordering::Relaxed);
        if count > 0 {
            let lines = super::counted(count, "line");
            self.tell(&format!("{lines} of plugins left out here: nobody read so many"));
        }
    }
}

impl LogSink for Progress {
    fn line(&self, line: LogLine) {
        if self.has_room() {
            self.say(move |shown| shown.line(line));
        }
    }

    fn progress(&self, plugin: &PluginId, message: String, fraction: Option<f32>) {
        if self.has_room() {
            let plugin = plugin.clone();
            self.say(move |shown| shown.plugin_progress(&plugin, message, fraction));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mst_sandbox::Level;
    use std::io::Read as _;

    #[test]
    fn a_flood_of_lines_waits_for_nobody_and_is_told() {
        let (mut read, written) = io::pipe().expect("a pipe");
        let progress = Progress::to(Shown::new(How::Lines, Box::new(written))).expect("it starts");
        let (go, wait) = mpsc::channel::<()>();
        progress.say(move |_| {
            let _ = wait.recv();
        });
        let plugin: PluginId = "acme/judge/loud".parse().expect("an id");
        for n in 0..WAITING + 5 {
            let line = LogLine { plugin: plugin.clone(), level: Level::Debug, message: n.to_string() };
            progress.line(line);
        }
        // The one that is held up is waiting too.
        assert_eq!(progress.left_out.load(Ordering::Relaxed), 6);
        drop(go);
        progress.end();
        drop(progress);
        let mut told = String::new();
        read.read_to_string(&mut told).expect("reads");
        assert_eq!(told, "6 lines of plugins left out here: nobody read so many\n");
    }
}
