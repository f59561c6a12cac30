//! Networks whose shared capacities are links and switches, for what knows nothing else.
//!
//! A capacity over links out of one node becomes a switch behind the node: one link leads there, with the capacity, and
//! the links that share it leave from there. One over links into a node becomes a switch in front of it. Capacities
//! over links of one node may lie within each other, as those of a port and a card. Those that overlap otherwise, and
//! those of links without a common end, are left out.
//!
//! Links keep their numbers, and that of each shared capacity is the number of its link; one that is left out is a link
//! of the same bandwidth which leads nowhere.

use std::borrow::Cow;

use super::{Abilities, Link, LinkId, Node, NodeId, Shape, Topology, build};
use crate::units::{Bandwidth, Time};

/// A network whose shared capacities are links.
pub(crate) struct Expanded<'a> {
    /// The network, which has no shared capacities; the network itself if it has none.
    pub network: Cow<'a, Topology>,
    /// Whether its links stand for all shared capacities.
    pub is_whole: bool,
}

/// The end of links that they have in common.
#[derive(Clone, Copy, PartialEq)]
enum Common {
    Source(NodeId),
    Target(NodeId),
}

/// A shared capacity that becomes a switch.
struct Star<'a> {
    number: LinkId,
    common: Common,
    links: &'a [LinkId],
}

impl Star<'_> {
    /// Returns whether two capacities at one end do not overlap, or one lies within the other.
    fn suits(&self, other: &Self) -> bool {
        let within = self.links.iter().filter(|link| other.links.binary_search(link).is_ok()).count();
        self.common != other.common || within == 0 || within == self.links.len().min(other.links.len())
    }
}

impl Topology {
    /// Returns the network with its shared capacities as links and switches.
    pub(crate) fn expanded(&self) -> Expanded<'_> {
        if self.shared().is_empty() {
            return Expanded { network: Cow::Borrowed(self), is_whole: true };
        }
        let stars = self.stars();
        let first = self.nodes.len();
        let switch_of = |number: LinkId| NodeId::new(first + number.index() - self.links.len());
        let nowhere = NodeId::new(first + self.shared().len());
        let end = |common: Common| match common {
            Common::Source(node) | Common::Target(node) => node,
        };
        let mut links = self.links.clone();
        let own = |shared| gadget(switch_of(shared), nowhere, self.bandwidth(shared));
        links.extend(self.capacity_ids().skip(self.links.len()).map(own));
        // The widest come first, so that those within one are moved behind it.
        for star in &stars {
            let moved = |links: &mut [Link], id: LinkId| match star.common {
                Common::Source(_) => std::mem::replace(&mut links[id].source, switch_of(star.number)),
                Common::Target(_) => std::mem::replace(&mut links[id].target, switch_of(star.number)),
            };
            let near = star.links.iter().map(|&id| moved(&mut links, id)).last().unwrap_or(end(star.common));
            let switch = switch_of(star.number);
            (links[star.number].source, links[star.number].target) = match star.common {
                Common::Source(_) => (near, switch),
                Common::Target(_) => (switch, near),
            };
        }
        Expanded { is_whole: stars.len() == self.shared().len(), network: Cow::Owned(self.with_switches(links)) }
    }

    /// Returns the shared capacities that become switches, the widest first.
    fn stars(&self) -> Vec<Star<'_>> {
        let mut found: Vec<Star> = Vec::new();
        let star = |(number, shared): (LinkId, &'_ super::Shared)| {
            let first = &self.links[*shared.links.first()?];
            let all = |end: fn(&Link) -> NodeId| shared.links.iter().all(|&id| end(&self.links[id]) == end(first));
            let source = all(|link| link.source).then_some(Common::Source(first.source));
            source.or(all(|link| link.target).then_some(Common::Target(first.target))).map(|common| (number, common))
        };
        let numbered = self.capacity_ids().skip(self.links.len()).zip(self.shared());
        let mut ends: Vec<(LinkId, Common)> = numbered.filter_map(star).collect();
        let links = |number: LinkId| self.as_shared(number).map_or(&[][..], |shared| &shared.links);
        ends.sort_by_key(|&(number, _)| std::cmp::Reverse(links(number).len()));
        for (number, common) in ends {
            let star = Star { number, common, links: links(number) };
            if found.iter().all(|other| star.suits(other)) {
                found.push(star);
            }
        }
        found
    }

    /// Returns the network with a switch for each shared capacity, and one more, and with these links.
    fn with_switches(&self, links: Vec<Link>) -> Self {
        let names = self.shared().iter().map(|shared| shared.name.as_str()).chain(["nowhere"]);
        let switches = names.map(|name| Node::switch(name, Abilities::NONE));
        let nodes = self.nodes.iter().cloned().chain(switches).collect();
        let ranks: Vec<NodeId> = self.rank_ids().collect();
        build::assemble(self.name.clone(), nodes, links, &ranks, Shape::General)
    }
}

/// Returns a link that takes no time.
pub(super) fn gadget(source: NodeId, target: NodeId, bandwidth: Bandwidth) -> Link {
    Link { source, target, bandwidth, latency: Time::ZERO, overhead: Time::ZERO, streams: None }
}
