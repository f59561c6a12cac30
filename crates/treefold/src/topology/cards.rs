//! Networks whose node caps are switches in front of the nodes, for the packet simulator: a router knows only its own
//! wires.
//!
//! A node with a cap on all that it sends, or on all that it receives, gets a switch, as a network card. Its links move
//! there, and a link of the cap's bandwidth joins the node to it in each direction. Links keep their numbers, and that
//! of each cap is the number of its link.

use super::expanded::gadget;
use super::{Abilities, Link, LinkId, Node, NodeId, Shape, Topology, build};
use crate::units::Bandwidth;

/// A network in which nodes with caps have cards.
pub(crate) struct Carded {
    /// The network, which has no shared capacities.
    pub network: Topology,
    /// The link from each node of the network without cards to its card, and the link back; `None` if it has none.
    to_card: Vec<[Option<LinkId>; 2]>,
}

impl Carded {
    /// Returns the route here of a route in `plain`, the network without cards.
    pub fn route(&self, plain: &Topology, links: &[LinkId]) -> Vec<LinkId> {
        let through = |&id: &LinkId| {
            let Link { source, target, .. } = *plain.link(id);
            [self.to_card[source][0], Some(id), self.to_card[target][1]]
        };
        links.iter().flat_map(through).flatten().collect()
    }
}

impl Topology {
    /// Returns the network with its node caps as cards; `None` if links share anything else.
    pub(crate) fn with_cards(&self) -> Option<Carded> {
        let caps = self.caps()?;
        let card_of = self.cards(&caps);
        let mut links = self.links.clone();
        for link in &mut links {
            link.source = card_of[link.source].unwrap_or(link.source);
            link.target = card_of[link.target].unwrap_or(link.target);
        }
        let mut to_card = vec![[None, None]; self.nodes.len()];
        for (number, &(node, direction)) in (self.links.len()..).zip(&caps) {
            to_card[node][direction] = Some(LinkId::new(number));
            links.push(wire(node, card_of[node]?, direction, self.bandwidth(LinkId::new(number))));
        }
        for node in self.node_ids().filter(|&node| card_of[node].is_some()) {
            for direction in [0, 1] {
                if to_card[node][direction].is_none() {
                    to_card[node][direction] = Some(LinkId::new(links.len()));
                    links.push(wire(node, card_of[node]?, direction, self.all_at(node, direction)));
                }
            }
        }
        Some(Carded { network: self.with_nodes_behind(&card_of, links), to_card })
    }

    /// Returns the node of each shared capacity, and whether it is a cap on what that receives (1) or sends (0); `None`
    /// if one is no cap, or a node has two of a kind.
    fn caps(&self) -> Option<Vec<(NodeId, usize)>> {
        let cap = |shared: &super::Shared| {
            let first = self.link(*shared.links.first()?);
            let ends = [(first.source, self.outgoing(first.source)), (first.target, self.incoming(first.target))];
            let direction = ends.iter().position(|(_, links)| **links == *shared.links)?;
            Some((ends[direction].0, direction))
        };
        let caps = self.shared().iter().map(cap).collect::<Option<Vec<_>>>()?;
        let mut sorted = caps.clone();
        sorted.sort_unstable();
        sorted.windows(2).all(|pair| pair[0] != pair[1]).then_some(caps)
    }

    /// Numbers the cards of nodes with caps, behind all nodes.
    fn cards(&self, caps: &[(NodeId, usize)]) -> Vec<Option<NodeId>> {
        let mut card_of = vec![None; self.nodes.len()];
        let mut next = self.nodes.len();
        for &(node, _) in caps {
            if card_of[node].is_none() {
                card_of[node] = Some(NodeId::new(next));
                next += 1;
            }
        }
        card_of
    }

    /// Returns what all links out of a node (0) or into it (1) carry together.
    fn all_at(&self, node: NodeId, direction: usize) -> Bandwidth {
        let links = [self.outgoing(node), self.incoming(node)][direction];
        Bandwidth::known(links.iter().map(|&link| self.link(link).bandwidth.bytes_per_second()).sum())
    }

    /// Returns the network with these cards and links; nodes keep their places in the file.
    fn with_nodes_behind(&self, card_of: &[Option<NodeId>], links: Vec<Link>) -> Self {
        let place = |node: NodeId| NodeId(if node.index() < self.nodes.len() { self.place(node) } else { node.0 });
        let moved = |link: Link| Link { source: place(link.source), target: place(link.target), ..link };
        let mut owners: Vec<(NodeId, NodeId)> =
            self.node_ids().zip(card_of).filter_map(|(node, card)| Some(((*card)?, node))).collect();
        owners.sort_unstable();
        let card =
            |(_, owner): (NodeId, NodeId)| Node::switch(format!("{}'s card", self.node(owner).name), Abilities::NONE);
        let nodes = self.in_place_order().0.into_iter().chain(owners.into_iter().map(card)).collect();
        let ranks: Vec<NodeId> = self.rank_ids().map(place).collect();
        let links = links.into_iter().map(moved).collect();
        build::assemble(self.name.clone(), nodes, links, &ranks, Shape::General)
    }
}

/// Returns the link from a node to its card (0), or from there to the node (1).
fn wire(node: NodeId, card: NodeId, direction: usize, bandwidth: Bandwidth) -> Link {
    let [source, target] = if direction == 0 { [node, card] } else { [card, node] };
    gadget(source, target, bandwidth)
}
