//! Bounds: rates for large vectors that no plan can exceed.
//!
//! Rates of all-reduces come from `bound/all_reduce.rs`; those of other collectives, and least times of any size, from
//! `bound/collectives.rs`. Each bound knows what limits it (`bound/limit.rs`).
//!
//! Capacities that links share are rows of linear programs. Cuts and flows see them as links and switches as far as they
//! can be such (`topology/expanded.rs`); where they cannot, a bound without a program is valid, and not exact.

mod all_reduce;
mod collectives;
mod concurrent;
mod cut;
mod latency;
mod limit;
mod maxflow;
mod powers;
mod program;
mod quickest;
mod strength;

pub use collectives::{CollectiveBounds, Kind};
pub(crate) use concurrent::{Concurrent, RoutingTree, concurrent_flow, rate_by_prices};
pub(crate) use latency::distances_relayed;
pub use limit::Limit;
pub(crate) use powers::exp2;

use std::sync::Arc;

use self::all_reduce::Rates;
use crate::memory::Memory;
use crate::topology::{NodeId, Topology};
use crate::units::{Bandwidth, Bytes, Seconds};

/// A bound, and how it was found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bound {
    /// The bytes of the vector a second; infinite where nothing has to be sent.
    pub rate: Bandwidth,
    /// Whether the bound is exact: no smaller rate would be a bound.
    pub exact: bool,
    /// The method that has found it.
    pub method: &'static str,
}

/// The bounds of a network.
#[derive(Debug, Clone)]
pub struct Bounds {
    /// The bound of a reduce-scatter followed by an all-gather.
    pub reduce_scatter_all_gather: Bound,
    /// The bound of any all-reduce without the help of switches.
    pub all_reduce: Bound,
    /// The bound of any all-reduce with the help of switches; `None` where no switch can reduce or multicast.
    pub in_network: Option<Bound>,
    /// The least times of any all-reduce, with the help of switches where they can.
    pub of_sizes: Arc<CollectiveBounds>,
}

/// Relative differences below this one are rounding.
const TOLERANCE: f64 = 1e-9;

/// Returns the rate at which every rank can broadcast its block to all others at once, in bytes a second, as far as
/// cuts limit it.
pub(crate) fn all_gather_rate(topology: &Topology) -> f64 {
    cut::all_gather_rate(&topology.expanded().network).rate
}

/// Returns the rate at which a rank can broadcast to all others, in bytes a second, as far as cuts limit it.
pub(crate) fn broadcast_rate(topology: &Topology, root: NodeId) -> f64 {
    cut::broadcast_rate(&topology.expanded().network, root).rate
}

/// Returns the rate that no all-reduce exceeds in which switches only forward, in bytes a second.
pub(crate) fn all_reduce_rate(topology: &Arc<Topology>) -> f64 {
    rates(topology).all_reduce.bound.rate.bytes_per_second()
}

/// Returns the rate that no all-reduce exceeds in which switches help, in bytes a second; `None` if none can.
pub(crate) fn in_network_rate(topology: &Arc<Topology>) -> Option<f64> {
    rates(topology).in_network.as_ref().map(|found| found.bound.rate.bytes_per_second())
}

fn rates(topology: &Arc<Topology>) -> Arc<Rates> {
    static RATES: Memory<(), Rates> = Memory::new();
    RATES.get(topology, (), || all_reduce::rates(topology))
}

/// Returns all bounds, as [`bounds`] does; those of the last networks are kept.
///
/// ```
/// use std::sync::Arc;
/// use treefold::bound::{bounds, kept};
/// use treefold::topology::from_spec;
///
/// let ring = Arc::new(from_spec("ring:8", None, None)?);
/// assert_eq!(kept(&ring).all_reduce, bounds(&ring).all_reduce);
/// # Ok::<(), treefold::error::Error>(())
/// ```
pub fn kept(topology: &Arc<Topology>) -> Arc<Bounds> {
    static BOUNDS: Memory<(), Bounds> = Memory::new();
    BOUNDS.get(topology, (), || Bounds::new(topology, &rates(topology)))
}

/// Returns the bounds of a collective, as [`CollectiveBounds::new`] does; those of the last networks are kept.
///
/// ```
/// use std::sync::Arc;
/// use treefold::bound::{Kind, of_collective};
/// use treefold::topology::from_spec;
///
/// let ring = Arc::new(from_spec("ring:8", None, None)?);
/// assert!(of_collective(&ring, Kind::AllGather).rate.exact);
/// # Ok::<(), treefold::error::Error>(())
/// ```
pub fn of_collective(topology: &Arc<Topology>, kind: Kind) -> Arc<CollectiveBounds> {
    static OF_COLLECTIVES: Memory<Kind, CollectiveBounds> = Memory::new();
    OF_COLLECTIVES.get(topology, kind.clone(), || CollectiveBounds::new(topology, kind))
}

/// Computes all bounds.
///
/// ```
/// use treefold::bound::bounds;
/// use treefold::topology::from_spec;
/// use treefold::units::parse_bandwidth;
///
/// let ring = bounds(&from_spec("ring:8", Some(parse_bandwidth("7GB/s")?), None)?);
/// // A rank has two links of 7 GB/s, over which 2 (8 - 1) / 8 of the vector have to go.
/// assert!((ring.all_reduce.rate.seconds_for(8e9).get() - 1.0).abs() < 1e-9);
/// assert!(ring.all_reduce.exact && ring.in_network.is_none());
/// # Ok::<(), treefold::error::Error>(())
/// ```
pub fn bounds(topology: &Topology) -> Bounds {
    Bounds::new(topology, &all_reduce::rates(topology))
}

impl Bounds {
    fn new(topology: &Topology, rates: &Rates) -> Self {
        let best = rates.in_network.as_ref().unwrap_or(&rates.all_reduce);
        Self {
            reduce_scatter_all_gather: rates.two_phases,
            all_reduce: rates.all_reduce.bound,
            in_network: rates.in_network.as_ref().map(|found| found.bound),
            of_sizes: Arc::new(CollectiveBounds::of_all_reduce(topology, best.clone())),
        }
    }

    /// Returns the time that any all-reduce of `size` bytes takes at least: that which the rate allows, or the quickest
    /// flow of so many bytes from one rank to another, as each has to learn all of every other's part of the sum.
    ///
    /// ```
    /// use treefold::bound::bounds;
    /// use treefold::topology::from_spec;
    /// use treefold::units::{Seconds, parse_bytes, parse_time};
    ///
    /// let line = bounds(&from_spec("line:5", None, Some(parse_time("1ms")?))?);
    /// let of_a_byte = line.seconds(parse_bytes("1")?);
    /// assert!((of_a_byte / Seconds::known(4e-3) - 1.0).abs() < 1e-6, "the ends are four links apart");
    /// assert!(line.seconds(parse_bytes("1GB")?) > Seconds::known(4e-3));
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn seconds(&self, size: Bytes) -> Seconds {
        self.of_sizes.seconds(size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{Abilities, Link, Node, Shape, from_spec};
    use crate::units::Time;

    fn of(spec: &str) -> Bounds {
        bounds(&from_spec(spec, Some(Bandwidth::known(1.0)), None).unwrap())
    }

    #[test]
    fn the_issues_values() {
        for (spec, two_phases, all_reduce) in
            [("torus:4x4", 2.1333, 2.1333), ("mesh:4x4", 1.0667, 1.6), ("dgx2", 0.5333, 0.5333), ("b4", 1.0909, 1.5)]
        {
            let bounds = of(spec);
            assert!(
                (bounds.reduce_scatter_all_gather.rate.bytes_per_second() - two_phases).abs() < 1e-4,
                "{spec} {bounds:?}"
            );
            assert!((bounds.all_reduce.rate.bytes_per_second() - all_reduce).abs() < 1e-4, "{spec} {bounds:?}");
            assert!(bounds.all_reduce.exact, "{spec} {bounds:?}");
        }
        assert_eq!(
            of("dgx2").in_network.unwrap(),
            Bound { rate: Bandwidth::known(1.0), exact: true, method: "cut of one rank" }
        );
        assert_eq!(of("dgx2:planes=6").in_network.unwrap().rate.bytes_per_second(), 6.0);
        assert!(of("dgx2:planes=6").in_network.unwrap().exact);
    }

    #[test]
    fn cuts_are_not_exact_where_a_switch_receives_more_than_it_sends() {
        let link = |(source, target)| Link {
            source: NodeId(source),
            target: NodeId(target),
            bandwidth: Bandwidth::known(1.0),
            latency: Time::ZERO,
            overhead: Time::ZERO,
            streams: None,
        };
        let ends = [(0, 2), (1, 2), (2, 3), (3, 0), (3, 1)];
        let nodes = ["u", "v"]
            .map(Node::accelerator)
            .into_iter()
            .chain(["s", "w"].map(|name| Node::switch(name, Abilities::NONE)))
            .collect();
        let topology = Topology::new("funnel", nodes, ends.map(link).to_vec(), None, Shape::General).unwrap();
        let bounds = bounds(&topology);
        assert!(
            !bounds.reduce_scatter_all_gather.exact && !all_reduce::by_cuts(&topology).all_reduce.bound.exact,
            "{bounds:?}"
        );
        assert!((bounds.all_reduce.rate.bytes_per_second() - 0.5).abs() < 1e-7 && bounds.all_reduce.exact);
    }
}
