//! Routes through a fabric: the output to take at each node, and the level of virtual channels there, so that no
//! packets ever wait for each other in a circle (`classes`; one level is enough on up-down routes). Packets name routes
//! by their row; a lane's row is its index.

use std::collections::HashMap;

use super::super::classes::ChannelGraph;
use super::super::machine::Machine;
use super::packet::{Hop, NONE};
use crate::bail;
use crate::error::Result;
use crate::plan::schedule::Csr;
use crate::plan::{LaneRef, LaneRoutes};
use crate::topology::{LinkId, Topology};

/// All routes.
pub struct Routes {
    hops: Csr<Hop>,
    links: Csr<LinkId>,
    /// Cycles of each.
    delays: Vec<u64>,
    graph: ChannelGraph,
    /// Rows of the same links with other levels.
    variants: HashMap<(u32, Vec<u32>), u32>,
    /// How many there are.
    pub levels: u32,
}

impl Routes {
    /// Those of all lanes; the `used` ones do not close circles.
    ///
    /// # Errors
    /// A lane through a rank.
    pub fn new(topology: &Topology, lane_routes: &LaneRoutes, machine: &Machine, used: &[LaneRef]) -> Result<Self> {
        let (hops, links, delays, variants) = Default::default();
        let graph = ChannelGraph::new(topology.links().len());
        let mut routes = Self { hops, links, delays, graph, variants, levels: 1 };
        let mut is_used = vec![false; lane_routes.count()];
        used.iter().for_each(|lane| is_used[lane.index()] = true);
        for (lane, &is_used) in (0..).zip(&is_used) {
            let links = lane_routes.of(LaneRef::from_index(lane));
            if links.len() > usize::from(u16::MAX) {
                bail!(
                    "a route has {} links, and the packet model counts {} at most: use --model flow",
                    links.len(),
                    u16::MAX
                );
            }
            let through = links.iter().skip(1).map(|&link| topology.link(link).source);
            if let Some(node) = through.into_iter().find(|&node| is_used && topology.is_rank(node)) {
                let name = &topology.node(node).name;
                bail!("a fabric's packets do not pass through ranks, and {name} is on a route: set switches=routers");
            }
            let levels = if is_used { routes.graph.follow(&[], links) } else { vec![0; links.len()] };
            routes.add(machine, links, &levels);
        }
        Ok(routes)
    }

    fn add(&mut self, machine: &Machine, links: &[LinkId], levels: &[u32]) -> u32 {
        let hop = |(&link, &level): (&LinkId, &u32)| Hop { output: machine.links[link].output, level: level as u8 };
        self.hops.push_row(links.iter().zip(levels).map(hop));
        self.links.push_row(links.iter().copied());
        self.delays.push(links.iter().map(|&link| machine.links[link].delay).sum());
        self.levels = levels.iter().fold(self.levels, |most, &level| most.max(level + 1));
        self.delays.len() as u32 - 1
    }

    /// Adds a route that no packet has come over before; returns its row.
    pub fn push(&mut self, machine: &Machine, links: &[LinkId]) -> u32 {
        let levels = self.graph.follow(&[], links);
        self.add(machine, links, &levels)
    }

    /// The row of a route's links for packets that have come over the last links of these routes, and wait there.
    pub fn follow(&mut self, machine: &Machine, route: u32, before: &[u32]) -> u32 {
        let last = |&route: &u32| {
            let (links, hops) = (self.links.row(route as usize), self.hops.row(route as usize));
            (links[links.len() - 1], u32::from(hops[hops.len() - 1].level))
        };
        let before: Vec<(LinkId, u32)> = before.iter().map(last).collect();
        let links = self.links.row(route as usize).to_vec();
        let levels = self.graph.follow(&before, &links);
        if self.hops.row(route as usize).iter().map(|hop| u32::from(hop.level)).eq(levels.iter().copied()) {
            return route;
        }
        let key = (route, levels);
        if let Some(&known) = self.variants.get(&key) {
            return known;
        }
        let row = self.add(machine, &links, &key.1);
        self.variants.insert(key, row);
        row
    }

    /// Its links.
    pub fn links(&self, route: u32) -> &[LinkId] {
        self.links.row(route as usize)
    }

    /// The next link of a route after so many; none at its end.
    pub fn next(&self, route: u32, hop: u16) -> Option<Hop> {
        if route == NONE {
            return None;
        }
        self.hops.row(route as usize).get(usize::from(hop)).copied()
    }

    /// Its first link.
    pub fn first(&self, route: u32) -> Hop {
        self.hops.row(route as usize)[0]
    }

    /// Its cycles.
    pub fn delay(&self, route: u32) -> u64 {
        self.delays[route as usize]
    }
}
