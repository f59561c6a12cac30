//! Multicast regions: what the fabric manager writes into switches, from the trees of an in-network plan (in-network
//! paper, section IV-A).
//!
//! A tree is a region: at each of its switches the targets of a multicast and the number of responses to expect. Edges
//! are numbered through, so that a packet names the edge that it comes over and a switch finds the next ones without a
//! search.

use std::collections::{BTreeSet, HashMap};

use super::super::machine::{Machine, OutputId};
use super::packet::{Address, EdgeId, RouteId};
use super::routes::Routes;
use crate::error::Result;
use crate::misfit;
use crate::plan::{self, Direction, Half, Held, LaneRef, LaneRoutes, Pace, Phase, Plan, Tree, pipeline};
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
    /// The route, as the data goes.
    pub route: RouteId,
    /// The route back, on which acknowledgements go.
    pub back: RouteId,
    /// The edge between the parent and its own parent, unless the parent is the root.
    pub above: Option<EdgeId>,
    /// The edges between `child` and its children.
    pub below: Edges,
    /// Its place among the edges of the parent.
    pub place: u32,
    /// Ranks at `child` and below.
    pub ranks: u32,
    /// The edge of the other half with the same child, if there is one.
    pub mate: Option<EdgeId>,
    /// Pushes: the port at `child` whose table reduces the first line.
    pub table: u32,
}

/// Edges that stand together: the first, and how many.
#[derive(Debug, Clone, Copy, Default)]
pub struct Edges {
    first: u32,
    pub count: u32,
}

impl Edges {
    /// Returns the first of them.
    pub fn first(self) -> EdgeId {
        EdgeId::new(self.first)
    }

    /// Returns their numbers.
    pub fn numbers(self) -> impl DoubleEndedIterator<Item = EdgeId> {
        (self.first..self.first + self.count).map(EdgeId::new)
    }
}

/// A tree of an in-network plan.
#[derive(Debug, Clone, Copy)]
pub struct Region {
    /// Where sums end and results begin.
    pub root: NodeId,
    /// The root's edges in the broadcast half.
    pub top: Edges,
    pub method: Method,
    /// Pushes: the port of the root whose table reduces the first line; the next one reduces the second.
    pub table: u32,
    /// Whether the root alone gets the sum, as in a reduce.
    pub alone: bool,
}

/// All regions.
#[derive(Debug, Default)]
pub struct Regions {
    /// The region of each tree.
    pub regions: Vec<Region>,
    /// The edges of all trees.
    edges: Vec<Edge>,
    /// The edge of each tree and rank in the reduce half, unless the rank is the root.
    up: Vec<Option<EdgeId>>,
    /// The whole routes of each tree and rank from the rank to the root and back, if ranks push.
    homes: Vec<Option<[RouteId; 2]>>,
    pub ranks: u32,
    /// Seconds a byte of the vector that the busiest link takes.
    pub busiest: f64,
    /// The largest part of the vector that is reduced in one port's table.
    pub table_share: f64,
    /// The ports in whose tables the roots of trees add up lines.
    pub home_ports: usize,
}

/// Returns in which column a half stands.
fn column(direction: Direction) -> usize {
    usize::from(direction == Direction::Down)
}

/// What is reduced in the tables of a node.
#[derive(Debug, Clone, Copy, Default)]
struct Reduced {
    /// Trees that are reduced there.
    trees: u32,
    /// Units of the vector that each of its ports reduces.
    units: f64,
}

/// The fabric manager: what it needs to write regions, and what it has written so far.
struct Manager<'a> {
    plan: &'a Plan,
    phase: &'a Phase,
    lane_routes: &'a LaneRoutes,
    machine: &'a Machine,
    routes: &'a mut Routes,
    regions: Regions,
    /// The edge above each node in the halves of the tree at hand.
    edge_of: Vec<[Option<EdgeId>; 2]>,
    /// Whole routes to homes by their links: the trees of a root share them.
    homes: HashMap<Vec<LinkId>, RouteId>,
    /// What is reduced at each node.
    reduced_at: Vec<Reduced>,
}

impl Regions {
    /// Makes the regions of `plan`, and adds the routes to homes.
    ///
    /// # Errors
    /// A rank is inside a tree, the plan has several phases, a route has no route back, or switches do not do the
    /// collective.
    pub fn new(plan: &Plan, lane_routes: &LaneRoutes, machine: &Machine, routes: &mut Routes) -> Result<Self> {
        let [phase] = plan.phases.as_slice() else {
            misfit!("{} reduces in {} phases; switches reduce in one", plan.algorithm, plan.phases.len());
        };
        let nodes = plan.topology.nodes().len();
        let busiest = pipeline::busiest(plan, phase, lane_routes);
        let regions = Self { ranks: plan.ranks(), busiest, ..Self::default() };
        let (edge_of, reduced_at) = (vec![[None; 2]; nodes], vec![Reduced::default(); nodes]);
        let homes = HashMap::new();
        let mut manager = Manager { plan, phase, lane_routes, machine, routes, regions, edge_of, homes, reduced_at };
        for tree in &plan.trees {
            manager.add(tree)?;
        }
        let most = manager.reduced_at.iter().map(|reduced| reduced.units).fold(0.0, f64::max);
        let roots: BTreeSet<NodeId> = manager.regions.regions.iter().map(|region| region.root).collect();
        let home_ports = roots.into_iter().map(|root| plan.topology.outgoing(root).len()).sum();
        Ok(Self { table_share: most / plan.units as f64, home_ports, ..manager.regions })
    }
}

impl Manager<'_> {
    fn add(&mut self, tree: &Tree) -> Result<()> {
        let (first, method) = (self.regions.edges.len(), method(self.plan, self.phase, tree)?);
        self.add_half(tree, Direction::Up)?;
        let between = self.regions.edges.len();
        let top = self.add_half(tree, Direction::Down)?;
        for (number, edge) in self.regions.edges.iter_mut().enumerate().skip(first) {
            let [up, down] = self.edge_of[edge.child];
            edge.mate = if number < between { down } else { up };
        }
        self.separate(first, between);
        for number in first..between {
            let Edge { child, below, .. } = self.regions.edges[number];
            if below.count > 0 {
                self.regions.edges[number].table = self.table(tree, child);
            }
        }
        let has_home = method == Method::Push && !self.plan.topology.is_rank(tree.root);
        let table = if has_home { self.table(tree, tree.root) } else { 0 };
        let up = self.edge_of[..self.regions.ranks as usize].iter().map(|edges| edges[column(Direction::Up)]);
        self.regions.up.extend(up);
        let alone = tree.down == Half::None;
        self.regions.regions.push(Region { root: tree.root, top, method, table, alone });
        for rank in NodeId::first(self.regions.ranks as usize) {
            let routes = has_home.then(|| self.home_routes(rank));
            self.regions.homes.push(routes);
        }
        for edge in &self.regions.edges[first..] {
            self.edge_of[edge.child] = [None; 2];
        }
        Ok(())
    }

    /// Chooses the port of a node whose table reduces a tree's first line: trees take turns.
    fn table(&mut self, tree: &Tree, node: NodeId) -> u32 {
        let ports = self.plan.topology.outgoing(node).len() as u32;
        let Reduced { trees, units } = &mut self.reduced_at[node];
        *trees += 1;
        *units += tree.units() as f64 / f64::from(ports);
        (*trees - 1) % ports
    }

    /// Adds a half of `tree`; returns the root's edges.
    fn add_half(&mut self, tree: &Tree, direction: Direction) -> Result<Edges> {
        let (plan, edges) = (self.plan, &mut self.regions.edges);
        let (first, half) = (edges.len(), column(direction));
        let mut top = Edges { first: first as u32, count: 0 };
        for edge in edges_of(plan, self.phase, tree, direction) {
            let back = edge.lane.reverse();
            if self.lane_routes.of(back).is_empty() {
                let [from, to] = [edge.parent, edge.child].map(|node| plan.topology.node(node).name.as_str());
                misfit!("acknowledgements cannot come back between {from} and {to}: a link has no reverse; add it");
            }
            if plan.topology.is_rank(edge.parent) && edge.parent != tree.root {
                let name = &plan.topology.node(edge.parent).name;
                misfit!(
                    "{name} passes on what it gets: a fabric's ranks do not; use the flow simulator, or a network \
                     whose switches reach all"
                );
            }
            let (number, above) = (edges.len() as u32, self.edge_of[edge.parent][half]);
            let siblings = above.map_or(&mut top, |above| &mut edges[above].below);
            siblings.first = if siblings.count == 0 { number } else { siblings.first };
            let place = siblings.count;
            siblings.count += 1;
            self.edge_of[edge.child][half] = Some(EdgeId::new(number));
            edges.push(Edge {
                child: edge.child,
                route: edge.lane.into(),
                back: back.into(),
                above,
                below: Edges::default(),
                place,
                ranks: plan.topology.is_rank(edge.child).into(),
                mate: None,
                table: 0,
            });
        }
        for number in (first..edges.len()).rev() {
            let Edge { above, ranks, .. } = edges[number];
            if let Some(above) = above {
                edges[above].ranks += ranks;
            }
        }
        Ok(top)
    }

    /// Makes the whole routes from a rank to the root of the tree at hand, and back.
    fn home_routes(&mut self, rank: NodeId) -> [RouteId; 2] {
        Direction::BOTH.map(|direction| {
            let mut routes = self.regions.routes_to_root(self.edge_of[rank][column(direction)]);
            if direction == Direction::Down {
                routes.reverse();
            }
            if let [route] = routes[..] {
                return route;
            }
            let links: Vec<LinkId> = routes.iter().flat_map(|&route| self.routes.links(route)).copied().collect();
            *self.homes.entry(links).or_insert_with_key(|links| self.routes.push(self.machine, links))
        })
    }

    /// Takes edges to virtual channels on which packets of no tree wait for each other in a circle.
    fn separate(&mut self, first: usize, between: usize) {
        let edges = &mut self.regions.edges;
        for number in (first..edges.len()).rev() {
            let below = edges[number].below.numbers().map(|edge| &edges[edge]);
            if number < between {
                let before: Vec<RouteId> = below.map(|edge| edge.route).collect();
                edges[number].route = self.routes.follow(self.machine, edges[number].route, &before);
            } else {
                let before: Vec<RouteId> = below.map(|edge| edge.back).collect();
                edges[number].back = self.routes.follow(self.machine, edges[number].back, &before);
            }
        }
        for number in between..edges.len() {
            if let Some(above) = edges[number].above {
                let before = edges[above].route;
                edges[number].route = self.routes.follow(self.machine, edges[number].route, &[before]);
            }
        }
    }
}

impl Regions {
    /// Lists the routes of an edge and of those above it.
    fn routes_to_root(&self, edge: Option<EdgeId>) -> Vec<RouteId> {
        std::iter::successors(edge, |&edge| self.edge(edge).above).map(|edge| self.edge(edge).route).collect()
    }

    /// Returns the cycles that the farthest operand, or its answer, takes to a root.
    pub fn farthest(&self, routes: &Routes) -> u64 {
        let mut delay = vec![0; self.edges.len()];
        for (number, edge) in self.edges.iter().enumerate() {
            let above = edge.above.map_or(0, |above| delay[above]);
            delay[number] = above + routes.delay(edge.route);
        }
        delay.into_iter().max().unwrap_or(0)
    }

    /// Lists the ranks whose operands make a line of a tree.
    pub fn contributors(&self, tree: u32) -> impl Iterator<Item = NodeId> {
        let Region { root, method, .. } = self.regions[tree as usize];
        let all = method != Method::Write;
        NodeId::first(self.ranks as usize).filter(move |&rank| all || rank == root)
    }

    /// Counts the ranks whose operands make a line of a tree.
    pub fn expected(&self, tree: u32) -> u32 {
        if self.method(tree) == Method::Write { 1 } else { self.ranks }
    }

    /// Says whether the root of a tree alone gets its sums.
    pub fn is_alone(&self, tree: u32) -> bool {
        self.regions[tree as usize].alone
    }

    /// Says whether `rank` is the root of a tree.
    pub fn ends_at(&self, tree: u32, rank: NodeId) -> bool {
        self.regions[tree as usize].root == rank
    }

    /// Says whether `rank` gets the results of a tree from others.
    pub fn serves(&self, tree: u32, rank: NodeId) -> bool {
        match (self.is_alone(tree), self.method(tree)) {
            (true, _) => self.ends_at(tree, rank),
            (false, Method::Write) => !self.ends_at(tree, rank),
            (false, Method::Push | Method::Pull) => true,
        }
    }

    /// Says how a tree is used.
    pub fn method(&self, tree: u32) -> Method {
        self.regions[tree as usize].method
    }

    /// Says whether all trees are used in one way.
    pub fn all(&self, method: Method) -> bool {
        self.regions.iter().all(|region| region.method == method)
    }

    fn row(&self, tree: u32, rank: NodeId) -> usize {
        tree as usize * self.ranks as usize + rank.index()
    }

    /// Returns the edge over which `rank` sends its operands to the root of a tree.
    pub fn edge_up(&self, tree: u32, rank: NodeId) -> EdgeId {
        self.up[self.row(tree, rank)].expect("operands go up to another node")
    }

    /// Returns the whole route from a rank to the root of a tree, which is a switch, or from the root to the rank.
    pub fn home_route(&self, tree: u32, rank: NodeId, direction: Direction) -> RouteId {
        self.homes[self.row(tree, rank)].expect("ranks push in this tree")[column(direction)]
    }

    /// Returns the home port of a line at a switch with so many ports, where `edge` begins or, without one, at the
    /// root: the table that reduces it. The lines of a tree take the ports in turn.
    pub fn home(&self, address: Address, edge: Option<EdgeId>, ports: usize) -> OutputId {
        let first = edge.map_or_else(|| self.regions[address.tree as usize].table, |edge| self.edge(edge).table);
        OutputId((first + address.line()) % ports as u32)
    }

    /// Returns the edges over which the multicast of a tree's root goes.
    pub fn top(&self, tree: u32) -> Edges {
        self.regions[tree as usize].top
    }

    /// Returns the edges over which a multicast goes on that has come over `edge`, or begins at the root.
    pub fn targets(&self, tree: u32, edge: Option<EdgeId>) -> Edges {
        edge.map_or_else(|| self.top(tree), |edge| self.edge(edge).below)
    }

    /// Counts the edges out of where `edge` begins.
    pub fn siblings(&self, tree: u32, edge: EdgeId) -> u32 {
        self.targets(tree, self.edge(edge).above).count
    }

    /// Returns an edge.
    pub fn edge(&self, edge: EdgeId) -> &Edge {
        &self.edges[edge]
    }
}

/// Lists the lanes that packets and their acknowledgements use.
pub fn lanes(plan: &Plan) -> Vec<LaneRef> {
    let mut lanes = Vec::new();
    for (phase, tree) in plan.phases.iter().flat_map(|phase| plan.trees_of(phase).iter().map(move |tree| (phase, tree)))
    {
        lanes.extend(plan.half(phase, tree, Direction::Up).map(|edge| edge.lane));
        for edge in edges_of(plan, phase, tree, Direction::Down) {
            lanes.extend([edge.lane, edge.lane.reverse()]);
        }
    }
    lanes
}

/// Lists the edges of a half. A tree that only reduces has its reduce half's, turned around, as its broadcast half:
/// over them pulls ask, and pushes are acknowledged.
fn edges_of(plan: &Plan, phase: &Phase, tree: &Tree, direction: Direction) -> Vec<plan::Edge> {
    if direction == Direction::Down && tree.down == Half::None {
        let turned = |edge: plan::Edge| plan::Edge { lane: edge.lane.reverse(), ..edge };
        return plan.half(phase, tree, Direction::Up).map(turned).collect();
    }
    plan.half(phase, tree, direction).collect()
}

/// Says how a tree of a phase is used. Where sums end at one rank, only the pace tells whether it asks for them.
pub fn method(plan: &Plan, phase: &Phase, tree: &Tree) -> Result<Method> {
    let of_rank = plan.topology.is_rank(tree.root);
    let all_get = plan.collective.definition().after == Held::Whole;
    match (all_get, tree.up != Half::None, tree.down != Half::None) {
        (true, true, true) if of_rank => Ok(Method::Pull),
        (true, true, true) => Ok(Method::Push),
        (true, false, true) if of_rank => Ok(Method::Write),
        (false, true, false) if of_rank && phase.pace == Pace::Pulled => Ok(Method::Pull),
        (false, true, false) if of_rank => Ok(Method::Push),
        _ => misfit!(
            "switches work in trees of this {}, and the packet simulator has them in all-reduces, reduce-scatters, \
             reduces, all-gathers and broadcasts only, whose sums end at ranks: use the flow simulator",
            plan.collective
        ),
    }
}
