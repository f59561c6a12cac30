//! Schedule tables (MultiTree paper, section IV-A and Fig. 5): a plan in the form that a network interface executes.
//!
//! Every rank has one table. An entry sends a message of one tree: `Reduce` to the parent, once the children have sent
//! their messages; `Gather` to the children, once the parent has sent its message (at the root: once all children
//! have); `NOP` lets a step pass in which the rank sends nothing. Entries are ordered by step, then those that wait for
//! nothing first, then by tree. Steps are counted on from phase to phase; `streams` says which those of streams are.
//! Cost: a sort of the transfers.

mod streams;

use std::ops::Range;

use super::lowering::lower_in_sub_flows;
use super::schedule::{Op, Schedule, TransferId};
use super::{Plan, Sharing, step_number};
use crate::error::Result;
use crate::misfit;
use crate::plan::Pace;
use crate::topology::NodeId;
use crate::units::Time;

/// The kinds of entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opcode {
    /// The entry sends a partial sum to the parent.
    Reduce,
    /// The entry sends the result to the children.
    Gather,
    /// The entry lets a step pass.
    Nop,
}

impl Opcode {
    /// Returns the name that the paper uses.
    ///
    /// ```
    /// assert_eq!(treefold::plan::tables::Opcode::Nop.name(), "NOP");
    /// ```
    pub fn name(self) -> &'static str {
        match self {
            Self::Reduce => "Reduce",
            Self::Gather => "Gather",
            Self::Nop => "NOP",
        }
    }
}

/// An entry of a schedule table.
///
/// ```
/// # use std::sync::Arc;
/// # use treefold::planners::{self, Options};
/// # let ring = Arc::new(treefold::topology::from_spec("ring:4", None, None)?);
/// # let plan = planners::plan("multitree", &ring, &Options::default())?;
/// # use treefold::plan::tables::{Tables, lower_for_interfaces};
/// # let schedule = lower_for_interfaces(&plan, 1024, 4)?;
/// let tables = Tables::new(&plan, &schedule, 4, true)?;
/// let first = &tables.of_rank[0][0];
/// assert_eq!((first.op.name(), first.step, first.size), ("Reduce", 1, 1024));
/// # Ok::<(), treefold::error::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The kind of the entry.
    pub op: Opcode,
    /// The tree: the first one if a message carries parts of several.
    pub flow: u32,
    /// The node to which the partial sum goes, or from which the result has come; `None` at the root.
    pub parent: Option<u32>,
    /// The nodes whose partial sums are awaited, or to which the result goes.
    pub children: Vec<u32>,
    /// The step, counted from 1.
    pub step: u32,
    /// The first byte of the vector that is sent.
    pub start: u64,
    /// How many bytes are sent.
    pub size: u64,
    /// The transfers of the schedule that the entry starts.
    pub sends: Vec<TransferId>,
    /// The transfers for which it waits; they all end at this rank.
    pub waits: Vec<TransferId>,
}

/// The schedule tables of all ranks.
#[derive(Debug, Clone, Default)]
pub struct Tables {
    /// The entries of each rank's table.
    pub of_rank: Vec<Vec<Entry>>,
    /// The steps of all phases together.
    pub steps: u32,
    /// The number of child fields in an entry: the most links of any rank, as an interface feeds that many at once, or
    /// more if an entry needs more.
    pub fanout: u32,
    /// The number of trees.
    pub flows: u32,
}

/// The time that a message costs an interface besides its flits: from issue to the wire, and the selection of the next
/// one. It keeps the chunks of streams from becoming too small.
const MESSAGE: Time = Time::from_picoseconds(20_000);

/// The most NOPs of all tables together: half a gigabyte.
const MAX_NOPS: usize = 1 << 22;

/// Lowers `plan` for network interfaces: into its sub-flows, or else into the chunks that are best.
///
/// # Errors
/// If the plan asks for more chunks than treefold handles.
///
/// ```
/// # use std::sync::Arc;
/// # use treefold::planners::{self, Options};
/// # let ring = Arc::new(treefold::topology::from_spec("ring:4", None, None)?);
/// use treefold::plan::tables::lower_for_interfaces;
///
/// let plan = planners::plan("dbtree", &ring, &Options::default())?;
/// let schedule = lower_for_interfaces(&plan, 1024, 4)?;
/// assert_eq!(schedule.chunk.iter().max(), Some(&1), "four ranks cut each tree into two sub-flows");
/// # Ok::<(), treefold::error::Error>(())
/// ```
pub fn lower_for_interfaces(plan: &Plan, elements: u64, element_bytes: u64) -> Result<Schedule> {
    lower_in_sub_flows(plan, elements, element_bytes, MESSAGE, (plan.ranks() / 2).max(1))
}

/// Returns whether ranks let steps pass in which they have nothing to send. That keeps links free only where the plan
/// promises that no link is used twice in a step.
///
/// ```
/// # use std::sync::Arc;
/// # use treefold::planners::{self, Options};
/// # let ring = Arc::new(treefold::topology::from_spec("ring:4", None, None)?);
/// # let plan = planners::plan("multitree", &ring, &Options::default())?;
/// use treefold::plan::tables::lockstep;
///
/// assert!(lockstep(&plan), "MultiTree uses no link twice in a step");
/// assert!(!lockstep(&planners::plan("dbtree", &ring, &Options::default())?));
/// # Ok::<(), treefold::error::Error>(())
/// ```
pub fn lockstep(plan: &Plan) -> bool {
    plan.phases.iter().all(|phase| matches!(phase.pace, Pace::Step(Sharing::Transfers(_))))
}

impl Tables {
    /// Makes the tables of `plan`, which was lowered to `schedule` for elements of `element_bytes` bytes, with NOPs or
    /// without.
    ///
    /// # Errors
    /// If the tables would have more NOPs than fit into memory.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use treefold::plan::tables::{Tables, lower_for_interfaces};
    /// use treefold::planners::{self, Options};
    /// use treefold::topology::from_spec;
    ///
    /// let torus = Arc::new(from_spec("torus:4x4", None, None)?);
    /// let plan = planners::plan("multitree", &torus, &Options::default())?;
    /// let tables = Tables::new(&plan, &lower_for_interfaces(&plan, 4096, 4)?, 4, true)?;
    /// assert_eq!((tables.of_rank.len(), tables.flows), (16, 16));
    /// assert_eq!(Some(tables.steps), plan.steps());
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn new(plan: &Plan, schedule: &Schedule, element_bytes: u64, nops: bool) -> Result<Self> {
        let steps = steps(plan, schedule);
        let mut tables = vec![Vec::new(); plan.ranks() as usize];
        for (id, waits) in schedule.ids().zip(awaited(schedule)).filter(|&(id, _)| schedule.lane[id].is_some()) {
            // A switch that sends has no table.
            if let Some(table) = tables.get_mut(schedule.ends(id)[0].index()) {
                push(table, entry(plan, schedule, id, steps[id], waits, element_bytes));
            }
        }
        let last = steps.iter().copied().max().unwrap_or(0);
        for table in &mut tables {
            table.iter_mut().for_each(|entry: &mut Entry| entry.children.sort_unstable());
            table.sort_by_key(|entry| (entry.step, !entry.waits.is_empty(), entry.flow));
        }
        for (number, _) in (0..).zip(&plan.phases).filter(|(_, phase)| phase.pace == Pace::SubFlows) {
            await_own_sums(&mut tables, schedule, number, &steps);
        }
        if nops {
            check_nops(&tables)?;
            tables.iter_mut().for_each(insert_nops);
        }
        let topology = &plan.topology;
        let links = plan.rank_ids().map(|rank| topology.outgoing(rank).len());
        let children = tables.iter().flatten().map(|entry: &Entry| entry.children.len());
        let fanout = links.chain(children).max().unwrap_or(0) as u32;
        Ok(Self { of_rank: tables, steps: last, fanout, flows: plan.trees.len() as u32 })
    }

    /// Returns how many entries the longest table has.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use treefold::planners::{self, Options};
    /// # let ring = Arc::new(treefold::topology::from_spec("ring:4", None, None)?);
    /// # let plan = planners::plan("multitree", &ring, &Options::default())?;
    /// # use treefold::plan::tables::{Tables, lower_for_interfaces};
    /// # let schedule = lower_for_interfaces(&plan, 1024, 4)?;
    /// let tables = Tables::new(&plan, &schedule, 4, true)?;
    /// assert_eq!(tables.entries(), tables.of_rank[0].len(), "all ranks of a ring send as often");
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn entries(&self) -> usize {
        self.of_rank.iter().map(Vec::len).max().unwrap_or(0)
    }

    /// Returns the bits of an entry, whose fields are whole bytes: Op, FlowID, Parent, Children, Step (two bytes),
    /// Start Addr and Size (eight each). For 64 nodes with four links that is the paper's 200.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use treefold::planners::{self, Options};
    /// # let ring = Arc::new(treefold::topology::from_spec("ring:4", None, None)?);
    /// # let plan = planners::plan("multitree", &ring, &Options::default())?;
    /// # use treefold::plan::tables::{Tables, lower_for_interfaces};
    /// # let schedule = lower_for_interfaces(&plan, 1024, 4)?;
    /// let tables = Tables::new(&plan, &schedule, 4, true)?;
    /// assert_eq!(tables.entry_bits() % 8, 0);
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn entry_bits(&self) -> u64 {
        let bytes = |values: u64| u64::from(values.max(2).next_power_of_two().ilog2()).div_ceil(8);
        // The field holds a node, or none.
        let node = bytes(self.of_rank.len() as u64 + 1);
        let step = bytes(u64::from(self.steps) + 1).max(2);
        8 * (1 + bytes(self.flows.into()) + node * (1 + u64::from(self.fanout)) + step + 8 + 8)
    }
}

/// Makes the first `Gather` of phase `phase` in each table wait for all partial sums that the rank receives before:
/// gathers begin when the reduction is over. As tables are executed in order, the rank's other gathers wait with it.
fn await_own_sums(tables: &mut [Vec<Entry>], schedule: &Schedule, phase: u16, steps: &[u32]) {
    let is_of_phase = |id: TransferId| schedule.phase[id] == phase;
    let mut received = vec![Vec::new(); tables.len()];
    for id in schedule.ids().filter(|&id| is_of_phase(id) && schedule.op[id] == Op::Reduce) {
        if let Some(received) = received.get_mut(schedule.ends(id)[1].index()) {
            received.push(id);
        }
    }
    for (table, received) in tables.iter_mut().zip(received) {
        let gathers = |entry: &Entry| entry.op == Opcode::Gather && is_of_phase(entry.sends[0]);
        if let Some(first) = table.iter_mut().find(|entry| gathers(entry)) {
            first.waits.extend(received.into_iter().filter(|&id| steps[id] < first.step));
            first.waits.sort_unstable();
            first.waits.dedup();
        }
    }
}

/// Adds an entry, or another child to the entry of the same tree and step.
fn push(table: &mut Vec<Entry>, entry: Entry) {
    if let Some(last) = table.last_mut()
        && entry.op == Opcode::Gather
        && (last.op, last.flow, last.step, last.start) == (entry.op, entry.flow, entry.step, entry.start)
        && (last.size, &last.waits) == (entry.size, &entry.waits)
    {
        last.children.extend(entry.children);
        last.sends.extend(entry.sends);
    } else {
        table.push(entry);
    }
}

/// Returns the steps between each entry and the one before it, each of which needs a NOP.
fn idle_steps(table: &[Entry]) -> impl Iterator<Item = Range<u32>> {
    let before = std::iter::once(0).chain(table.iter().map(|entry| entry.step));
    before.zip(table).map(|(before, entry)| before + 1..entry.step)
}

/// Refuses tables that NOPs would make too long for memory.
fn check_nops(tables: &[Vec<Entry>]) -> Result<()> {
    let nops: usize = tables.iter().flat_map(|table| idle_steps(table)).map(|idle| idle.len()).sum();
    if nops > MAX_NOPS {
        misfit!(
            "ranks send nothing in {nops} steps, but tables hold at most {MAX_NOPS} NOPs; leave out steps without sends"
        );
    }
    Ok(())
}

/// Inserts a NOP for every step before a rank's last one in which it sends nothing.
fn insert_nops(table: &mut Vec<Entry>) {
    let idle: Vec<Range<u32>> = idle_steps(table).collect();
    for (entry, idle) in std::mem::take(table).into_iter().zip(idle) {
        table.extend(idle.map(nop));
        table.push(entry);
    }
}

fn nop(step: u32) -> Entry {
    let (children, sends, waits) = (Vec::new(), Vec::new(), Vec::new());
    Entry { op: Opcode::Nop, flow: 0, parent: None, children, step, start: 0, size: 0, sends, waits }
}

/// Returns the step of every transfer, counted from 1; the steps of a phase follow those of the phase before it.
fn steps(plan: &Plan, schedule: &Schedule) -> Vec<u32> {
    let mut steps = vec![0; schedule.len()];
    let (mut start, mut before) = (0, 0);
    while start < steps.len() {
        let number = schedule.phase[start];
        let end = start + schedule.phase[start..].partition_point(|&phase| phase == number);
        let pace = plan.phases[usize::from(number)].pace;
        if pace.is_stream() {
            streams::set_steps(plan, pace, schedule, TransferId::first(end).skip(start), before, &mut steps);
        } else {
            (start..end).for_each(|index| steps[index] = before + u32::from(step_number(schedule.step[index])));
        }
        before = steps[start..end].iter().copied().max().unwrap_or(before);
        start = end;
    }
    steps
}

/// Returns the transfers for which each transfer waits as far as its sender knows: those that the sender receives.
/// What happens within a node takes no time, and passes on what it waits for.
fn awaited(schedule: &Schedule) -> Vec<Vec<TransferId>> {
    let mut rows: Vec<Vec<TransferId>> = Vec::with_capacity(schedule.len());
    for id in schedule.ids() {
        let [sender, _] = schedule.ends(id);
        let mut row = Vec::new();
        let is_known = |before: &&TransferId| schedule.ends(**before)[1] == sender;
        for &before in schedule.dependencies.row(id).iter().filter(is_known) {
            if schedule.op[before].is_local() {
                row.extend_from_slice(&rows[before]);
            } else {
                row.push(before);
            }
        }
        row.sort_unstable();
        row.dedup();
        rows.push(row);
    }
    rows
}

/// Returns the entry that starts transfer `id` in step `step`, once the transfers `waits` have ended.
fn entry(
    plan: &Plan,
    schedule: &Schedule,
    id: TransferId,
    step: u32,
    waits: Vec<TransferId>,
    element_bytes: u64,
) -> Entry {
    let [node, target] = schedule.ends(id);
    let mut senders: Vec<NodeId> = waits.iter().map(|&before| schedule.ends(before)[0]).collect();
    senders.sort_unstable();
    senders.dedup();
    let at_root = plan.trees[schedule.tree[id] as usize].root == node;
    let (op, parent, children) = match schedule.op[id] {
        Op::Reduce => (Opcode::Reduce, Some(target), senders),
        _ => (Opcode::Gather, senders.first().copied().filter(|_| !at_root), vec![target]),
    };
    Entry {
        op,
        flow: schedule.tree[id],
        parent: parent.map(|rank| rank.0),
        children: children.into_iter().map(|rank| rank.0).collect(),
        step,
        start: schedule.pieces.row(id).first().map_or(0, |piece| piece.start * element_bytes),
        size: schedule.elements_of(id) * element_bytes,
        sends: vec![id],
        waits,
    }
}
