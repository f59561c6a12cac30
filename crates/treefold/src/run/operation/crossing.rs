//! Numbers that cross lines in another type than the vector's are encoded as they leave, and decoded as they come.
//!
//! Whoever sends a result rounds its own copy to what it sends, so that all ranks end with the same bits.

use std::ops::Range;

use super::{Operation, feedback, place};
use crate::number::wire::{BLOCK, Wire};
use crate::run::program::{Program, Task, TaskId};

/// A range of numbers in a rank's memory, and its bytes within a part of a message.
struct Segment {
    place: Range<usize>,
    bytes: Range<usize>,
}

/// Returns the ranges of numbers in a part of a message, which begins at byte `from` of it, has `length` bytes, and
/// begins and ends at a block.
fn segments(program: &Program, wire: Wire, task: TaskId, from: usize, length: usize) -> impl Iterator<Item = Segment> {
    let (block, block_place) = (wire.block_bytes(), BLOCK * program.element_bytes as usize);
    let mut end = 0;
    program.pieces.row(task).iter().filter_map(move |piece| {
        let start = end;
        end += program.bytes_crossing(piece);
        let (first, last) = (start.max(from), end.min(from + length));
        (first < last).then(|| {
            let at = |byte: usize| piece.end.min(piece.start + (byte - start).div_ceil(block) * block_place);
            Segment { place: at(first)..at(last), bytes: first - from..last - from }
        })
    })
}

impl Operation<'_> {
    /// Returns whether numbers cross lines in another type than the vector's.
    pub(crate) fn is_encoded(&self) -> bool {
        self.program.wire.is_some()
    }

    /// Returns the most bytes up to `most` from byte `from` of a message on that are whole blocks, but at least one
    /// block; all that is left of the message if it is less.
    pub(crate) fn whole_blocks(&self, task: TaskId, from: usize, most: usize) -> usize {
        let whole = self.bytes(task);
        let Some(wire) = self.program.wire else { return most.min(whole - from) };
        if whole - from <= most {
            return whole - from;
        }
        let (start, end) = self.piece_at(task, from + most);
        let cut = start + (from + most - start) / wire.block_bytes() * wire.block_bytes();
        if cut > from { cut - from } else { (from + wire.block_bytes()).min(end) - from }
    }

    /// Returns whether an element of a message, or a block of encoded ones, begins or ends at byte `from` of it.
    pub(crate) fn may_cut(&self, task: TaskId, from: u64) -> bool {
        match self.program.wire {
            None => from.is_multiple_of(self.program.element_bytes),
            Some(_) if from >= self.bytes(task) as u64 => from == self.bytes(task) as u64,
            Some(wire) => (from as usize - self.piece_at(task, from as usize).0).is_multiple_of(wire.block_bytes()),
        }
    }

    /// Returns the first byte, and the end, of the piece in which byte `at` of a message lies.
    fn piece_at(&self, task: TaskId, at: usize) -> (usize, usize) {
        let mut end = 0;
        for piece in self.pieces(task) {
            let start = end;
            end += self.program.bytes_crossing(piece);
            if at < end {
                return (start, end);
            }
        }
        (end, end)
    }

    /// Rounds a piece of a result to what will be sent of its local copy, if it crosses lines in another type.
    pub(super) fn round_result(&mut self, task: TaskId, piece: Range<usize>) {
        if let Some(wire) = self.program.wire.filter(|_| self.program.is_final[task]) {
            let number = self.progress.number;
            let residual = feedback::part_of(&mut self.residual, self.program, task, &piece);
            let values = place(self.vector, self.scratch, piece);
            match residual {
                Some(residual) => wire.round_with_feedback(number, values, residual),
                None => wire.round(number, values),
            }
        }
    }

    /// Encodes a message's numbers from byte `from` on to `target`.
    pub(super) fn encode(&mut self, wire: Wire, task: TaskId, from: usize, target: &mut [u8]) {
        let (number, is_final) = (self.progress.number, self.program.is_final[task]);
        for segment in segments(self.program, wire, task, from, target.len()) {
            let target = &mut target[segment.bytes];
            let residual = feedback::part_of(&mut self.residual, self.program, task, &segment.place);
            let values = place(self.vector, self.scratch, segment.place);
            if let Some(residual) = residual {
                wire.encode_with_feedback(number, values, target, residual);
                continue;
            }
            wire.encode(number, values, target);
            if is_final {
                wire.decode(number, target, values);
            }
        }
    }

    /// Decodes a message's bytes, which begin at byte `from`, and adds or copies them to the vector.
    pub(super) fn decode(&mut self, wire: Wire, task: TaskId, from: usize, bytes: &[u8]) {
        let (number, reduces) = (self.progress.number, matches!(self.program.tasks[task], Task::Reduce(_)));
        for segment in segments(self.program, wire, task, from, bytes.len()) {
            let target = place(self.vector, self.scratch, segment.place);
            let bytes = &bytes[segment.bytes];
            if reduces {
                wire.decode_into(number, bytes, target, self.progress.combine);
            } else {
                wire.decode(number, bytes, target);
            }
        }
    }
}
