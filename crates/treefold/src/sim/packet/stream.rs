//! A stretch in which nobody contends, moved as one.
//!
//! What arrives at a node within the horizon is known. An input whose packets all want one output, which nobody else
//! wants, need not go through the router cycle by cycle: as long as its buffers are empty, every flit leaves the cycle
//! after it came, a run at a time, and credits, channels and turns end as the cycle-by-cycle rules would leave them.
//! Where that stops (no credit, no channel, packets that alternate), the pair of ports goes on by those rules. Cost: a
//! few steps for a packet, not a flit.

use super::machine::{InputId, OutputId};
use super::router::{Buffer, Group, Router, Slot, wanted};
use super::shared::Shared;
use super::wires::{NEVER, Run, Wires};
use super::workload::Workload;

/// An input, and the output that it has to itself.
#[derive(Debug, Clone, Copy)]
pub struct Pair {
    pub input: InputId,
    pub output: OutputId,
}

/// The ports of a node, sorted by whether they contend until the horizon.
pub struct Split {
    /// Inputs and the outputs that they have to themselves.
    pub pairs: Vec<Pair>,
    /// All others.
    pub group: Group,
    /// Whether one of them wants an ejection port.
    pub ejects: bool,
}

/// The end of a stretch.
pub enum Stretch {
    /// Everything before the horizon is done; something may happen at this cycle.
    Done(u64),
    /// From this cycle on, which is before the horizon, the rules must decide.
    Disturbed(u64),
}

impl Router {
    /// Sorts the inputs by whether they have an output to themselves until the horizon. `feeds` lists the outputs that
    /// each interface's input may want.
    pub fn split(&self, horizon: u64, feeds: &[Vec<OutputId>], workload: &Workload, wires: &Wires) -> Split {
        let mut claims: Vec<Claim<OutputId>> = vec![Claim::None; self.inputs.len()];
        let mut claimed_by: Vec<Claim<InputId>> = vec![Claim::None; self.outputs.len()];
        let links_in = self.inputs.len() - feeds.len();
        for (number, input) in InputId::first(self.inputs.len()).zip(&self.inputs) {
            let mut claim = |output: OutputId| {
                claims[number].add(output);
                claimed_by[output].add(number);
            };
            let first = number.index() * self.channels as usize;
            for buffer in &self.buffers[first..first + self.channels as usize] {
                buffer.packets.iter().for_each(|packet| claim(wanted(packet, self.links, workload).output));
            }
            match feeds.get(number.index().wrapping_sub(links_in)) {
                Some(outputs) => outputs.iter().for_each(|&output| claim(output)),
                None => {
                    let heads = wires.flits[input.wire].heads(horizon);
                    heads.for_each(|packet| claim(wanted(packet, self.links, workload).output));
                }
            }
        }
        let (mut pairs, mut group, mut ejects) = (Vec::new(), Group::default(), false);
        for (number, &claim) in InputId::first(claims.len()).zip(&claims) {
            match claim {
                Claim::None => {}
                Claim::One(output) if claimed_by[output] == Claim::One(number) && self.outputs[output].is_regular() => {
                    pairs.push(Pair { input: number, output });
                }
                _ => group.inputs.push(number),
            }
        }
        for &Pair { output, .. } in &pairs {
            claimed_by[output] = Claim::None;
        }
        let claimed = OutputId::first(claimed_by.len()).zip(&claimed_by).filter(|&(_, claim)| *claim != Claim::None);
        for (output, _) in claimed {
            if output.0 < self.links {
                group.outputs.push(output);
            } else {
                ejects = true;
            }
        }
        Split { pairs, group, ejects }
    }

    /// Moves what can be moved without deciding anything, from `input` to `output`, from cycle `from` on.
    pub fn stream(&mut self, Pair { input, output }: Pair, from: u64, horizon: u64, shared: &mut Shared) -> Stretch {
        let mut current = match self.holding(input) {
            Holding::Nothing => None,
            Holding::OnePacket(index) => Some(index),
            Holding::More => return Stretch::Disturbed(from),
        };
        let mut now = from;
        loop {
            let index = match current {
                Some(index) if self.buffer(input, index).flits > 0 => index,
                _ => match self.next_flit(input, current, now, horizon, shared) {
                    Next::Flit { index, at } => {
                        now = at + 1;
                        current = Some(index);
                        index
                    }
                    Next::Later(at) => return Stretch::Done(at),
                    Next::Disturbed(at) if at >= horizon => return Stretch::Done(horizon),
                    Next::Disturbed(at) => return Stretch::Disturbed(at),
                },
            };
            if now >= horizon {
                return Stretch::Done(now);
            }
            match self.pass_on(Slot { input, channel: index }, output, now, horizon, shared) {
                0 => {
                    self.sample_before(now, &[input], &[output]);
                    return Stretch::Disturbed(now);
                }
                moved => now += u64::from(moved),
            }
            if self.buffer(input, index).packets.is_empty() {
                current = None;
            }
        }
    }

    /// Returns the buffer of an input's virtual channel.
    fn buffer(&mut self, input: InputId, index: u32) -> &mut Buffer {
        &mut self.buffers[(input.0 * self.channels + index) as usize]
    }

    /// Returns what the buffers of an input hold.
    fn holding(&self, input: InputId) -> Holding {
        let first = (input.0 * self.channels) as usize;
        let mut found = Holding::Nothing;
        for (index, buffer) in (0..).zip(&self.buffers[first..first + self.channels as usize]) {
            if buffer.packets.is_empty() {
                continue;
            }
            let is_plain = buffer.packets.len() == 1 && buffer.allocated && buffer.flits <= 1;
            if !is_plain || !matches!(found, Holding::Nothing) {
                return Holding::More;
            }
            found = Holding::OnePacket(index);
        }
        found
    }

    /// Takes in the next flit: of the packet in buffer `current`, or the head of another, which gets its channel.
    fn next_flit(&mut self, input: InputId, current: Option<u32>, now: u64, horizon: u64, shared: &mut Shared) -> Next {
        let port = self.inputs[input].wire;
        let Some(&Run { at, channel, head, .. }) = shared.wires.flits[port].first() else { return Next::Later(NEVER) };
        if at >= horizon {
            self.inputs[input].due = at;
            return Next::Later(at);
        }
        let follows = current.map_or(head.is_some(), |index| index == u32::from(channel));
        if !follows && at >= now {
            return Next::Disturbed(at);
        }
        shared.wires.flits[port].take(1);
        self.inputs[input].due = shared.wires.flits[port].due();
        let index = u32::from(channel);
        if let Some(sampler) = &mut self.sampler {
            sampler.came(at, 1);
        }
        let buffer = self.buffer(input, index);
        buffer.flits += 1;
        buffer.peak = buffer.peak.max(buffer.flits);
        if let Some(packet) = head {
            buffer.packets.push_back(packet);
            self.open(input, index, shared.workload);
            let wanted = self.buffer(input, index).output;
            if wanted.0 < self.links {
                self.outputs[wanted].take_credits(at, shared.wires);
            }
            self.allocate(&[input]);
            self.sample(at, &[input], &[wanted]);
        }
        if self.buffer(input, index).allocated {
            self.inputs[input].ready |= 1 << index;
            if follows {
                return Next::Flit { index, at };
            }
        }
        Next::Disturbed(at + 1)
    }

    /// Moves the flit that is here at `now` and those of its packet that follow it without a gap; says how many.
    fn pass_on(&mut self, slot: Slot, output: OutputId, now: u64, horizon: u64, shared: &mut Shared) -> u32 {
        let Slot { input, channel: index } = slot;
        let port = self.inputs[input].wire;
        let out = &mut self.outputs[output];
        if now > 0 && output.0 < self.links {
            out.take_credits(now - 1, shared.wires);
        }
        let buffer = &mut self.buffers[(input.0 * self.channels + index) as usize];
        let credits = out.credits[usize::from(buffer.channel)];
        if credits == 0 || out.occupancy.free_from() > now {
            return 0;
        }
        let until = (horizon - now).min(u64::from(u32::MAX)) as u32;
        // Flits that come in while those before them leave.
        let following = match shared.wires.flits[port].first() {
            Some(run) if run.at == now && run.head.is_none() && u32::from(run.channel) == index => run.count,
            _ => 0,
        };
        let moved = until.min(1 + following).min(credits);
        let came = following.min(moved);
        if came > 0 {
            shared.wires.flits[port].take(came);
            self.inputs[input].due = shared.wires.flits[port].due();
            buffer.flits += came;
            if let Some(sampler) = &mut self.sampler {
                sampler.came(now, came);
            }
        }
        self.pass(now, slot, output, moved, shared);
        moved
    }
}

/// The content of an input's buffers.
enum Holding {
    /// No buffer holds anything.
    Nothing,
    /// There is one packet, which has its channel and at most a flit here, in the buffer with this number.
    OnePacket(u32),
    /// There is more than one such packet.
    More,
}

/// The result of looking for the next flit.
enum Next {
    /// A flit is in buffer `index` since cycle `at`.
    Flit { index: u32, at: u64 },
    /// No flit comes before the horizon; the next one comes at this cycle.
    Later(u64),
    /// The rules must decide from this cycle on.
    Disturbed(u64),
}

/// The claims on a port, or those that it makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Claim<T> {
    /// Nobody wants it, or it wants nothing.
    None,
    /// One does.
    One(T),
    /// More than one do.
    Many,
}

impl<T: Copy + PartialEq> Claim<T> {
    /// Adds a claim.
    fn add(&mut self, who: T) {
        *self = match *self {
            Self::None => Self::One(who),
            Self::One(other) if other == who => Self::One(who),
            _ => Self::Many,
        };
    }
}
