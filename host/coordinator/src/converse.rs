//! What is said to and heard from one worker, and the keeping of what it announces. The three go
//! on side by side: a trial that is long on its way here holds up no other, and is no silence.

use std::collections::BTreeSet;
use std::pin::{Pin, pin};
use std::sync::atomic::Ordering;
use std::time::Duration;

use mst_model::run::ShardRecord;
use mst_model::{TokenId, TrialKey};
use mst_protocol::{
    FromCoordinator, FromWorker, Lines, MAX_NOISE_LINES, Need, Numbered, Token, decode, encode,
};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use crate::door::Seat;
use crate::drive::Driver;
use crate::event::Event;
use crate::guard::guarded;
use crate::keep::Announced;
use crate::room;
use crate::runner::Session;
use crate::shard::{Action, Conversation};

/// A worker that says nothing for so long is dead: three of its heartbeats. So is one that takes
/// nothing for so long.
const SILENCE: Duration = Duration::from_secs(30);

/// What a worker that was cancelled gets to end its clients.
const GRACE: Duration = Duration::from_secs(5);

/// What it gets in all until its shard is over, whatever it still says.
const CANCELLED: Duration = Duration::from_secs(20);

/// A worker whose tokens were refused gets others at the soonest so long after those before.
const REFUSED: Duration = Duration::from_secs(10);

type Ended = Pin<Box<dyn Future<Output = Result<(), String>> + Send + Sync>>;

/// The worker itself, until it is known how it ended.
struct Worker(Option<Ended>);

impl Worker {
    /// How it ended, once; none where that is not known within `limit`, or was told before.
    async fn ended(&mut self, limit: Duration) -> Option<Result<(), String>> {
        let ended = timeout(limit, self.0.as_mut()?).await.ok()?;
        self.0 = None;
        Some(ended)
    }
}

/// A shard at the door: where it asks for room, and hears what becomes of that.
pub(crate) struct AtTheDoor<'a> {
    pub(crate) seat: &'a Seat,
    pub(crate) told: UnboundedReceiver<room::Told>,
}

/// The ways out of a conversation.
struct Ways {
    /// To the worker. Each message is said once, or answers one of its own: of a trial, with two at most,
    /// so that the plan bounds how many wait; or of tokens, which are got only when those before are
    /// written.
    say: UnboundedSender<Said>,
    /// To the run. Each trial of the plan goes here once at most.
    keep: UnboundedSender<Announced>,
    /// Once a cancelled worker has had its time.
    over: CancellationToken,
    /// Once this machine can keep no more.
    full: CancellationToken,
}

/// Something that is said to a worker.
struct Said {
    message: FromCoordinator,
    /// Hears that it is written.
    written: Option<oneshot::Sender<()>>,
}

/// The tokens that a worker was told last.
#[derive(Default)]
struct Before {
    /// Comes when they are written, or can't be.
    written: Option<oneshot::Receiver<()>>,
    /// When others were got at last in place of some that were refused.
    refused: Option<Instant>,
}

/// What a conversation came to.
pub(crate) struct Talked {
    /// What broke.
    pub(crate) how: Result<(), String>,
    /// What was announced and can be fetched only after the runner's end.
    pub(crate) waiting: Vec<Announced>,
}

impl Driver {
    /// Has the worker's trials done. What was announced is kept, whatever broke after that.
    pub(crate) async fn converse(
        &self,
        session: Session,
        door: AtTheDoor<'_>,
        conversation: &mut Conversation,
        record: &mut ShardRecord,
    ) -> Talked {
        let Session { from_worker, to_worker, results, ended, machine: _ } = session;
        let mut worker = Worker(Some(ended));
        let (say, said) = mpsc::unbounded_channel();
        let (keep, mut announced) = mpsc::unbounded_channel();
        let (over, full) = (CancellationToken::new(), CancellationToken::new());
        let ways = Ways { say, keep, over: over.clone(), full: full.clone() };

        let seat = door.seat;
        let talking = async {
            let listening = self.listen(from_worker, &mut worker, ways, door, conversation, record);
            let how = guarded(talk(listening, to_worker, said)).await.flatten();
            // Nobody listens here any more: what was announced may be long on its way, and others wait.
            seat.leave(|trial| conversation.is_under_way(trial));
            how
        };
        let work = async {
            if results.come_at_the_end() {
                let how = talking.await;
                let waiting = std::iter::from_fn(|| announced.try_recv().ok()).collect();
                return Talked { how, waiting };
            }
            // The channel to `keep` closes with the talk, and what it was told by then it keeps.
            let (talked, kept) = tokio::join!(talking, self.keep(&*results, announced, seat, &over, &full));
            // Where nothing can be kept, that is why the talk ended.
            let how = if full.is_cancelled() { kept.and(talked) } else { talked.and(kept) };
            Talked { how, waiting: Vec::new() }
        };
        let talked = tokio::select! {
            talked = work => talked,
            never = self.watch(&over, &full) => match never {},
        };
        // Its stdin has ended, by which it ends its clients; dropped at once it could not.
        worker.ended(GRACE).await;
        talked
    }

    /// Says when a cancelled shard has had its time.
    async fn watch(&self, over: &CancellationToken, full: &CancellationToken) -> std::convert::Infallible {
        tokio::select! {
            () = self.stop.cancel.cancelled() => {}
            () = full.cancelled() => {}
        }
        sleep(CANCELLED).await;
        over.cancel();
        std::future::pending().await
    }

    async fn listen(
        &self,
        mut from: impl AsyncRead + Unpin,
        worker: &mut Worker,
        ways: Ways,
        AtTheDoor { seat, told: mut at_the_door }: AtTheDoor<'_>,
        conversation: &mut Conversation,
        record: &mut ShardRecord,
    ) -> Result<(), String> {
        let mut lines = Lines::default();
        let mut noise = 0;
        let mut buffer = vec![0; 4 << 10];
        let mut told = Told::Nothing;
        let mut getting: Option<Getting<'_>> = None;
        let mut before = Before::default();
        // Noise does not put off the `hello`.
        let (began, mut heard) = (Instant::now(), Instant::now());
        // Since when a trial is overdue while there is more and more to read.
        let mut late: Option<Instant> = None;
        // When it was last looked which tokens the worker has.
        let mut locked = Duration::ZERO;
        loop {
            let (since, patience) =
                if conversation.greeting() { (began, self.machine_time) } else { (heard, SILENCE) };
            let overdue = conversation.overdue_at().map(|at| began + at);
            let locks_at = conversation.locks_at(locked);
            tokio::select! {
                biased;
                () = ways.over.cancelled() => {
                    return Err(format!("its worker did not end within {} s of its `cancel`", CANCELLED.as_secs()));
                }
                () = self.stop.cancel.cancelled(), if told < Told::Cancel => {
                    told = Told::Cancel;
                    conversation.stop();
                    ways.cancel("the run was cancelled");
                }
                // What it would do from here on is lost.
                () = ways.full.cancelled(), if told < Told::Cancel => {
                    told = Told::Cancel;
                    conversation.stop();
                    ways.cancel("what it does can't be kept any more");
                }
                () = self.stop.finish.cancelled(), if told < Told::Finish => {
                    told = Told::Finish;
                    conversation.stop();
                    self.events.say(Event::Stopping { in_flight: conversation.in_flight() });
                    ways.say(FromCoordinator::Cancel { why: "the run was stopped".to_owned(), grace_ms: None });
                }
                // Both come as often as it asks: one that never stops writing is answered too.
                Some(tokens) = got(&mut getting) => {
                    getting = None;
                    let (tokens, now) = (tokens?, began.elapsed());
                    let good_for = |token: &Token| token.expires_in_ms.map(Duration::from_millis);
                    conversation.give(now, tokens.iter().map(|token| (token.name.clone(), good_for(token))));
                    let (written, is_written) = oneshot::channel();
                    before.written = Some(is_written);
                    ways.tell(Said { message: FromCoordinator::Tokens { tokens }, written: Some(written) });
                    // They are said before whatever starts by this.
                    locked = now;
                    seat.lock(conversation.locked(locked));
                }
                () = sleep_until(began + locks_at.unwrap_or_default()), if locks_at.is_some() => {
                    locked = began.elapsed();
                    seat.lock(conversation.locked(locked));
                }
                Some(of_trial) = at_the_door.recv() => match of_trial {
                    room::Told::Granted(trial) => {
                        self.let_start(conversation, began, &ways, seat, trial);
                    }
                    room::Told::Waits(trial) => {
                        if conversation.waits(&trial) {
                            ways.say(FromCoordinator::Waits { trial });
                        }
                    }
                },
                // What has come counts before the clock does: a host that was slow itself must not
                // take that for silence.
                read = from.read(&mut buffer) => {
                    let read = read.map_err(|error| format!("the way from its worker broke: {error}"))?;
                    if read == 0 {
                        return Err(cut_off(&lines, worker).await);
                    }
                    heard = Instant::now();
                    lines.push(&buffer[..read]).map_err(|error| error.to_string())?;
                    while let Some(line) = lines.next_line() {
                        let message: Numbered = match decode(&line) {
                            Ok(message) => message,
                            Err(_) if conversation.greeting() && noise < MAX_NOISE_LINES => {
                                noise += 1;
                                let line = line[..line.len().min(256)].escape_ascii().to_string();
                                self.events.say(Event::Noise { shard: record.index, line });
                                continue;
                            }
                            Err(error) => return Err(error.to_string()),
                        };
                        if let FromWorker::Hello { mst, .. } = &message.message {
                            record.worker_mst = mst.parse().ok();
                        }
                        match conversation.on(began.elapsed(), message).map_err(|breach| breach.to_string())? {
                            Action::Begin => {
                                self.tally.begun.fetch_add(1, Ordering::Relaxed);
                                self.events.say(Event::ShardStarted { shard: record.index });
                            }
                            Action::Tokens(names, why) => {
                                let soonest = before.soonest(why);
                                let tokens = self.tokens(names, why, record.index, before.written.take(), soonest);
                                getting = Some(Box::pin(tokens));
                            }
                            Action::Ask(trial, lane) => {
                                if seat.ask(&trial, lane) {
                                    self.let_start(conversation, began, &ways, seat, trial);
                                }
                            }
                            Action::Store(done, expected) => {
                                seat.end(&done.trial);
                                ways.keep(Announced { done, expected });
                            }
                            Action::Nothing => {}
                            Action::End { clean } => {
                                record.clean = Some(clean);
                                if !clean {
                                    let what = "its worker could not clean up after its trials".to_owned();
                                    self.events.say(Event::Trouble { shard: record.index, what });
                                }
                                return Ok(());
                            }
                        }
                    }
                    // What the end of a trial may still wait behind is read in that time; a worker that
                    // never stops writing is no reason to wait longer.
                    match conversation.overdue(began.elapsed()) {
                        None => late = None,
                        Some(overdue) if late.get_or_insert(heard).elapsed() >= GRACE => {
                            return Err(overdue.to_string());
                        }
                        Some(_) => {}
                    }
                }
                () = sleep_until(overdue.unwrap_or(since + patience)), if overdue.is_some() => {
                    if let Some(overdue) = conversation.overdue(began.elapsed()) {
                        return Err(overdue.to_string());
                    }
                }
                () = sleep_until(since + patience) => {
                    let what = if conversation.greeting() { "no `hello` within" } else { "nothing for" };
                    return Err(format!("its worker said {what} {} s", patience.as_secs()));
                }
            }
        }
    }

    /// Gets tokens for the worker, once those before are `written`: one that asks and does not read would
    /// fill the memory with them. It is told of trouble as it comes, for that may take long.
    async fn tokens(
        &self,
        names: BTreeSet<TokenId>,
        why: Need,
        shard: u32,
        written: Option<oneshot::Receiver<()>>,
        soonest: Instant,
    ) -> Result<Vec<Token>, String> {
        if let Some(written) = written {
            // Where they can't be, whoever writes says why.
            let _ = written.await;
        }
        sleep_until(soonest).await;
        let trouble = |what| self.events.say(Event::Trouble { shard, what });
        self.vault.get(&names, why, trouble).await
    }

    /// Lets a trial start that has room, or gives that back where it may not any more.
    fn let_start(
        &self,
        conversation: &mut Conversation,
        began: Instant,
        ways: &Ways,
        seat: &Seat,
        trial: TrialKey,
    ) {
        if conversation.grant(began.elapsed(), &trial) {
            self.events.say(Event::TrialStarted { trial: trial.clone() });
            ways.say(FromCoordinator::Granted { trial });
        } else {
            seat.give_up(&trial);
        }
    }
}

impl Ways {
    fn say(&self, message: FromCoordinator) {
        self.tell(Said { message, written: None });
    }

    /// Says it, where the way to the worker is still there; whoever watches that way knows.
    fn tell(&self, said: Said) {
        let _ = self.say.send(said);
    }

    /// Ends what runs.
    fn cancel(&self, why: &str) {
        self.say(FromCoordinator::Cancel { why: why.to_owned(), grace_ms: Some(GRACE.as_millis() as u64) });
    }

    fn keep(&self, announced: Announced) {
        let _ = self.keep.send(announced);
    }
}

impl Before {
    /// From when on tokens may be got that are needed for this reason.
    fn soonest(&mut self, why: Need) -> Instant {
        let now = Instant::now();
        if why != Need::Connector {
            return now;
        }
        let soonest = self.refused.map_or(now, |before| now.max(before + REFUSED));
        self.refused = Some(soonest);
        soonest
    }
}

type Getting<'a> = Pin<Box<dyn Future<Output = Result<Vec<Token>, String>> + Send + 'a>>;

/// The tokens, where some are being got.
async fn got(getting: &mut Option<Getting<'_>>) -> Option<Result<Vec<Token>, String>> {
    Some(getting.as_mut()?.await)
}

/// What a worker was told already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Told {
    Nothing,
    Finish,
    Cancel,
}

/// Listens until the worker is done, and says meanwhile what there is to say.
async fn talk(
    listening: impl Future<Output = Result<(), String>>,
    to: impl AsyncWrite + Unpin,
    said: UnboundedReceiver<Said>,
) -> Result<(), String> {
    let mut listening = pin!(listening);
    let mute = tokio::select! {
        biased;
        heard = &mut listening => return heard,
        mute = speak(to, said) => mute,
    };
    // What the worker said before it went is still to be heard, and perhaps why it went.
    timeout(GRACE, listening).await.unwrap_or(Err(mute))
}

/// Says what there is to say, until that can't be said.
async fn speak(mut to: impl AsyncWrite + Unpin, mut said: UnboundedReceiver<Said>) -> String {
    while let Some(Said { message, written }) = said.recv().await {
        let line = match encode(&message) {
            Ok(line) => line,
            Err(error) => return error.to_string(),
        };
        let sent = timeout(SILENCE, async {
            to.write_all(&line).await?;
            to.flush().await
        });
        match sent.await {
            Ok(Ok(())) => drop(written.map(|written| written.send(()))),
            Ok(Err(error)) => return format!("the way to its worker broke: {error}"),
            Err(_) => return format!("its worker took nothing for {} s", SILENCE.as_secs()),
        }
    }
    std::future::pending().await
}

/// Why the way from the worker ended before `done`: in its own words, where it has any.
async fn cut_off(lines: &Lines, worker: &mut Worker) -> String {
    if let Some(Err(why)) = worker.ended(GRACE).await {
        return format!("its worker failed: {why}");
    }
    match lines.end() {
        Ok(()) => "the way from its worker ended before `done`".to_owned(),
        Err(error) => error.to_string(),
    }
}
