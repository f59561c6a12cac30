//! The recording of an operation: when each message of a rank left, and when it came.
//!
//! A message begins when its first byte is handed to the transport, is sent when the transport has taken its last one,
//! and is received when its last byte is here. One that came before its operation began here counts as received then.
//! Cost: a look at the clock (some 30 ns) at each of these moments, into memory that is there before the first; an
//! operation that is not recorded asks once a message whether it is.

use std::sync::LazyLock;
use std::time::Instant;

use super::program::{Program, Task, TaskId};
use crate::bail;
use crate::error::Result;
use crate::plan::schedule::{Op, TransferId};
use crate::plan::{LaneRef, Plan, Step};
use crate::units::{Bytes, Seconds, Time};

static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Returns the seconds on this process's clock, which never goes back. It starts at 1, so that 0 can mean never.
fn now() -> f64 {
    1.0 + START.elapsed().as_secs_f64()
}

/// When the messages of one rank left and came in one operation, on this process's clock.
///
/// ```
/// use std::sync::Arc;
/// use treefold::number::{Number, Operator};
/// use treefold::planners::{self, Options};
/// use treefold::run::{memory, program::Program, recording::Recording};
/// use treefold::topology::from_spec;
/// use treefold::units::parse_time;
///
/// let line = Arc::new(from_spec("line:2", None, None)?);
/// let plan = planners::plan("ring", &line, &Options::default())?;
/// let programs = Program::all(&plan, 8, 1, parse_time("0s")?)?;
/// let (mut vectors, mut scratch) = ([[1; 8], [2; 8]], vec![Vec::new(); 2]);
/// let mut vectors: Vec<&mut [u8]> = vectors.iter_mut().map(|vector| vector.as_mut_slice()).collect();
/// let mut recordings = vec![Recording::default(); 2];
/// let each: Vec<&Program> = programs.iter().collect();
/// let (number, operator) = (Number::Uint8, Operator::Sum);
/// memory::run(&each, number, operator, &mut vectors, &mut scratch, Some(&mut recordings[..]), &mut || true)?;
///
/// let mut times = vec![0.0; 3 * programs[0].transfers];
/// recordings.iter().zip(&programs).for_each(|(recording, program)| recording.write(program, &mut times));
/// let [started, sent, received] = [0, 1, 2].map(|column| times[column * programs[0].transfers]);
/// assert!(0.0 < started && started <= sent && started <= received);
/// # Ok::<(), treefold::error::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Recording {
    /// When each task handed its first byte to the transport, 0 for tasks that send nothing; and when its last byte was
    /// sent or received.
    moments: Vec<[f64; 2]>,
}

impl Recording {
    /// Begins anew, with room for all tasks of a program, before an operation of it begins.
    pub fn prepare(&mut self, program: &Program) {
        self.moments.clear();
        self.moments.resize(program.tasks.len(), [0.0; 2]);
    }

    /// Records that the first byte of a message is about to leave. If the transport takes nothing, that happens again.
    pub(super) fn begin(&mut self, task: TaskId) {
        self.moments[task][0] = now();
    }

    /// Records that the last byte of a message has left or come.
    pub(super) fn end(&mut self, task: TaskId) {
        self.moments[task][1] = now();
    }

    /// Writes the times of the rank's messages, whose program is `program`, to a table with three rows and a column for
    /// each transfer of the schedule: when the first byte left, when the last one had left, and when it was received.
    pub fn write(&self, program: &Program, times: &mut [f64]) {
        let (started, others) = times.split_at_mut(program.transfers);
        let (sent, received) = others.split_at_mut(program.transfers);
        for ((task, &transfer), &[begun, ended]) in program.tasks.iter().zip(&program.transfer).zip(&self.moments) {
            match task {
                Task::Send(_) => (started[transfer], sent[transfer]) = (begun, ended),
                Task::Reduce(_) | Task::Replace(_) => received[transfer] = ended,
                Task::Copy | Task::Add => {}
            }
        }
    }
}

/// A message of a run, as its schedule has it.
#[derive(Debug, Clone, Copy)]
pub struct Message {
    /// Its number in the schedule, which is its column in the table of [`Recording::write`].
    pub transfer: TransferId,
    /// Its sender, receiver and route.
    pub lane: LaneRef,
    /// The tree that it belongs to; the first of them if it carries parts of several.
    pub tree: u32,
    /// Its phase of the plan.
    pub phase: u16,
    /// Its step of the phase; `None` in streams.
    pub step: Option<Step>,
    /// Its chunk of the tree's span.
    pub chunk: u32,
    /// Whether it carries partial sums towards a root.
    pub reduces: bool,
    /// The bytes that it carries.
    pub bytes: Bytes,
}

/// Returns the messages that all ranks together send when they run `plan`, in the order of the schedule, and how many
/// transfers that has, those within a rank's memory included. The arguments and errors are those of [`Program::new`].
///
/// ```
/// # use std::sync::Arc;
/// # use treefold::planners::{self, Options};
/// # let ring = Arc::new(treefold::topology::from_spec("ring:4", None, None)?);
/// # let plan = planners::plan("ring", &ring, &Options::default())?;
/// use treefold::run::recording::messages;
/// use treefold::units::parse_time;
///
/// let (messages, transfers) = messages(&plan, 1024, 4, parse_time("0s")?)?;
/// assert!(messages.len() == 24 && transfers == 24 && messages.iter().all(|message| message.bytes.get() == 1024));
/// # Ok::<(), treefold::error::Error>(())
/// ```
pub fn messages(plan: &Plan, elements: u64, element_bytes: u64, overhead: Time) -> Result<(Vec<Message>, usize)> {
    let schedule = Program::lower(plan, elements, element_bytes, overhead)?;
    let message = |transfer: TransferId| {
        Some(Message {
            transfer,
            lane: schedule.lane[transfer]?,
            tree: schedule.tree[transfer],
            phase: schedule.phase[transfer],
            step: schedule.step[transfer],
            chunk: schedule.chunk[transfer],
            reduces: schedule.op[transfer] == Op::Reduce,
            bytes: Bytes::known(schedule.elements_of(transfer) * element_bytes),
        })
    };
    Ok((schedule.ids().filter_map(message).collect(), schedule.len()))
}

/// Settles the times of all messages in a table like that of [`Recording::write`], after ranks have put them on one
/// clock as well as they could: the first byte of all leaves at 0, none is received before it has left, and the last
/// byte of a message has left when it is received. Returns by how much the worst receipt was too early.
///
/// # Errors
/// If no rank has recorded a message.
///
/// ```
/// # use std::sync::Arc;
/// # use treefold::planners::{self, Options};
/// use treefold::run::recording::{messages, settle};
/// use treefold::units::parse_time;
///
/// let line = Arc::new(treefold::topology::from_spec("line:2", None, None)?);
/// let plan = planners::plan("ring", &line, &Options::default())?;
/// let (messages, transfers) = messages(&plan, 2, 1, parse_time("0s")?)?;
/// assert_eq!(transfers, 4);
/// let (started, sent, received) = ([5.0, 5.5, 7.0, 7.0], [6.0, 6.0, 8.0, 8.0], [9.0, 5.25, 7.5, 9.0]);
/// let mut times = [started, sent, received].concat();
/// assert_eq!(settle(&messages, &mut times)?.get(), 0.25, "the second was received before it left");
/// assert_eq!(times[..8], [0.0, 0.5, 2.0, 2.0, 1.0, 0.5, 2.5, 3.0]);
/// assert_eq!(times[8..], [4.0, 0.5, 2.5, 4.0]);
/// # Ok::<(), treefold::error::Error>(())
/// ```
pub fn settle(messages: &[Message], times: &mut [f64]) -> Result<Seconds> {
    let transfers = times.len() / 3;
    let (started, others) = times.split_at_mut(transfers);
    let (sent, received) = others.split_at_mut(transfers);
    let (mut first, mut worst) = (f64::INFINITY, 0.0f64);
    for &Message { transfer, .. } in messages {
        if [started[transfer], sent[transfer], received[transfer]].contains(&0.0) {
            bail!("no rank has recorded transfer {transfer}; run all ranks with the same version of treefold");
        }
        first = first.min(started[transfer]);
    }
    for &Message { transfer, .. } in messages {
        worst = worst.max(started[transfer] - received[transfer]);
        started[transfer] -= first;
        received[transfer] = started[transfer].max(received[transfer] - first);
        sent[transfer] = received[transfer].min(sent[transfer] - first).max(started[transfer]);
    }
    Ok(Seconds::known(worst))
}
