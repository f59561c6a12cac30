//! Trees of equal rate: as wide as partitions of the ranks allow (Nash-Williams 1961, Tutte 1961).

use std::sync::Arc;

use crate::common::{accelerators, link};
use treefold::planners::cheapest::{EqualTrees, equal_trees};
use treefold::planners::spanning::Resources;
use treefold::random::Random;
use treefold::topology::{Link, Shape, Topology};
use treefold::units::Bandwidth;

/// A connected network of 2 to 6 ranks and unequal cables `(a, b, GB/s)`, some of them parallel.
fn random_cables(random: &mut Random) -> (u32, Vec<(u32, u32, u64)>) {
    let ranks = 2 + random.below(5) as u32;
    let mut cables: Vec<(u32, u32)> = (1..ranks).map(|rank| (random.below(rank.into()) as u32, rank)).collect();
    for _ in 0..random.below(2 * u64::from(ranks)) {
        let (a, b) = (random.below(ranks.into()) as u32, random.below(ranks.into()) as u32);
        cables.extend((a != b).then_some((a, b)));
    }
    (ranks, cables.into_iter().map(|(a, b)| (a, b, 1 + random.below(40))).collect())
}

fn network(ranks: u32, cables: &[(u32, u32, u64)]) -> Arc<Topology> {
    let wide =
        |source, target, gigabytes| Link { bandwidth: Bandwidth::known(gigabytes * 1e9), ..link(source, target) };
    let both = |&(a, b, width): &(u32, u32, u64)| [wide(a, b, width as f64), wide(b, a, width as f64)];
    let links = cables.iter().flat_map(both).collect();
    Arc::new(Topology::new("test", accelerators(ranks), links, None, Shape::General).unwrap())
}

/// Whether `count` trees of this rate (GB/s) fit: cables are cut into slots, and k slots join the parts of each
/// partition once less than there are parts.
fn fits(ranks: u32, cables: &[(u32, u32, u64)], count: u64, rate: f64) -> bool {
    let slots = |width: u64| ((width as f64 / rate * (1.0 + 1e-9)) as u64).min(count);
    let partitions = (0..ranks.pow(ranks)).map(|code| (0..ranks).map(|rank| code / ranks.pow(rank) % ranks).collect());
    partitions.into_iter().all(|part: Vec<u32>| {
        let crossing = cables.iter().filter(|&&(a, b, _)| part[a as usize] != part[b as usize]);
        let parts = (0..ranks).filter(|number| part.contains(number)).count() as u64;
        crossing.map(|&(.., width)| slots(width)).sum::<u64>() >= count * (parts - 1)
    })
}

#[test]
fn trees_of_equal_rate_are_as_wide_as_partitions_allow() {
    let mut random = Random::new(9);
    for case in 0..60 {
        let ((ranks, cables), count) = (random_cables(&mut random), 1 + case % 5);
        let topology = network(ranks, &cables);
        let resources = Resources::new(&topology);
        let EqualTrees { rate, trees } = equal_trees(&topology, &resources, count as usize).unwrap();
        let rate = rate / 1e9;
        assert!(trees.len() as u64 == count && fits(ranks, &cables, count, rate), "case {case}");
        let rates = cables.iter().flat_map(|&(.., width)| (1..=count).map(move |trees| width as f64 / trees as f64));
        let wider = rates.filter(|&other| other > rate * (1.0 + 1e-9)).fold(2.0 * rate, f64::min);
        assert!(!fits(ranks, &cables, count, wider), "case {case}: {count} trees of {wider} GB/s fit");
        let mut load = vec![0.0; resources.capacity.len()];
        for used in trees.iter().flat_map(|tree| resources.usage(tree)) {
            load[used.resource.0 as usize] += rate * 1e9 * f64::from(used.count);
        }
        let capacities = resources.capacity.iter().map(|capacity| capacity.bytes_per_second());
        assert!(load.iter().zip(capacities).all(|(&load, most)| load <= most * (1.0 + 1e-9)), "case {case}");
    }
}
