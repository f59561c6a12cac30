//! Changes of a network: other ranks, other bandwidths, fewer links, another model of links, other names.

use std::collections::{HashMap, HashSet};

use super::build::accelerators;
use super::{Abilities, Kind, Link, LinkId, LinkModel, Node, NodeId, Shape, Topology};
use crate::bail;
use crate::error::{Result, unknown};
use crate::units::{Bandwidth, Time};

/// The names of a link's source and target.
pub type Ends = (String, String);

/// The links between two nodes that an edit changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Directions {
    /// The links from the first node to the second.
    OneWay,
    /// These, and the links back.
    BothWays,
}

impl Topology {
    /// Returns the network with other ranks: `ranks[r]` is the index of rank `r` among the accelerators, in the order
    /// in which the file or generator listed them. The other accelerators are idle, and may relay.
    ///
    /// # Errors If an index does not exist or is listed twice, or if there is no rank at all.
    ///
    /// ```
    /// use treefold::topology::from_spec;
    ///
    /// let corners = from_spec("mesh:3x3", None, None)?.with_ranks(&[0, 2, 6, 8])?;
    /// assert_eq!((corners.ranks(), corners.num_accelerators()), (4, 9));
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn with_ranks(&self, ranks: &[u32]) -> Result<Self> {
        let (nodes, links) = self.in_place_order();
        let all = accelerators(&nodes);
        let chosen = ranks.iter().map(|&rank| match all.get(rank as usize) {
            Some(&node) => Ok(node),
            None => bail!(
                "there is no accelerator with index {rank}: {} has {}, with indices 0 to {}",
                self.name,
                all.len(),
                all.len() - 1
            ),
        });
        let chosen = chosen.collect::<Result<Vec<_>>>()?;
        let chosen = Self::new(self.name.clone(), nodes, links, Some(chosen), self.shape.clone())?;
        Ok(chosen.sharing_as(self, Some))
    }

    /// Returns the network whose ranks a caller has put in order: a ring visits them in that order, instead of looking
    /// for a shorter one.
    ///
    /// ```
    /// use treefold::topology::from_spec;
    ///
    /// let crossing = from_spec("ring:4", None, None)?.with_ranks(&[0, 2, 1, 3])?.in_given_order();
    /// assert!(crossing.is_ordered());
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn in_given_order(self) -> Self {
        Self { ordered: true, ..self }
    }

    /// Returns the network with other bandwidths for all links from one node to another, and perhaps for the links
    /// back.
    ///
    /// # Errors
    /// If a node or link does not exist, or a link is named twice.
    ///
    /// ```
    /// use treefold::bound::bounds;
    /// use treefold::topology::{Directions, from_spec};
    /// use treefold::units::parse_bandwidth;
    ///
    /// let ring = from_spec("ring:4", None, None)?;
    /// let slow = [(("GPU0".into(), "GPU1".into()), parse_bandwidth("1GB/s")?)];
    /// let narrow = ring.with_bandwidths(&slow, Directions::BothWays)?;
    /// assert!(bounds(&narrow).all_reduce.rate < bounds(&ring).all_reduce.rate);
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn with_bandwidths(&self, changes: &[(Ends, Bandwidth)], directions: Directions) -> Result<Self> {
        let of = self.of_links(changes, directions)?;
        let changed = |link: &Link| Link {
            bandwidth: of.get(&(link.source, link.target)).copied().unwrap_or(link.bandwidth),
            ..link.clone()
        };
        self.rebuilt(Node::clone, |link| Ok(Some(changed(link))), self.shape.clone())
    }

    /// Returns what each link is given by its ends.
    fn of_links<T: Copy>(&self, given: &[(Ends, T)], directions: Directions) -> Result<HashMap<(NodeId, NodeId), T>> {
        let mut of = HashMap::new();
        for ((source, target), value) in given {
            for ends in self.find_links(&(source.clone(), target.clone()), directions)? {
                if of.insert(ends, *value).is_some() {
                    bail!(
                        "the cable of {source} and {target} is named twice; name it once, or each direction by itself"
                    );
                }
            }
        }
        Ok(of)
    }

    /// Returns the network with the bandwidths of all links from one node to another multiplied by a factor, and
    /// perhaps those of the links back.
    ///
    /// # Errors
    /// If a node or link does not exist, a link is named twice, or no link can have the bandwidth.
    ///
    /// ```
    /// use treefold::topology::{Directions, from_spec};
    ///
    /// let ring = from_spec("ring:4", None, None)?;
    /// let slower = ring.with_scaled_bandwidths(&[(("GPU0".into(), "GPU1".into()), 0.5)], Directions::BothWays)?;
    /// assert_eq!(slower.links()[1].bandwidth.bytes_per_second(), 8e9);
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn with_scaled_bandwidths(&self, factors: &[(Ends, f64)], directions: Directions) -> Result<Self> {
        let of = self.of_links(factors, directions)?;
        let scaled = |link: &Link| {
            let factor = of.get(&(link.source, link.target)).copied().unwrap_or(1.0);
            let bandwidth = Bandwidth::new(link.bandwidth.bytes_per_second() * factor);
            let [source, target] = [link.source, link.target].map(|end| &self.node(end).name);
            let bandwidth = bandwidth.map_err(|error| error.at(format!("link {source} -> {target}")))?;
            Ok(Some(Link { bandwidth, ..link.clone() }))
        };
        self.rebuilt(Node::clone, scaled, self.shape.clone())
    }

    /// Returns the network as each of some groups of ranks has it that use it at once: with its part of every
    /// bandwidth, also of what links share.
    ///
    /// # Errors
    /// If there is no group, or so many that nothing is left of a bandwidth.
    ///
    /// ```
    /// use treefold::topology::from_spec;
    ///
    /// let ring = from_spec("ring:4", None, None)?;
    /// let part = ring.divided_among(8)?;
    /// let [rate, whole] = [&part, &ring].map(|network| network.links()[1].bandwidth.bytes_per_second());
    /// assert_eq!(rate, whole / 8.0);
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn divided_among(&self, groups: u32) -> Result<Self> {
        if groups == 0 {
            bail!("a network is divided among at least one group, got 0");
        }
        let mut whole = self.clone();
        whole.scale_shared(&vec![1.0 / f64::from(groups); self.shared().len()]);
        let divided = |link: &Link| {
            let bandwidth = Bandwidth::new(link.bandwidth.bytes_per_second() / f64::from(groups))?;
            Ok(Some(Link { bandwidth, ..link.clone() }))
        };
        whole.rebuilt(Node::clone, divided, self.shape.clone())
    }

    /// Returns the network with so many seconds added to the latencies of all links from one node to another, and
    /// perhaps to those of the links back. A latency that would be negative becomes 0.
    ///
    /// # Errors
    /// If a node or link does not exist, a link is named twice, or no link can have the latency.
    ///
    /// ```
    /// use treefold::topology::{Directions, from_spec};
    ///
    /// let ring = from_spec("ring:4", None, None)?;
    /// let cable = ("GPU0".into(), "GPU1".into());
    /// let farther = ring.with_added_latencies(&[(cable, 1e-6)], Directions::OneWay)?;
    /// let changed = ring.links().iter().zip(farther.links()).filter(|(old, new)| old != new);
    /// assert!(changed.clone().all(|(old, new)| (new.latency.seconds() - old.latency.seconds() - 1e-6).abs() < 1e-12));
    /// assert_eq!(changed.count(), 1);
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn with_added_latencies(&self, seconds: &[(Ends, f64)], directions: Directions) -> Result<Self> {
        let of = self.of_links(seconds, directions)?;
        let slower = |link: &Link| {
            let Some(extra) = of.get(&(link.source, link.target)) else { return Ok(Some(link.clone())) };
            let [source, target] = [link.source, link.target].map(|end| &self.node(end).name);
            if !extra.is_finite() {
                bail!("link {source} -> {target}: added latency must be a finite number of seconds, got {extra}");
            }
            let latency = Time::from_seconds((link.latency.seconds() + extra).max(0.0));
            let latency = latency.map_err(|error| error.at(format!("link {source} -> {target}")))?;
            Ok(Some(Link { latency, ..link.clone() }))
        };
        self.rebuilt(Node::clone, slower, self.shape.clone())
    }

    /// Returns the network without all links from one node to another, and perhaps without the links back.
    ///
    /// # Errors
    /// If a node or link does not exist, or ranks cannot reach each other any more.
    ///
    /// ```
    /// use treefold::topology::{Directions, NodeId, from_spec};
    ///
    /// let ring = from_spec("ring:6", None, None)?;
    /// let line = ring.without_links(&[("GPU0".into(), "GPU5".into())], Directions::BothWays)?;
    /// assert_eq!((ring.hops(NodeId(0), NodeId(5)), line.hops(NodeId(0), NodeId(5))), (1, 5));
    /// let cut = line.without_links(&[("GPU2".into(), "GPU3".into())], Directions::BothWays);
    /// assert!(cut.is_err(), "nothing joins the halves any more");
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn without_links(&self, links: &[Ends], directions: Directions) -> Result<Self> {
        let mut gone = HashSet::new();
        for ends in links {
            gone.extend(self.find_links(ends, directions)?);
        }
        let kept = |link: &Link| Ok((!gone.contains(&(link.source, link.target))).then(|| link.clone()));
        let shape = if gone.is_empty() { self.shape.clone() } else { Shape::General };
        self.rebuilt(Node::clone, kept, shape)
    }

    /// Returns the network without some nodes and the links at them. Ranks among them are gone, too; the others keep
    /// their order.
    ///
    /// # Errors
    /// If a node does not exist, no rank is left, or the ranks that are left cannot reach each other any more.
    ///
    /// ```
    /// use treefold::topology::from_spec;
    ///
    /// let line = from_spec("ring:6", None, None)?.without_nodes(&["GPU2".into()])?;
    /// assert_eq!((line.ranks(), line.links().len()), (5, 8));
    /// assert!(line.without_nodes(&["GPU4".into()]).is_err(), "nothing joins GPU3 to the others any more");
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn without_nodes(&self, names: &[String]) -> Result<Self> {
        let gone = names.iter().map(|name| self.find_node(name)).collect::<Result<HashSet<NodeId>>>()?;
        if gone.is_empty() {
            return Ok(self.clone());
        }
        let kept: Vec<NodeId> = self.node_of_place.iter().copied().filter(|id| !gone.contains(id)).collect();
        let place: HashMap<NodeId, NodeId> =
            kept.iter().zip(NodeId::first(kept.len())).map(|(&id, place)| (id, place)).collect();
        let moved = |link: &Link| {
            Some(Link { source: *place.get(&link.source)?, target: *place.get(&link.target)?, ..link.clone() })
        };
        let nodes = kept.iter().map(|&id| self.node(id).clone()).collect();
        let links: Vec<Option<Link>> = self.links.iter().map(moved).collect();
        let ranks = self.rank_ids().filter_map(|rank| place.get(&rank).copied()).collect();
        self.rebuilt_of(nodes, links, ranks, Shape::General)
    }

    /// Returns the network with switches that only forward: none of them reduces or multicasts.
    ///
    /// ```
    /// use treefold::topology::from_spec;
    ///
    /// let plain = from_spec("dgx2", None, None)?.with_plain_switches();
    /// assert!(plain.nodes().iter().all(|node| !node.reduces() && !node.multicasts()));
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    #[must_use]
    pub fn with_plain_switches(&self) -> Self {
        let mut plain = self.clone();
        for node in &mut plain.nodes {
            if node.is_switch() {
                node.kind = Kind::Switch(Abilities::NONE);
            }
        }
        plain
    }

    /// Returns the network as `model` sees it: with Hockney's model latencies become overheads.
    ///
    /// ```
    /// use treefold::topology::{LinkModel, from_spec};
    /// use treefold::units::parse_time;
    ///
    /// let ring = from_spec("ring:4", None, None)?;
    /// let modelled = ring.under(LinkModel::Hockney);
    /// assert_eq!(modelled.links()[0].overhead, parse_time("150ns")?);
    /// assert_eq!(modelled.links()[0].delay(), ring.links()[0].latency);
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn under(&self, model: LinkModel) -> Self {
        let mut modelled = self.clone();
        if model == LinkModel::Hockney {
            for link in &mut modelled.links {
                (link.latency, link.overhead) = (Time::ZERO, link.delay());
            }
        }
        modelled
    }

    /// Returns the network with the bandwidth of link `i` multiplied by `parts[i]`, which is above 0. Parts of shared
    /// capacities may stand behind those of the links.
    ///
    /// ```
    /// use treefold::topology::from_spec;
    ///
    /// let ring = from_spec("ring:4", None, None)?;
    /// let half = ring.with_parts_of_bandwidths(&[0.5; 8]);
    /// let bandwidth = |of: &treefold::topology::Topology| of.links()[0].bandwidth.bytes_per_second();
    /// assert_eq!(2.0 * bandwidth(&half), bandwidth(&ring));
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn with_parts_of_bandwidths(&self, parts: &[f64]) -> Self {
        let mut narrowed = self.clone();
        for (link, part) in narrowed.links.iter_mut().zip(parts) {
            link.bandwidth = Bandwidth::known(link.bandwidth.bytes_per_second() * part);
        }
        narrowed.scale_shared(parts.get(self.links.len()..).unwrap_or_default());
        narrowed
    }

    /// Returns the network with other names for some nodes.
    ///
    /// # Errors
    /// If a node does not exist, a name cannot be shown, or two nodes would have the same name.
    pub fn with_node_names(&self, names: &HashMap<String, String>) -> Result<Self> {
        for name in names.keys() {
            self.find_node(name)?;
        }
        let renamed = |node: &Node| Node { name: names.get(&node.name).unwrap_or(&node.name).clone(), ..node.clone() };
        self.rebuilt(renamed, |link| Ok(Some(link.clone())), self.shape.clone())
    }

    /// Returns the network under another name.
    ///
    /// # Errors
    /// If the name cannot be shown.
    ///
    /// ```
    /// use treefold::topology::from_spec;
    ///
    /// let ring = from_spec("ring:4", None, None)?;
    /// assert_eq!(ring.named("circle")?.name(), "circle");
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn named(&self, name: &str) -> Result<Self> {
        super::build::check_name(name).map_err(|error| error.at(format!("network '{name}'")))?;
        Ok(Self { name: name.to_owned(), ..self.clone() })
    }

    /// Returns the ends of the existing links between the nodes that `ends` names.
    fn find_links(&self, ends: &Ends, directions: Directions) -> Result<Vec<(NodeId, NodeId)>> {
        let (source, target) = (self.find_node(&ends.0)?, self.find_node(&ends.1)?);
        let mut found = vec![(source, target)];
        found.extend((directions == Directions::BothWays).then_some((target, source)));
        found.retain(|&(from, to)| self.outgoing(from).iter().any(|&link| self.link(link).target == to));
        if found.is_empty() {
            bail!("{}: there is no link from {} to {}", self.name, ends.0, ends.1);
        }
        Ok(found)
    }

    fn find_node(&self, name: &str) -> Result<NodeId> {
        let names: Vec<&str> = self.nodes.iter().map(|node| node.name.as_str()).collect();
        let found = names.iter().position(|&each| each == name);
        found.map(NodeId::new).ok_or_else(|| unknown("node", name, &names))
    }

    /// Returns the network with changed nodes and links, and with the same ranks.
    fn rebuilt(
        &self,
        node: impl Fn(&Node) -> Node,
        link: impl Fn(&Link) -> Result<Option<Link>>,
        shape: Shape,
    ) -> Result<Self> {
        let nodes = self.node_of_place.iter().map(|&id| node(self.node(id))).collect();
        let place = |node| NodeId(self.place(node));
        let in_place = |link: Link| Link { source: place(link.source), target: place(link.target), ..link };
        let links = self.links.iter().map(|each| Ok(link(each)?.map(in_place))).collect::<Result<_>>()?;
        let ranks = self.rank_ids().map(place).collect();
        self.rebuilt_of(nodes, links, ranks, shape)
    }

    /// Returns a network of these nodes and of what became of each link; `None` if a link is gone.
    fn rebuilt_of(&self, nodes: Vec<Node>, links: Vec<Option<Link>>, ranks: Vec<NodeId>, shape: Shape) -> Result<Self> {
        let mut numbers = LinkId::first(links.len());
        let moved: Vec<Option<LinkId>> = links.iter().map(|link| link.as_ref().and_then(|_| numbers.next())).collect();
        let links = links.into_iter().flatten().collect();
        let rebuilt = Self::new(self.name.clone(), nodes, links, Some(ranks), shape)?;
        Ok(Self { ordered: self.ordered, ..rebuilt }.sharing_as(self, |link| moved[link]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::from_spec;

    fn ends(source: &str, target: &str) -> Ends {
        (source.into(), target.into())
    }

    #[test]
    fn an_edited_network_differs_only_where_it_was_edited() {
        let ring = from_spec("ring:4", None, None).unwrap().with_ranks(&[2, 0, 1]).unwrap();
        let slower =
            ring.with_bandwidths(&[(ends("GPU0", "GPU1"), Bandwidth::known(1e9))], Directions::BothWays).unwrap();
        let slow = slower.links().iter().filter(|link| link.bandwidth == Bandwidth::known(1e9)).count();
        assert_eq!(slow, 2);
        let back =
            slower.with_bandwidths(&[(ends("GPU1", "GPU0"), ring.links()[0].bandwidth)], Directions::BothWays).unwrap();
        assert_eq!(back, ring);
        let line = ring.without_links(&[ends("GPU3", "GPU0")], Directions::BothWays).unwrap();
        assert_eq!((line.links().len(), line.ranks()), (6, 3));
        let one_way = ring.without_links(&[ends("GPU3", "GPU0")], Directions::OneWay).unwrap();
        assert_eq!(one_way.links().len(), 7);
        let paris = ring.with_node_names(&HashMap::from([("GPU2".into(), "Paris".into())])).unwrap();
        assert_eq!(paris.node(NodeId(0)).name, "Paris");
        assert_eq!(ring.named("mine").unwrap().name(), "mine");
        assert!(ring.in_given_order().transposed().is_ordered());
    }

    #[test]
    fn what_does_not_exist_is_refused() {
        let ring = from_spec("ring:4", None, None).unwrap();
        let refused = |result: Result<Topology>| result.unwrap_err().to_string();
        assert!(
            refused(ring.without_links(&[ends("GPU0", "GPU2")], Directions::BothWays))
                .contains("no link from GPU0 to GPU2")
        );
        assert!(
            refused(ring.without_links(&[ends("GPU0", "gpu1")], Directions::BothWays)).contains("did you mean GPU1")
        );
        let cut = [ends("GPU0", "GPU1"), ends("GPU0", "GPU3")];
        assert!(refused(ring.without_links(&cut, Directions::BothWays)).contains("disconnected"));
        let twice = HashMap::from([("GPU0".into(), "GPU1".into())]);
        assert!(refused(ring.with_node_names(&twice)).contains("listed twice"));
    }
}
