//! GOST, the trees of MTree: against the paper's algorithm taken literally, its limits, its errors, and figure 2.

use std::collections::BTreeSet;

use crate::common::gbst::{self, Cable};
use crate::common::{accelerators, spec};
use treefold::planners::gost::{Grown, grow};
use treefold::planners::spanning::{Lengths, Rated, Resources, SpanningTree, Usage, greedy_shares};
use treefold::planners::{Heights, Options, Starts, TreeRate};
use treefold::random::Random;
use treefold::topology::{Link, LinkId, NodeId, Shape, Topology};
use treefold::units::{Bandwidth, Time};

/// A connected network of 2 to 9 ranks, capacities 1 to 9 GB/s, latencies 1 to 5 us, sometimes parallel cables.
fn network(random: &mut Random) -> Topology {
    let ranks = 2 + random.below(8) as u32;
    let mut pairs: Vec<(u32, u32)> = (1..ranks).map(|rank| (random.below(rank.into()) as u32, rank)).collect();
    for _ in 0..random.below(12) {
        let (a, b) = (random.below(ranks.into()) as u32, random.below(ranks.into()) as u32);
        pairs.extend((a != b).then_some((a, b)));
    }
    let mut links = Vec::new();
    for (source, target) in pairs {
        let bandwidth = Bandwidth::known((1 + random.below(9)) as f64 * 1e9);
        let latency = Time::from_picoseconds(1_000_000 * (1 + random.below(5)));
        let (source, target) = (NodeId(source), NodeId(target));
        let link = Link { source, target, bandwidth, latency, overhead: Time::ZERO, streams: None };
        links.extend([link.clone(), Link { source: target, target: source, ..link }]);
    }
    Topology::new("random", accelerators(ranks), links, None, Shape::General).unwrap()
}

fn cables(topology: &Topology, heights: Heights) -> Vec<Cable> {
    let lengths = Lengths::new(topology, heights).of_link;
    let lesser = |&id: &LinkId| topology.reverse(id).is_some_and(|back| id < back);
    let cable = |id: LinkId| {
        let link = topology.link(id);
        Cable { link: id, ends: [link.source, link.target], length: lengths[id] }
    };
    topology.link_ids().filter(lesser).map(cable).collect()
}

/// Root, cables and rate of each tree, as the literal algorithm tells them.
fn described(topology: &Topology, grown: &Grown) -> Vec<(NodeId, Vec<LinkId>, f64)> {
    let cable = |&link: &LinkId| link.min(topology.reverse(link).unwrap());
    let one = |Rated { tree, rate }: &Rated| {
        let links: BTreeSet<LinkId> = tree.down.iter().flatten().map(cable).collect();
        (tree.root, links.into_iter().collect(), *rate)
    };
    grown.trees.iter().map(one).collect()
}

#[test]
fn trees_are_those_of_the_literal_algorithm() {
    let mut compared = 0;
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let topology = network(&mut random);
        let heights = if seed % 2 == 0 { Heights::Latency } else { Heights::Hops };
        let cables = cables(&topology, heights);
        let most =
            Lengths::new(&topology, heights).of_link.into_iter().max().unwrap() * u64::from(topology.ranks() - 1);
        let height = 1 + random.below(most) as u32;
        // With rho 1 and no tree lost, ITH may still lower the height: the literal algorithm gets the height it ends
        // with.
        let limits = Options {
            height: Some(height),
            heights,
            least_rate: Some(Bandwidth::known(1e9)),
            seed,
            tree_rate: if seed % 3 == 0 { TreeRate::All } else { TreeRate::Quarter },
            starts: if seed % 5 < 2 { Starts::One } else { Starts::Any },
            ..Options::default()
        };
        let Ok(grown) = grow(&topology, &limits) else { continue };
        let literal = gbst::trees(&topology, &cables, &limits, grown.height.into());
        if let Some(literal) = literal {
            assert_eq!(described(&topology, &grown), literal, "seed {seed}");
            compared += 1;
        }
    }
    assert!(compared > 200, "only {compared} networks were compared");
}

#[test]
fn trees_span_keep_the_height_and_fit() {
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let topology = network(&mut random);
        let heights = if seed % 2 == 0 { Heights::Latency } else { Heights::Hops };
        let limits = Options { height: Some(2 + random.below(6) as u32), heights, seed, ..Options::default() };
        let Ok(grown) = grow(&topology, &limits) else { continue };
        assert_eq!(grow(&topology, &limits).unwrap(), grown);
        let lengths = Lengths::new(&topology, heights);
        let resources = Resources::new(&topology);
        let mut load = vec![0.0; resources.capacity.len()];
        for Rated { tree, rate } in &grown.trees {
            let children: BTreeSet<NodeId> = tree.down.iter().map(|route| topology.link(route[0]).target).collect();
            assert_eq!((children.len(), tree.down.len()), (topology.ranks() as usize - 1, children.len()));
            assert!(!children.contains(&tree.root));
            assert!(lengths.height(&topology, tree) <= grown.height.into());
            assert!(*rate >= grown.least_rate.bytes_per_second() * (1.0 - 1e-9));
            add_load(&mut load, &resources, tree, *rate);
        }
        assert!(grown.height <= limits.height.unwrap());
        assert_fits(&load, &resources);
        greedy_shares_fit(&resources, &grown, 1 + random.below(4) as usize);
    }
}

fn greedy_shares_fit(resources: &Resources, grown: &Grown, most: usize) {
    let trees: Vec<SpanningTree> = grown.trees.iter().map(|rated| rated.tree.clone()).collect();
    let rates = greedy_shares(resources, &trees, most, grown.least_rate.bytes_per_second());
    let carrying = rates.iter().filter(|&&rate| rate > 0.0);
    assert!((1..=most).contains(&carrying.clone().count()));
    assert!(carrying.clone().all(|&rate| rate >= grown.least_rate.bytes_per_second() * (1.0 - 1e-9)));
    let mut load = vec![0.0; resources.capacity.len()];
    trees.iter().zip(&rates).for_each(|(tree, &rate)| add_load(&mut load, resources, tree, rate));
    assert_fits(&load, resources);
}

fn add_load(load: &mut [f64], resources: &Resources, tree: &SpanningTree, rate: f64) {
    let uses = resources.usage(tree).into_iter();
    uses.for_each(|Usage { resource, count }| load[resource] += rate * f64::from(count));
}

fn assert_fits(load: &[f64], resources: &Resources) {
    let mut each = load.iter().zip(&resources.capacity);
    assert!(each.all(|(load, capacity)| *load <= capacity.bytes_per_second() * (1.0 + 1e-9)));
}

/// Figure 2: A, B, C, D with cables of 1 and, between B and D, of 2.
fn figure_2() -> Topology {
    let cables = [(0, 1, 1.0), (1, 2, 1.0), (2, 3, 1.0), (3, 0, 1.0), (1, 3, 2.0)];
    let link = |source, target, bandwidth| {
        let bandwidth = Bandwidth::known(bandwidth);
        let (source, target) = (NodeId(source), NodeId(target));
        Link { source, target, bandwidth, latency: Time::ZERO, overhead: Time::ZERO, streams: None }
    };
    let links = cables.iter().flat_map(|&(a, b, capacity)| [link(a, b, capacity), link(b, a, capacity)]).collect();
    Topology::new("figure 2", accelerators(4), links, None, Shape::General).unwrap()
}

#[test]
fn figure_2_is_packed_by_the_stars_of_b_and_d() {
    for seed in 0..20 {
        let grown = grow(&figure_2(), &Options { seed, ..Options::default() }).unwrap();
        let mut roots: Vec<NodeId> = grown.trees.iter().map(|rated| rated.tree.root).collect();
        roots.sort_unstable();
        assert_eq!((roots, grown.height), (vec![NodeId(1), NodeId(3)], 1));
        assert!(grown.trees.iter().all(|rated| rated.rate == 1.0));
    }
}

fn error(topology: &Topology, limits: Options) -> String {
    grow(topology, &limits).unwrap_err().to_string()
}

#[test]
fn wishes_that_cannot_be_met_are_named() {
    let b4 = spec("b4");
    let height = error(&b4, Options { height: Some(2), ..Options::default() });
    assert_eq!(height, "height 2: no tree over b4 is lower than 3 hops; allow height 3");
    let rate = error(&b4, Options { least_rate: Some(Bandwidth::known(1e9)), ..Options::default() });
    assert_eq!(rate, "least rate 1GB/s: no tree over b4 carries more than 25MB/s; lower it");
    let rho = error(&b4, Options { rho: 1.5, ..Options::default() });
    assert_eq!(rho, "rho must be above 0 and at most 1, got 1.5");
    let switches = error(&spec("dgx2"), Options::default());
    assert!(switches.contains("packing fits"), "{switches}");
    let one_way = crate::common::one_way(accelerators(3), &[(0, 1), (1, 2), (2, 0)], None);
    assert!(error(&one_way, Options::default()).contains("both ways"));
}

/// Every height that some tree keeps is granted, though the greedy choice of wide cables may miss it.
#[test]
fn the_lowest_possible_height_is_granted() {
    for (text, height) in [("b4:skew=0.9,seed=3", 3), ("idn-like:skew=0.9", 3), ("torus:4x4", 4), ("line:9", 4)] {
        let grown = grow(&spec(text), &Options { height: Some(height), ..Options::default() }).unwrap();
        assert_eq!(grown.height, height, "{text}");
    }
}
