//! Routes through a fabric: the output to take at each node, and the level of virtual channels there, so that no
//! packets ever wait for each other in a circle (`classes`; one level is enough on up-down routes).

use std::collections::HashMap;

use super::super::classes::{ChannelGraph, LinkClass};
use super::super::machine::Machine;
use super::packet::{Hop, RouteId};
use crate::error::Result;
use crate::misfit;
use crate::plan::schedule::Csr;
use crate::plan::{LaneRef, LaneRoutes};
use crate::topology::{LinkId, Topology};

/// All routes, those of lanes first.
pub struct Routes {
    hops: Csr<Hop>,
    links: Csr<LinkId>,
    /// Cycles that each route takes.
    delays: Vec<u64>,
    graph: ChannelGraph,
    /// Routes over the links of other routes, with other levels.
    variants: HashMap<(RouteId, Vec<u32>), RouteId>,
    /// How many levels there are.
    pub levels: u32,
}

impl From<LaneRef> for RouteId {
    fn from(lane: LaneRef) -> Self {
        Self::new(lane.index() as u32)
    }
}

impl Routes {
    /// Makes the routes of all lanes; those of the `used` ones do not close circles.
    ///
    /// # Errors
    /// If a used lane leads through a rank, or a route has too many links.
    pub fn new(topology: &Topology, lane_routes: &LaneRoutes, machine: &Machine, used: &[LaneRef]) -> Result<Self> {
        let (hops, links, delays, variants) = Default::default();
        let graph = ChannelGraph::new(topology.links().len());
        let mut routes = Self { hops, links, delays, graph, variants, levels: 1 };
        let mut is_used = vec![false; lane_routes.count()];
        used.iter().for_each(|lane| is_used[lane.index()] = true);
        for (lane, &is_used) in (0..).zip(&is_used) {
            let links = lane_routes.of(LaneRef::from_index(lane));
            if links.len() > usize::from(u16::MAX) {
                misfit!(
                    "a route has {} links, and the packet simulator counts {} at most: use the flow simulator",
                    links.len(),
                    u16::MAX
                );
            }
            let through = links.iter().skip(1).map(|&link| topology.link(link).source);
            if let Some(node) = through.into_iter().find(|&node| is_used && topology.is_rank(node)) {
                let name = &topology.node(node).name;
                misfit!("a fabric's packets do not pass through ranks, and {name} is on a route: set switches=routers");
            }
            let levels = if is_used { routes.graph.follow(&[], links) } else { vec![0; links.len()] };
            routes.add(machine, links, &levels);
        }
        Ok(routes)
    }

    fn add(&mut self, machine: &Machine, links: &[LinkId], levels: &[u32]) -> RouteId {
        let hop = |(&link, &level): (&LinkId, &u32)| Hop { output: machine.links[link].output, level: level as u8 };
        self.hops.push_row(links.iter().zip(levels).map(hop));
        self.links.push_row(links.iter().copied());
        self.delays.push(links.iter().map(|&link| machine.links[link].delay).sum());
        self.levels = levels.iter().fold(self.levels, |most, &level| most.max(level + 1));
        RouteId::new(self.delays.len() as u32 - 1)
    }

    /// Adds a route over `links`, on which packets begin that waited for nothing before.
    pub fn push(&mut self, machine: &Machine, links: &[LinkId]) -> RouteId {
        let levels = self.graph.follow(&[], links);
        self.add(machine, links, &levels)
    }

    /// Finds, or adds, the route over the links of `route` for packets that have come over the last links of these
    /// routes, and wait there.
    pub fn follow(&mut self, machine: &Machine, route: RouteId, before: &[RouteId]) -> RouteId {
        let last = |&route: &RouteId| {
            let (links, hops) = (self.links(route), self.hops(route));
            LinkClass { link: links[links.len() - 1], class: u32::from(hops[hops.len() - 1].level) }
        };
        let before: Vec<LinkClass> = before.iter().map(last).collect();
        let links = self.links(route).to_vec();
        let levels = self.graph.follow(&before, &links);
        if self.hops(route).iter().map(|hop| u32::from(hop.level)).eq(levels.iter().copied()) {
            return route;
        }
        let key = (route, levels);
        if let Some(&known) = self.variants.get(&key) {
            return known;
        }
        let variant = self.add(machine, &links, &key.1);
        self.variants.insert(key, variant);
        variant
    }

    fn hops(&self, route: RouteId) -> &[Hop] {
        self.hops.row(route.index())
    }

    /// Returns the links of a route.
    pub fn links(&self, route: RouteId) -> &[LinkId] {
        self.links.row(route.index())
    }

    /// Returns the link that comes after `hop` links of a route; at its end there is none.
    pub fn next(&self, route: RouteId, hop: u16) -> Option<Hop> {
        self.hops(route).get(usize::from(hop)).copied()
    }

    /// Returns the first link of a route.
    pub fn first(&self, route: RouteId) -> Hop {
        self.hops(route)[0]
    }

    /// Returns the cycles that a route takes.
    pub fn delay(&self, route: RouteId) -> u64 {
        self.delays[route]
    }
}
