//! What a router samples while a simulation is recorded: the flits in its buffers, and of each link out in which cycles
//! it starves for credit and in which inputs contend for it.
//!
//! What the end of a cycle shows counts for the next one, when the switch is allocated. A link starves if its wire is
//! free and flits want it, all of them in vain for want of credit: a flit's virtual channel has none, or the head of a
//! packet finds a free channel, and none with room for the whole packet. Inputs contend if two or more have flits for
//! the link at the front of buffers. Where an interface is on the wire, it starves if the interface could send but for
//! credit.
//!
//! Flits that go in runs (`stream`) have the link to themselves, and credit; so what waits is looked at only in cycles
//! by the rules, when heads come, and where runs end.

use super::allocation::low_bits;
use super::{Buffer, Output, Router};
use crate::sim::packet::levels::{Condition, Level};
use crate::sim::packet::machine::{InputId, OutputId};

/// The samples of a router.
#[derive(Debug)]
pub struct Sampler {
    /// The flits in all its buffers.
    pub buffers: Level,
    /// What is sampled of each link out.
    pub links: Vec<LinkSampler>,
}

/// The samples of a link.
#[derive(Debug, Clone, Default)]
pub struct LinkSampler {
    pub starved: Condition,
    pub contended: Condition,
    /// What wants it, while a cycle is looked at.
    wants: Wants,
}

/// What wants a link.
#[derive(Debug, Clone, Copy, Default)]
struct Wants {
    /// An input that has flits for it, and whether there is another one.
    by: Option<InputId>,
    by_several: bool,
    /// Whether a flit can go, and whether one cannot for want of credit.
    goes: bool,
    starves: bool,
}

impl Sampler {
    /// Makes the samples of a router with so many links out.
    pub fn new(links: u32) -> Self {
        Self { buffers: Level::default(), links: vec![LinkSampler::default(); links as usize] }
    }

    /// Records that so many flits come, one a cycle from cycle `at` on.
    pub fn came(&mut self, at: u64, count: u32) {
        self.buffers.add_run(at, count.into(), 1);
    }

    /// Records that so many flits leave, one a cycle from cycle `at` on.
    pub fn left(&mut self, at: u64, count: u32) {
        self.buffers.add_run(at, count.into(), -1);
    }
}

impl Wants {
    /// Adds what is at the front of a buffer of an input.
    fn add(&mut self, input: InputId, front: Front) {
        self.by_several |= self.by.is_some_and(|other| other != input);
        self.by = Some(input);
        self.goes |= front == Front::Goes;
        self.starves |= front == Front::Starves;
    }
}

/// The state of the flit at the front of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Front {
    /// It has a channel with credit.
    Goes,
    /// It waits for nothing but credit.
    Starves,
    /// It waits for a channel that others have, or for its turn.
    Waits,
}

/// Returns the state of the flit at the front of a buffer that wants this output, which has so many channels.
fn front(buffer: &Buffer, output: &Output, channels: u32) -> Front {
    let credits = |channel: u32| output.credits[channel as usize];
    if buffer.allocated {
        return if credits(buffer.channel.into()) > 0 { Front::Goes } else { Front::Starves };
    }
    let free = !output.taken & buffer.allowed & low_bits(channels);
    let starves = free != 0 && super::bits(free).all(|channel| credits(channel) < buffer.room);
    if starves { Front::Starves } else { Front::Waits }
}

impl Router {
    /// Looks at the end of cycle `now` at what these inputs want of these outputs, if anything is sampled.
    #[inline]
    pub fn sample(&mut self, now: u64, inputs: &[InputId], outputs: &[OutputId]) {
        if self.sampler.is_some() {
            self.look(now, inputs, outputs);
        }
    }

    /// Looks at what the cycle before `now` has left, where flits have gone in runs until then.
    #[inline]
    pub fn sample_before(&mut self, now: u64, inputs: &[InputId], outputs: &[OutputId]) {
        if let Some(before) = now.checked_sub(1) {
            self.sample(before, inputs, outputs);
        }
    }

    /// Records from when on an interface that is on the wire waits for nothing but credit, as seen in cycle `now`.
    #[inline]
    pub fn sample_feed(&mut self, output: OutputId, from: Option<u64>, now: u64) {
        if let Some(sampler) = &mut self.sampler
            && let Some(link) = sampler.links.get_mut(output.index())
        {
            link.starved.set(from, now);
        }
    }

    fn look(&mut self, now: u64, inputs: &[InputId], outputs: &[OutputId]) {
        let sampler = self.sampler.as_mut().expect("something is sampled");
        let is_link = |output: OutputId| output.0 < self.links;
        for &output in outputs.iter().filter(|&&output| is_link(output)) {
            sampler.links[output].wants = Wants::default();
        }
        for &number in inputs {
            let first = (number.0 * self.channels) as usize;
            let buffers = &self.buffers[first..first + self.channels as usize];
            for buffer in buffers.iter().filter(|buffer| buffer.flits > 0 && is_link(buffer.output)) {
                let front = front(buffer, &self.outputs[buffer.output], self.channels);
                sampler.links[buffer.output].wants.add(number, front);
            }
        }
        for &output in outputs.iter().filter(|&&output| is_link(output)) {
            let LinkSampler { starved, contended, wants } = &mut sampler.links[output];
            let from = self.outputs[output].occupancy.free_from().max(now + 1);
            starved.set((wants.starves && !wants.goes).then_some(from), now + 1);
            contended.set(wants.by_several.then_some(now + 1), now + 1);
        }
    }
}
