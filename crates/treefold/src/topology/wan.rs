//! Wide-area networks: B4, seeded networks of the size of Equinix and IDN, and random networks.
//!
//! Capacities are as in the MTree paper, section IV-A: with skewness sk, an integer multiple of 10 Mbit/s drawn from
//! 200 +- 100 sk Mbit/s, the same in both directions. If the caller asks for another bandwidth, they are scaled.

use std::collections::HashSet;

use super::spec::{Defaults, Spec};
use super::{Link, Node, NodeId, Shape, Topology};
use crate::error::Result;
use crate::random::Random;
use crate::units::Bandwidth;

/// The cables of Google's B4 ("GScale") of 2013: 12 sites, 19 cables (Jain et al., SIGCOMM 2013, figure 1).
const B4: [(u32, u32); 19] = [
    (0, 1),
    (1, 2),
    (0, 4),
    (2, 3),
    (2, 5),
    (3, 4),
    (4, 5),
    (5, 7),
    (3, 6),
    (3, 7),
    (5, 6),
    (6, 7),
    (8, 10),
    (8, 9),
    (9, 10),
    (7, 9),
    (6, 10),
    (9, 11),
    (10, 11),
];

/// The mean of the paper's draw in its steps: 200 Mbit/s in tens of Mbit/s.
const STEPS_AT_MEAN: f64 = 20.0;

/// Builds `b4:skew=0.5,seed=1`.
pub(super) fn b4(spec: &Spec, defaults: &Defaults) -> Result<Topology> {
    wide_area(spec, defaults, 12, &B4)
}

/// Builds a synthetic network with as many sites and cables as the Equinix network of the MTree paper (20, 141).
pub(super) fn equinix_like(spec: &Spec, defaults: &Defaults) -> Result<Topology> {
    wide_area(spec, defaults, 20, &geometric(20, 141, 0x0e91))
}

/// Builds a synthetic network with as many sites and cables as the IDN network of the MTree paper (40, 231).
pub(super) fn idn_like(spec: &Spec, defaults: &Defaults) -> Result<Topology> {
    wide_area(spec, defaults, 40, &geometric(40, 231, 0x01d4))
}

/// Builds `random:n=20,links=60,seed=1`: a random tree, and then random further cables, at most one between two sites.
pub(super) fn random(spec: &Spec, defaults: &Defaults) -> Result<Topology> {
    let count = spec.count("n", 20)?;
    let cables = spec.value("links", u64::from(count) * 3)?;
    let (least, most) = (u64::from(count) - 1, u64::from(count) * u64::from(count - 1) / 2);
    let cables = if spec.value("links", 0)? == 0 { cables.min(most) } else { cables };
    if !(least..=most).contains(&cables) {
        return Err(spec.misread(format!("{count} nodes need {least} to {most} links, got {cables}")));
    }
    spec.check_size(count.into(), 2 * cables)?;
    let mut random = Random::new(spec.value("seed", 1)?);
    let mut pairs: Vec<(u32, u32)> = (1..count).map(|node| (random.below(node.into()) as u32, node)).collect();
    let mut taken: HashSet<(u32, u32)> = pairs.iter().copied().collect();
    while (pairs.len() as u64) < cables {
        let (a, b) = (random.below(count.into()) as u32, random.below(count.into()) as u32);
        let pair = (a.min(b), a.max(b));
        if a != b && taken.insert(pair) {
            pairs.push(pair);
        }
    }
    wide_area(spec, defaults, count, &pairs)
}

/// Returns the cables between random points of a square: the shortest spanning tree, and then the shortest other pairs.
fn geometric(count: u32, cables: usize, seed: u64) -> Vec<(u32, u32)> {
    let mut random = Random::new(seed);
    let sites: Vec<(f64, f64)> = (0..count).map(|_| (random.unit(), random.unit())).collect();
    let length = |&(a, b): &(u32, u32)| {
        let ((ax, ay), (bx, by)) = (sites[a as usize], sites[b as usize]);
        (ax - bx).powi(2) + (ay - by).powi(2)
    };
    let mut pairs: Vec<(u32, u32)> = (0..count).flat_map(|b| (0..b).map(move |a| (a, b))).collect();
    pairs.sort_by(|p, q| length(p).total_cmp(&length(q)));
    let mut tree: Vec<u32> = (0..count).collect();
    let (spanning, others): (Vec<_>, Vec<_>) = pairs.into_iter().partition(|&(a, b)| {
        let (from, to) = (tree[a as usize], tree[b as usize]);
        tree.iter_mut().filter(|root| **root == from).for_each(|root| *root = to);
        from != to
    });
    spanning.into_iter().chain(others).take(cables).collect()
}

/// Builds sites and cables, whose capacities follow the spec's `skew` and `seed`.
fn wide_area(spec: &Spec, defaults: &Defaults, sites: u32, cables: &[(u32, u32)]) -> Result<Topology> {
    let skew: f64 = spec.value("skew", 0.0)?;
    if !(0.0..=1.0).contains(&skew) {
        return Err(spec.misread(format!("skew must be between 0 and 1, got {skew}")));
    }
    let mut random = Random::new(spec.value("seed", 1)?);
    let mut links: Vec<Link> = Vec::new();
    for &(a, b) in cables {
        let bandwidth = Bandwidth::known(defaults.bandwidth.bytes_per_second() * draw(skew, &mut random));
        links.extend(Defaults { bandwidth, ..defaults.clone() }.both_ways(NodeId(a), NodeId(b)));
    }
    let nodes = (0..sites).map(|i| Node::accelerator(format!("site{i}"))).collect();
    Topology::new(spec.text, nodes, links, None, Shape::General)
}

/// Draws a multiple of 1/20 of the mean, uniform over those within 1 -+ skew / 2.
fn draw(skew: f64, random: &mut Random) -> f64 {
    let (low, high) = (STEPS_AT_MEAN * (1.0 - skew / 2.0), STEPS_AT_MEAN * (1.0 + skew / 2.0));
    let (low, high) = ((low - 1e-9).ceil() as u64, (high + 1e-9).floor() as u64);
    (low + random.below(high - low + 1)) as f64 / STEPS_AT_MEAN
}
