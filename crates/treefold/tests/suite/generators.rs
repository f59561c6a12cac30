//! Dragonflies, fat trees, twisted tori, HammingMeshes and pods with rails: sizes by closed forms, diameters, rates
//! that bounds find, plans for small ones, and errors.

use crate::common::networks::plans;
use crate::common::{planned, spec};
use treefold::bound::{Kind, bounds, of_collective};
use treefold::plan::check::check;
use treefold::planners::{self, Options};
use treefold::topology::{NodeId, Shape, Topology, from_spec};

/// A small network of each kind.
const SMALL: [&str; 9] = [
    "dragonfly:groups=3,routers=2,hosts=1,global=1",
    "dragonfly:groups=2,routers=2,hosts=2,global=1",
    "fattree:levels=3,radix=4",
    "fattree:levels=2,radix=4,taper=2",
    "twisted-torus:2x4",
    "twisted-torus:2x2x4",
    "hammingmesh:board=2x2,boards=1x2",
    "cluster:nodes=4,gpus=2,pods=2,spines=2",
    "nvl72:nodes=2,gpus=4,rails=2",
];

/// Ranks, switches and cables.
fn counts(text: &str) -> [u64; 3] {
    let network = spec(text);
    let switches = network.nodes().len() as u64 - u64::from(network.ranks());
    assert!(network.links().len().is_multiple_of(2));
    [network.ranks().into(), switches, network.links().len() as u64 / 2]
}

/// The most links of a route, and the mean over all pairs of ranks.
fn distances(network: &Topology) -> (u32, f64) {
    let pairs = network.rank_ids().flat_map(|a| network.rank_ids().map(move |b| (a, b))).filter(|(a, b)| a != b);
    let hops: Vec<u32> = pairs.map(|(a, b)| network.hops(a, b)).collect();
    (*hops.iter().max().unwrap(), f64::from(hops.iter().sum::<u32>()) / hops.len() as f64)
}

fn diameter(text: &str) -> u32 {
    distances(&spec(text)).0
}

/// The rate of all-to-alls in links' bandwidths, which are those of the first link.
fn all_to_all(text: &str) -> f64 {
    let network = spec(text);
    let rate = of_collective(&network, Kind::AllToAll(None)).rate.rate.bytes_per_second();
    rate / network.links()[0].bandwidth.bytes_per_second()
}

#[track_caller]
fn assert_close(found: f64, expected: f64) {
    assert!((found / expected - 1.0).abs() < 1e-3, "{found} instead of {expected}");
}

#[test]
fn a_dragonfly_has_the_papers_sizes() {
    assert_eq!(counts("dragonfly"), [72, 36, 72 + 9 * 6 + 36], "the one that the paper draws");
    for global in 1..4u64 {
        let (routers, hosts) = (2 * global, global);
        let groups = routers * global + 1;
        let cables = groups * (routers * hosts + routers * (routers - 1) / 2) + groups * (groups - 1) / 2;
        let balanced = format!("dragonfly:global={global}");
        assert_eq!(counts(&balanced), [groups * routers * hosts, groups * routers, cables]);
        assert!(diameter(&balanced) <= 5, "two hosts' links, and local, global, local");
    }
    assert_eq!(counts("dragonfly:groups=1,routers=5,hosts=3,global=2"), [15, 5, 15 + 10]);
}

/// The global links between every two groups, and those of each router.
fn global_links(text: &str, groups: usize, routers: usize) -> (Vec<u32>, Vec<u32>) {
    let network = spec(text);
    let switch = |node: NodeId| node.index().checked_sub(network.ranks() as usize);
    let (mut between, mut of_router) = (vec![0; groups * groups], vec![0; groups * routers]);
    for link in network.links() {
        let (Some(from), Some(to)) = (switch(link.source), switch(link.target)) else { continue };
        if from / routers != to / routers {
            between[from / routers * groups + to / routers] += 1;
            of_router[from] += 1;
        }
    }
    let pairs = (0..groups).flat_map(|a| (0..groups).filter(move |&b| a != b).map(move |b| a * groups + b));
    (pairs.map(|pair| between[pair]).collect(), of_router)
}

#[test]
fn all_groups_of_a_dragonfly_are_joined_equally() {
    for (groups, routers, global) in [(9, 4, 2), (2, 4, 2), (3, 4, 2), (4, 4, 2), (5, 4, 2), (7, 5, 3), (16, 5, 3)] {
        let text = format!("dragonfly:groups={groups},routers={routers},hosts=1,global={global}");
        let (between, of_router) = global_links(&text, groups, routers);
        let expected = (routers * global / (groups - 1)) as u32;
        assert!(between.iter().all(|&links| links == expected), "{text}: {between:?}");
        let (least, most) = (of_router.iter().min().unwrap(), of_router.iter().max().unwrap());
        assert!(*most <= global as u32 && most - least <= 1, "{text}: {of_router:?}");
    }
}

#[test]
fn fat_trees_of_switches_with_a_radix_have_the_papers_sizes() {
    for radix in [2, 4, 6, 8u64] {
        let half = radix / 2;
        let of_three = format!("fattree:levels=3,radix={radix}");
        let hosts = radix.pow(3) / 4;
        assert_eq!(counts(&of_three), [hosts, 5 * radix.pow(2) / 4, 3 * hosts], "Al-Fares et al., {of_three}");
        assert_eq!(counts(&format!("fattree:levels=2,radix={radix}")), [radix * half, radix + half, 2 * radix * half]);
        let hosts = 2 * half.pow(4);
        assert_eq!(counts(&format!("fattree:levels=4,radix={radix}")), [hosts, 7 * half.pow(3), 4 * hosts]);
    }
    assert_eq!([2, 3, 4].map(|levels| diameter(&format!("fattree:levels={levels},radix=4"))), [4, 6, 8]);
    assert_eq!(counts("fattree"), counts("fattree:levels=3,radix=8"));
    assert_eq!(counts("fattree:1,3"), [1, 3, 3]);
    assert_eq!(counts("fattree:5,1"), [5, 1, 5]);
}

#[test]
fn switches_of_a_fat_tree_have_as_many_ports_as_its_radix() {
    for (text, of_leaf) in [("fattree:levels=3,radix=8", 8), ("fattree:levels=4,radix=4", 4), ("fattree:taper=2", 6)] {
        let network = spec(text);
        let leaves: Vec<NodeId> =
            network.rank_ids().map(|rank| network.link(network.outgoing(rank)[0]).target).collect();
        let radix = if text.contains("radix=4") { 4 } else { 8 };
        for node in network.node_ids().filter(|&node| network.node(node).is_switch()) {
            let expected = if leaves.contains(&node) { of_leaf } else { radix };
            assert_eq!(network.outgoing(node).len(), expected, "{text}");
        }
    }
}

#[test]
fn a_taper_takes_all_to_alls_by_as_much_and_leaves_all_reduces() {
    for (form, hosts, leaf) in [("fattree:levels=2,radix=8", 32.0, 4.0), ("fattree:4,2", 16.0, 4.0)] {
        let full = bounds(&spec(form)).reduce_scatter_all_gather.rate;
        for taper in [1.0, 2.0, 4.0] {
            let tapered = format!("{form},taper={taper}");
            let of_leaf: f64 = taper * (hosts - leaf) / hosts;
            assert_close(all_to_all(&tapered), 1.0 / of_leaf.max((hosts - 1.0) / hosts));
            // One partial sum of a leaf goes up, whatever its accelerators: never more than one of them sends.
            assert_eq!(bounds(&spec(&tapered)).reduce_scatter_all_gather.rate, full);
        }
    }
    assert_eq!(counts("fattree:levels=3,radix=8,taper=2"), [128, 32 + 16 + 8, 128 + 64 + 64]);
    assert_eq!(counts("fattree:levels=3,radix=8,taper=4"), [128, 32 + 8 + 4, 128 + 32 + 32]);
    assert_eq!(spec("fattree:8,2,taper=1").links(), spec("fattree:8,2").links());
}

#[test]
fn twisted_tori_are_closer_than_tori() {
    for (sides, twisted, plain) in [("4x8", 4, 6), ("8x4", 4, 6), ("4x4x8", 6, 8), ("4x8x8", 6, 10), ("6x12", 6, 9)] {
        let (of_twisted, of_plain) = (spec(&format!("twisted-torus:{sides}")), spec(&format!("torus:{sides}")));
        assert_eq!((distances(&of_twisted).0, distances(&of_plain).0), (twisted, plain), "{sides}");
        assert!(distances(&of_twisted).1 < distances(&of_plain).1);
        assert_eq!((of_twisted.ranks(), of_twisted.links().len()), (of_plain.ranks(), of_plain.links().len()));
        assert_eq!(of_twisted.shape(), &Shape::General, "planners for grids must not take it for one");
    }
}

#[test]
fn only_links_around_short_sides_of_a_twisted_torus_are_shifted() {
    let (twisted, plain) = (spec("twisted-torus:4x8"), spec("torus:4x8"));
    let moved: Vec<String> = (0..twisted.links().len())
        .filter(|&link| twisted.links()[link] != plain.links()[link])
        .map(|link| format!("{} {}", twisted.links()[link].source.0, twisted.links()[link].target.0))
        .collect();
    let up = (0..8).map(|column| format!("{column} {}", 24 + (column + 4) % 8));
    let down = (0..8).map(|column| format!("{} {}", 24 + column, (column + 4) % 8));
    assert_eq!(moved, up.chain(down).collect::<Vec<_>>());
}

#[test]
fn all_to_alls_use_all_links_of_a_twisted_torus_equally() {
    for (sides, links) in [("4x8", 4.0), ("2x2x4", 6.0)] {
        let (mean, ranks) =
            (distances(&spec(&format!("twisted-torus:{sides}"))).1, counts(&format!("torus:{sides}"))[0]);
        let expected = links / mean * ranks as f64 / (ranks - 1) as f64;
        assert_close(all_to_all(&format!("twisted-torus:{sides}")), expected);
        assert!(all_to_all(&format!("torus:{sides}")) < 0.95 * expected);
    }
}

#[test]
fn accelerators_of_a_hammingmesh_have_four_cables() {
    for (board, boards) in [([2, 2], [4, 4]), ([1, 1], [4, 4]), ([1, 3], [2, 5]), ([4, 2], [1, 3])] {
        let text = format!("hammingmesh:board={}x{},boards={}x{}", board[0], board[1], boards[0], boards[1]);
        let [rows, columns] = [0, 1].map(|along| board[along] * boards[along]);
        let on_boards = rows * (columns - boards[1]) + columns * (rows - boards[0]);
        let to_switches = 2 * (rows * boards[1] + columns * boards[0]);
        assert_eq!(counts(&text), [rows * columns, rows + columns, on_boards + to_switches], "{text}");
        let network = spec(&text);
        assert!(network.rank_ids().all(|rank| network.outgoing(rank).len() == 4), "{text}");
    }
    assert_eq!(counts("hammingmesh"), counts("hammingmesh:board=2x2,boards=4x4"));
    assert_eq!(diameter("hammingmesh:board=1x1,boards=3x4"), 4, "a HyperX of two dimensions, each of one switch");
    assert_eq!(diameter("hammingmesh:board=2x2,boards=4x4"), 4, "all accelerators are at edges of both dimensions");
    assert_eq!(diameter("hammingmesh:board=4x4,boards=2x2"), 8, "a link to the edge, two, and one, in both dimensions");
    let rate = bounds(&spec("hammingmesh:board=2x2,boards=2x2")).reduce_scatter_all_gather.rate.bytes_per_second();
    assert_close(rate, 4.0 * 50e9 * 16.0 / (2.0 * 15.0));
}

#[test]
fn racks_have_a_card_for_every_gpu_and_four_rails() {
    assert_eq!(counts("nvl72:nodes=2"), [144, 2 + 4, 144 + 144]);
    let racks = spec("nvl72:nodes=2");
    let rail = |gpu: u32| racks.link(racks.outgoing(NodeId(gpu))[1]).target;
    assert!((0..144).all(|gpu| rail(gpu) == rail(gpu % 4)), "the first GPUs of all trays are on one rail, and so on");
    let bandwidths = [0, 1].map(|link| racks.link(racks.outgoing(NodeId(0))[link]).bandwidth.bytes_per_second());
    assert_eq!(bandwidths, [900e9, 50e9]);
    assert_eq!(counts("cluster:nodes=2,gpus=72,cards=72,rails=4")[1..], [2 + 4, 288]);
    assert_eq!(counts("nvl72:nodes=8,pods=2,spines=6,taper=2"), [576, 8 + 2 * 4 + 6, 576 + 576 + 288]);
    assert_eq!(diameter("nvl72:nodes=2"), 4, "over NVLink to a GPU on the rail, and over the rail");
}

#[test]
fn pods_are_joined_by_as_much_as_the_taper_leaves() {
    let form = "cluster:nodes=4,gpus=2,pods=2,spines=1";
    assert_eq!(counts(form), [8, 4 + 4 + 1, 8 + 8 + 8]);
    assert_eq!(counts(&format!("{form},taper=2")), [8, 4 + 4 + 1, 8 + 8 + 4]);
    assert_eq!(counts("cluster:nodes=4,gpus=2,pods=2,spines=2"), [8, 4 + 4 + 2, 8 + 8 + 8]);
    // Of a vector, 12/8 leave a server over two cards, and 16/8 a pod over its links up.
    for (taper, of_cards) in [(1.0, 4.0 / 3.0), (2.0, 1.0)] {
        assert_close(all_to_all(&format!("{form},taper={taper}")) * 450.0 / 50.0, of_cards);
    }
}

#[test]
fn small_networks_of_each_kind_have_plans_that_check() {
    for text in SMALL {
        for algorithm in ["ring", "multitree", "dbtree", "packing", "forest"] {
            check(&planned(algorithm, text)).unwrap();
        }
        let found = plans(&spec(text), &Options::default());
        assert!(found.iter().all(|plan| check(plan).is_ok()), "{text}");
    }
}

#[test]
fn planners_for_grids_refuse_a_twisted_torus() {
    let refused = planners::plan("ring2d", &spec("twisted-torus:4x8"), &Options::default()).unwrap_err();
    assert!(refused.to_string().contains("torus"), "{refused}");
}

#[test]
fn errors_name_the_thing_the_value_and_a_remedy() {
    for (text, expected) in [
        ("dragonfly:groups=10", "10 groups are more than 9, as 4 routers with 2 global links each reach 8 other"),
        ("dragonfly:routers=0", "routers must be at least 1, got 0"),
        ("dragonfly:hosts=9999999", "treefold handles"),
        ("dragonfly:global=4000000000", "treefold handles"),
        ("dragonfly:9", "'9' has no meaning for dragonfly"),
        ("dragonfly:group=9", "did you mean groups?"),
        ("fattree:levels=3,radix=7", "radix must be even, as half of a switch's ports go up, got 7; take 8"),
        ("fattree:levels=1,radix=8", "levels must be at least 2"),
        (
            "fattree:levels=3,radix=8,taper=3",
            "a leaf switch's 4 accelerators cannot share links up by 3; take a taper that",
        ),
        ("fattree:levels=2,radix=2,taper=2", "a leaf switch's 1 accelerator cannot share links up by 2"),
        ("fattree:radix=8,taper=0", "taper must be at least 1, got 0; write for example fattree:levels=3,radix=8"),
        ("fattree:level=3", "write for example fattree:levels=3,radix=8"),
        ("fattree:8,2,taper=0", "write for example fattree:8,2"),
        ("fattree:levels=30,radix=64", "more than 1000000000 nodes and more than 1000000000 links; treefold handles"),
        ("fattree:8,2,radix=8", "arity and levels are given, so radix cannot be; drop one of them"),
        ("fattree:8,1,taper=2", "one level has no links above its leaf switch; drop taper"),
        ("fattree:levels=90,radix=8", "treefold handles"),
        ("fattree:levels=4000000000,radix=2", "treefold handles"),
        ("fattree:8,2,2", "takes 2 sizes, got 3"),
        ("twisted-torus:4x4", "all sides are 4"),
        ("twisted-torus:4x12", "12 is neither 4 nor twice 4"),
        ("twisted-torus:1x2", "sides must be at least 2, got 1"),
        ("twisted-torus:100000x200000", "treefold handles"),
        ("twisted-torus:0x8", "'0' is not a positive whole number"),
        ("hammingmesh:board=2", "board='2' is not a number of rows and one of columns"),
        ("hammingmesh:boards=0x2", "boards: '0' is not a positive whole number"),
        ("hammingmesh:boards=100000x2", "treefold handles"),
        ("hammingmesh:2x2,4x4", "has no meaning"),
        ("nvl72:nodes=2,rails=5", "72 cards cannot be on 5 rails evenly; take a number of rails that divides 72"),
        ("nvl72:nodes=2,cards=5", "72 gpus cannot share 5 cards evenly; take a number that divides 72"),
        ("cluster:gpus=8,rails=3", "8 gpus cannot share 3 rails evenly"),
        ("cluster:nodes=5,pods=2,spines=1", "5 nodes cannot be in 2 pods evenly"),
        ("cluster:pods=2", "2 pods need spines to join them; add spines=1"),
        ("cluster:taper=2", "taper=2 needs spines above the rails; add spines=1"),
        ("cluster:spines=3", "a rail's 4 links up cannot go to 3 spines evenly; take spines that divide 4"),
        ("cluster:spines=1,taper=3", "a rail's 4 cards cannot share links up by 3; take a taper that divides 4"),
        ("cluster:nodes=4000000000,gpus=4000000000", "treefold handles"),
        ("cluster:spines=4000000000", "treefold handles"),
    ] {
        let message = from_spec(text, None, None).unwrap_err().to_string();
        assert!(message.contains(expected) && message.contains(text) && !message.contains('\n'), "{message}");
        assert!(message.contains("; write for example "), "{message}");
    }
}
