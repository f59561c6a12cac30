//! Schedule tables (MultiTree paper, section IV-A and Fig. 5): a plan as a network interface executes it.
//!
//! Every rank has one table. An entry sends a message of one tree: `Reduce` to the parent, once the children have sent
//! theirs; `Gather` to the children, once the parent has sent (at the root: once all children have); `NOP` lets a step
//! pass in which the rank sends nothing. Entries stand by step, those that wait for nobody first, then by tree. Steps
//! go on from phase to phase. Streams get steps by modulo scheduling (Rau and Glaeser 1981): in a period, which is as
//! long as the busiest rank needs, each rank sends and receives at most one message a step in each half; every chunk
//! repeats the period. For the double binary tree that is Sanders' two-colouring, with a new chunk every two steps.
//! Cost: a sort of the transfers.

use std::collections::HashMap;
use std::ops::Range;

use super::schedule::{self, Op, Schedule};
use super::{Plan, Sharing};
use crate::bail;
use crate::error::Result;
use crate::plan::Pace;
use crate::topology::NodeId;
use crate::units::Time;

/// What an entry does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opcode {
    /// Sends a partial sum to the parent.
    Reduce,
    /// Sends the result to the children.
    Gather,
    /// Waits for a step.
    Nop,
}

impl Opcode {
    /// As the paper writes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Reduce => "Reduce",
            Self::Gather => "Gather",
            Self::Nop => "NOP",
        }
    }
}

/// A line of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// What it does.
    pub op: Opcode,
    /// The tree; the first of them where a message carries parts of several.
    pub flow: u32,
    /// The rank that gets the partial sum, or has sent the result.
    pub parent: Option<u32>,
    /// The ranks whose partial sums are awaited, or which get the result.
    pub children: Vec<u32>,
    /// When, from 1.
    pub step: u32,
    /// First byte in the vector.
    pub start: u64,
    /// Bytes.
    pub size: u64,
    /// The schedule's transfers that it starts.
    pub sends: Vec<u32>,
    /// Those that it waits for; they all end at this rank.
    pub waits: Vec<u32>,
}

/// The tables of all ranks.
#[derive(Debug, Clone, Default)]
pub struct Tables {
    /// One a rank.
    pub of_rank: Vec<Vec<Entry>>,
    /// Steps of all phases.
    pub steps: u32,
    /// Child fields of an entry: the most links of any rank, since an interface feeds that many at once, or as many as
    /// are needed.
    pub fanout: u32,
    /// Trees.
    pub flows: u32,
}

/// What a message costs an interface besides its flits: from issue to the wire, and the next one's selection. It keeps
/// chunks of streams from becoming too small.
const MESSAGE: Time = Time(20_000);

/// Most NOPs of all tables together: half a gigabyte.
const MAX_NOPS: usize = 1 << 22;

/// Sub-flows of each tree, where the literature says when each starts: the double binary tree has N/2, a new one every
/// two steps. Interfaces execute them in the order of their steps.
pub fn sub_flows(plan: &Plan) -> Option<u32> {
    (plan.algorithm == "dbtree").then_some((plan.ranks() / 2).max(1))
}

/// Lowers `plan` for interfaces: into its sub-flows, or the chunks that are best.
///
/// # Errors
/// More chunks than treefold handles.
pub fn lower(plan: &Plan, elements: u64, element_bytes: u64) -> Result<Schedule> {
    match sub_flows(plan) {
        Some(chunks) => Ok(schedule::lower_in_chunks(plan, elements, chunks)),
        None => schedule::lower_for(plan, elements, element_bytes, MESSAGE),
    }
}

/// Whether ranks let steps pass in which they have nothing to send: only where the plan promises that no link is
/// used twice in a step does that keep links free.
pub fn lockstep(plan: &Plan) -> bool {
    plan.phases.iter().all(|phase| matches!(phase.pace, Pace::Step(Sharing::Transfers(_))))
}

impl Tables {
    /// The tables of `plan`, lowered to `schedule` for elements of `element_bytes` bytes; with NOPs if `nops` says so.
    ///
    /// # Errors
    /// More NOPs than fit into memory.
    pub fn new(plan: &Plan, schedule: &Schedule, element_bytes: u64, nops: bool) -> Result<Self> {
        let steps = steps(plan, schedule);
        let mut tables = vec![Vec::new(); plan.ranks() as usize];
        for (id, waits) in awaited(schedule).into_iter().enumerate().filter(|&(id, _)| schedule.lane[id].is_some()) {
            // A switch that sends has no table.
            if let Some(table) = tables.get_mut((schedule.ends(id)[0]).index()) {
                push(table, entry(plan, schedule, id, steps[id], waits, element_bytes));
            }
        }
        let last = steps.iter().copied().max().unwrap_or(0);
        for table in &mut tables {
            table.iter_mut().for_each(|entry: &mut Entry| entry.children.sort_unstable());
            table.sort_by_key(|entry| (entry.step, !entry.waits.is_empty(), entry.flow));
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

    /// Entries of the longest table.
    pub fn entries(&self) -> usize {
        self.of_rank.iter().map(Vec::len).max().unwrap_or(0)
    }

    /// Bits of an entry whose fields are whole bytes: Op, FlowID, Parent, Children, Step (two bytes), Start Addr and
    /// Size (eight each). The paper's 200 for 64 nodes with four links.
    pub fn entry_bits(&self) -> u64 {
        let bytes = |values: u64| u64::from(values.max(2).next_power_of_two().ilog2()).div_ceil(8);
        // A node, or none.
        let node = bytes(self.of_rank.len() as u64 + 1);
        let step = bytes(u64::from(self.steps) + 1).max(2);
        8 * (1 + bytes(self.flows.into()) + node * (1 + u64::from(self.fanout)) + step + 8 + 8)
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

/// The steps before each entry, after the one before it: as many NOPs as it needs.
fn idle_steps(table: &[Entry]) -> impl Iterator<Item = Range<u32>> {
    let before = std::iter::once(0).chain(table.iter().map(|entry| entry.step));
    before.zip(table).map(|(before, entry)| before + 1..entry.step)
}

/// Refuses tables that NOPs would make too long for memory.
fn check_nops(tables: &[Vec<Entry>]) -> Result<()> {
    let nops: usize = tables.iter().flat_map(|table| idle_steps(table)).map(|idle| idle.len()).sum();
    if nops > MAX_NOPS {
        bail!(
            "ranks send nothing in {nops} steps, tables hold {MAX_NOPS} NOPs at most: leave out steps that nobody needs"
        );
    }
    Ok(())
}

/// A NOP for every step before a rank's last in which it sends nothing.
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

/// The step of every transfer, from 1, phases one after the other.
fn steps(plan: &Plan, schedule: &Schedule) -> Vec<u32> {
    let mut steps = vec![0; schedule.len()];
    let (mut start, mut before) = (0, 0);
    while start < steps.len() {
        let number = schedule.phase[start];
        let end = start + schedule.phase[start..].partition_point(|&phase| phase == number);
        if plan.phases[usize::from(number)].pace.is_stream() {
            modulo_schedule(plan, schedule, start..end, before, &mut steps);
        } else {
            (start..end).for_each(|id| steps[id] = before + u32::from(schedule.step[id]));
        }
        before = steps[start..end].iter().copied().max().unwrap_or(before);
        start = end;
    }
    steps
}

/// Steps for the transfers `ids` of a streamed phase, after step `before`: of each edge of each tree the earliest step
/// of its colour that its dependencies allow, and a period later for every further chunk.
fn modulo_schedule(plan: &Plan, schedule: &Schedule, ids: Range<usize>, before: u32, steps: &mut [u32]) {
    let edge = |id: usize| (schedule.tree[id], schedule.op[id] == Op::Reduce, schedule.ends(id));
    let mut number: HashMap<_, usize> = HashMap::new();
    let mut edges: Vec<[usize; 2]> = Vec::new();
    for id in ids.clone().filter(|&id| schedule.lane[id].is_some()) {
        number.entry(edge(id)).or_insert_with(|| {
            // Each node sends and receives in both halves: four vertices.
            let ([source, target], half) =
                (schedule.ends(id).map(|node| node.index() * 4), usize::from(schedule.op[id] == Op::Reduce));
            edges.push([source + half, target + 2 + half]);
            edges.len() - 1
        });
    }
    let (colours, period) = colour(&edges, 4 * plan.topology.nodes().len());
    let mut first: Vec<Option<u32>> = vec![None; edges.len()];
    for id in ids {
        let earlier = schedule.dependencies.row(id).iter().map(|&other| steps[other as usize] + 1);
        let earliest = earlier.max().unwrap_or(0).max(before + 1);
        steps[id] = match number.get(&edge(id)).filter(|_| schedule.lane[id].is_some()) {
            None => earliest - 1,
            Some(&edge) => {
                let chunks = schedule.chunk[id] * period;
                let of_colour = earliest + (colours[edge] + period - earliest % period) % period;
                let first = *first[edge].get_or_insert_with(|| of_colour.saturating_sub(chunks));
                (first + chunks).max(earliest)
            }
        };
    }
}

/// Colours the edges of a bipartite graph so that those of one colour share no vertex, with as few colours as the
/// busiest vertex has edges (Koenig 1916): where the first free colours of an edge's ends differ, they are swapped
/// along the path that blocks.
fn colour(edges: &[[usize; 2]], vertices: usize) -> (Vec<u32>, u32) {
    let mut degree = vec![0u32; vertices];
    edges.iter().flatten().for_each(|&vertex| degree[vertex] += 1);
    let colours = degree.into_iter().max().unwrap_or(0).max(1);
    let mut at: Vec<Option<usize>> = vec![None; vertices * colours as usize];
    let place = |vertex: usize, colour: u32| vertex * colours as usize + colour as usize;
    let mut of = vec![0; edges.len()];
    for (edge, &[one, other]) in edges.iter().enumerate() {
        let free = |at: &[Option<usize>], vertex| (0..colours).find(|&colour| at[place(vertex, colour)].is_none());
        let (mine, theirs) = (free(&at, one).expect("enough colours"), free(&at, other).expect("enough colours"));
        // The path from `other` along edges of colour `mine`, `theirs`, `mine`, ... never comes to `one`.
        let (mut path, mut vertex, mut next) = (Vec::new(), other, mine);
        while let Some(blocking) = at[place(vertex, next)].filter(|_| mine != theirs) {
            path.push(blocking);
            vertex = edges[blocking].iter().copied().find(|&end| end != vertex).expect("two ends");
            next = mine + theirs - next;
        }
        path.iter().for_each(|&swapped| edges[swapped].iter().for_each(|&end| at[place(end, of[swapped])] = None));
        for swapped in path {
            of[swapped] = mine + theirs - of[swapped];
            edges[swapped].iter().for_each(|&end| at[place(end, of[swapped])] = Some(swapped));
        }
        of[edge] = mine;
        [one, other].iter().for_each(|&end| at[place(end, mine)] = Some(edge));
    }
    (of, colours)
}

/// What each transfer waits for, as its sender knows it: receipts at the sender. Local copies take no time and pass on
/// what they wait for.
fn awaited(schedule: &Schedule) -> Vec<Vec<u32>> {
    let mut rows: Vec<Vec<u32>> = Vec::with_capacity(schedule.len());
    for id in 0..schedule.len() {
        let [sender, _] = schedule.ends(id);
        let mut row = Vec::new();
        for &before in schedule.dependencies.row(id) {
            if schedule.op[before as usize] == Op::Local {
                row.extend_from_slice(&rows[before as usize]);
            } else if schedule.ends(before as usize)[1] == sender {
                row.push(before);
            }
        }
        row.sort_unstable();
        row.dedup();
        rows.push(row);
    }
    rows
}

/// The entry that starts transfer `id` in step `step`, once those that it waits for have ended.
fn entry(plan: &Plan, schedule: &Schedule, id: usize, step: u32, waits: Vec<u32>, element_bytes: u64) -> Entry {
    let [node, target] = schedule.ends(id);
    let mut senders: Vec<NodeId> = waits.iter().map(|&before| schedule.ends(before as usize)[0]).collect();
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
        sends: vec![id as u32],
        waits,
    }
}
