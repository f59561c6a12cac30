//! Background traffic: short messages between random accelerators, at a load.
//!
//! Uniform random traffic is the pattern by which networks are measured (Dally and Towles, "Principles and practices of
//! interconnection networks", 2004, section 3.2): every accelerator sends to every other with the same probability, at
//! times that do not depend on what the network does (a Poisson process). The load is the part of its injection
//! bandwidth, which is that of all its links together, that an accelerator offers. Cost: a route for each pair.

use crate::bail;
use crate::error::Result;
use crate::plan::schedule::Csr;
use crate::random::Random;
use crate::topology::{LinkId, NodeId, Topology};
use crate::units::Bytes;

/// Uniform random traffic beside the jobs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Background {
    /// The part of its injection bandwidth that every accelerator sends, from 0 to below 1.
    pub load: f64,
    /// The bytes of a message.
    pub message: Bytes,
    /// The seed of times and targets.
    pub seed: u64,
}

/// The pairs of accelerators that send to each other.
pub struct Pairs {
    /// The accelerators, in listed order.
    pub sources: Vec<NodeId>,
    /// The accelerators to which each source sends.
    pub targets: Csr<NodeId>,
    /// The links of each pair's route, in the order of `targets`.
    pub routes: Csr<LinkId>,
}

impl Background {
    /// Refuses traffic that cannot be.
    ///
    /// # Errors
    /// If the load is not from 0 to below 1, or a message is empty or longer than 1 MiB.
    ///
    /// ```
    /// use treefold::sim::Background;
    /// use treefold::units::Bytes;
    ///
    /// let light = Background { load: 0.1, message: Bytes::known(64), seed: 1 };
    /// assert!(light.check().is_ok());
    /// let error = Background { load: 1.0, ..light }.check().unwrap_err();
    /// assert!(error.to_string().starts_with("background load 1 is not from 0 to below 1"));
    /// ```
    pub fn check(&self) -> Result<()> {
        if !(0.0..1.0).contains(&self.load) {
            bail!(
                "background load {} is not from 0 to below 1; it is a part of the bandwidth of all links of an \
                 accelerator, so write for example 0.3",
                self.load
            );
        }
        if !(1..=1 << 20).contains(&self.message.get()) {
            bail!("background messages must have 1 byte to 1MiB, got {} bytes", self.message.get());
        }
        Ok(())
    }

    /// Returns the network with what the traffic leaves of each link's bandwidth.
    ///
    /// # Errors
    /// As for [`Self::check`], or if a link cannot carry the traffic.
    pub(crate) fn left_by(&self, network: &Topology) -> Result<Topology> {
        self.check()?;
        let shares = Pairs::new(network)?.shares(network, self.load)?;
        let left: Vec<f64> = shares.iter().map(|share| 1.0 - share).collect();
        Ok(network.with_parts_of_bandwidths(&left))
    }
}

impl Pairs {
    /// Finds the routes between all accelerators that reach each other.
    ///
    /// # Errors
    /// If there are fewer than two accelerators.
    pub fn new(network: &Topology) -> Result<Self> {
        let places = (0..network.nodes().len() as u32).map(|place| network.node_at(place));
        let sources: Vec<NodeId> = places.filter(|&node| !network.node(node).is_switch()).collect();
        if sources.len() < 2 {
            bail!("{} has no two accelerators that could send to each other; drop the background", network.name());
        }
        let (mut targets, mut routes, mut route) = (Csr::default(), Csr::default(), Vec::new());
        for &source in &sources {
            let others = sources.iter().filter(|&&node| node != source && network.reaches(source, node));
            targets.push_row(others.copied());
            for &target in targets.row(targets.first.len() - 2) {
                network.route(source, target, &mut route);
                routes.push_row(route.drain(..));
            }
        }
        Ok(Self { sources, targets, routes })
    }

    /// Returns the part of the bandwidth of each link, and behind them of each shared capacity, that traffic of `load`
    /// takes.
    ///
    /// # Errors
    /// If a link would have to carry more than it can.
    pub fn shares(&self, network: &Topology, load: f64) -> Result<Vec<f64>> {
        let mut shares = vec![0.0; network.num_capacities()];
        let mut pair = 0;
        for (number, &source) in self.sources.iter().enumerate() {
            let targets = self.targets.row(number).len();
            let rate = load * injection(network, source) / targets as f64;
            for route in (pair..pair + targets).map(|pair| self.routes.row(pair)) {
                let shared = route.iter().flat_map(|&link| network.shared_by(link));
                route
                    .iter()
                    .chain(shared)
                    .for_each(|&id| shares[id] += rate / network.bandwidth(id).bytes_per_second());
            }
            pair += targets;
        }
        let fullest = network.capacity_ids().max_by(|&a, &b| shares[a].total_cmp(&shares[b]).then(b.cmp(&a)));
        if let Some(link) = fullest.filter(|&link| shares[link] >= 1.0) {
            bail!(
                "a background load of {load} needs {:.0} % of link {}, whose bandwidth would be used up; use a load \
                 below {:.3}",
                shares[link] * 100.0,
                network.describe_link(link),
                (load / shares[link] * 1e3).floor() / 1e3
            );
        }
        Ok(shares)
    }
}

/// Returns the bytes a second that an accelerator can inject.
pub fn injection(network: &Topology, source: NodeId) -> f64 {
    network.outgoing(source).iter().map(|&link| network.link(link).bandwidth.bytes_per_second()).sum()
}

/// Draws from the exponential distribution of mean 1 by comparing uniform numbers alone, so that every machine draws
/// the same (von Neumann, "Various techniques used in connection with random digits", 1951).
pub fn exponential(random: &mut Random) -> f64 {
    let mut whole = 0.0;
    loop {
        let first = random.unit();
        let (mut last, mut falls) = (first, 0);
        loop {
            let next = random.unit();
            if next >= last {
                break;
            }
            (last, falls) = (next, falls + 1);
        }
        if falls % 2 == 0 {
            return whole + first;
        }
        whole += 1.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponential_numbers_have_the_mean_and_the_tail_of_their_distribution() {
        let (mut random, count) = (Random::new(3), 200_000);
        let drawn: Vec<f64> = (0..count).map(|_| exponential(&mut random)).collect();
        let mean = drawn.iter().sum::<f64>() / f64::from(count);
        assert!((mean - 1.0).abs() < 0.01, "{mean}");
        for bound in [0.5, 1.0, 2.0, 4.0] {
            let above = drawn.iter().filter(|&&x| x > bound).count() as f64 / f64::from(count);
            assert!((above - (-bound).exp()).abs() < 0.004, "{above} above {bound}");
        }
    }
}
