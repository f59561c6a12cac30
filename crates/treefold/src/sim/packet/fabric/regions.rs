//! Multicast regions: what the fabric manager writes into switches, from the trees of an in-network plan (in-network paper, section IV-A).
//!
//! A tree is a region: at each of its switches the targets of a multicast and the number of responses to expect. Edges are numbered
//! through, so that a packet names the edge that it comes over and a switch finds the next ones without a search.

use std::collections::HashMap;

use super::super::machine::Machine;
use super::parcel::NONE;
use super::ways::Ways;
use crate::bail;
use crate::error::Result;
use crate::plan::pipeline;
use crate::plan::{Collective, Direction, Half, LaneRef, LaneRoutes, Phase, Plan, Tree};
use crate::topology::{LinkId, NodeId};

/// How trees are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Method {
    /// Ranks write operands to a home port, which multicasts their sum.
    #[default]
    Push,
    /// Ranks ask for operands, whose sum they multicast.
    Pull,
    /// Ranks multicast what they have.
    Write,
}

/// An edge of a tree.
#[derive(Debug, Clone, Copy)]
pub struct Edge {
    /// The end farther from the root.
    pub child: NodeId,
    /// The way, as the data goes.
    pub way: u32,
    /// The way back, on which acknowledgements go.
    pub back: u32,
    /// The edge between `parent` and its own parent.
    pub above: u32,
    /// The edges between `child` and its children.
    pub below: Edges,
    /// Its place among those of `parent`.
    pub place: u32,
    /// Ranks at `child` and below.
    pub ranks: u32,
    /// The edge of the other half with the same child.
    pub mate: u32,
    /// Pushes: the port at `child` whose table reduces the first line.
    pub table: u32,
}

/// Edges that stand together: the first, and how many.
#[derive(Debug, Clone, Copy, Default)]
pub struct Edges {
    pub first: u32,
    pub count: u32,
}

impl Edges {
    /// Their numbers.
    pub fn numbers(self) -> std::ops::Range<u32> {
        self.first..self.first + self.count
    }
}

/// A tree.
#[derive(Debug, Clone, Copy)]
pub struct Region {
    /// Where sums end and results begin.
    pub root: NodeId,
    /// The root's edges in the broadcast half.
    pub top: Edges,
    pub method: Method,
    /// Pushes: the port of the root whose table reduces the first line; the next one reduces the second.
    pub table: u32,
}

/// All regions.
#[derive(Debug, Default)]
pub struct Regions {
    /// By tree.
    pub regions: Vec<Region>,
    /// All edges.
    edges: Vec<Edge>,
    /// By tree and rank: its edges in the reduce half and in the broadcast half.
    of_rank: Vec<[u32; 2]>,
    /// Pushes, by tree and rank: the whole ways from the rank to the root and back.
    homes: Vec<[u32; 2]>,
    pub ranks: u32,
    /// Seconds a byte of the vector that the busiest link takes.
    pub busiest: f64,
    /// The largest part of the vector that is reduced in one port's table.
    pub table_share: f64,
}

/// The edge above each node in the halves of a tree.
type EdgeOf = Vec<[u32; 2]>;

/// Number of a half's column.
fn column(direction: Direction) -> usize {
    usize::from(direction == Direction::Down)
}

impl Regions {
    /// The regions of `plan`; adds the ways to homes.
    ///
    /// # Errors
    /// A rank inside a tree, several phases, a way without a way back, a collective that switches do not do.
    pub fn new(plan: &Plan, routes: &LaneRoutes, machine: &Machine, ways: &mut Ways) -> Result<Self> {
        let [phase] = plan.phases.as_slice() else {
            bail!("{} reduces in {} phases; switches reduce in one", plan.algorithm, plan.phases.len());
        };
        let busiest = pipeline::busiest(plan, phase, routes);
        let mut regions = Self { ranks: plan.ranks(), busiest, ..Self::default() };
        let mut units_at: HashMap<NodeId, f64> = HashMap::new();
        let mut edge_of: EdgeOf = vec![[NONE; 2]; plan.topology.nodes().len()];
        let mut trees_at = vec![0u32; plan.topology.nodes().len()];
        let mut known = HashMap::new();
        for tree in &plan.trees {
            let (first, method) = (regions.edges.len(), method(plan, tree)?);
            regions.add_half(plan, routes, phase, tree, Direction::Up, &mut edge_of)?;
            let between = regions.edges.len();
            let top = regions.add_half(plan, routes, phase, tree, Direction::Down, &mut edge_of)?;
            for (number, edge) in regions.edges.iter_mut().enumerate().skip(first) {
                let [up, down] = edge_of[edge.child as usize];
                edge.mate = if number < between { down } else { up };
            }
            regions.separate(machine, ways, first, between);
            regions.of_rank.extend_from_slice(&edge_of[..plan.ranks() as usize]);
            let ports = |node: NodeId| plan.topology.outgoing(node).len() as u32;
            let mut table = |node: NodeId| {
                let place = &mut trees_at[node as usize];
                *place += 1;
                *units_at.entry(node).or_default() += tree.units() as f64 / f64::from(ports(node));
                (*place - 1) % ports(node)
            };
            for edge in regions.edges[first..between].iter_mut().filter(|edge| edge.below.count > 0) {
                edge.table = table(edge.child);
            }
            let table = if method == Method::Push { table(tree.root) } else { 0 };
            regions.regions.push(Region { root: tree.root, top, method, table });
            if method == Method::Push {
                regions.add_homes(machine, ways, &edge_of, &mut known);
            }
            regions.homes.resize(regions.of_rank.len(), [NONE; 2]);
            for edge in &regions.edges[first..] {
                edge_of[edge.child as usize] = [NONE; 2];
            }
        }
        regions.table_share = units_at.values().copied().fold(0.0, f64::max) / plan.units as f64;
        Ok(regions)
    }

    /// Adds a half of `tree`; returns the root's edges.
    fn add_half(
        &mut self,
        plan: &Plan,
        routes: &LaneRoutes,
        phase: &Phase,
        tree: &Tree,
        direction: Direction,
        edge_of: &mut EdgeOf,
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
                bail!(
                    "{name} passes on what it gets: a fabric's ranks do not; use --model flow, or a network whose switches reach all"
                );
            }
            let (number, above) = (self.edges.len() as u32, edge_of[edge.parent as usize][half]);
            let siblings = if above == NONE { &mut top } else { &mut self.edges[above as usize].below };
            siblings.first = if siblings.count == 0 { number } else { siblings.first };
            let place = siblings.count;
            siblings.count += 1;
            edge_of[edge.child as usize][half] = number;
            self.edges.push(Edge {
                child: edge.child,
                way: edge.lane.index() as u32,
                back: back.index() as u32,
                above,
                below: Edges::default(),
                place,
                ranks: plan.topology.is_rank(edge.child).into(),
                mate: NONE,
                table: 0,
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

    /// The whole ways between a tree's root and every rank; known ones are shared by the trees of a root.
    fn add_homes(
        &mut self,
        machine: &Machine,
        ways: &mut Ways,
        edge_of: &EdgeOf,
        known: &mut HashMap<Vec<LinkId>, u32>,
    ) {
        for rank in 0..self.ranks {
            let rows = Direction::BOTH.map(|direction| {
                let mut rows = self.ways_to_root(edge_of[rank as usize][column(direction)]);
                if direction == Direction::Down {
                    rows.reverse();
                }
                if let [row] = rows[..] {
                    return row;
                }
                let links: Vec<LinkId> = rows.iter().flat_map(|&row| ways.links(row)).copied().collect();
                *known.entry(links).or_insert_with_key(|links| ways.push(machine, links))
            });
            self.homes.push(rows);
        }
    }

    /// The ways of an edge and of those above it.
    fn ways_to_root(&self, mut edge: u32) -> Vec<u32> {
        let mut ways = Vec::new();
        while edge != NONE {
            ways.push(self.edges[edge as usize].way);
            edge = self.edges[edge as usize].above;
        }
        ways
    }

    /// Takes edges to virtual channels on which packets of no tree wait for each other in a circle.
    fn separate(&mut self, machine: &Machine, ways: &mut Ways, first: usize, between: usize) {
        for number in (first..self.edges.len()).rev() {
            let before: Vec<u32> = self.edges[number].below.numbers().collect();
            if number < between {
                let before: Vec<u32> = before.iter().map(|&edge| self.edges[edge as usize].way).collect();
                self.edges[number].way = ways.follow(machine, self.edges[number].way, &before);
            } else {
                let before: Vec<u32> = before.iter().map(|&edge| self.edges[edge as usize].back).collect();
                self.edges[number].back = ways.follow(machine, self.edges[number].back, &before);
            }
        }
        for number in between..self.edges.len() {
            let above = self.edges[number].above;
            if above != NONE {
                let before = self.edges[above as usize].way;
                self.edges[number].way = ways.follow(machine, self.edges[number].way, &[before]);
            }
        }
    }

    /// Cycles of the farthest operand's way to a root, or of its answer's.
    pub fn farthest(&self, ways: &Ways) -> u64 {
        let mut delay = vec![0; self.edges.len()];
        for (number, edge) in self.edges.iter().enumerate() {
            let above = if edge.above == NONE { 0 } else { delay[edge.above as usize] };
            delay[number] = above + ways.delay(edge.way);
        }
        delay.into_iter().max().unwrap_or(0)
    }

    /// The ranks whose operands make a line of a tree.
    pub fn contributors(&self, tree: u32) -> impl Iterator<Item = NodeId> {
        let Region { root, method, .. } = self.regions[tree as usize];
        let all = method != Method::Write;
        (0..self.ranks).filter(move |&rank| all || rank == root)
    }

    /// How many they are.
    pub fn expected(&self, tree: u32) -> u32 {
        if self.method(tree) == Method::Write { 1 } else { self.ranks }
    }

    /// How a tree is used.
    pub fn method(&self, tree: u32) -> Method {
        self.regions[tree as usize].method
    }

    /// Whether all trees are used so.
    pub fn all(&self, method: Method) -> bool {
        self.regions.iter().all(|region| region.method == method)
    }

    /// The edge of `rank` in a half of a tree.
    pub fn edge_of(&self, tree: u32, rank: NodeId, direction: Direction) -> u32 {
        self.of_rank[(tree * self.ranks + rank) as usize][column(direction)]
    }

    /// The whole way from a rank to the root of a tree, which is a switch, or from the root to the rank.
    pub fn home_way(&self, tree: u32, rank: NodeId, direction: Direction) -> u32 {
        self.homes[(tree * self.ranks + rank) as usize][column(direction)]
    }

    /// The port whose table reduces a tree's first line where `edge` ends, or at the root.
    pub fn table(&self, tree: u32, edge: u32) -> u32 {
        if edge == NONE { self.regions[tree as usize].table } else { self.edges[edge as usize].table }
    }

    /// The edges over which a multicast goes on that has come over `edge`.
    pub fn targets(&self, tree: u32, edge: u32) -> Edges {
        if edge == NONE { self.regions[tree as usize].top } else { self.edges[edge as usize].below }
    }

    /// The edges out of where `edge` begins.
    pub fn siblings(&self, tree: u32, edge: u32) -> u32 {
        self.targets(tree, self.edge(edge).above).count
    }

    /// An edge.
    pub fn edge(&self, edge: u32) -> &Edge {
        &self.edges[edge as usize]
    }
}

/// The lanes that packets and their acknowledgements use.
pub fn lanes(plan: &Plan) -> Vec<LaneRef> {
    let mut lanes = Vec::new();
    for (phase, tree) in plan.phases.iter().flat_map(|phase| plan.trees_of(phase).iter().map(move |tree| (phase, tree)))
    {
        lanes.extend(plan.half(phase, tree, Direction::Up).map(|edge| edge.lane));
        for edge in plan.half(phase, tree, Direction::Down) {
            lanes.extend([edge.lane, LaneRef::new(edge.lane.lane(), !edge.lane.reversed())]);
        }
    }
    lanes
}

/// How a tree of a plan is used.
fn method(plan: &Plan, tree: &Tree) -> Result<Method> {
    let of_rank = plan.topology.is_rank(tree.root);
    match (plan.collective, tree.up != Half::None, tree.down != Half::None) {
        (Collective::AllReduce, true, true) if of_rank => Ok(Method::Pull),
        (Collective::AllReduce, true, true) => Ok(Method::Push),
        (Collective::AllGather | Collective::Broadcast, false, true) if of_rank => Ok(Method::Write),
        _ => bail!(
            "switches work in trees of this {}, and the packet model has them in all-reduces, all-gathers and broadcasts only: \
             use --model flow",
            plan.collective
        ),
    }
}
