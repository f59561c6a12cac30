//! Capacities that several links share: a conduit, a provider's cap, an access line, the network card of a node.
//!
//! What the links of a shared capacity carry together is never more than its bandwidth, however much each could carry
//! alone. A message occupies the links of its route and, once for each of these links, what they share.
//!
//! Links and shared capacities are numbered together: number `k` behind the links is shared capacity `k`. So whatever
//! counts loads of links counts those of shared capacities in the same list, and routes list both
//! ([`crate::plan::LaneRoutes::capacities`]).

use std::collections::{BTreeMap, HashSet};

use serde::{Deserialize, Serialize};

use super::build::check_name;
use super::{LinkId, Topology};
use crate::bail;
use crate::error::Result;
use crate::units::Bandwidth;

/// A capacity that several links share.
#[derive(Debug, Clone, PartialEq)]
pub struct Shared {
    /// Its name, which no other shared capacity of the network has.
    pub name: String,
    /// The bytes a second that its links carry together at most.
    pub bandwidth: Bandwidth,
    /// The links that share it, in rising order.
    pub links: Vec<LinkId>,
}

/// What tests of many links at once have shown of the bandwidths of a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Tested {
    /// They are what links carry alone. With what links share they explain all tests.
    #[serde(rename = "alone")]
    Alone,
    /// They are what links carried all at once; one alone may carry more.
    #[serde(rename = "at once")]
    AtOnce,
}

/// The shared capacities of a network, and those of each link.
#[derive(Debug, Clone, Default)]
pub(super) struct SharedCapacities {
    list: Vec<Shared>,
    /// The numbers of what link `l` shares are `of_links[first[l]..first[l + 1]]`; there are no rows if nothing is
    /// shared.
    first: Vec<u32>,
    of_links: Vec<LinkId>,
    /// The shared capacity over the opposite links of each, if there is one of the same bandwidth.
    mirror: Vec<Option<LinkId>>,
}

impl SharedCapacities {
    /// Lists what each link shares.
    fn new(topology: &Topology, list: Vec<Shared>) -> Self {
        if list.is_empty() {
            return Self::default();
        }
        let links = topology.links.len();
        let mut rows: Vec<Vec<LinkId>> = vec![Vec::new(); links];
        for (number, shared) in list.iter().enumerate() {
            shared.links.iter().for_each(|&link| rows[link].push(LinkId::new(links + number)));
        }
        let mut first = vec![0];
        first.extend(rows.iter().scan(0, |end, row| {
            *end += row.len() as u32;
            Some(*end)
        }));
        let mirror = mirrors(topology, &list);
        Self { list, first, of_links: rows.concat(), mirror }
    }
}

/// Finds the shared capacity over the opposite links of each.
fn mirrors(topology: &Topology, list: &[Shared]) -> Vec<Option<LinkId>> {
    let key = |shared: &Shared, links: Vec<LinkId>| (links, shared.bandwidth.bytes_per_second().to_bits());
    let mut by_links: BTreeMap<_, Vec<usize>> = BTreeMap::new();
    for (number, shared) in list.iter().enumerate() {
        by_links.entry(key(shared, shared.links.clone())).or_default().push(number);
    }
    let mut turns: BTreeMap<_, usize> = BTreeMap::new();
    let mut mirror_of = |shared: &Shared| {
        let mut back = shared.links.iter().map(|&link| topology.reverse(link)).collect::<Option<Vec<LinkId>>>()?;
        back.sort_unstable();
        let key = key(shared, back);
        let turn = turns.entry(key.clone()).or_default();
        *turn += 1;
        by_links.get(&key)?.get(*turn - 1).map(|&number| LinkId::new(topology.links.len() + number))
    };
    list.iter().map(&mut mirror_of).collect()
}

impl Topology {
    /// Returns the capacities that several links share.
    ///
    /// ```
    /// use treefold::topology::from_spec;
    ///
    /// assert!(from_spec("ring:4", None, None)?.shared().is_empty(), "generated networks have links only");
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn shared(&self) -> &[Shared] {
        &self.shared.list
    }

    /// Returns the numbers of the shared capacities of a link, which stand behind those of the links.
    pub fn shared_by(&self, link: LinkId) -> &[LinkId] {
        match self.shared.first.get(link.index()..link.index() + 2) {
            Some(&[from, to]) => &self.shared.of_links[from as usize..to as usize],
            _ => &[],
        }
    }

    /// Counts links and shared capacities.
    pub fn num_capacities(&self) -> usize {
        self.links.len() + self.shared.list.len()
    }

    /// Returns the numbers of all links, and behind them those of all shared capacities.
    pub fn capacity_ids(&self) -> impl DoubleEndedIterator<Item = LinkId> + ExactSizeIterator + Clone + use<> {
        LinkId::first(self.num_capacities())
    }

    /// Returns the shared capacity with this number; `None` if it is that of a link.
    pub fn as_shared(&self, capacity: LinkId) -> Option<&Shared> {
        self.shared.list.get(capacity.index().checked_sub(self.links.len())?)
    }

    /// Returns the bandwidth of a link or a shared capacity.
    ///
    /// ```
    /// use treefold::topology::{LinkId, Shared, from_spec};
    /// use treefold::units::parse_bandwidth;
    ///
    /// let ring = from_spec("ring:4", Some(parse_bandwidth("10GB/s")?), None)?;
    /// let (bandwidth, links) = (parse_bandwidth("12GB/s")?, vec![LinkId(0), LinkId(2)]);
    /// let shared = Shared { name: "conduit".into(), bandwidth, links };
    /// let conduit = ring.with_shared(vec![shared])?;
    /// assert_eq!(conduit.num_capacities(), 9);
    /// assert_eq!(conduit.shared_by(LinkId(2)), [LinkId(8)], "the first number behind those of the links");
    /// assert_eq!(conduit.bandwidth(LinkId(8)), parse_bandwidth("12GB/s")?);
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn bandwidth(&self, capacity: LinkId) -> Bandwidth {
        match self.as_shared(capacity) {
            Some(shared) => shared.bandwidth,
            None => self.links[capacity].bandwidth,
        }
    }

    /// Lists the bandwidths of all links, and behind them those of all shared capacities.
    pub fn bandwidths(&self) -> impl Iterator<Item = Bandwidth> {
        let links = self.links.iter().map(|link| link.bandwidth);
        links.chain(self.shared.list.iter().map(|shared| shared.bandwidth))
    }

    /// Returns what lies opposite of a link or a shared capacity: the shared capacity of the same bandwidth over all
    /// opposite links, which may be the same one.
    pub(crate) fn opposite(&self, capacity: LinkId) -> Option<LinkId> {
        match capacity.index().checked_sub(self.links.len()) {
            Some(number) => self.shared.mirror[number],
            None => self.reverse(capacity),
        }
    }

    /// Returns what tests of many links at once have shown of the bandwidths, if there were any.
    ///
    /// ```
    /// use treefold::topology::{Tested, Topology, from_spec};
    ///
    /// let ring = from_spec("ring:3", None, None)?;
    /// let tested = Topology::from_json(&ring.to_json().replacen('{', r#"{"tested": "at once","#, 1))?;
    /// assert_eq!((ring.tested(), tested.with_ranks(&[2, 0, 1])?.tested()), (None, Some(Tested::AtOnce)));
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn tested(&self) -> Option<Tested> {
        self.tested
    }

    /// Returns the network with these shared capacities instead of those that it has.
    ///
    /// # Errors
    /// If two have one name, one has no links, or a link that the network does not have or twice, or one is as wide as
    /// all its links together, so that it would limit nothing.
    ///
    /// ```
    /// use treefold::topology::{LinkId, Shared, from_spec};
    /// use treefold::units::parse_bandwidth;
    ///
    /// let ring = from_spec("ring:4", Some(parse_bandwidth("10GB/s")?), None)?;
    /// let (bandwidth, links) = (parse_bandwidth("30GB/s")?, vec![LinkId(0), LinkId(2)]);
    /// let wide = Shared { name: "wide".into(), bandwidth, links };
    /// let error = ring.with_shared(vec![wide]).unwrap_err();
    /// assert!(error.to_string().contains("carry 20GB/s together"), "{error}");
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn with_shared(&self, mut list: Vec<Shared>) -> Result<Self> {
        let mut names = HashSet::new();
        for shared in &mut list {
            if !names.insert(shared.name.clone()) {
                bail!("shared capacity '{}' is listed twice; names of shared capacities must differ", shared.name);
            }
            shared.links.sort_unstable();
            self.check_shared(shared).map_err(|error| error.at(format!("shared capacity '{}'", shared.name)))?;
        }
        Ok(self.sharing(list))
    }

    fn check_shared(&self, shared: &Shared) -> Result<()> {
        check_name(&shared.name)?;
        if shared.links.is_empty() {
            bail!("no link shares it; name it under 'shares' of links, or drop it");
        }
        if let Some(foreign) = shared.links.iter().find(|link| link.index() >= self.links.len()) {
            bail!("there is no link {}; the network has {}, from 0", foreign.0, self.links.len());
        }
        if let Some(twice) = shared.links.windows(2).find(|pair| pair[0] == pair[1]) {
            bail!("{} is listed twice; list each link once", self.describe_link(twice[0]));
        }
        if !self.limits(shared) {
            bail!(
                "its links carry {} together, and it is not less ({}), so that it limits nothing; correct or drop it",
                Bandwidth::known(self.sum(shared)),
                shared.bandwidth
            );
        }
        Ok(())
    }

    /// Returns whether a shared capacity is less than what its links carry together.
    fn limits(&self, shared: &Shared) -> bool {
        shared.bandwidth.bytes_per_second() < self.sum(shared)
    }

    fn sum(&self, shared: &Shared) -> f64 {
        shared.links.iter().map(|&link| self.links[link].bandwidth.bytes_per_second()).sum()
    }

    /// Returns the network with shared capacities that are right.
    fn sharing(&self, list: Vec<Shared>) -> Self {
        Self { shared: SharedCapacities::new(self, list), ..self.clone() }
    }

    /// Returns this network with the shared capacities of another one, of whose links `link` tells the number here, if
    /// it is left, and with what tests have shown there. Shared capacities that limit nothing here are dropped.
    pub(super) fn sharing_as(mut self, other: &Self, link: impl Fn(LinkId) -> Option<LinkId>) -> Self {
        self.tested = other.tested;
        if other.shared.list.is_empty() {
            return self;
        }
        let moved = |shared: &Shared| {
            let mut links: Vec<LinkId> = shared.links.iter().filter_map(|&each| link(each)).collect();
            links.sort_unstable();
            Shared { links, ..shared.clone() }
        };
        let list = other.shared.list.iter().map(moved).filter(|shared| self.limits(shared)).collect();
        self.sharing(list)
    }

    /// Returns the network with the bandwidth of shared capacity `k` multiplied by `parts[k]`, which is above 0.
    pub(super) fn scale_shared(&mut self, parts: &[f64]) {
        for (shared, part) in self.shared.list.iter_mut().zip(parts) {
            shared.bandwidth = Bandwidth::known(shared.bandwidth.bytes_per_second() * part);
        }
    }
}

impl PartialEq for SharedCapacities {
    fn eq(&self, other: &Self) -> bool {
        self.list == other.list
    }
}
