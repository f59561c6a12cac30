//! A router: buffers, virtual channels, separable allocation.
//!
//! Dally and Towles, "Principles and practices of interconnection networks" (2004), chapters 16 to 19; McKeown's iSLIP
//! with one iteration (1999). A cycle has four parts, in this order; what one decides, the next cycle's parts see: (1)
//! switch allocation: each input offers the flits that have credit, each output grants one input in turn, each input
//! accepts one output in turn; among the channels of one input that want one output, the lowest priority number goes
//! first; (2) flits and credits arrive; (3) the interfaces work; (4) the heads of packets are allocated channels of
//! their next link that are free and have room for the whole packet; they are held to the tail. Cost: a few nanoseconds
//! for every input that holds something, each cycle in which anything moves.

mod allocation;
mod input;
mod output;
mod sampling;

use std::collections::VecDeque;

use super::machine::{InputId, OutputId};
use super::shared::{Progress, Shared};
use super::wires::{Head, NEVER, Run, Wires};
use super::workload::{MessageId, Workload};
use allocation::{Grant, Waiting};
use input::Accepted;
pub use input::Input;
pub use output::Output;
use output::Request;
pub use sampling::Sampler;

/// Cycles from switch allocation at an ejection port until the interface knows the message.
const EJECTION: u64 = 4;

/// A buffer for the packets of one virtual channel.
#[derive(Debug, Default)]
pub(super) struct Buffer {
    /// Flits in it.
    pub flits: u32,
    /// Flits of the front packet that have not left.
    left: u32,
    /// The output that the front packet wants.
    pub output: OutputId,
    /// Its virtual channel there.
    pub channel: u8,
    pub allocated: bool,
    priority: u32,
    /// Virtual channels that it may have there, and the room that it needs.
    allowed: u32,
    room: u32,
    /// Whether the front packet belongs to background traffic.
    is_background: bool,
    /// Most flits that were ever in it.
    pub peak: u32,
    /// Turn in which it accepts virtual channels.
    turn: u8,
    pub packets: VecDeque<Head>,
}

/// A buffer's input, and its virtual channel there.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slot {
    pub input: InputId,
    pub channel: u32,
}

/// The virtual channels that a packet may use where it may use any, as bits.
pub(super) const ANY_CHANNEL: u32 = u32::MAX;

/// The output and the virtual channels that a packet wants at a router.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    pub output: OutputId,
    /// Virtual channels that it may have there, as bits.
    pub channels: u32,
}

/// A message of which the last packet has left the network.
#[derive(Debug, Clone, Copy)]
pub struct Ended {
    pub message: MessageId,
    /// The cycle in which its interface knows it.
    pub known: u64,
}

/// A packet that is at the front of a buffer.
#[derive(Debug, Clone, Copy)]
pub struct Front {
    pub message: MessageId,
    /// The output that it wants.
    pub output: OutputId,
    /// Whether it has a virtual channel there.
    pub has_channel: bool,
}

/// Says what a packet wants at a router with `links` links out.
pub(super) fn wanted(packet: &Head, links: u32, workload: &Workload) -> Wanted {
    let message = &workload.messages[packet.message];
    match workload.routes.row(packet.route as usize).get(packet.hop as usize) {
        Some(hop) => Wanted { output: hop.output, channels: hop.channels },
        None => Wanted { output: OutputId(links + message.ejector.0), channels: ANY_CHANNEL },
    }
}

/// Lists the numbers of the bits that are set, lowest first.
fn bits(mut word: u32) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let lowest = (word != 0).then(|| word.trailing_zeros());
        word &= word.wrapping_sub(1);
        lowest
    })
}

/// Says how many of `count` places have their turn before `place`, if the turn is at `turn`.
fn behind(place: u32, turn: u32, count: u32) -> u32 {
    if place >= turn { place - turn } else { place + count - turn }
}

/// Returns which of `count` places has its turn after `place`.
fn following(place: u32, count: u32) -> u32 {
    if place + 1 == count { 0 } else { place + 1 }
}

/// Ports that can meet each other's packets for some time, and nobody else's.
#[derive(Debug, Default)]
pub struct Group {
    /// In ascending order.
    pub inputs: Vec<InputId>,
    /// Links out among them.
    pub outputs: Vec<OutputId>,
}

/// A router at work.
#[derive(Debug)]
pub struct Router {
    pub inputs: Vec<Input>,
    /// Links, then ejection ports, then the interfaces' ways into the router.
    pub outputs: Vec<Output>,
    pub(super) buffers: Vec<Buffer>,
    /// Virtual channels of an input.
    pub(super) channels: u32,
    /// Links out: the first ejection port's number.
    pub links: u32,
    grants: Vec<Grant>,
    waiting: Vec<Waiting>,
    asked: Vec<OutputId>,
    granted: Vec<InputId>,
    /// Messages that ended and that the interfaces have not been told.
    pub ended: Vec<Ended>,
    /// What it samples, while a simulation is recorded.
    pub sampler: Option<Box<Sampler>>,
}

impl Router {
    /// Makes a router with these inputs and outputs, of which the first `links` are links.
    pub fn new(inputs: Vec<Input>, outputs: Vec<Output>, links: u32, channels: u32) -> Self {
        Self {
            buffers: (0..inputs.len() as u32 * channels).map(|_| Buffer::default()).collect(),
            inputs,
            outputs,
            channels,
            links,
            grants: Vec::new(),
            waiting: Vec::new(),
            asked: Vec::new(),
            granted: Vec::new(),
            ended: Vec::new(),
            sampler: None,
        }
    }

    /// Looks up what has been sent here since the node was last at work, and takes the credits that came before `now`.
    pub fn refresh(&mut self, now: u64, wires: &mut Wires) {
        for input in &mut self.inputs {
            input.due = wires.flits[input.wire].due();
        }
        for output in &mut self.outputs[..self.links as usize] {
            output.due = wires.credits[output.id.expect("links have wires")].due();
            if now > 0 {
                output.take_credits(now - 1, wires);
            }
        }
    }

    /// Says when a flit arrives next.
    pub fn next_flit_due(&self) -> u64 {
        self.inputs.iter().map(|input| input.due).min().unwrap_or(NEVER)
    }

    /// Says when something arrives next at these inputs and outputs.
    pub fn next_arrival(&self, group: &Group) -> u64 {
        let flits = group.inputs.iter().map(|&input| self.inputs[input].due);
        let credits = group.outputs.iter().map(|&output| self.outputs[output].due);
        flits.chain(credits).min().unwrap_or(NEVER)
    }

    /// Does part 1 of a cycle for these inputs: the switch is allocated. If nothing moved, says when a wire gets free
    /// that was asked for.
    pub fn switch(&mut self, now: u64, inputs: &[InputId], shared: &mut Shared) -> Result<(), u64> {
        let retry = self.request(now, inputs);
        if self.asked.is_empty() {
            return Err(retry);
        }
        let outputs = self.outputs.len() as u32;
        self.granted.clear();
        for &output in &self.asked {
            let asked = self.outputs[output].asked.take();
            let Request { input, channel } = asked.expect("it was asked");
            let Input { turn, granted, .. } = &mut self.inputs[input];
            let accepted = Accepted { output, channel };
            match granted {
                None => {
                    self.granted.push(input);
                    *granted = Some(accepted);
                }
                Some(best) if behind(output.0, turn.0, outputs) < behind(best.output.0, turn.0, outputs) => {
                    *best = accepted
                }
                Some(_) => {}
            }
        }
        for i in 0..self.granted.len() {
            let input = self.granted[i];
            let granted = self.inputs[input].granted.take();
            let Accepted { output, channel } = granted.expect("it was granted");
            self.pass(now, Slot { input, channel }, output, 1, shared);
        }
        Ok(())
    }

    /// Lets every input ask for the outputs that its flits can go to; each output remembers the best request.
    fn request(&mut self, now: u64, group: &[InputId]) -> u64 {
        self.asked.clear();
        let (mut retry, inputs) = (NEVER, self.inputs.len() as u32);
        for &number in group {
            let input = &self.inputs[number];
            for index in bits(input.ready) {
                let buffer = &self.buffers[(number.0 * self.channels + index) as usize];
                let output = &mut self.outputs[buffer.output];
                if output.credits[usize::from(buffer.channel)] == 0 {
                    continue;
                }
                if !output.occupancy.is_free(now) {
                    retry = retry.min(output.occupancy.free_from());
                    continue;
                }
                let better = match output.asked {
                    None => {
                        self.asked.push(buffer.output);
                        true
                    }
                    Some(best) if best.input == number => {
                        let order = |index: u32| (index + self.channels - input.buffer_turn) % self.channels;
                        let other = &self.buffers[(number.0 * self.channels + best.channel) as usize];
                        (buffer.priority, order(index)) < (other.priority, order(best.channel))
                    }
                    Some(best) => behind(number.0, output.turn.0, inputs) < behind(best.input.0, output.turn.0, inputs),
                };
                if better {
                    output.asked = Some(Request { input: number, channel: index });
                }
            }
        }
        retry
    }

    /// Sends `count` flits of the front packet of a buffer to the output `to` from cycle `now` on, one a cycle.
    #[inline(always)]
    pub(super) fn pass(&mut self, now: u64, from: Slot, to: OutputId, count: u32, shared: &mut Shared) {
        let Slot { input: number, channel: index } = from;
        let (inputs, outputs) = (self.inputs.len() as u32, self.outputs.len() as u32);
        let input = &mut self.inputs[number];
        let output = &mut self.outputs[to];
        input.turn = OutputId(following(to.0, outputs));
        input.buffer_turn = following(index, self.channels);
        output.turn = InputId(following(number.0, inputs));
        if let Some(sampler) = &mut self.sampler {
            sampler.left(now, count);
        }
        let buffer = &mut self.buffers[(number.0 * self.channels + index) as usize];
        let packet = *buffer.packets.front().expect("a packet has flits");
        let head = (buffer.left == packet.flits).then(|| Head { hop: packet.hop + 1, ..packet });
        buffer.flits -= count;
        buffer.left -= count;
        output.send(now, buffer.channel, head, count, shared.wires);
        match input.fed_by {
            None => shared.wires.give_back(input.wire, now + input.credit_delay, index as u8, count),
            Some(feeder) => self.outputs[feeder].credits[index as usize] += count,
        }
        if buffer.left == 0 {
            self.outputs[to].release(buffer.channel);
            buffer.allocated = false;
            buffer.packets.pop_front();
            input.ready &= !(1 << index);
            if to.0 >= self.links {
                self.end(packet.message, now + u64::from(count) - 1 + EJECTION, shared.progress);
            }
            self.open(number, index, shared.workload);
        } else if buffer.flits == 0 {
            input.ready &= !(1 << index);
        }
    }

    /// Records that the last flit of a packet has left the network.
    fn end(&mut self, message: MessageId, known: u64, progress: &mut Progress) {
        if progress.packet_left(message) {
            self.ended.push(Ended { message, known });
        }
    }

    /// Lets the next packet of a buffer, if there is one, look for a channel.
    pub(super) fn open(&mut self, number: InputId, index: u32, workload: &Workload) {
        let place = number.0 * self.channels + index;
        let buffer = &mut self.buffers[place as usize];
        let Some(packet) = buffer.packets.front() else { return };
        buffer.left = packet.flits;
        buffer.priority = workload.messages[packet.message].priority;
        buffer.room = workload.room(packet.flits);
        buffer.is_background = workload.is_background(packet.message);
        Wanted { output: buffer.output, channels: buffer.allowed } = wanted(packet, self.links, workload);
        self.outputs[buffer.output].changed = true;
        self.waiting.push(Waiting { output: buffer.output, place });
    }

    /// Does part 2 of a cycle for these inputs and outputs: flits and credits arrive. Says whether any did.
    pub fn receive(&mut self, now: u64, group: &Group, shared: &mut Shared) -> bool {
        let mut any = false;
        for &output in &group.outputs {
            any |= self.outputs[output].take_credits(now, shared.wires);
        }
        for &number in &group.inputs {
            if self.inputs[number].due > now {
                continue;
            }
            any = true;
            let input = &mut self.inputs[number];
            let flits = &mut shared.wires.flits[input.wire];
            let (index, head) = flits.take(1);
            input.due = flits.due();
            let buffer = &mut self.buffers[(number.0 * self.channels + u32::from(index)) as usize];
            buffer.flits += 1;
            buffer.peak = buffer.peak.max(buffer.flits);
            if let Some(sampler) = &mut self.sampler {
                sampler.came(now, 1);
            }
            if buffer.allocated {
                input.ready |= 1 << index;
            }
            if let Some(packet) = head {
                buffer.packets.push_back(packet);
                if buffer.packets.len() == 1 {
                    self.open(number, index.into(), shared.workload);
                }
            }
        }
        any
    }

    /// Takes in what arrives before `horizon` at an end point, where it has arrived for good.
    pub fn absorb(&mut self, horizon: u64, shared: &mut Shared) {
        for number in InputId::first(self.inputs.len()) {
            let Input { wire, credit_delay, .. } = self.inputs[number];
            while let Some(&Run { at, count, .. }) = shared.wires.flits[wire].first()
                && at < horizon
            {
                let count = count.min((horizon - at).min(u64::from(u32::MAX)) as u32);
                let (index, head) = shared.wires.flits[wire].take(count);
                shared.wires.give_back(wire, at + credit_delay, index, count);
                let buffer = &mut self.buffers[(number.0 * self.channels + u32::from(index)) as usize];
                if let Some(packet) = head {
                    buffer.left = packet.flits;
                    buffer.packets.push_back(packet);
                }
                buffer.left -= count;
                if buffer.left == 0 {
                    let packet = buffer.packets.pop_front().expect("a head came first");
                    self.end(packet.message, at + u64::from(count), shared.progress);
                }
            }
            self.inputs[number].due = shared.wires.flits[wire].due();
        }
    }

    /// Returns the most flits that a buffer of an input ever held.
    pub fn peak(&self, input: InputId) -> u32 {
        let first = (input.0 * self.channels) as usize;
        self.buffers[first..first + self.channels as usize].iter().map(|buffer| buffer.peak).max().unwrap_or(0)
    }

    /// Lists the packets at the front of buffers.
    pub fn fronts(&self) -> impl Iterator<Item = Front> {
        self.buffers.iter().filter_map(|buffer| {
            let message = buffer.packets.front()?.message;
            Some(Front { message, output: buffer.output, has_channel: buffer.allocated })
        })
    }
}
