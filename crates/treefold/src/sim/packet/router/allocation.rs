//! Part 4 of a router's cycle: heads of packets are allocated virtual channels of their next link.

use super::{Router, behind, bits};
use crate::sim::packet::machine::{InputId, OutputId};
use crate::sim::packet::options::MAX_VIRTUAL_CHANNELS;

/// A buffer whose front packet has no channel yet, and the output that it wants.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waiting {
    pub output: OutputId,
    pub place: u32,
}

/// An offer of an output's virtual channel to a buffer, which accepts the nearest of its offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Grant {
    /// The buffer.
    place: u32,
    /// How many channels have their turn at the buffer before this one.
    distance: u32,
    channel: u8,
}

/// Returns a word with the lowest `count` bits set.
pub(super) fn low_bits(count: u32) -> u32 {
    u32::MAX >> (u32::BITS - count)
}

impl Router {
    /// Does part 4 of a cycle for these inputs: packets are allocated virtual channels. Says whether any was.
    pub fn allocate(&mut self, group: &[InputId]) -> bool {
        let mut grants = std::mem::take(&mut self.grants);
        grants.clear();
        for i in 0..self.waiting.len() {
            let Waiting { output, place } = self.waiting[i];
            if self.outputs[output].changed && group.contains(&InputId(place / self.channels)) {
                self.grant(output, &mut grants);
                self.outputs[output].changed = false;
            }
        }
        grants.sort_unstable();
        for i in 0..grants.len() {
            let Grant { place, channel, .. } = grants[i];
            if i == 0 || grants[i - 1].place != place {
                self.accept(place, channel);
            }
        }
        let again = !grants.is_empty();
        if again {
            let buffers = &self.buffers;
            self.waiting.retain(|waiting| !buffers[waiting.place as usize].allocated);
        }
        self.grants = grants;
        again
    }

    /// Offers each free virtual channel of `output` to one of the buffers that want it, in turn.
    fn grant(&self, output: OutputId, grants: &mut Vec<Grant>) {
        let places = self.buffers.len() as u32;
        let port = &self.outputs[output];
        let mut nearest: [Option<u32>; MAX_VIRTUAL_CHANNELS as usize] = [None; MAX_VIRTUAL_CHANNELS as usize];
        for place in self.waiting.iter().filter(|waiting| waiting.output == output).map(|waiting| waiting.place) {
            let buffer = &self.buffers[place as usize];
            for channel in bits(!port.taken & buffer.allowed & low_bits(self.channels)) {
                let turn = port.channel_turn[channel as usize];
                if port.credits[channel as usize] >= buffer.room {
                    let nearest = &mut nearest[channel as usize];
                    if nearest.is_none_or(|other| behind(place, turn, places) < behind(other, turn, places)) {
                        *nearest = Some(place);
                    }
                }
            }
        }
        for (channel, &place) in (0..self.channels).zip(&nearest) {
            if let Some(place) = place.filter(|&place| !self.overtakes(place, output, channel)) {
                let turn = self.buffers[place as usize].turn.into();
                let distance = behind(channel, turn, self.channels);
                grants.push(Grant { place, distance, channel: channel as u8 });
            }
        }
    }

    /// Says whether a short message of the background would take a channel before a packet of a plan that has its turn
    /// before it and still waits for room. Room for the longer packet might otherwise never come together.
    fn overtakes(&self, place: u32, output: OutputId, channel: u32) -> bool {
        let places = self.buffers.len() as u32;
        let turn = |place: u32| behind(place, self.outputs[output].channel_turn[channel as usize], places);
        self.buffers[place as usize].is_background
            && self.waiting.iter().filter(|waiting| waiting.output == output).any(
                |&Waiting { place: other, .. }| {
                    let buffer = &self.buffers[other as usize];
                    !buffer.is_background && buffer.allowed >> channel & 1 == 1 && turn(other) < turn(place)
                },
            )
    }

    /// Gives a buffer a virtual channel of the output that its front packet wants.
    fn accept(&mut self, place: u32, channel: u8) {
        let places = self.buffers.len() as u32;
        let buffer = &mut self.buffers[place as usize];
        let output = &mut self.outputs[buffer.output];
        output.taken |= 1 << channel;
        // Who was granted nothing, or whose grant was not accepted elsewhere, asks again.
        output.changed = true;
        output.channel_turn[usize::from(channel)] = (place + 1) % places;
        buffer.turn = (channel + 1) % self.channels as u8;
        buffer.channel = channel;
        buffer.allocated = true;
        if buffer.flits > 0 {
            self.inputs[(place / self.channels) as usize].ready |= 1 << (place % self.channels);
        }
    }
}
