//! What a network says of its links.

use super::build::assemble;
use super::{Link, LinkId, NodeId, Shape, Topology};
use crate::units::Bandwidth;

impl Topology {
    /// Returns all directed links.
    ///
    /// ```
    /// use treefold::topology::from_spec;
    ///
    /// assert_eq!(from_spec("ring:4", None, None)?.links().len(), 8, "a cable is two links");
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// Returns the numbers of all links.
    ///
    /// ```
    /// use treefold::topology::from_spec;
    ///
    /// let b4 = from_spec("b4", None, None)?;
    /// let busy = b4.link_ids().max_by_key(|&link| b4.link(link).latency).expect("there are links");
    /// assert!(b4.link(busy).latency >= b4.links()[0].latency);
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn link_ids(&self) -> impl DoubleEndedIterator<Item = LinkId> + ExactSizeIterator + Clone + use<> {
        LinkId::first(self.links.len())
    }

    /// Returns a link by its number.
    ///
    /// ```
    /// use treefold::topology::{LinkId, NodeId, from_spec};
    ///
    /// assert_eq!(from_spec("ring:4", None, None)?.link(LinkId(0)).source, NodeId(0));
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn link(&self, link: LinkId) -> &Link {
        &self.links[link]
    }

    /// Returns the links out of `node`, in listed order.
    ///
    /// ```
    /// use treefold::topology::{NodeId, from_spec};
    ///
    /// let ring = from_spec("ring:4", None, None)?;
    /// let targets: Vec<u32> = ring.outgoing(NodeId(0)).iter().map(|&link| ring.link(link).target.0).collect();
    /// assert_eq!(targets, [3, 1]);
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn outgoing(&self, node: NodeId) -> &[LinkId] {
        let node = node.index();
        &self.outgoing[self.first_out[node] as usize..self.first_out[node + 1] as usize]
    }

    /// Returns the links into `node`, in listed order.
    ///
    /// ```
    /// use treefold::topology::{NodeId, from_spec};
    ///
    /// let dgx2 = from_spec("dgx2:planes=1", None, None)?;
    /// assert_eq!(dgx2.incoming(NodeId(0)).len(), 1, "with one plane, a rank has one cable");
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn incoming(&self, node: NodeId) -> &[LinkId] {
        let node = node.index();
        &self.incoming[self.first_in[node] as usize..self.first_in[node + 1] as usize]
    }

    /// Returns the nodes to which the links out of `node` lead, in listed order.
    pub(crate) fn targets(&self, node: NodeId) -> impl Iterator<Item = NodeId> {
        self.outgoing(node).iter().map(|&link| self.link(link).target)
    }

    /// Returns the nodes from which the links into `node` lead, in listed order.
    pub(crate) fn sources(&self, node: NodeId) -> impl Iterator<Item = NodeId> {
        self.incoming(node).iter().map(|&link| self.link(link).source)
    }

    /// Returns the opposite link of `link`, if there is one.
    ///
    /// ```
    /// use treefold::topology::{NodeId, from_spec};
    ///
    /// let ring = from_spec("ring:4", None, None)?;
    /// let link = ring.outgoing(NodeId(0))[0];
    /// let back = ring.reverse(link).expect("cables have two directions");
    /// assert_eq!((ring.link(back).source, ring.link(back).target), (ring.link(link).target, NodeId(0)));
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn reverse(&self, link: LinkId) -> Option<LinkId> {
        self.reverse[link]
    }

    /// Returns whether every link has an opposite one of the same bandwidth, and every shared capacity one over all
    /// opposite links. Latencies may differ: a mirrored half then
    /// takes longer than the other one, but overloads nothing.
    ///
    /// ```
    /// use treefold::topology::{Directions, from_spec};
    ///
    /// let ring = from_spec("ring:4", None, None)?;
    /// assert!(ring.is_symmetric());
    /// let one_way = ring.without_links(&[("GPU0".into(), "GPU1".into())], Directions::OneWay)?;
    /// assert!(!one_way.is_symmetric(), "only the way back is left");
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn is_symmetric(&self) -> bool {
        self.link_ids()
            .all(|link| self.reverse(link).is_some_and(|back| self.link(back).bandwidth == self.link(link).bandwidth))
            && self.capacity_ids().skip(self.links.len()).all(|shared| self.opposite(shared).is_some())
    }

    /// Returns the network with every link turned around, in which a reduce half is a broadcast half.
    pub(crate) fn transposed(&self) -> Self {
        let turned = |link: &Link| Link { source: link.target, target: link.source, ..link.clone() };
        let turned = self.relinked(self.links.iter().map(turned).collect(), self.shape.clone());
        turned.sharing_as(self, Some)
    }

    /// Returns the network with other links between the same nodes, and another shape.
    pub(crate) fn relinked(&self, links: Vec<Link>, shape: Shape) -> Self {
        let ranks: Vec<NodeId> = self.rank_ids().collect();
        let changed = assemble(self.name.clone(), self.nodes.clone(), links, &ranks, shape);
        let (place, node_of_place) = (self.place.clone(), self.node_of_place.clone());
        Self { place, node_of_place, ordered: self.ordered, tested: self.tested, ..changed }
    }

    /// Returns the sum, over all cables, of the lesser bandwidth of both directions; it is `None` if a link has no
    /// opposite one, or if there are no links.
    ///
    /// ```
    /// use treefold::topology::from_spec;
    /// use treefold::units::parse_bandwidth;
    ///
    /// let ring = from_spec("ring:4", Some(parse_bandwidth("1GB/s")?), None)?;
    /// assert_eq!(ring.cable_capacity(), Some(parse_bandwidth("4GB/s")?));
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn cable_capacity(&self) -> Option<Bandwidth> {
        let both = |link: LinkId| {
            let back = self.reverse(link)?;
            Some(self.link(link).bandwidth.bytes_per_second().min(self.link(back).bandwidth.bytes_per_second()))
        };
        let twice = self.link_ids().map(both).sum::<Option<f64>>()?;
        (twice > 0.0).then(|| Bandwidth::known(twice / 2.0))
    }

    /// Returns the names of a link's ends for messages: `"GPU0 -> GPU1"`; or the name of a shared capacity.
    ///
    /// ```
    /// use treefold::topology::{NodeId, from_spec};
    ///
    /// let ring = from_spec("ring:4", None, None)?;
    /// assert_eq!(ring.describe_link(ring.outgoing(NodeId(1))[0]), "GPU1 -> GPU0");
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn describe_link(&self, link: LinkId) -> String {
        if let Some(shared) = self.as_shared(link) {
            return shared.name.clone();
        }
        let Link { source, target, .. } = *self.link(link);
        format!("{} -> {}", self.node(source).name, self.node(target).name)
    }
}
