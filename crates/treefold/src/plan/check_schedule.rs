//! The proof that a schedule computes the collective in every order that its dependencies allow.
//!
//! It proves two things. (1) There is no race: dependencies order any two transfers that touch the same piece of a
//! buffer if one of them writes, except two reductions into it, which commute. So every order has the result of the
//! listed one. (2) The listed order has the right result: it is replayed on one random weight a rank, see `weights.rs`.
//! Neither uses the plan's trees, so faults of lowering and of imported schedules show. Cost: linear in accesses where
//! a dependency is direct, as lowering makes it; a backward search elsewhere.

use std::collections::HashMap;
use std::ops::Range;

use super::Draft;
use super::schedule::{BufferId, Op, Schedule, TransferId, input, output};
use super::weights::{self, Sum};
use crate::bail;
use crate::error::Result;

/// Checks `schedule` against the collective of `plan`.
///
/// # Errors
/// The first race or wrong result that is found.
///
/// ```
/// use std::sync::Arc;
/// use treefold::plan::check_schedule::check_schedule;
/// use treefold::plan::lower;
/// use treefold::plan::schedule::Csr;
/// use treefold::planners::{self, Options};
/// use treefold::topology::from_spec;
///
/// let line = Arc::new(from_spec("line:3", None, None)?);
/// let plan = planners::plan("ps", &line, &Options::default())?;
/// let mut schedule = lower(&plan, 6, 4)?;
/// check_schedule(&plan, &schedule)?;
/// schedule.dependencies = Csr::default();
/// schedule.ids().for_each(|_| schedule.dependencies.push_row([]));
/// assert!(check_schedule(&plan, &schedule).is_err(), "a sum may leave before all parts of it have come");
/// # Ok::<(), treefold::error::Error>(())
/// ```
pub fn check_schedule(plan: &Draft, schedule: &Schedule) -> Result<()> {
    check_references(plan, schedule)?;
    let mut memory = Memory::new(plan, schedule);
    for id in schedule.ids() {
        memory.run(id)?;
    }
    memory.check_results()
}

/// Checks that every dependency is on an earlier transfer, that every buffer exists, and that lanes join the nodes of
/// the buffers.
fn check_references(plan: &Draft, schedule: &Schedule) -> Result<()> {
    for id in schedule.ids() {
        if let Some(before) = schedule.dependencies.row(id).iter().find(|&&before| before >= id) {
            bail!("transfer {id} depends on {before}, which does not come before it");
        }
        let buffers = BufferId::new(schedule.buffers.len());
        if schedule.source[id] >= buffers || schedule.target[id] >= buffers {
            bail!("transfer {id} uses a buffer that does not exist");
        }
        if schedule.source[id] == schedule.target[id] {
            bail!("transfer {id} reads and writes the same buffer");
        }
        let [source, target] = schedule.ends(id);
        let ends = schedule.lane[id].map_or((source, source), |lane| plan.lanes.ends_of(lane));
        if ends != (source, target) {
            let (from, to) = ends;
            bail!("transfer {id} moves from node {source} to {target}, but its lane from node {from} to {to}");
        }
    }
    Ok(())
}

/// The value of a piece of a buffer, and the transfers that have touched it.
#[derive(Clone, Default)]
struct Cell {
    /// The sum of the weights of the ranks that have contributed; `None` while the piece holds nothing.
    sum: Option<Sum>,
    writers: Vec<TransferId>,
    /// Whether all `writers` are reductions, which commute.
    reducing: bool,
    /// The transfers before the present reductions, which those must follow too.
    before: Vec<TransferId>,
    readers: Vec<TransferId>,
}

struct Memory<'a> {
    plan: &'a Draft,
    schedule: &'a Schedule,
    /// A contribution of each rank.
    of_rank: Vec<Sum>,
    cuts: Vec<u64>,
    cells: HashMap<(BufferId, usize), Cell>,
}

impl<'a> Memory<'a> {
    fn new(plan: &'a Draft, schedule: &'a Schedule) -> Self {
        let mut ranges: Vec<Range<u64>> = schedule.pieces.items.clone();
        for rank in plan.rank_ids() {
            ranges.push(input(plan, schedule.elements, rank));
            ranges.extend(output(plan, schedule.elements, rank));
        }
        let mut cuts: Vec<u64> = ranges.iter().flat_map(|range| [range.start, range.end]).collect();
        cuts.sort_unstable();
        cuts.dedup();
        Self { plan, schedule, of_rank: weights::draw(plan.ranks()), cuts, cells: HashMap::new() }
    }

    fn intervals(&self, range: &Range<u64>) -> Range<usize> {
        let find = |element: u64| self.cuts.partition_point(|&cut| cut < element);
        find(range.start)..find(range.end)
    }

    /// Returns the cell, which holds the rank's own input if nothing has touched it.
    fn cell(&mut self, buffer: BufferId, interval: usize) -> &mut Cell {
        let (plan, elements, start) = (self.plan, self.schedule.elements, self.cuts[interval]);
        let of_rank = &self.of_rank;
        self.cells.entry((buffer, interval)).or_insert_with(|| {
            let giver = buffer.rank(plan.ranks()).filter(|&rank| input(plan, elements, rank).contains(&start));
            Cell { sum: giver.map(|rank| of_rank[rank]), ..Cell::default() }
        })
    }

    fn run(&mut self, id: TransferId) -> Result<()> {
        let (source, target) = (self.schedule.source[id], self.schedule.target[id]);
        for piece in self.schedule.pieces.row(id) {
            for interval in self.intervals(piece) {
                let value = self.read(id, source, interval)?;
                self.write(id, target, interval, value)?;
            }
        }
        Ok(())
    }

    fn read(&mut self, id: TransferId, buffer: BufferId, interval: usize) -> Result<Sum> {
        let writers = self.cell(buffer, interval).writers.clone();
        self.require_order(&writers, id, buffer)?;
        let cell = self.cell(buffer, interval);
        cell.readers.push(id);
        match cell.sum {
            Some(sum) => Ok(sum),
            None => bail!(
                "transfer {id} reads buffer {buffer} from element {} on, which holds nothing",
                self.cuts[interval]
            ),
        }
    }

    fn write(&mut self, id: TransferId, buffer: BufferId, interval: usize, value: Sum) -> Result<()> {
        let reducing = matches!(self.schedule.op[id], Op::Reduce | Op::LocalReduce);
        let cell = self.cell(buffer, interval);
        let commutes = reducing && cell.reducing && cell.readers.is_empty();
        if !commutes {
            let mut before = std::mem::take(&mut cell.writers);
            before.append(&mut cell.readers);
            cell.before = before;
            cell.reducing = reducing;
        }
        let before = cell.before.clone();
        self.require_order(&before, id, buffer)?;
        let is_rank = buffer.rank(self.plan.ranks()).is_some();
        let cell = self.cell(buffer, interval);
        cell.writers.push(id);
        if reducing && cell.sum.is_none() && is_rank {
            bail!("transfer {id} adds to buffer {buffer}, which holds nothing");
        }
        cell.sum = match cell.sum {
            Some(sum) if reducing => Some(sum.plus(value)),
            _ => Some(value),
        };
        Ok(())
    }

    fn require_order(&self, before: &[TransferId], id: TransferId, buffer: BufferId) -> Result<()> {
        for &earlier in before.iter().filter(|&&earlier| earlier != id) {
            if !self.is_ordered(earlier, id) {
                bail!("transfers {earlier} and {id} race for buffer {buffer}: no dependency orders them");
            }
        }
        Ok(())
    }

    /// Returns whether `later` depends on `earlier`, directly or not.
    fn is_ordered(&self, earlier: TransferId, later: TransferId) -> bool {
        let mut stack = vec![later];
        let mut seen = std::collections::HashSet::new();
        while let Some(id) = stack.pop() {
            for &before in self.schedule.dependencies.row(id) {
                if before == earlier {
                    return true;
                }
                if before > earlier && seen.insert(before) {
                    stack.push(before);
                }
            }
        }
        false
    }

    fn check_results(&mut self) -> Result<()> {
        for rank in self.plan.rank_ids() {
            for range in output(self.plan, self.schedule.elements, rank) {
                for interval in self.intervals(&range) {
                    let expected = self.expected(interval);
                    if self.cell(BufferId::of_rank(rank), interval).sum != expected {
                        let name = &self.plan.topology.node(rank).name;
                        bail!("{name} ends with a wrong result from element {}", self.cuts[interval]);
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns the contributions of all ranks that have this piece at the start.
    fn expected(&self, interval: usize) -> Option<Sum> {
        let start = self.cuts[interval];
        let owners =
            self.plan.rank_ids().filter(|&rank| input(self.plan, self.schedule.elements, rank).contains(&start));
        weights::total(&self.of_rank, owners)
    }
}
