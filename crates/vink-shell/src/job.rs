//! Jobs: the programs that a session has started and that have not ended.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::task::JoinHandle;
use vink_api::{
    Bytes, Input, LabApi, Output, OutputQuery, Terminal, TerminalInput, TerminalOutput,
};

use crate::executor::Executor;
use crate::ShellError;

/// Bytes of input that a program may leave unread; what is more is thrown away, as a terminal does.
const UNREAD: usize = 1 << 20;
/// Pieces of output that may wait to be shown; then the program waits.
const PIECES: usize = 64;

/// What happens to a job.
#[derive(Debug)]
pub(crate) enum News {
    Output(Bytes),
    Error(Bytes),
    Ended {
        code: i32,
        error: Option<String>,
        report: Option<Value>,
    },
    /// It can't be told any more what happens to it.
    Lost(String),
}

/// Of which job, and what.
pub(crate) type Told = (usize, News);

/// Where jobs tell what happens to them.
#[derive(Debug)]
pub(crate) struct Channel {
    pub(crate) sender: mpsc::Sender<Told>,
    pub(crate) receiver: mpsc::Receiver<Told>,
}

impl Channel {
    pub(crate) fn new() -> Channel {
        let (sender, receiver) = mpsc::channel(PIECES);
        Channel { sender, receiver }
    }
}

/// A program of a session. If it is connected to it, it ends with it.
#[derive(Debug)]
pub(crate) struct Job {
    /// Its number in the session.
    pub(crate) number: usize,
    /// Its number in the lab.
    pub(crate) program: u64,
    /// As it was written.
    pub(crate) line: String,
    /// A virtualized process.
    pub(crate) app: bool,
    pub(crate) stopped: bool,
    /// What goes to the program; none: it was started in the background.
    pub(crate) input: Option<InputQueue>,
    listener: JoinHandle<()>,
}

impl Drop for Job {
    fn drop(&mut self) {
        self.listener.abort();
    }
}

impl Job {
    /// A program that is connected to the session by a terminal or a pipe.
    pub(crate) fn attached(
        number: usize,
        program: u64,
        line: &str,
        terminal: Terminal,
        news: mpsc::Sender<Told>,
    ) -> Job {
        let (input, output) = terminal.split();
        Job {
            number,
            program,
            line: line.to_owned(),
            app: false,
            stopped: false,
            input: Some(InputQueue::new(input)),
            listener: tokio::spawn(listen(number, output, news)),
        }
    }

    /// A program of the background, whose output is followed.
    pub(crate) fn detached(
        number: usize,
        program: u64,
        line: &str,
        app: bool,
        executor: Executor<impl LabApi>,
        news: mpsc::Sender<Told>,
    ) -> Job {
        let follow = async move {
            // A virtualized process has a report in the place of output.
            let output = (!app).then_some(&news);
            let last = match follow(number, &executor, program, output).await {
                Ok(last) => last,
                Err(failure) => News::Lost(failure.to_string()),
            };
            // The session may have ended.
            let _ = news.send((number, last)).await;
        };
        Job {
            number,
            program,
            line: line.to_owned(),
            app,
            stopped: false,
            input: None,
            listener: tokio::spawn(follow),
        }
    }
}

async fn listen(number: usize, mut output: TerminalOutput, news: mpsc::Sender<Told>) {
    loop {
        let told = match output.next().await {
            Ok(Output::Stdout(bytes)) => News::Output(bytes),
            Ok(Output::Stderr(bytes)) => News::Error(bytes),
            // Of kept terminals, which a job has not.
            Ok(Output::Told(_)) => continue,
            Ok(Output::Ended { code, error }) => News::Ended {
                code,
                error,
                report: None,
            },
            Err(error) => News::Lost(error.to_string()),
        };
        let last = matches!(told, News::Ended { .. } | News::Lost(_));
        if news.send((number, told)).await.is_err() || last {
            return;
        }
    }
}

async fn follow(
    number: usize,
    executor: &Executor<impl LabApi>,
    program: u64,
    news: Option<&mpsc::Sender<Told>>,
) -> Result<News, ShellError> {
    let name = program.to_string();
    if let Some(news) = news {
        let query = OutputQuery {
            follow: true,
            tail: None,
        };
        let mut log = executor.api.output(&executor.lab, &name, &query).await?;
        while let Some(bytes) = log.next().await? {
            if news.send((number, News::Output(bytes))).await.is_err() {
                break;
            }
        }
    }
    let ended = executor.wait(&name).await?;
    Ok(News::Ended {
        code: ended.code.unwrap_or(0),
        error: ended.error,
        report: ended.report,
    })
}

/// What goes to a program, in order, by a task of its own: a program that reads nothing blocks only
/// this task.
#[derive(Debug)]
pub(crate) struct InputQueue {
    sender: UnboundedSender<Input>,
    unread: Arc<AtomicUsize>,
}

impl InputQueue {
    fn new(input: TerminalInput) -> InputQueue {
        let (sender, receiver) = mpsc::unbounded_channel();
        let unread = Arc::new(AtomicUsize::new(0));
        tokio::spawn(feed(input, receiver, unread.clone()));
        InputQueue { sender, unread }
    }

    /// Gives it bytes. False: it has too many unread already, and these are thrown away.
    pub(crate) fn write(&self, bytes: Vec<u8>) -> bool {
        if self.unread.load(Ordering::Relaxed) + bytes.len() > UNREAD {
            return false;
        }
        self.unread.fetch_add(bytes.len(), Ordering::Relaxed);
        self.send(Input::Bytes(bytes.into()));
        true
    }

    /// Anything but bytes.
    pub(crate) fn send(&self, what: Input) {
        // If the task has ended, so has the program, which the output tells.
        let _ = self.sender.send(what);
    }
}

/// Ends when the job is dropped, and the connection with it.
async fn feed(
    mut input: TerminalInput,
    mut receiver: UnboundedReceiver<Input>,
    unread: Arc<AtomicUsize>,
) {
    while let Some(sent) = receiver.recv().await {
        let bytes = match &sent {
            Input::Bytes(bytes) => bytes.len(),
            _ => 0,
        };
        let done = input.send(sent).await;
        unread.fetch_sub(bytes, Ordering::Relaxed);
        if done.is_err() {
            return;
        }
    }
}
