//! Multicast regions: what the fabric manager writes into switches, from the trees of an in-network plan (in-network paper, section IV-A).
//!
//! A tree is a region: at each of its switches the targets of a multicast and the number of responses to expect. Edges are numbered
//! through, so that a packet names the edge that it comes over and a switch finds the next ones without a search.

use std::collections::HashMap;

use super::super::machine::Machine;
use crate::bail;
use crate::error::Result;
use crate::plan::schedule::Csr;
use crate::plan::{Collective, Direction, Half, LaneRef, LaneRoutes, Phase, Plan, Tree};
use crate::topology::{LinkId, NodeId};

/// No edge: above the root.
pub const NONE: u32 = u32::MAX;
/// Bytes of an element.
const ELEMENT: u128 = 4;

/// An edge of a tree.
#[derive(Debug, Clone, Copy)]
pub struct Edge {
    /// The end farther from it.
    pub child: NodeId,
    /// The row of its way, as the data goes.
    pub way: u32,
    /// The row of the way back, on which acknowledgements go.
    pub back: u32,
    /// The edge between `parent` and its own parent.
    pub above: u32,
    /// The edges between `child` and its children.
    pub below: Edges,
    /// Ranks at `child` and below.
    pub ranks: u32,
    /// The edge of the other half with the same child.
    pub mate: u32,
}

/// Edges that stand together: the first, and how many.
#[derive(Debug, Clone, Copy, Default)]
pub struct Edges {
    /// The first.
    pub first: u32,
    /// How many.
    pub count: u32,
}

/// A tree.
#[derive(Debug, Clone, Copy)]
pub struct Region {
    /// Where sums end and results begin.
    pub root: NodeId,
    /// The root's edges in the broadcast half.
    pub top: Edges,
    /// Packets of its span.
    pub lines: u32,
    /// Port of the root, if that is a switch, whose table it uses.
    pub port: u32,
}

/// All regions.
#[derive(Debug, Default)]
pub struct Regions {
    /// By tree.
    pub regions: Vec<Region>,
    /// All edges.
    pub edges: Vec<Edge>,
    /// Outputs of the nodes along each way.
    pub ways: Csr<u32>,
    /// Cycles of each way.
    delays: Vec<u64>,
    /// By tree and rank: its edges in the reduce half and in the broadcast half.
    of_rank: Vec<[u32; 2]>,
    /// By tree and rank, where the root is a switch: the rows of the whole ways from the rank to the root and back.
    homes: Vec<[u32; 2]>,
    /// The row of a way with no links.
    pub empty_way: u32,
    /// Ranks.
    pub ranks: u32,
}

/// Number of a half's column.
fn column(direction: Direction) -> usize {
    usize::from(direction == Direction::Down)
}

impl Regions {
    /// The regions of `plan` for a vector of `bytes`, in packets of `line` bytes.
    ///
    /// # Errors
    /// A rank inside a tree, several phases, a way without a way back.
    pub fn new(plan: &Plan, routes: &LaneRoutes, machine: &Machine, bytes: u64, line: u64) -> Result<Self> {
        let [phase] = plan.phases.as_slice() else {
            bail!("{} reduces in {} phases; switches reduce in one", plan.algorithm, plan.phases.len());
        };
        let half = |tree: &Tree| tree.up == Half::None || tree.down == Half::None;
        if plan.collective != Collective::AllReduce || plan.trees.iter().any(half) {
            bail!(
                "switches work in trees of this {}, and the packet model has them in all-reduces only: use --model flow",
                plan.collective
            );
        }
        let mut regions = Self { ranks: plan.ranks(), ..Self::default() };
        for lane in 0..2 * plan.lanes.len() as u32 {
            regions.push_way(machine, routes.of(LaneRef::from_index(lane)));
        }
        regions.empty_way = regions.push_way(machine, &[]);
        let mut edge_of = vec![[NONE; 2]; plan.topology.nodes().len()];
        let mut trees_at = vec![0; plan.topology.nodes().len()];
        let mut known = HashMap::new();
        for tree in &plan.trees {
            let first = regions.edges.len();
            regions.add_half(plan, routes, phase, tree, Direction::Up, &mut edge_of)?;
            let top = regions.add_half(plan, routes, phase, tree, Direction::Down, &mut edge_of)?;
            for edge in &mut regions.edges[first..] {
                let [up, down] = edge_of[edge.child as usize];
                edge.mate = if edge.mate == 0 { down } else { up };
            }
            regions.of_rank.extend_from_slice(&edge_of[..plan.ranks() as usize]);
            let port = trees_at[tree.root as usize];
            trees_at[tree.root as usize] += 1;
            let port = port % plan.topology.outgoing(tree.root).len() as u32;
            let lines = lines_of(plan, tree, bytes, line);
            regions.regions.push(Region { root: tree.root, top, lines, port });
            if !plan.topology.is_rank(tree.root) {
                regions.add_homes(plan, routes, machine, &edge_of, tree, &mut known);
            } else {
                regions.homes.extend((0..plan.ranks()).map(|_| [NONE; 2]));
            }
            for edge in &regions.edges[first..] {
                edge_of[edge.child as usize] = [NONE; 2];
            }
        }
        Ok(regions)
    }

    fn push_way(&mut self, machine: &Machine, links: &[LinkId]) -> u32 {
        self.ways.push_row(links.iter().map(|&link| machine.links[link as usize].output));
        self.delays.push(links.iter().map(|&link| machine.links[link as usize].delay).sum());
        self.ways.first.len() as u32 - 2
    }

    /// Adds a half of `tree`; returns the root's edges. `mate` holds the half's number until both are there.
    fn add_half(
        &mut self,
        plan: &Plan,
        routes: &LaneRoutes,
        phase: &Phase,
        tree: &Tree,
        direction: Direction,
        edge_of: &mut [[u32; 2]],
    ) -> Result<Edges> {
        let (first, half) = (self.edges.len(), column(direction));
        let mut top = Edges { first: first as u32, count: 0 };
        for edge in plan.half(phase, tree, direction) {
            let back = LaneRef::new(edge.lane.lane(), !edge.lane.reversed());
            if routes.of(back).is_empty() {
                let [from, to] = [edge.parent, edge.child].map(|node| plan.topology.node(node).name.as_str());
                bail!("acknowledgements cannot come back between {from} and {to}: a link has no reverse; add it");
            }
            if plan.topology.is_rank(edge.parent) && edge.parent != tree.root {
                let name = &plan.topology.node(edge.parent).name;
                bail!("{name} passes on what it gets: the packet model reduces in switches or in ranks, not in both");
            }
            let (number, above) = (self.edges.len() as u32, edge_of[edge.parent as usize][half]);
            let siblings = if above == NONE { &mut top } else { &mut self.edges[above as usize].below };
            siblings.first = if siblings.count == 0 { number } else { siblings.first };
            siblings.count += 1;
            edge_of[edge.child as usize][half] = number;
            self.edges.push(Edge {
                child: edge.child,
                way: edge.lane.index() as u32,
                back: back.index() as u32,
                above,
                below: Edges::default(),
                ranks: plan.topology.is_rank(edge.child).into(),
                mate: half as u32,
            });
        }
        for number in (first..self.edges.len()).rev() {
            let Edge { above, ranks, .. } = self.edges[number];
            if above != NONE {
                self.edges[above as usize].ranks += ranks;
            }
        }
        Ok(top)
    }

    /// The whole ways between the root of `tree`, a switch, and every rank; known ones are shared by the trees of a root.
    fn add_homes(
        &mut self,
        plan: &Plan,
        routes: &LaneRoutes,
        machine: &Machine,
        edge_of: &[[u32; 2]],
        tree: &Tree,
        known: &mut HashMap<Vec<LinkId>, u32>,
    ) {
        for rank in 0..plan.ranks() {
            let rows = Direction::BOTH.map(|direction| {
                let mut lanes = Vec::new();
                let mut edge = edge_of[rank as usize][column(direction)];
                while edge != NONE {
                    lanes.push(self.edges[edge as usize].way);
                    edge = self.edges[edge as usize].above;
                }
                if direction == Direction::Down {
                    lanes.reverse();
                }
                if let [lane] = lanes[..] {
                    return lane;
                }
                let links: Vec<LinkId> =
                    lanes.iter().flat_map(|&lane| routes.of(LaneRef::from_index(lane))).copied().collect();
                *known.entry(links).or_insert_with_key(|links| self.push_way(machine, links))
            });
            self.homes.push(rows);
        }
        debug_assert_eq!(self.homes.len() % self.ranks as usize, 0, "{}", tree.root);
    }

    /// Cycles of the farthest operand's way to a root, or of its answer's.
    pub fn farthest(&self) -> u64 {
        let mut delay = vec![0; self.edges.len()];
        for (number, edge) in self.edges.iter().enumerate() {
            let above = if edge.above == NONE { 0 } else { delay[edge.above as usize] };
            delay[number] = above + self.delays[edge.way as usize];
        }
        delay.into_iter().max().unwrap_or(0)
    }

    /// The edge of `rank` in a half of a tree.
    pub fn edge_of(&self, tree: u32, rank: NodeId, direction: Direction) -> u32 {
        self.of_rank[(tree * self.ranks + rank) as usize][column(direction)]
    }

    /// The row of the whole way from a rank to the root of a tree, which is a switch, or from the root to the rank.
    pub fn home_way(&self, tree: u32, rank: NodeId, direction: Direction) -> u32 {
        self.homes[(tree * self.ranks + rank) as usize][column(direction)]
    }

    /// The edges over which a multicast goes on that has come over `edge`.
    pub fn targets(&self, tree: u32, edge: u32) -> Edges {
        if edge == NONE { self.regions[tree as usize].top } else { self.edges[edge as usize].below }
    }

    /// An edge.
    pub fn edge(&self, edge: u32) -> &Edge {
        &self.edges[edge as usize]
    }
}

/// Packets of a tree's span.
fn lines_of(plan: &Plan, tree: &Tree, bytes: u64, line: u64) -> u32 {
    let elements = u128::from(bytes).div_ceil(ELEMENT);
    let at = |unit: u64| elements * u128::from(unit) / u128::from(plan.units.max(1));
    ((at(tree.span.end) - at(tree.span.start)) * ELEMENT).div_ceil(line.into()) as u32
}
