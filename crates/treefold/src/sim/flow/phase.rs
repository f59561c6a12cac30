//! A job on its way: which messages may leave, and what their receipts set free.

use super::calendar::Calendar;
use super::filling::QueueId;
use super::junctions::{Grain, JunctionId};
use super::links::SharedLinks;
use super::quantities::Instant;
use super::workload::{self, GateId, MessageId, TreeHalf, Workload};
use crate::sim::trace::Transfer;

/// What an event is about.
#[derive(Debug, Clone, Copy)]
pub(super) enum Event {
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
    /// What the next chunk still waits for: gates, junctions, the chunk before it, its ports.
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
#[derive(Clone, Copy, Default)]
struct Port {
    /// How many of its messages belong to steps that have begun.
    begun: u32,
    /// Messages of this step that have not left.
    open: u32,
}

/// The transfers that have ended, and when the others started.
struct Record {
    started: Vec<Instant>,
    transfers: Vec<Transfer>,
}

/// A job on its way.
pub(super) struct Run {
    workload: Workload,
    progress: Vec<Progress>,
    passed: Vec<Passed>,
    /// How many grains and junctions each junction still awaits.
    awaited: Vec<u32>,
    /// How many junctions each grain still waits for, message by message; nothing if there are none.
    unopened: Vec<u32>,
    ports: Vec<Port>,
    calendar: Calendar,
    /// In which queue of the links each message waits.
    queue: Vec<QueueId>,
    /// Version of each queue's departure.
    version: Vec<u32>,
    /// Chunks that have not been received.
    missing: u64,
    left: Vec<MessageId>,
    events: Vec<Event>,
    now: Instant,
    record: Option<Record>,
}

impl Run {
    /// Makes a run of job `job`, which records its transfers if `record`.
    pub fn new(workload: Workload, job: usize, links: &mut SharedLinks, record: bool) -> Self {
        let obstacles = |message: &workload::Message, route| {
            let parts = &workload.parts_of[range(&message.parts)];
            let gates = parts.iter().filter(|&&part| workload.parts[part as usize].before.is_some()).count();
            (gates + message.ports(route).len()) as u32
        };
        let closed = |gate: &workload::Gate| Passed { chunks: 0, missing: gate.awaits.len() as u32 };
        let queue_of = |message: &workload::Message| match message.rate_limit.0.is_finite() {
            true => links.add_paced(job, message.lane, message.rate_limit),
            false => links.queue_of(job, message.lane),
        };
        let queue: Vec<QueueId> = workload.messages.iter().map(queue_of).collect();
        let junctions_before = |number| {
            let grain = Grain { message: MessageId::new(number), number: 0 };
            workload.junctions.count_of(&workload.junctions.before, grain)
        };
        let first = |(number, (message, &queue)): (u32, (_, &QueueId))| Progress {
            obstacles: obstacles(message, links.route(queue)) + junctions_before(number),
            ..Progress::default()
        };
        let ports = vec![Port::default(); workload.on_port.rows().len()];
        let progress = (0..).zip(workload.messages.iter().zip(&queue)).map(first).collect();
        Self {
            progress,
            passed: workload.gates.iter().map(closed).collect(),
            awaited: workload.junctions.awaited.clone(),
            unopened: workload.junctions.before.clone(),
            ports,
            calendar: Calendar::default(),
            queue,
            version: vec![0; links.num_queues()],
            missing: workload.messages.iter().map(|message| u64::from(message.chunks)).sum(),
            left: Vec::new(),
            events: Vec::new(),
            now: Instant::ZERO,
            record: record
                .then(|| Record { started: vec![Instant::ZERO; workload.messages.len()], transfers: Vec::new() }),
            workload,
        }
    }

    /// Lets leave what waits for nothing.
    pub fn begin(&mut self, links: &mut SharedLinks) {
        for port in 0..self.ports.len() {
            self.open_step(port, links);
        }
        for message in (0..self.workload.messages.len() as u32).map(MessageId::new) {
            if self.workload.messages[message].step.is_none() {
                self.start_if_free(message, links);
            }
        }
    }

    /// Says whether every message is received.
    pub fn is_over(&self) -> bool {
        self.missing == 0
    }

    /// Says when the next events are.
    pub fn next_time(&self) -> Option<Instant> {
        self.calendar.next_time()
    }

    /// Does what all events at `time`, the next, are about; says how many there were.
    pub fn handle_all(&mut self, time: Instant, links: &mut SharedLinks) -> usize {
        self.now = time;
        let (mut events, mut handled) = (std::mem::take(&mut self.events), 0);
        while self.calendar.next_time() == Some(time) {
            self.calendar.take(&mut events);
            handled += events.len();
            events.drain(..).for_each(|event| self.handle(event, links));
        }
        self.events = events;
        handled
    }

    /// Puts the next departure from `queue` into the calendar.
    pub fn expect(&mut self, queue: QueueId, time: Instant) {
        self.version[queue] += 1;
        self.calendar.push(time, Event::Departure { queue, version: self.version[queue] });
    }

    /// Returns the transfers that were recorded.
    pub fn into_transfers(self) -> Vec<Transfer> {
        self.record.map_or_else(Vec::new, |record| record.transfers)
    }

    /// Does what an event is about.
    fn handle(&mut self, event: Event, links: &mut SharedLinks) {
        match event {
            Event::Receipt(message) => self.receive(message, links),
            Event::Departure { queue, version } if version == self.version[queue] => self.depart(queue, links),
            Event::Departure { .. } => {}
        }
    }

    /// Takes the messages that are through out of `queue`.
    fn depart(&mut self, queue: QueueId, links: &mut SharedLinks) {
        let mut left = std::mem::take(&mut self.left);
        links.take_served(queue, self.now, &mut left);
        for message in left.drain(..) {
            let bytes = self.workload.messages[message].bytes;
            let received = self.now + links.latency(queue, bytes);
            self.record_transfer(message, received);
            self.calendar.push(received, Event::Receipt(message));
            self.after_departure(message, links);
        }
        self.left = left;
    }

    /// Lets the next chunk leave, or the next step of the port.
    fn after_departure(&mut self, id: MessageId, links: &mut SharedLinks) {
        let message = &self.workload.messages[id];
        if message.step.is_some() {
            for port in message.ports(links.route(self.queue[id])) {
                self.ports[port.index()].open -= 1;
                if self.ports[port.index()].open == 0 {
                    self.open_step(port.index(), links);
                }
            }
        } else if self.progress[id].started < message.chunks {
            self.clear_obstacle(id, links);
        }
    }

    /// Opens `port` for the messages of its next step.
    fn open_step(&mut self, port: usize, links: &mut SharedLinks) {
        let first = self.ports[port].begun as usize;
        let step_of = |workload: &Workload, message: &MessageId| {
            let message = &workload.messages[*message];
            (message.phase, message.step)
        };
        let rest = &self.workload.on_port.row(port)[first..];
        let Some(step) = rest.first().map(|message| step_of(&self.workload, message)) else { return };
        let count = rest.iter().take_while(|message| step_of(&self.workload, message) == step).count();
        self.ports[port] = Port { begun: (first + count) as u32, open: count as u32 };
        for place in first..first + count {
            let message = self.workload.on_port.row(port)[place];
            self.clear_obstacle(message, links);
        }
    }

    /// Takes off one of the things for which a message's next chunk waits.
    fn clear_obstacle(&mut self, message: MessageId, links: &mut SharedLinks) {
        self.progress[message].obstacles -= 1;
        self.start_if_free(message, links);
    }

    /// Lets the next chunk of a message leave, if it waits for nothing.
    fn start_if_free(&mut self, id: MessageId, links: &mut SharedLinks) {
        if self.progress[id].obstacles > 0 {
            return;
        }
        self.progress[id].started += 1;
        let (started, message) = (self.progress[id].started, &self.workload.messages[id]);
        if started < message.chunks {
            // A message of several chunks is one part.
            let part = self.workload.parts_of[message.parts.start as usize];
            let gate = self.workload.parts[part as usize].before;
            let closed = gate.is_some_and(|gate| self.passed[gate].chunks <= started);
            let grain = message.grain_from(started).map(|number| Grain { message: id, number });
            let junctions = grain.map_or(0, |grain| self.workload.junctions.count_of(&self.unopened, grain));
            self.progress[id].obstacles = 1 + u32::from(closed) + junctions;
        }
        if let Some(record) = &mut self.record {
            record.started[id] = self.now;
        }
        links.add(self.queue[id], id, message.bytes, self.now);
    }

    /// Receives the next chunk of a message: gates that waited for it may open.
    fn receive(&mut self, id: MessageId, links: &mut SharedLinks) {
        self.missing -= 1;
        self.progress[id].received += 1;
        let received = self.progress[id].received;
        for place in range(&self.workload.messages[id].parts) {
            let part = self.workload.parts_of[place] as usize;
            let Some(gate) = self.workload.parts[part].after else { continue };
            if received == self.passed[gate].chunks + 1 {
                self.passed[gate].missing -= 1;
                while self.passed[gate].missing == 0 {
                    self.open_gate(gate, links);
                }
            }
        }
        if self.awaited.is_empty() {
            return;
        }
        if let Some(number) = self.workload.messages[id].grain_to(received - 1) {
            let grain = Grain { message: id, number };
            for place in 0..self.workload.junctions.behind(grain).len() {
                self.arrive(self.workload.junctions.behind(grain)[place], links);
            }
        }
    }

    /// Takes off one of the things that a junction awaits; what waits for the junction alone may begin.
    fn arrive(&mut self, junction: JunctionId, links: &mut SharedLinks) {
        let (mut reached, mut rest) = (Some(junction), Vec::new());
        while let Some(junction) = reached {
            self.awaited[junction] -= 1;
            if self.awaited[junction] == 0 {
                for place in 0..self.workload.junctions.releases.row(junction.index()).len() {
                    self.release(self.workload.junctions.releases.row(junction.index())[place], links);
                }
                rest.extend(self.workload.junctions.next.row(junction.index()));
            }
            reached = rest.pop();
        }
    }

    /// Takes off a junction for which a grain waits.
    fn release(&mut self, grain: Grain, links: &mut SharedLinks) {
        self.unopened[self.workload.junctions.index_of(grain)] -= 1;
        let next = self.workload.messages[grain.message].grain_from(self.progress[grain.message].started);
        if next == Some(grain.number) {
            self.clear_obstacle(grain.message, links);
        }
    }

    /// Lets one more chunk through `gate`.
    fn open_gate(&mut self, gate: GateId, links: &mut SharedLinks) {
        let passed = &mut self.passed[gate];
        let chunk = passed.chunks;
        passed.chunks += 1;
        // Behind the last chunk all are missing for good, so that the gate stays closed.
        let behind = |part: &&workload::Part| self.progress[part.message].received <= passed.chunks;
        let gate = &self.workload.gates[gate];
        passed.missing = self.workload.parts[range(&gate.awaits)].iter().filter(behind).count() as u32;
        for part in range(&gate.releases) {
            let message = self.workload.parts[part].message;
            if self.progress[message].started == chunk {
                self.clear_obstacle(message, links);
            }
        }
    }

    /// Keeps the transfer of a message's chunk that has just left.
    fn record_transfer(&mut self, id: MessageId, received: Instant) {
        let Some(record) = &mut self.record else { return };
        let message = &self.workload.messages[id];
        let TreeHalf { tree, reduces, .. } = self.workload.origin(id);
        record.transfers.push(Transfer {
            lane: message.lane,
            tree,
            phase: message.phase,
            step: message.step,
            chunk: self.progress[id].started - 1,
            reduces,
            bytes: message.bytes.0,
            start: record.started[id].into(),
            sent: self.now.into(),
            received: received.into(),
        });
    }
}

/// Returns a range of 32 bits as a range of indices.
fn range(range: &std::ops::Range<u32>) -> std::ops::Range<usize> {
    range.start as usize..range.end as usize
}
