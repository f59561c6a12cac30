//! Random connected networks of all kinds, and the plans of all planners for them.

use std::sync::Arc;

use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::RngSeed;
use treefold::blocks::Blocks;
use treefold::plan::{Chunk, Plan};
use treefold::planners::options::{NeighborOrder, TreeOrder};
use treefold::planners::spanning::{self, Rated, Resources};
use treefold::planners::{self, Options, PLANNERS, cheapest};
use treefold::random::Random;
use treefold::topology::{Abilities, Link, LinkId, Node, NodeId, Shape, Shared, Topology};
use treefold::units::{Bandwidth, Time};

use super::spec;

/// How many random cases a sweep has: what `TREEFOLD_CASES` says, else `usual`, of which `make test` takes a sixth
/// (it runs in the release profile, and `make test-slow` in one with checks of overflow). They are the same cases in
/// every run, so that a change is judged by what it changes; those that `TREEFOLD_CASES` asks for differ each time.
pub fn cases(usual: u32) -> ProptestConfig {
    let asked = std::env::var("TREEFOLD_CASES").ok();
    let usual = if cfg!(debug_assertions) { usual } else { usual.div_ceil(6) };
    let rng_seed = if asked.is_some() { RngSeed::Random } else { RngSeed::Fixed(1) };
    let cases = asked.map_or(usual, |count| count.parse().expect("TREEFOLD_CASES is a number"));
    ProptestConfig { cases, rng_seed, failure_persistence: None, ..ProptestConfig::default() }
}

/// What a random network is made from; any values make a connected one.
#[derive(Debug, Clone)]
struct Wish {
    accelerators: u32,
    switches: u32,
    /// How many accelerators only relay (at least one stays a rank).
    relays: u32,
    /// Whether ranks count the accelerators backwards.
    backwards: bool,
    /// One-route cycle through all nodes instead of a tree of cables.
    one_way: bool,
    /// For each node, where it hangs in the tree of cables.
    parents: Vec<u32>,
    /// Ends, whether it is a cable, and bandwidth of further links; two may be parallel.
    chords: Vec<(u32, u32, bool, f64)>,
    /// Bandwidth of the tree's or cycle's links, cyclically.
    bandwidths: Vec<f64>,
    /// Latency and overhead of links, cyclically, in picoseconds.
    delays: Vec<(u64, u64)>,
}

fn bandwidths() -> impl Strategy<Value = f64> {
    prop_oneof![3 => Just(1e9), 1 => select(vec![2e9, 1.5e9, 4e8, 1e7]), 1 => 1e6..1e10]
}

/// From nothing to 5 ms; half of the networks have no overheads.
fn delays() -> impl Strategy<Value = Vec<(u64, u64)>> {
    let latencies = || select(vec![0, 1_000, 1_000_000, 1_300_000, 5_000_000_000]);
    let overheads = prop_oneof![Just(vec![0u64]), Just(vec![0, 500, 2_000_000])];
    overheads.prop_flat_map(move |overheads| prop::collection::vec((latencies(), select(overheads)), 1..4))
}

fn wishes() -> impl Strategy<Value = Wish> {
    let counts =
        (1..=10u32, prop_oneof![Just(0), 1..=4u32], prop_oneof![Just(0), 1..=3u32], any::<bool>(), any::<bool>());
    let chords = prop::collection::vec((any::<u32>(), any::<u32>(), any::<bool>(), bandwidths()), 0..12);
    let parts = (prop::collection::vec(any::<u32>(), 14), chords, prop::collection::vec(bandwidths(), 1..4), delays());
    (counts, parts).prop_map(|(counts, (parents, chords, bandwidths, delays))| {
        let (accelerators, switches, relays, backwards, one_way) = counts;
        Wish { accelerators, switches, relays, backwards, one_way, parents, chords, bandwidths, delays }
    })
}

impl Wish {
    fn nodes(&self) -> Vec<Node> {
        let able = |i: u32| {
            let abilities = Abilities { reduces: i.is_multiple_of(2), multicasts: i.is_multiple_of(3) };
            Node { latency: Time::from_picoseconds(150_000), ..Node::switch(format!("S{i}"), abilities) }
        };
        (0..self.switches).map(able).chain((0..self.accelerators).map(|i| Node::accelerator(format!("A{i}")))).collect()
    }

    fn links(&self, count: u32) -> Vec<Link> {
        let mut links = Vec::new();
        let mut add = |source: u32, target: u32, cable: bool, bandwidth: f64| {
            let (latency, overhead) = self.delays[links.len() % self.delays.len()];
            let (latency, overhead) = (Time::from_picoseconds(latency), Time::from_picoseconds(overhead));
            let (source, target) = (NodeId(source), NodeId(target));
            let bandwidth = Bandwidth::known(bandwidth);
            let link = Link { source, target, bandwidth, latency, overhead, streams: None };
            let back = Link { source: target, target: source, ..link.clone() };
            links.extend((source != target).then_some(link));
            links.extend((source != target && cable).then_some(back));
        };
        for node in 0..count {
            let bandwidth = self.bandwidths[node as usize % self.bandwidths.len()];
            if self.one_way {
                add(node, (node + 1) % count, false, bandwidth);
            } else if node > 0 {
                add(self.parents[node as usize] % node, node, true, bandwidth);
            }
        }
        self.chords.iter().for_each(|&(a, b, cable, bandwidth)| add(a % count, b % count, cable, bandwidth));
        links
    }

    fn build(&self) -> Topology {
        let nodes = self.nodes();
        let links = self.links(nodes.len() as u32);
        let count = self.accelerators - self.relays.min(self.accelerators - 1);
        let mut ranks: Vec<NodeId> = (0..count).map(|i| NodeId(self.switches + i)).collect();
        if self.backwards {
            ranks.reverse();
        }
        Topology::new("random", nodes, links, Some(ranks), Shape::General).unwrap()
    }
}

/// Any connected network, or one of a shape that some planners know.
pub fn networks() -> impl Strategy<Value = Arc<Topology>> {
    let shaped = vec![
        "torus:3x3",
        "torus:2x4",
        "torus:2x5",
        "mesh:2x5",
        "mesh:3x3",
        "torus:2x2x2",
        "hypercube:3",
        "bigraph:2x4",
        "bigraph:1x4",
        "bigraph:2x2",
        "fattree:2,3",
        "cluster:nodes=2,gpus=4,rails=2",
        "twisted-torus:2x4",
        "dragonfly:groups=3,routers=2,hosts=1,global=1",
        "hammingmesh:board=2x2,boards=1x2",
        "line:1",
        "ring:2",
    ];
    prop_oneof![8 => wishes().prop_map(|wish| Arc::new(wish.build())), 1 => select(shaped).prop_map(spec)]
}

/// Any connected network, of which half have capacities that some of their links share.
pub fn sharing_networks() -> impl Strategy<Value = Arc<Topology>> {
    let picks = prop::collection::vec((prop::collection::vec(any::<u32>(), 2..6), 0.1..0.9), 0..4);
    (networks(), prop_oneof![Just(Vec::new()), picks]).prop_map(|(network, picks)| {
        let links = network.links().len() as u32;
        let shared = |(number, (picked, part)): (usize, (Vec<u32>, f64))| {
            let mut links: Vec<LinkId> = picked.into_iter().map(|pick| LinkId(pick % links)).collect();
            links.sort_unstable();
            links.dedup();
            let together: f64 = links.iter().map(|&link| network.link(link).bandwidth.bytes_per_second()).sum();
            Shared { name: format!("shared {number}"), bandwidth: Bandwidth::known(together * part), links }
        };
        let listed = if links == 0 { Vec::new() } else { picks.into_iter().enumerate().map(shared).collect() };
        Arc::new(network.with_shared(listed).unwrap())
    })
}

pub fn options() -> impl Strategy<Value = Options> {
    let orders = select(vec![None, Some(TreeOrder::Ascending), Some(TreeOrder::RemainingHeight)]);
    let neighbors = select(vec![NeighborOrder::Listed, NeighborOrder::Reversed]);
    let trees = prop_oneof![2 => Just(None), 1 => (1..=10u32).prop_map(Some)];
    let others = (0..3u64, prop_oneof![3 => Just(true), 1 => Just(false)]);
    (orders, neighbors, trees, others).prop_map(|(tree_order, neighbor_order, trees, (seed, pipeline))| Options {
        tree_order,
        neighbor_order,
        trees,
        seed,
        pipeline,
        ..Options::default()
    })
}

/// The plans of all planners that fit, and trees as those use that choose trees with a solver.
pub fn plans(topology: &Arc<Topology>, options: &Options) -> Vec<Plan> {
    let options = Options { trees: options.trees.map(|trees| trees.min(topology.ranks())), ..options.clone() };
    let of_table = PLANNERS.iter().filter_map(|planner| planners::plan(planner.name, topology, &options).ok());
    of_table.chain([cheapest(topology, &options)]).collect()
}

/// The cheapest trees under a few random prices, with unequal rates.
fn cheapest(topology: &Arc<Topology>, options: &Options) -> Plan {
    let resources = Resources::new(topology);
    let roots: Vec<NodeId> = topology.rank_ids().collect();
    let mut random = Random::new(options.seed);
    let mut prices = || resources.capacity.iter().map(|_| random.unit()).collect::<Vec<f64>>();
    let mut rated = |rate| Rated { tree: cheapest::cheapest_tree(topology, &resources, &prices(), &roots).tree, rate };
    let trees = [1.0, 0.3, 1.7].map(&mut rated);
    let chunk = if options.pipeline { Chunk::Best } else { Chunk::One };
    spanning::plan(topology, "cheapest", &trees, chunk).prove().expect("the trees reach all ranks")
}

/// Sizes of blocks, rank by rank: alike, many of them empty, one of them huge, or of all sizes.
pub fn blocks(ranks: u32, seed: u64) -> Option<Arc<Blocks>> {
    let mut random = Random::new(seed);
    let kind = random.below(4);
    let mut amount = || match kind {
        0 => 1 + random.below(9),
        1 => random.below(4).saturating_sub(2) * random.below(100),
        2 => u64::from(random.below(3) == 0),
        _ => 1 << random.below(20),
    };
    let mut amounts: Vec<u64> = (0..ranks * ranks).map(|_| amount()).collect();
    // Somebody sends to somebody else.
    *amounts.get_mut(1).unwrap_or(&mut 0) += 1;
    Blocks::new(ranks, &amounts).unwrap()
}
