//! Spanning trees with a rate each, from which the wide-area planners choose, and the streamed plans of the chosen
//! ones.
//!
//! A tree joins all ranks by routes whose inner nodes are no ranks; on direct networks a route is one link. The routes
//! of trees in the network also meet in switches. On a network whose two directions are alike the reduce half mirrors
//! the broadcast half; elsewhere it is a tree of its own into the same root. Trees compete for *resources*: cables
//! where the directions are alike (a tree uses both, whatever its root), or else links; and capacities that links
//! share. Where directions differ, a mirrored tree also uses the opposite link of each of its links.

use std::ops::Range;
use std::sync::Arc;

use super::Heights;
use crate::plan::{Chunk, Direction, Draft, Half, LaneId, Pace, Tree};
use crate::topology::{LinkId, NodeId, Topology};
use crate::units::Bandwidth;

crate::ids::ids! {
    /// A resource for which trees compete.
    ResourceId;
}

/// The links from one node of a tree to another.
pub type Route = Box<[LinkId]>;

/// A tree over all ranks.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpanningTree {
    /// The node where the sum is formed.
    pub root: NodeId,
    /// The routes away from the root, breadth-first, siblings together.
    pub down: Vec<Route>,
    /// The routes into the root, in the same order; `None` if they are those of `down` in the opposite direction.
    pub up: Option<Vec<Route>>,
}

/// A tree and what it carries.
#[derive(Debug, Clone, PartialEq)]
pub struct Rated {
    /// The tree.
    pub tree: SpanningTree,
    /// The bytes a second that it carries, or its part of the vector. A plan depends only on how the rates of its trees
    /// compare.
    pub rate: f64,
}

/// A tree and what it costs.
#[derive(Debug, Clone, PartialEq)]
pub struct Priced {
    /// The tree.
    pub tree: SpanningTree,
    /// The sum of the prices of the links that it was searched with.
    pub cost: f64,
}

/// How often a tree uses a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// The resource.
    pub resource: ResourceId,
    /// How many times, at least once.
    pub count: u32,
}

/// The resources for which the trees of a network compete.
#[derive(Clone)]
pub struct Resources {
    /// The resource of each link.
    pub of_link: Vec<ResourceId>,
    /// What each link shares, as often as a tree with the link uses it; there are no rows if nothing is shared.
    shared: Vec<Vec<ResourceId>>,
    /// What each resource carries.
    pub capacity: Vec<Bandwidth>,
    /// The opposite links of links, whose resources a mirrored tree uses, too; none where both are one resource.
    back: Vec<Option<LinkId>>,
}

impl Resources {
    /// Returns cables as resources if both directions are alike, or else links.
    ///
    /// ```
    /// use treefold::planners::spanning::Resources;
    /// use treefold::topology::from_spec;
    ///
    /// let resources = Resources::new(&from_spec("ring:4", None, None)?);
    /// assert_eq!((resources.of_link.len(), resources.capacity.len()), (8, 4), "a cable has two links");
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn new(topology: &Topology) -> Self {
        Self::joined(topology, topology.is_symmetric())
    }

    /// Returns links as resources, even if both directions are alike: for trees whose halves differ.
    ///
    /// ```
    /// use treefold::planners::spanning::Resources;
    /// use treefold::topology::from_spec;
    ///
    /// assert_eq!(Resources::of_links(&from_spec("ring:4", None, None)?).capacity.len(), 8);
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn of_links(topology: &Topology) -> Self {
        Self::joined(topology, false)
    }

    fn joined(topology: &Topology, is_symmetric: bool) -> Self {
        let back = topology.link_ids().map(|id| if is_symmetric { None } else { topology.reverse(id) }).collect();
        let mut resources = Self { of_link: Vec::new(), shared: Vec::new(), capacity: Vec::new(), back };
        for (id, link) in topology.link_ids().zip(topology.links()) {
            match topology.reverse(id) {
                Some(back) if is_symmetric && back < id => {
                    resources.of_link.push(resources.of_link[back]);
                }
                _ => {
                    resources.of_link.push(ResourceId::new(resources.capacity.len()));
                    resources.capacity.push(link.bandwidth);
                }
            }
        }
        if !topology.shared().is_empty() {
            resources.add_shared(topology, is_symmetric);
        }
        resources
    }

    /// Adds what links share. Where directions are alike, a tree uses a shared capacity with its links and with their
    /// opposite ones, and the opposite shared capacity just as often: the two are one resource.
    fn add_shared(&mut self, topology: &Topology, is_symmetric: bool) {
        let opposite = |id: LinkId| topology.opposite(id).filter(|_| is_symmetric);
        let is_first = |id: &LinkId| opposite(*id).is_none_or(|back| *id <= back);
        let mut resource_of = vec![ResourceId::default(); topology.num_capacities()];
        for id in topology.capacity_ids().skip(topology.links().len()).filter(is_first) {
            resource_of[id] = ResourceId::new(self.capacity.len());
            self.capacity.push(topology.bandwidth(id));
        }
        let shares = |id: LinkId| {
            let both = [Some(id), opposite(id)].into_iter().flatten();
            let first = both.flat_map(|id| topology.shared_by(id)).filter(|shared| is_first(shared));
            first.map(|&shared| resource_of[shared]).collect()
        };
        self.shared = topology.link_ids().map(shares).collect();
    }

    /// Returns whether links share capacities.
    pub(super) fn are_shared(&self) -> bool {
        !self.shared.is_empty()
    }

    /// Lists the resources of a link: its own, and what it shares.
    fn uses(&self, link: LinkId) -> impl Iterator<Item = ResourceId> {
        let shared = self.shared.get(link.index()).into_iter().flatten();
        std::iter::once(self.of_link[link]).chain(shared.copied())
    }

    /// Returns the price of a link, with that of what it shares, under a price of each resource.
    pub(super) fn price(&self, link: LinkId, prices: &[f64]) -> f64 {
        self.uses(link).map(|resource| prices[resource]).sum()
    }

    /// Lists the resources that a tree uses, in rising order.
    ///
    /// ```
    /// use treefold::planners::Heights;
    /// use treefold::planners::spanning::Resources;
    /// use treefold::planners::cheapest::shortest_tree;
    /// use treefold::topology::{NodeId, from_spec};
    ///
    /// let line = from_spec("line:3", None, None)?;
    /// let tree = shortest_tree(&line, NodeId(0), Heights::Hops);
    /// assert_eq!(Resources::new(&line).usage(&tree).len(), 2, "both directions of a cable are one resource");
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn usage(&self, tree: &SpanningTree) -> Vec<Usage> {
        let routes = tree.down.iter().chain(tree.up.iter().flatten());
        let mut used: Vec<ResourceId> = routes.flatten().flat_map(|&link| self.uses(link)).collect();
        if tree.up.is_none() {
            let mirrored = tree.down.iter().flatten().filter_map(|&link| self.back[link]);
            used.extend(mirrored.flat_map(|back| self.uses(back)));
        }
        used.sort_unstable();
        used.chunk_by(|a, b| a == b).map(|run| Usage { resource: run[0], count: run.len() as u32 }).collect()
    }
}

/// Puts the routes of one half of a tree, which come in any order, breadth-first.
pub(super) fn breadth_first(topology: &Topology, root: NodeId, routes: Vec<Route>, direction: Direction) -> Vec<Route> {
    let mut children: Vec<Vec<Route>> = vec![Vec::new(); topology.nodes().len()];
    for route in routes {
        children[parent(topology, &route, direction)].push(route);
    }
    let mut ordered: Vec<Route> = std::mem::take(&mut children[root]);
    let mut next = 0;
    while next < ordered.len() {
        let child = child(topology, &ordered[next], direction);
        ordered.append(&mut children[child]);
        next += 1;
    }
    ordered
}

/// Returns the end of a route that is nearer to the root.
pub(super) fn parent(topology: &Topology, route: &Route, direction: Direction) -> NodeId {
    match direction {
        Direction::Up => topology.link(route[route.len() - 1]).target,
        Direction::Down => topology.link(route[0]).source,
    }
}

/// Returns the end of a route that is farther from the root.
pub(super) fn child(topology: &Topology, route: &Route, direction: Direction) -> NodeId {
    match direction {
        Direction::Up => topology.link(route[0]).source,
        Direction::Down => topology.link(route[route.len() - 1]).target,
    }
}

/// How long links are, and thus how high trees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lengths {
    heights: Heights,
    /// The length of each link: 1 if heights count hops, or else its latency in quanta of the network's least positive
    /// one, rounded up and at least 1.
    pub of_link: Vec<u64>,
}

impl Lengths {
    /// Measures the links of a network.
    ///
    /// ```
    /// use treefold::planners::Heights;
    /// use treefold::planners::spanning::Lengths;
    /// use treefold::planners::cheapest::shortest_tree;
    /// use treefold::topology::{NodeId, from_spec};
    ///
    /// let line = from_spec("line:5", None, None)?;
    /// let lengths = Lengths::new(&line, Heights::Hops);
    /// assert_eq!(lengths.height(&line, &shortest_tree(&line, NodeId(2), Heights::Hops)), 2);
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn new(topology: &Topology, heights: Heights) -> Self {
        let delays = || topology.links().iter().map(|link| link.delay().picoseconds());
        let of_link = match delays().filter(|&delay| delay > 0).min() {
            Some(quantum) if heights == Heights::Latency => {
                delays().map(|delay| delay.div_ceil(quantum).max(1)).collect()
            }
            _ => vec![1; topology.links().len()],
        };
        Self { heights, of_link }
    }

    /// Returns the height of a tree, which is that of its higher half: its edges if heights count hops, or else the sum
    /// of its links' lengths.
    ///
    /// ```
    /// use treefold::planners::Heights;
    /// use treefold::planners::spanning::Lengths;
    /// use treefold::planners::cheapest::shortest_tree;
    /// use treefold::topology::{NodeId, from_spec};
    ///
    /// let line = from_spec("line:5", None, None)?;
    /// let end = shortest_tree(&line, NodeId(0), Heights::Hops);
    /// assert_eq!(Lengths::new(&line, Heights::Hops).height(&line, &end), 4);
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn height(&self, topology: &Topology, tree: &SpanningTree) -> u64 {
        let down = self.height_of_half(topology, &tree.down, Direction::Down);
        let up = tree.up.as_ref().map(|routes| self.height_of_half(topology, routes, Direction::Up));
        down.max(up.unwrap_or(0))
    }

    fn height_of_half(&self, topology: &Topology, routes: &[Route], direction: Direction) -> u64 {
        let mut depth = vec![0u64; topology.nodes().len()];
        for route in routes {
            let length = match self.heights {
                Heights::Latency => route.iter().map(|&link| self.of_link[link]).sum(),
                Heights::Hops => 1,
            };
            depth[child(topology, route, direction)] = depth[parent(topology, route, direction)] + length;
        }
        depth.into_iter().max().unwrap_or(0)
    }
}

/// Finds a rate for each of `trees` without a solver, of which at most `most` are above zero: again and again the tree
/// that can carry most of what is left gets that rate, if it is at least `least_rate` bytes a second.
///
/// ```
/// use treefold::planners::Heights;
/// use treefold::planners::spanning::{Resources, greedy_shares};
/// use treefold::planners::cheapest::shortest_tree;
/// use treefold::topology::{NodeId, from_spec};
///
/// let ring = from_spec("ring:3", None, None)?;
/// let trees = [0, 1, 2].map(|root| shortest_tree(&ring, NodeId(root), Heights::Hops));
/// let rates = greedy_shares(&Resources::new(&ring), &trees, 2, 0.0);
/// assert_eq!(rates.iter().filter(|&&rate| rate > 0.0).count(), 1, "every two trees share a cable");
/// # Ok::<(), treefold::error::Error>(())
/// ```
pub fn greedy_shares(resources: &Resources, trees: &[SpanningTree], most: usize, least_rate: f64) -> Vec<f64> {
    let usages: Vec<_> = trees.iter().map(|tree| resources.usage(tree)).collect();
    let mut left: Vec<f64> = resources.capacity.iter().map(|capacity| capacity.bytes_per_second()).collect();
    let mut rates = vec![0.0; trees.len()];
    for _ in 0..most.min(trees.len()) {
        let carries = |uses: &Vec<Usage>| {
            let each = uses.iter().map(|&Usage { resource, count }| left[resource] / f64::from(count));
            each.fold(f64::INFINITY, f64::min)
        };
        let open = (0..trees.len()).filter(|&tree| rates[tree] == 0.0).map(|tree| (tree, carries(&usages[tree])));
        let Some((tree, rate)) = open.min_by(|a, b| b.1.total_cmp(&a.1)) else { break };
        if rate < least_rate * (1.0 - 1e-9) || rate <= 0.0 {
            break;
        }
        rates[tree] = rate;
        for &Usage { resource, count } in &usages[tree] {
            // A rest that is due to rounding is set to zero; otherwise it would become a tree of its own.
            let (left, capacity) = (&mut left[resource], resources.capacity[resource].bytes_per_second());
            *left -= rate * f64::from(count);
            *left = if *left < 1e-9 * capacity { 0.0 } else { *left };
        }
    }
    rates
}

/// The number of equal parts of a vector, of which a share is a whole number.
pub(super) const UNITS: u64 = 1 << 26;

/// Returns the part of `UNITS` that each of `rates` gets: one span after the other, in proportion, all of them
/// together.
pub(super) fn spans(rates: &[f64]) -> Vec<Range<u64>> {
    let total: f64 = rates.iter().sum();
    let (mut sum, mut start) = (0.0, 0);
    let span = |rate| {
        sum += rate;
        let end = (sum / total * UNITS as f64).round() as u64;
        std::mem::replace(&mut start, end)..end
    };
    rates.iter().map(span).collect()
}

/// Returns a draft of the streamed plan in which each tree carries a part of the vector in proportion to its rate;
/// trees without rate are left out. The plan is paced, unless trees are not cut into chunks: a message that goes alone
/// goes as fast as it can.
///
/// The draft is as right as its trees, which may come from anywhere: [`Draft::prove`] makes a plan of it. Routes have
/// to be links of the network, at least one each.
///
/// ```
/// use std::sync::Arc;
/// use treefold::plan::Chunk;
/// use treefold::planners::Heights;
/// use treefold::planners::spanning::{self, Rated};
/// use treefold::planners::cheapest::shortest_tree;
/// use treefold::topology::{NodeId, from_spec};
///
/// let line = Arc::new(from_spec("line:3", None, None)?);
/// let mut rated = Rated { tree: shortest_tree(&line, NodeId(1), Heights::Hops), rate: 1.0 };
/// assert!(spanning::plan(&line, "star", &[rated.clone()], Chunk::Best).prove().is_ok());
/// rated.tree.down.pop();
/// assert!(spanning::plan(&line, "star", &[rated], Chunk::Best).prove().is_err(), "a rank is missing");
/// # Ok::<(), treefold::error::Error>(())
/// ```
pub fn plan(topology: &Arc<Topology>, algorithm: &str, trees: &[Rated], chunk: Chunk) -> Draft {
    let mut draft = Draft::new(topology, algorithm, UNITS);
    let mut planned = Vec::new();
    let rates: Vec<f64> = trees.iter().map(|rated| rated.rate).collect();
    for (Rated { tree, .. }, span) in trees.iter().zip(spans(&rates)).filter(|(_, span)| !span.is_empty()) {
        let mut half = |routes: &[Route]| {
            let lanes: Vec<LaneId> = routes.iter().map(|route| draft.lanes.via(topology, route)).collect();
            draft.streamed_half(lanes)
        };
        let down = half(&tree.down);
        let up = tree.up.as_ref().map_or(Half::Mirror, |routes| half(routes));
        planned.push(Tree { span, root: tree.root, up, down, chunk });
    }
    draft.push_phase(if chunk == Chunk::One { Pace::Stream } else { Pace::Paced }, planned);
    draft
}
