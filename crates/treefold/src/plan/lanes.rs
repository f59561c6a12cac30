//! Lanes: a source, a target and a route, interned.
//!
//! The route of a lane is one link, a list of links, or the topology's own route. The reverse of a routed lane is
//! routed anew (XY stays XY); the reverse of links are the opposite links.

use std::collections::HashMap;

use crate::topology::{LinkId, NodeId, Topology};

pub use crate::ids::LaneId;

/// How the route of a lane is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Routing {
    /// The route that the topology has between its ends.
    Routed,
    /// One link.
    Link(LinkId),
    /// The links `via[start..end]`.
    Via(u32, u32),
}

/// A lane or its reverse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LaneRef(u32);

impl LaneRef {
    /// Refers to a lane, or to its reverse.
    pub fn new(lane: LaneId, reversed: bool) -> Self {
        Self(lane.0 << 1 | u32::from(reversed))
    }

    /// Returns the lane.
    pub fn lane(self) -> LaneId {
        LaneId(self.0 >> 1)
    }

    /// Returns whether the data go from the lane's target to its source.
    pub fn reversed(self) -> bool {
        self.0 & 1 == 1
    }

    /// Returns the same lane in the opposite direction.
    pub fn reverse(self) -> Self {
        Self(self.0 ^ 1)
    }

    /// Refers to the lane with this index.
    pub(crate) fn from_index(index: u32) -> Self {
        Self(index)
    }

    /// Returns the index of the reference, for arrays.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// All lanes of a plan.
#[derive(Debug, Clone, Default)]
pub struct Lanes {
    ends: Vec<(NodeId, NodeId)>,
    routing: Vec<Routing>,
    via: Vec<LinkId>,
    /// The lane of each link that has one: planners ask for these in their inner loops.
    of_link: Vec<Option<LaneId>>,
    routed: HashMap<(NodeId, NodeId), LaneId>,
    of_links: HashMap<Box<[LinkId]>, LaneId>,
}

impl PartialEq for Lanes {
    fn eq(&self, other: &Self) -> bool {
        let is_same = |lane| self.links(lane) == other.links(lane);
        self.ends == other.ends && self.ids().all(is_same)
    }
}

impl Lanes {
    /// Returns how many lanes there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns the numbers of all lanes.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = LaneId> + ExactSizeIterator + Clone + use<> {
        LaneId::first(self.ends.len())
    }

    /// Returns whether there is no lane.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the source and the target of a lane.
    pub fn ends(&self, lane: LaneId) -> (NodeId, NodeId) {
        self.ends[lane]
    }

    /// Returns the node from which the data come, and the node to which they go.
    pub fn ends_of(&self, lane: LaneRef) -> (NodeId, NodeId) {
        let (source, target) = self.ends(lane.lane());
        if lane.reversed() { (target, source) } else { (source, target) }
    }

    /// Returns how the route of a lane is given.
    pub fn routing(&self, lane: LaneId) -> Routing {
        self.routing[lane]
    }

    /// Returns the links of a lane that lists them; none if the topology routes it.
    ///
    /// ```
    /// use treefold::plan::Lanes;
    /// use treefold::topology::{NodeId, from_spec};
    ///
    /// let line = from_spec("line:3", None, None)?;
    /// let mut lanes = Lanes::default();
    /// let link = line.outgoing(NodeId(0))[0];
    /// let lane = lanes.link(&line, link);
    /// assert_eq!(lanes.links(lane), [link]);
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn links(&self, lane: LaneId) -> &[LinkId] {
        match &self.routing[lane] {
            Routing::Routed => &[],
            Routing::Link(link) => std::slice::from_ref(link),
            Routing::Via(start, end) => &self.via[*start as usize..*end as usize],
        }
    }

    /// Returns the links that `lane` takes. They are found anew; code that asks for many keeps [`LaneRoutes`].
    ///
    /// ```
    /// use treefold::plan::{LaneRef, Lanes};
    /// use treefold::topology::{NodeId, from_spec};
    ///
    /// let line = from_spec("line:3", None, None)?;
    /// let mut lanes = Lanes::default();
    /// let lane = lanes.routed(NodeId(0), NodeId(2));
    /// let back = lanes.route(&line, LaneRef::new(lane, true));
    /// assert_eq!(line.describe_link(back[0]), "GPU2 -> GPU1");
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn route(&self, topology: &Topology, lane: LaneRef) -> Vec<LinkId> {
        let mut links = Vec::new();
        self.append_route(topology, lane, &mut links);
        links
    }

    fn append_route(&self, topology: &Topology, lane: LaneRef, route: &mut Vec<LinkId>) {
        let (source, target) = self.ends(lane.lane());
        match (self.routing(lane.lane()), lane.reversed()) {
            (Routing::Routed, false) => topology.route(source, target, route),
            (Routing::Routed, true) if topology.reaches(target, source) => topology.route(target, source, route),
            (Routing::Routed, true) => {}
            (_, false) => route.extend_from_slice(self.links(lane.lane())),
            (_, true) => route.extend(reversed(topology, self.links(lane.lane())).unwrap_or_default()),
        }
    }

    /// Returns the lane along the topology's route.
    ///
    /// ```
    /// use treefold::plan::{LaneRef, Lanes};
    /// use treefold::topology::{NodeId, from_spec};
    ///
    /// let line = from_spec("line:3", None, None)?;
    /// let mut lanes = Lanes::default();
    /// let lane = lanes.routed(NodeId(0), NodeId(2));
    /// assert_eq!(lanes.routed(NodeId(0), NodeId(2)), lane, "lanes are interned");
    /// assert_eq!(lanes.ends(lane), (NodeId(0), NodeId(2)));
    /// assert_eq!(lanes.route(&line, LaneRef::new(lane, false)).len(), 2);
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn routed(&mut self, source: NodeId, target: NodeId) -> LaneId {
        if let Some(&lane) = self.routed.get(&(source, target)) {
            return lane;
        }
        let lane = self.push((source, target), Routing::Routed);
        self.routed.insert((source, target), lane);
        lane
    }

    /// Returns the lane over one link.
    pub fn link(&mut self, topology: &Topology, link: LinkId) -> LaneId {
        if self.of_link.is_empty() {
            self.of_link = vec![None; topology.links().len()];
        }
        if let Some(known) = self.of_link[link] {
            return known;
        }
        let ends = (topology.link(link).source, topology.link(link).target);
        let lane = self.push(ends, Routing::Link(link));
        self.of_link[link] = Some(lane);
        lane
    }

    /// Returns the lane over these links, one after the other.
    ///
    /// ```
    /// use treefold::plan::Lanes;
    /// use treefold::topology::{NodeId, from_spec};
    ///
    /// let line = from_spec("line:3", None, None)?;
    /// let mut lanes = Lanes::default();
    /// let links = [line.outgoing(NodeId(0))[0], line.outgoing(NodeId(1))[1]];
    /// let lane = lanes.via(&line, &links);
    /// assert_eq!((lanes.ends(lane), lanes.links(lane)), ((NodeId(0), NodeId(2)), &links[..]));
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn via(&mut self, topology: &Topology, links: &[LinkId]) -> LaneId {
        if let &[link] = links {
            return self.link(topology, link);
        }
        if let Some(&lane) = self.of_links.get(links) {
            return lane;
        }
        let ends = (topology.link(links[0]).source, topology.link(links[links.len() - 1]).target);
        let start = self.via.len() as u32;
        self.via.extend_from_slice(links);
        let lane = self.push(ends, Routing::Via(start, self.via.len() as u32));
        self.of_links.insert(links.into(), lane);
        lane
    }

    /// Returns the lane here that is the same as a lane of `other`, or as its reverse; `None` if a link has no opposite
    /// one.
    pub(crate) fn adopt(&mut self, topology: &Topology, other: &Self, lane: LaneRef) -> Option<LaneId> {
        let (source, target) = other.ends(lane.lane());
        let links = other.links(lane.lane());
        Some(match (links.is_empty(), lane.reversed()) {
            (true, false) => self.routed(source, target),
            (true, true) => self.routed(target, source),
            (false, false) => self.via(topology, links),
            (false, true) => self.via(topology, &reversed(topology, links)?),
        })
    }

    fn push(&mut self, ends: (NodeId, NodeId), routing: Routing) -> LaneId {
        self.ends.push(ends);
        self.routing.push(routing);
        LaneId::new(self.ends.len() - 1)
    }

    /// Appends a lane as a file lists it, without interning it.
    pub(super) fn push_listed(&mut self, ends: (NodeId, NodeId), links: Option<&[LinkId]>) {
        let start = self.via.len() as u32;
        let routing = match links {
            None => Routing::Routed,
            Some(&[link]) => Routing::Link(link),
            Some(links) => {
                self.via.extend_from_slice(links);
                Routing::Via(start, self.via.len() as u32)
            }
        };
        self.push(ends, routing);
    }
}

fn reversed(topology: &Topology, links: &[LinkId]) -> Option<Vec<LinkId>> {
    links.iter().rev().map(|&link| topology.reverse(link)).collect()
}

/// The links of every lane in both directions, found once, because simulators and checks walk them many times.
pub struct LaneRoutes {
    first: Vec<u32>,
    /// The links of each route, and behind them what these share.
    capacities: Vec<LinkId>,
    /// The end of each route's links among `capacities`; empty if no links share anything.
    end: Vec<u32>,
}

impl LaneRoutes {
    /// Returns how many routes there are.
    pub fn count(&self) -> usize {
        self.first.len() - 1
    }

    /// Finds the routes of all lanes; the route of a reverse that does not exist is empty.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use treefold::planners::{self, Options};
    /// # let ring = Arc::new(treefold::topology::from_spec("ring:4", None, None)?);
    /// # let plan = planners::plan("multitree", &ring, &Options::default())?;
    /// use treefold::plan::LaneRoutes;
    ///
    /// let routes = LaneRoutes::new(&ring, &plan.lanes);
    /// let edge = plan.half(&plan.phases[0], &plan.trees[0], treefold::plan::Direction::Down).next();
    /// assert_eq!(routes.of(edge.expect("four ranks have edges").lane).len(), 1);
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn new(topology: &Topology, lanes: &Lanes) -> Self {
        let mut routes = Self { first: vec![0], capacities: Vec::new(), end: Vec::new() };
        for lane in lanes.ids() {
            routes.append(topology, lanes, LaneRef::new(lane, false));
            routes.append(topology, lanes, LaneRef::new(lane, true));
        }
        routes
    }

    /// Returns the links that `lane` takes, in order.
    pub fn of(&self, lane: LaneRef) -> &[LinkId] {
        let end = if self.end.is_empty() { self.first[lane.index() + 1] } else { self.end[lane.index()] };
        &self.capacities[self.first[lane.index()] as usize..end as usize]
    }

    /// Returns the numbers of what a message on `lane` occupies: the links that it takes, in order, and behind them
    /// what these share, as often as links of the route share it.
    pub fn capacities(&self, lane: LaneRef) -> &[LinkId] {
        &self.capacities[self.first[lane.index()] as usize..self.first[lane.index() + 1] as usize]
    }

    fn append(&mut self, topology: &Topology, lanes: &Lanes, lane: LaneRef) {
        let start = self.capacities.len();
        lanes.append_route(topology, lane, &mut self.capacities);
        if !topology.shared().is_empty() {
            let end = self.capacities.len();
            self.end.push(end as u32);
            for at in start..end {
                self.capacities.extend_from_slice(topology.shared_by(self.capacities[at]));
            }
        }
        self.first.push(self.capacities.len() as u32);
    }
}
