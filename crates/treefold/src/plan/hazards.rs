//! Dependencies between phases: a phase must not overwrite data that an earlier one still reads or writes.
//!
//! For each rank and each elementary piece of its vector, which every chunk of every phase covers or leaves alone, it
//! keeps the transfers of earlier phases that wrote it last, and those that have read it since. A transfer waits for
//! the last writes of its source, and for every earlier read and write of what it overwrites. (Without the latter a
//! 2D-ring has a race: a slow row still reads what a fast column writes.)

use std::ops::Range;

use super::schedule::{BufferId, Schedule, TransferId, Wait};

#[derive(Default, Clone)]
struct Accesses {
    writers: Vec<TransferId>,
    readers: Vec<TransferId>,
}

/// The accesses of the phases lowered so far.
pub(super) struct Hazards {
    ranks: u32,
    /// The elements at which any piece starts or ends.
    cuts: Vec<u64>,
    /// The accesses of each piece of each rank's vector, rank after rank.
    accesses: Vec<Accesses>,
    /// The accesses of the phase that is ending; empty between phases.
    fresh: Vec<Accesses>,
}

impl Hazards {
    /// Creates the record for a plan with so many ranks, whose transfers carry these pieces.
    pub(super) fn new(ranks: u32, pieces: impl Iterator<Item = Range<u64>>) -> Self {
        let mut cuts: Vec<u64> = pieces.flat_map(|piece| [piece.start, piece.end]).chain([0]).collect();
        cuts.sort_unstable();
        cuts.dedup();
        let accesses = vec![Accesses::default(); ranks as usize * cuts.len()];
        Self { ranks, cuts, fresh: accesses.clone(), accesses }
    }

    /// Adds what the transfers from `first` on wait for.
    pub(super) fn across_phases(&self, schedule: &Schedule, first: TransferId, waits: &mut Vec<Wait>) {
        for id in schedule.ids_from(first) {
            let (source, target) = (schedule.source[id], schedule.target[id]);
            for piece in schedule.pieces.row(id) {
                for accesses in self.places(source, piece).map(|place| &self.accesses[place]) {
                    waits.extend(accesses.writers.iter().map(|&earlier| Wait { later: id, earlier }));
                }
                for accesses in self.places(target, piece).map(|place| &self.accesses[place]) {
                    let earlier = accesses.writers.iter().chain(&accesses.readers);
                    waits.extend(earlier.map(|&earlier| Wait { later: id, earlier }));
                }
            }
        }
    }

    /// Records a lowered phase. Its writes replace the accesses before them, for which they all have waited.
    pub(super) fn end_phase(&mut self, schedule: &Schedule, first: TransferId) {
        let mut touched = Vec::new();
        for id in schedule.ids_from(first) {
            for piece in schedule.pieces.row(id) {
                let read = self.places(schedule.source[id], piece);
                let written = self.places(schedule.target[id], piece);
                read.clone().for_each(|place| self.fresh[place].readers.push(id));
                written.clone().for_each(|place| self.fresh[place].writers.push(id));
                touched.extend(read.chain(written));
            }
        }
        touched.sort_unstable();
        touched.dedup();
        for place in touched {
            let (old, new) = (&mut self.accesses[place], std::mem::take(&mut self.fresh[place]));
            if new.writers.is_empty() {
                old.readers.extend(new.readers);
            } else {
                *old = new;
            }
        }
    }

    /// Returns the indices of the pieces of a rank's vector that `piece` covers; none for other buffers.
    fn places(&self, buffer: BufferId, piece: &Range<u64>) -> Range<usize> {
        let Some(rank) = buffer.rank(self.ranks) else { return 0..0 };
        let first = self.cuts.partition_point(|&cut| cut < piece.start);
        let end = self.cuts.partition_point(|&cut| cut < piece.end);
        let row = rank.index() * self.cuts.len();
        row + first..row + end
    }
}
