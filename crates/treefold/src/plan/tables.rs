//! Schedule tables (MultiTree paper, section IV-A and Fig. 5): a plan in the form that a network interface executes.
//!
//! Every rank has one table. An entry sends a message of one tree: `Reduce` to the parent, once the children have sent
//! their messages; `Gather` to the children, once the parent has sent its message (at the root: once all children
//! have); `NOP` lets a step pass in which the rank sends nothing. Entries are ordered by step, then those that wait for
//! nothing first, then by tree. Steps are counted on from phase to phase. Streams get steps by modulo scheduling (Rau
//! and Glaeser 1981): in a period, which is as long as the busiest rank needs, each rank sends and receives at most one
//! message a step in each half, and every chunk repeats the period. For the double binary tree that is Sanders'
//! two-colouring, with a new chunk every two steps. Cost: a sort of the transfers.

use std::collections::HashMap;
use std::ops::Range;

use super::schedule::{Op, Schedule, TransferId};
use super::{Plan, Sharing, lower_for, lower_in_chunks};
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
    pub fn name(self) -> &'static str {
        match self {
            Self::Reduce => "Reduce",
            Self::Gather => "Gather",
            Self::Nop => "NOP",
        }
    }
}

/// An entry of a schedule table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The kind of the entry.
    pub op: Opcode,
    /// The tree: the first one if a message carries parts of several.
    pub flow: u32,
    /// The rank to which the partial sum goes, or from which the result has come; `None` at the root.
    pub parent: Option<u32>,
    /// The ranks whose partial sums are awaited, or to which the result goes.
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
const MESSAGE: Time = Time(20_000);

/// The most NOPs of all tables together: half a gigabyte.
const MAX_NOPS: usize = 1 << 22;

/// Returns the number of sub-flows of each tree if the literature says when each starts: the double binary tree has N/2
/// of them, and starts one every two steps. Interfaces execute them in the order of their steps.
pub fn sub_flows(plan: &Plan) -> Option<u32> {
    (plan.algorithm == "dbtree").then_some((plan.ranks() / 2).max(1))
}

/// Lowers `plan` for network interfaces: into its sub-flows, or else into the chunks that are best.
///
/// # Errors
/// If the plan asks for more chunks than treefold handles.
pub fn lower_for_interfaces(plan: &Plan, elements: u64, element_bytes: u64) -> Result<Schedule> {
    match sub_flows(plan) {
        Some(chunks) => Ok(lower_in_chunks(plan, elements, chunks)),
        None => lower_for(plan, elements, element_bytes, MESSAGE),
    }
}

/// Returns whether ranks let steps pass in which they have nothing to send. That keeps links free only where the plan
/// promises that no link is used twice in a step.
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
        if sub_flows(plan).is_some() {
            let mut received: Vec<Vec<TransferId>> = vec![Vec::new(); tables.len()];
            for id in schedule.ids().filter(|&id| schedule.op[id] == Op::Reduce) {
                received[schedule.ends(id)[1].index()].push(id);
            }
            for (table, received) in tables.iter_mut().zip(received) {
                if let Some(first) = table.iter_mut().find(|entry: &&mut Entry| entry.op == Opcode::Gather) {
                    first.waits.extend(received);
                    first.waits.sort_unstable();
                    first.waits.dedup();
                }
            }
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
    pub fn entries(&self) -> usize {
        self.of_rank.iter().map(Vec::len).max().unwrap_or(0)
    }

    /// Returns the bits of an entry, whose fields are whole bytes: Op, FlowID, Parent, Children, Step (two bytes),
    /// Start Addr and Size (eight each). For 64 nodes with four links that is the paper's 200.
    pub fn entry_bits(&self) -> u64 {
        let bytes = |values: u64| u64::from(values.max(2).next_power_of_two().ilog2()).div_ceil(8);
        // The field holds a node, or none.
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
        if plan.phases[usize::from(number)].pace.is_stream() {
            let ids = TransferId::first(end).skip(start);
            if sub_flows(plan).is_some() {
                let reduces = ids.clone().filter(|&id| schedule.op[id] != Op::Copy);
                modulo_schedule(plan, schedule, reduces, before, &mut steps);
                let half = steps[start..end].iter().copied().max().unwrap_or(before);
                let gathers = ids.filter(|&id| schedule.op[id] == Op::Copy);
                modulo_schedule(plan, schedule, gathers, half, &mut steps);
            } else {
                modulo_schedule(plan, schedule, ids, before, &mut steps);
            }
        } else {
            (start..end).for_each(|index| steps[index] = before + u32::from(schedule.step[index]));
        }
        before = steps[start..end].iter().copied().max().unwrap_or(before);
        start = end;
    }
    steps
}

/// Sets the steps of the transfers `ids` of a streamed phase, after step `before`. The first chunk of each edge gets
/// the earliest step of the edge's colour that its dependencies allow, and each further chunk a step that is a period
/// later.
fn modulo_schedule(
    plan: &Plan,
    schedule: &Schedule,
    ids: impl Iterator<Item = TransferId> + Clone,
    before: u32,
    steps: &mut [u32],
) {
    let edge = |id: TransferId| (schedule.tree[id], schedule.op[id] == Op::Reduce, schedule.ends(id));
    let mut number: HashMap<_, usize> = HashMap::new();
    let mut edges: Vec<[usize; 2]> = Vec::new();
    for id in ids.clone().filter(|&id| schedule.lane[id].is_some()) {
        number.entry(edge(id)).or_insert_with(|| {
            // Each node sends and receives in both halves, so it has four vertices.
            let ([source, target], half) =
                (schedule.ends(id).map(|node| node.index() * 4), usize::from(schedule.op[id] == Op::Reduce));
            edges.push([source + half, target + 2 + half]);
            edges.len() - 1
        });
    }
    let (colours, period) = if sub_flows(plan).is_some() && std::env::var("KOENIG").is_err() {
        let n = plan.ranks();
        let mut c = vec![0u32; edges.len()];
        for (&(tree, reduce, [s, t]), &e) in &number {
            let (child, parent): (NodeId, NodeId) = if reduce { (s, t) } else { (t, s) };
            let _ = parent;
            c[e] = (edge_colour(n, tree as usize, child.0) + 1) % 2; // black first
        }
        let start = (before + 1) % 2;
        c.iter_mut().for_each(|c| *c = (*c + start) % 2);
        (c, 2)
    } else { colour(&edges, 4 * plan.topology.nodes().len()) };
    let mut first: Vec<Option<u32>> = vec![None; edges.len()];
    for id in ids {
        let earlier = schedule.dependencies.row(id).iter().map(|&other| steps[other] + 1);
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

fn parent_of(n: u32, tree: usize, v: u32) -> Option<u32> {
    let name = |r: u32| if tree == 0 { r } else if n % 2 == 0 { n - 1 - r } else { (r + 1) % n };
    let rank = if tree == 0 { v } else if n % 2 == 0 { n - 1 - v } else { (v + n - 1) % n };
    if rank == 0 { return None; }
    let bit = rank & rank.wrapping_neg();
    let above = (rank ^ bit) | (bit << 1);
    Some(name(if above < n { above } else { rank ^ bit }))
}
fn inner_colour(n: u32, v: u32) -> u32 {
    let tree = (v % 2) as usize;
    match parent_of(n, tree, v) {
        None => tree as u32,
        Some(p) => inner_colour(n, p) ^ ((n / 2) % 2) ^ u32::from(if tree == 0 { p < v } else { p > v }),
    }
}
fn edge_colour(n: u32, tree: usize, child: u32) -> u32 {
    if child as usize % 2 == tree { inner_colour(n, child) } else { 1 ^ inner_colour(n, child) }
}

/// Colours the edges of a bipartite graph so that edges of one colour share no vertex, with as few colours as the
/// busiest vertex has edges (Koenig 1916). If the first free colours of an edge's ends differ, they are swapped along
/// the path that is in the way. Returns the colour of each edge, and the number of colours.
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

/// Returns the transfers for which each transfer waits as far as its sender knows: those that the sender receives.
/// Local copies take no time and pass on what they wait for.
fn awaited(schedule: &Schedule) -> Vec<Vec<TransferId>> {
    let mut rows: Vec<Vec<TransferId>> = Vec::with_capacity(schedule.len());
    for id in schedule.ids() {
        let [sender, _] = schedule.ends(id);
        let mut row = Vec::new();
        for &before in schedule.dependencies.row(id) {
            if schedule.op[before] == Op::Local {
                row.extend_from_slice(&rows[before]);
            } else if schedule.ends(before)[1] == sender {
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
