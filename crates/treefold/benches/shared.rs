//! What shared capacities cost `packing`: CPU seconds on one core with and without them in the same run, and the part
//! of the bound that its plans reach.
//!
//! Networks are 64 regions with eight cables each, in the mean. A hundred shared capacities are drawn at random over
//! them: each link is in about four, in two, or in one. Beside them stand a cap on what each region sends and one on
//! what it receives, which is what probes find in clouds.

use std::sync::Arc;

use cpu_time::ThreadTime;
use treefold::bound::bounds;
use treefold::planners::{self, Options};
use treefold::random::Random;
use treefold::topology::{Link, LinkId, Node, NodeId, Shape, Shared, Topology};
use treefold::units::{Bandwidth, Bytes, Time};

const REGIONS: u32 = 64;
const CABLES: usize = 256;
const CAPACITIES: u64 = 100;
const GIGABYTES: f64 = 1e9;

fn main() {
    println!("{:<44} {:>9} {:>11} {:>12} {:>7}", "64 regions, packing", "alone (s)", "shared (s)", "times", "bound");
    for (is_alike, directions, seeds) in [(false, "unequal", 5), (true, "equal", 2)] {
        for seed in 1..=seeds {
            let (name, plain) = (format!("{directions}, seed {seed}"), regions(seed, is_alike));
            let (alone, reached) = measure(&plain);
            println!("{name:<44} {alone:>9.2} {:>11} {:>12} {reached:>7.4}", "", "");
            for each in [4, 2, 1] {
                let network = with_conduits(&plain, each, is_alike, seed);
                compare(&format!("{name}, each link in {each} of 100"), alone, &Arc::new(network));
            }
            compare(&format!("{name}, 128 caps"), alone, &Arc::new(with_caps(&plain)));
        }
    }
}

/// Prints the CPU seconds on a network with shared capacities beside those without.
fn compare(name: &str, alone: f64, network: &Arc<Topology>) {
    let (shared, reached) = measure(network);
    println!("{name:<44} {alone:>9.2} {shared:>11.2} {:>12.2} {reached:>7.4}", shared / alone);
}

/// Returns the CPU seconds of a packing for a very large vector, and the part of the bound that its rate reaches.
fn measure(network: &Arc<Topology>) -> (f64, f64) {
    let options = Options { size: Bytes::known(1 << 40), ..Options::default() };
    let start = ThreadTime::now();
    let plan = planners::plan("packing", network, &options).expect("packing fits every network");
    let seconds = start.elapsed().as_secs_f64();
    let rate = plan.rate().expect("the plan sends something").bytes_per_second();
    (seconds, rate / bounds(network).all_reduce.rate.bytes_per_second())
}

/// Regions in a ring with further cables between random ones, of 0.2 to 2 GB/s and 1 to 50 ms.
fn regions(seed: u64, is_alike: bool) -> Arc<Topology> {
    let mut random = Random::new(seed);
    let mut pairs: Vec<(u32, u32)> = (0..REGIONS).map(|region| (region, (region + 1) % REGIONS)).collect();
    while pairs.len() < CABLES {
        let [a, b] = [(); 2].map(|()| random.below(REGIONS.into()) as u32);
        if a != b && !pairs.iter().any(|&pair| pair == (a, b) || pair == (b, a)) {
            pairs.push((a, b));
        }
    }
    let mut links = Vec::new();
    for (a, b) in pairs {
        let [there, back] = [(); 2].map(|()| Bandwidth::known(0.1 * GIGABYTES * (2 + random.below(19)) as f64));
        let latency = Time::from_picoseconds(1_000_000_000 * (1 + random.below(50)));
        let (source, target, bandwidth) = (NodeId(a), NodeId(b), there);
        let link = Link { source, target, bandwidth, latency, overhead: Time::ZERO, streams: None };
        let bandwidth = if is_alike { there } else { back };
        links.extend([link.clone(), Link { source: target, target: source, bandwidth, ..link }]);
    }
    let nodes = (0..REGIONS).map(|region| Node::accelerator(format!("R{region}"))).collect();
    Arc::new(Topology::new("regions", nodes, links, None, Shape::General).expect("a network"))
}

/// Adds shared capacities over random links, so that each link is in `each` in the mean. They carry a fifth to seven
/// tenths of what their links carry. If directions are alike, each holds in both.
fn with_conduits(plain: &Topology, each: u64, is_alike: bool, seed: u64) -> Topology {
    let mut random = Random::new(seed);
    let links = plain.links().len() as u64;
    let mean = each * links / CAPACITIES;
    let mut shared = Vec::new();
    let mut add = |name: String, links: &[LinkId], part: f64| {
        let together: f64 = links.iter().map(|&link| plain.link(link).bandwidth.bytes_per_second()).sum();
        shared.push(Shared { name, bandwidth: Bandwidth::known(together * part), links: links.to_vec() });
    };
    for number in 0..if is_alike { CAPACITIES / 2 } else { CAPACITIES } {
        let count = (mean / 2 + random.below(mean + 1)).max(2);
        let mut picked: Vec<u64> = (0..count).map(|_| random.below(links)).collect();
        let cable = |link: &u64| if is_alike { link / 2 } else { *link };
        picked.sort_unstable();
        picked.dedup_by_key(|link| cable(link));
        let there: Vec<LinkId> = picked.iter().map(|&link| LinkId(link as u32)).collect();
        let part = 0.2 + 0.5 * random.unit();
        add(format!("conduit {number}"), &there, part);
        if is_alike {
            let back: Vec<LinkId> = there.iter().map(|link| LinkId(link.0 ^ 1)).collect();
            add(format!("conduit {number} back"), &back, part);
        }
    }
    plain.with_shared(shared).expect("each is less than its links")
}

/// Adds a cap on what each region sends, and one on what it receives, of 40 % of its links.
fn with_caps(plain: &Topology) -> Topology {
    let cap = |name: String, links: &[LinkId]| {
        let together: f64 = links.iter().map(|&link| plain.link(link).bandwidth.bytes_per_second()).sum();
        Shared { name, bandwidth: Bandwidth::known(0.4 * together), links: links.to_vec() }
    };
    let of = |rank: NodeId| {
        let name = &plain.node(rank).name;
        [cap(format!("{name} egress"), plain.outgoing(rank)), cap(format!("{name} ingress"), plain.incoming(rank))]
    };
    plain.with_shared(plain.rank_ids().flat_map(of).collect()).expect("each is less than its links")
}
