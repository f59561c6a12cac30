//! The flow simulator: events, and links that concurrent messages share max-min fairly.
//!
//! A message leaves when the tree lets it: everything it sums up or passes on has been received (store and forward on
//! every edge), and, in a stream, the chunk before it has left the same edge. In a step-paced phase a port, the first
//! link of a route, sends the messages of a step only when those of its earlier steps have left; nobody waits for a
//! step to end elsewhere. While on its route a message occupies all links of its route at one rate, at most the least
//! fair share among them, and in a paced stream at most its tree's part of what the busiest link allows; latency delays
//! its receipt and occupies nothing, overhead occupies. A phase begins when the one before has ended. Cost: a few
//! hundred nanoseconds a message that meets no other; else see `links`.

mod calendar;
mod filling;
mod links;
mod quantities;
mod workload;

use super::trace::{Trace, Transfer};
use crate::bail;
use crate::error::Result;
use crate::plan::pipeline::check_chunks;
use crate::plan::{LaneRoutes, Walkable};
use crate::units::Bytes;
use calendar::Calendar;
use filling::QueueId;
use links::SharedLinks;
use quantities::Instant;
use workload::{GateId, MessageId, TreeHalf, Workload, compile};

/// Simulates `plan` for a vector of `size`; the trace lists its transfers if `record` says so. Long simulations ask
/// `go_on` now and then, with the seconds that are simulated.
///
/// # Errors
/// `go_on` says no, or the plan asks for more chunks than treefold handles.
///
/// ```
/// # use std::sync::Arc;
/// # use treefold::planners::{self, Options};
/// use treefold::sim::flow::simulate;
/// use treefold::units::Bytes;
/// # let ring = Arc::new(treefold::topology::from_spec("ring:4", None, None)?);
/// # let plan = planners::plan("ring", &ring, &Options::default())?;
/// let trace = simulate(&plan, Bytes(1 << 20), true, &mut |_| true)?;
/// let last = trace.transfers.iter().map(|transfer| transfer.received).fold(0.0, f64::max);
/// assert_eq!(trace.seconds, last);
/// # Ok::<(), treefold::error::Error>(())
/// ```
pub fn simulate<'a>(
    plan: impl Into<Walkable<'a>>,
    size: Bytes,
    record: bool,
    go_on: &mut dyn FnMut(f64) -> bool,
) -> Result<Trace> {
    let plan = plan.into().walked();
    check_chunks(plan, size)?;
    let routes = LaneRoutes::new(&plan.topology, &plan.lanes);
    let mut links = SharedLinks::new(&plan.topology, &routes, 2 * plan.lanes.len());
    let mut trace = Trace { size, ..Trace::default() };
    if size.0 > 0 {
        for (number, phase) in plan.phases.iter().enumerate() {
            let workload = compile(plan, phase, &routes, size);
            let mut run = Run::new(&workload, &mut links, Instant(trace.seconds));
            if record {
                run.record = Some(Record {
                    phase: number as u16,
                    started: vec![Instant::ZERO; workload.messages.len()],
                    transfers: Vec::new(),
                });
            }
            run.run(go_on)?;
            trace.seconds = run.end.0;
            trace.transfers.extend(run.record.into_iter().flat_map(|record| record.transfers));
        }
    }
    (trace.occupied, trace.carried) = links.busy();
    Ok(trace)
}

/// How many events pass between two questions whether to go on: few enough that nobody waits, and so many that asking
/// costs nothing.
const EVENTS_BETWEEN_QUESTIONS: usize = 1 << 15;

/// What an event is about.
#[derive(Debug, Clone, Copy)]
enum Event {
    /// The last byte of a message's next chunk is received.
    Receipt(MessageId),
    /// The next message leaves a queue, unless rates have changed since this version.
    Departure { queue: QueueId, version: u32 },
}

/// The progress of a message.
#[derive(Clone, Copy, Default)]
struct Progress {
    /// Chunks that have left or are leaving.
    started: u32,
    received: u32,
    /// What the next chunk still waits for: gates, the chunk before it, its port.
    obstacles: u32,
}

/// The progress of a gate.
#[derive(Clone, Copy)]
struct Passed {
    /// Chunks that have been received from everybody.
    chunks: u32,
    /// Parts whose next chunk is missing.
    missing: u32,
}

/// The messages that may leave by a port.
#[derive(Clone, Copy)]
struct Port {
    /// First message of the next step, if there is one.
    next: Option<MessageId>,
    /// Messages of this step that have not left.
    open: u32,
}

/// The transfers that have ended, and when the others started.
struct Record {
    phase: u16,
    started: Vec<Instant>,
    transfers: Vec<Transfer>,
}

/// A phase on its way.
struct Run<'p, 'f, 'a> {
    workload: &'p Workload,
    links: &'f mut SharedLinks<'a>,
    progress: Vec<Progress>,
    passed: Vec<Passed>,
    ports: Vec<Port>,
    calendar: Calendar,
    /// In which queue of the links each message waits.
    queue: Vec<QueueId>,
    /// Version of each queue's departure.
    version: Vec<u32>,
    left: Vec<MessageId>,
    now: Instant,
    end: Instant,
    record: Option<Record>,
}

impl<'p, 'f, 'a> Run<'p, 'f, 'a> {
    /// Makes a run of a phase that begins now.
    fn new(workload: &'p Workload, links: &'f mut SharedLinks<'a>, now: Instant) -> Self {
        let obstacles = |message: &workload::Message| {
            let parts = &workload.parts_of[message.parts.start as usize..message.parts.end as usize];
            let gates = parts.iter().filter(|&&part| workload.parts[part as usize].before.is_some()).count();
            gates as u32 + u32::from(message.step > 0)
        };
        let first = |message| Progress { obstacles: obstacles(message), ..Progress::default() };
        let closed = |gate: &workload::Gate| Passed { chunks: 0, missing: gate.awaits.len() as u32 };
        let queue_of = |message: &workload::Message| match message.rate_limit.0.is_finite() {
            true => links.add_paced(message.lane, message.rate_limit),
            false => QueueId::new(message.lane.index()),
        };
        let queue: Vec<QueueId> = workload.messages.iter().map(queue_of).collect();
        let queues = links.num_queues();
        Self {
            workload,
            links,
            progress: workload.messages.iter().map(first).collect(),
            passed: workload.gates.iter().map(closed).collect(),
            ports: workload.first_on_port.iter().map(|&next| Port { next, open: 0 }).collect(),
            calendar: Calendar::default(),
            queue,
            version: vec![0; queues],
            left: Vec::new(),
            now,
            end: now,
            record: None,
        }
    }

    /// Runs the phase to its end, or until `go_on` says no.
    fn run(&mut self, go_on: &mut dyn FnMut(f64) -> bool) -> Result<()> {
        for port in 0..self.ports.len() {
            self.open_step(port);
        }
        if self.ports.is_empty() {
            (0..self.workload.messages.len() as u32).for_each(|number| self.start_if_free(MessageId::new(number)));
        }
        self.settle();
        let (mut events, mut handled) = (Vec::new(), 0);
        while let Some(time) = self.calendar.next_time() {
            self.now = time;
            while self.calendar.next_time() == Some(time) {
                self.calendar.take(&mut events);
                handled += events.len();
                events.drain(..).for_each(|event| self.handle(event));
            }
            self.settle();
            if handled >= EVENTS_BETWEEN_QUESTIONS {
                handled = 0;
                if !go_on(self.now.0) {
                    bail!("the simulation was interrupted");
                }
            }
        }
        let is_through = |(progress, message): (&Progress, &workload::Message)| progress.received == message.chunks;
        assert!(self.progress.iter().zip(&self.workload.messages).all(is_through), "every message is received");
        Ok(())
    }

    /// Does what an event is about.
    fn handle(&mut self, event: Event) {
        match event {
            Event::Receipt(message) => self.receive(message),
            Event::Departure { queue, version } if version == self.version[queue] => self.depart(queue),
            Event::Departure { .. } => {}
        }
    }

    /// Settles the rates of messages, and puts the departures that change into the calendar.
    fn settle(&mut self) {
        let Self { links, calendar, version, .. } = self;
        links.settle(self.now, |queue, time| {
            version[queue] += 1;
            calendar.push(time, Event::Departure { queue, version: version[queue] });
        });
    }

    /// Takes the messages that are through out of `queue`.
    fn depart(&mut self, queue: QueueId) {
        let mut left = std::mem::take(&mut self.left);
        self.links.take_served(queue, self.now, &mut left);
        for message in left.drain(..) {
            let bytes = self.workload.messages[message].bytes;
            let received = self.now + self.links.latency(queue, bytes);
            self.record_span(message, received);
            self.calendar.push(received, Event::Receipt(message));
            self.after_departure(message);
        }
        self.left = left;
    }

    /// Lets the next chunk leave, or the next step of the port.
    fn after_departure(&mut self, id: MessageId) {
        let message = &self.workload.messages[id];
        if message.step > 0 {
            let port = self.links.port(message.lane).index();
            self.ports[port].open -= 1;
            if self.ports[port].open == 0 {
                self.open_step(port);
            }
        } else if self.progress[id].started < message.chunks {
            self.clear_obstacle(id);
        }
    }

    /// Opens `port` for the messages of its next step.
    fn open_step(&mut self, port: usize) {
        let messages = &self.workload.messages;
        let mut next = self.ports[port].next;
        let Some(first) = next else { return };
        let step = messages[first].step;
        while let Some(message) = next.filter(|&message| messages[message].step == step) {
            self.ports[port].open += 1;
            self.clear_obstacle(message);
            next = messages[message].next_on_port;
        }
        self.ports[port].next = next;
    }

    /// Takes off one of the things for which a message's next chunk waits.
    fn clear_obstacle(&mut self, message: MessageId) {
        self.progress[message].obstacles -= 1;
        self.start_if_free(message);
    }

    /// Lets the next chunk of a message leave, if it waits for nothing.
    fn start_if_free(&mut self, id: MessageId) {
        let progress = &mut self.progress[id];
        if progress.obstacles > 0 {
            return;
        }
        progress.started += 1;
        let message = &self.workload.messages[id];
        if progress.started < message.chunks {
            // A message of several chunks is one part, with the same number.
            let gate = self.workload.parts[id.index()].before;
            let closed = gate.is_some_and(|gate| self.passed[gate].chunks <= progress.started);
            progress.obstacles = 1 + u32::from(closed);
        }
        if let Some(record) = &mut self.record {
            record.started[id] = self.now;
        }
        self.links.add(self.queue[id], id, message.bytes, self.now);
    }

    /// Receives the next chunk of a message: gates that waited for it may open.
    fn receive(&mut self, id: MessageId) {
        self.end = self.now;
        let message = &self.workload.messages[id];
        self.progress[id].received += 1;
        let received = self.progress[id].received;
        for &part in &self.workload.parts_of[message.parts.start as usize..message.parts.end as usize] {
            let Some(gate) = self.workload.parts[part as usize].after else { continue };
            if received == self.passed[gate].chunks + 1 {
                self.passed[gate].missing -= 1;
                while self.passed[gate].missing == 0 {
                    self.open_gate(gate);
                }
            }
        }
    }

    /// Lets one more chunk through `gate`.
    fn open_gate(&mut self, gate: GateId) {
        let workload = self.workload;
        let passed = &mut self.passed[gate];
        let chunk = passed.chunks;
        passed.chunks += 1;
        // Behind the last chunk all are missing for good, so that the gate stays closed.
        let behind = |part: &&workload::Part| self.progress[part.message].received <= passed.chunks;
        let gate = &workload.gates[gate];
        passed.missing = workload.parts[range(&gate.awaits)].iter().filter(behind).count() as u32;
        for part in &workload.parts[range(&gate.releases)] {
            if self.progress[part.message].started == chunk {
                self.clear_obstacle(part.message);
            }
        }
    }

    /// Keeps the span of a message's chunk that has just left.
    fn record_span(&mut self, id: MessageId, received: Instant) {
        let Some(record) = &mut self.record else { return };
        let message = &self.workload.messages[id];
        let TreeHalf { tree, reduces, .. } = self.workload.origin(id);
        record.transfers.push(Transfer {
            lane: message.lane,
            tree,
            phase: record.phase,
            step: message.step,
            chunk: self.progress[id].started - 1,
            reduces,
            bytes: message.bytes.0,
            start: record.started[id].0,
            sent: self.now.0,
            received: received.0,
        });
    }
}

/// Returns a range of 32 bits as a range of indices.
fn range(range: &std::ops::Range<u32>) -> std::ops::Range<usize> {
    range.start as usize..range.end as usize
}
