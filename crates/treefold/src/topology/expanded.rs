//! Networks whose shared capacities are links and switches, for what knows nothing else.
//!
//! A capacity over links out of one node becomes a switch behind the node: one link leads there, with the capacity, and
//! the links that share it leave from there. One over links into a node becomes a switch in front of it. Capacities
//! over links of one node may lie within each other, as those of a port and a card.
//!
//! Those that overlap otherwise, and those of links without a common end, become conduits: a link between two switches.
//! Links that share a conduit lead to its first switch, and go on from its second one to where they led before, over
//! links of their own bandwidth that take no time. A link in several conduits passes them in the order of their
//! numbers. A conduit joins the start of each of its links to the ends of all of them. So it serves those who are told
//! the routes, and for all others it is left out: a link that leads nowhere.
//!
//! Links keep their numbers, their latencies and their overheads, and the number of each shared capacity is that of its
//! link.

use std::borrow::Cow;

use super::{Abilities, Link, LinkId, Node, NodeId, Shape, Topology, build};
use crate::units::{Bandwidth, Time};

/// A network whose shared capacities are links.
pub struct Expanded<'a> {
    /// The network, which has no shared capacities; the network itself if it has none.
    pub network: Cow<'a, Topology>,
    /// Whether its links stand for all shared capacities.
    pub is_whole: bool,
    /// The links that stand for each link, in the order in which a message passes them; empty if nothing is shared.
    hops: Vec<Vec<LinkId>>,
}

impl Expanded<'_> {
    /// Returns the route here of a route in the network that was expanded.
    pub fn route<'a>(&self, links: &'a [LinkId]) -> Cow<'a, [LinkId]> {
        if self.hops.is_empty() {
            return Cow::Borrowed(links);
        }
        links.iter().flat_map(|&link| &self.hops[link]).copied().collect()
    }
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
    /// Returns the network in which capacities at one node are switches, and all others are left out.
    pub(crate) fn expanded(&self) -> Expanded<'_> {
        self.drawn(false)
    }

    /// Returns the network in which capacities at one node are switches, and all others are conduits.
    #[doc(hidden)]
    pub fn with_conduits(&self) -> Expanded<'_> {
        self.drawn(true)
    }

    fn drawn(&self, with_conduits: bool) -> Expanded<'_> {
        if self.shared().is_empty() {
            return Expanded { network: Cow::Borrowed(self), is_whole: true, hops: Vec::new() };
        }
        let (stars, mut drawing) = (self.stars(), Drawing::new(self));
        stars.iter().for_each(|star| drawing.add_star(star));
        let shared = self.capacity_ids().skip(self.links.len());
        let others: Vec<LinkId> = shared.filter(|&id| stars.iter().all(|star| star.number != id)).collect();
        // What is drawn right behind a link is passed before what was drawn there earlier.
        for (place, &number) in others.iter().enumerate().rev() {
            let end = NodeId::new(self.nodes.len() + self.shared().len() + place);
            drawing.add_conduit(number, end, with_conduits);
        }
        Expanded {
            is_whole: with_conduits || others.is_empty(),
            network: Cow::Owned(self.with_switches(drawing.links, &others)),
            hops: drawing.hops,
        }
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
        ends.sort_by_key(|&(number, _)| std::cmp::Reverse(self.sharers(number).len()));
        for (number, common) in ends {
            let star = Star { number, common, links: self.sharers(number) };
            if found.iter().all(|other| star.suits(other)) {
                found.push(star);
            }
        }
        found
    }

    /// Returns the links that share a capacity.
    fn sharers(&self, number: LinkId) -> &[LinkId] {
        self.as_shared(number).map_or(&[], |shared| &shared.links)
    }

    /// Returns the first switch of a shared capacity.
    fn switch_of(&self, number: LinkId) -> NodeId {
        NodeId::new(self.nodes.len() + number.index() - self.links.len())
    }

    /// Returns the network with a switch for each shared capacity, and one more for each conduit, and with these links.
    fn with_switches(&self, links: Vec<Link>, conduits: &[LinkId]) -> Self {
        let name = |number: LinkId| self.as_shared(number).map_or("", |shared| &shared.name);
        let names = self.shared().iter().map(|shared| shared.name.clone());
        let names = names.chain(conduits.iter().map(|&number| format!("end of {}", name(number))));
        let switches = names.map(|name| Node::switch(name, Abilities::NONE));
        let nodes = self.nodes.iter().cloned().chain(switches).collect();
        let ranks: Vec<NodeId> = self.rank_ids().collect();
        build::assemble(self.name.clone(), nodes, links, &ranks, Shape::General)
    }
}

/// The links of a network in which shared capacities are drawn one by one.
struct Drawing<'a> {
    plain: &'a Topology,
    links: Vec<Link>,
    hops: Vec<Vec<LinkId>>,
}

impl<'a> Drawing<'a> {
    /// Draws the links; what they share has links without ends yet.
    fn new(plain: &'a Topology) -> Self {
        let own = |id| gadget(plain.switch_of(id), plain.switch_of(id), plain.bandwidth(id));
        let shared = plain.capacity_ids().skip(plain.links.len()).map(own);
        let links = plain.links.iter().cloned().chain(shared).collect();
        Self { plain, links, hops: plain.link_ids().map(|id| vec![id]).collect() }
    }

    /// Draws a capacity at one node. The widest come first, so that those within one are moved behind it.
    fn add_star(&mut self, &Star { number, common, links }: &Star) {
        let switch = self.plain.switch_of(number);
        let (Common::Source(mut near) | Common::Target(mut near)) = common;
        for &id in links {
            let at = self.place(id);
            let (end, at) = match common {
                Common::Source(_) => (&mut self.links[id].source, at),
                Common::Target(_) => (&mut self.links[id].target, at + 1),
            };
            near = std::mem::replace(end, switch);
            self.hops[id].insert(at, number);
        }
        (self.links[number].source, self.links[number].target) = match common {
            Common::Source(_) => (near, switch),
            Common::Target(_) => (switch, near),
        };
    }

    /// Draws a capacity as a link to the switch `end`, whether or not links pass it.
    fn add_conduit(&mut self, number: LinkId, end: NodeId, is_passed: bool) {
        self.links[number].target = end;
        let sharers = if is_passed { self.plain.sharers(number) } else { &[] };
        for &id in sharers {
            let target = std::mem::replace(&mut self.links[id].target, self.plain.switch_of(number));
            let (at, onward) = (self.place(id) + 1, LinkId::new(self.links.len()));
            self.links.push(gadget(end, target, self.links[id].bandwidth));
            self.hops[id].splice(at..at, [number, onward]);
        }
    }

    /// Returns the place of a link among its hops.
    fn place(&self, id: LinkId) -> usize {
        self.hops[id].iter().position(|&hop| hop == id).expect("a link is among its hops")
    }
}

/// Returns a link that takes no time.
fn gadget(source: NodeId, target: NodeId, bandwidth: Bandwidth) -> Link {
    Link { source, target, bandwidth, latency: Time::ZERO, overhead: Time::ZERO, streams: None }
}
