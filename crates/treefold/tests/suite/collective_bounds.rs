//! Bounds of all-gathers, reduce-scatters, broadcasts, reduces and all-to-alls: nothing beats them, and known values.

use std::sync::Arc;

use proptest::prelude::*;
use treefold::blocks::Blocks;
use treefold::bound::{CollectiveBounds, Kind, Limit, bounds};
use treefold::plan::check::check;
use treefold::plan::{Collective, LaneRef, LaneRoutes, Plan, derive};
use treefold::planners::{self, Options};
use treefold::sim::{Watch, flow};
use treefold::topology::{Directions, LinkId, NodeId, Topology, from_spec};
use treefold::units::{Bytes, parse_bandwidth, parse_bytes};

use crate::common::networks::{blocks, cases, networks, plans};

fn kinds(root: NodeId) -> [(Collective, Kind); 5] {
    [
        (Collective::AllGather, Kind::AllGather),
        (Collective::ReduceScatter, Kind::ReduceScatter),
        (Collective::Broadcast, Kind::Broadcast(root)),
        (Collective::Reduce, Kind::Reduce(root)),
        (Collective::AllToAll, Kind::AllToAll(None)),
    ]
}

/// Whether a route passes a rank. The flow simulator lets a message occupy all links of its route at once, and so those
/// behind the rank before the first byte can be there; bounds take such routes for several.
fn passes_ranks(plan: &Plan) -> bool {
    let routes = LaneRoutes::new(&plan.topology, &plan.lanes);
    let inner =
        |route: &[LinkId]| route.iter().skip(1).any(|&link| plan.topology.is_rank(plan.topology.link(link).source));
    let lanes = plan.lanes.ids().flat_map(|lane| [false, true].map(|reversed| LaneRef::new(lane, reversed)));
    lanes.into_iter().any(|lane| inner(routes.of(lane)))
}

fn latency_of_all(topology: &Topology) -> f64 {
    topology.links().iter().map(|link| link.delay().seconds()).sum()
}

proptest! {
    #![proptest_config(cases(60))]

    #[test]
    fn no_plan_beats_the_bound_of_its_collective(topology in networks(), root in any::<u32>(), log_size in 0u32..30) {
        let (size, root) = (Bytes::new(1 << log_size).unwrap(), NodeId(root % topology.ranks()));
        let all = plans(&topology, &Options { size, ..Options::default() });
        for (collective, kind) in kinds(root) {
            let least = CollectiveBounds::new(&topology, kind).seconds(size).get();
            let derived = all.iter().filter_map(|plan| derive(plan.clone(), collective, root).ok());
            let own = planners::plan("forest", &topology, &Options { size, collective, root, ..Options::default() });
            for plan in derived.chain(own.ok()) {
                let time = flow::simulate(&plan, size, Watch::NOTHING).unwrap().seconds.get();
                let who = || format!("{} {collective} of {size}: {}", plan.algorithm, topology.to_json());
                let early = if passes_ranks(&plan) { latency_of_all(&topology) } else { 0.0 };
                prop_assert!(time >= least * (1.0 - 1e-9) - early, "{time} < {least}, {}", who());
            }
        }
    }
}

proptest! {
    #![proptest_config(cases(60))]

    #[test]
    fn no_all_to_all_of_unequal_blocks_beats_its_bound(
        topology in networks(), seed in any::<u64>(), log_size in 0u32..30,
    ) {
        let (size, collective) = (Bytes::new(1 << log_size).unwrap(), Collective::AllToAll);
        let options = Options { size, collective, blocks: blocks(topology.ranks(), seed), ..Options::default() };
        let least = planners::bounds_of(&topology, &options).seconds(size).get();
        for algorithm in ["forest", "packing", "multitree", "ring"] {
            let Ok(plan) = planners::plan(algorithm, &topology, &options) else { continue };
            check(&plan).unwrap();
            let time = flow::simulate(&plan, size, Watch::NOTHING).unwrap().seconds.get();
            let early = if passes_ranks(&plan) { latency_of_all(&topology) } else { 0.0 };
            prop_assert!(time >= least * (1.0 - 1e-9) - early, "{time} < {least}, {algorithm}: {}", plan.to_json());
        }
    }
}

proptest! {
    #![proptest_config(cases(60))]

    #[test]
    fn cuts_that_are_named_prove_the_rates(topology in networks(), root in any::<u32>()) {
        let root = NodeId(root % topology.ranks());
        let size = Bytes::known(1 << 50);
        let width = |links: &[LinkId]| -> f64 {
            links.iter().map(|&link| topology.link(link).bandwidth.bytes_per_second()).sum()
        };
        for (collective, kind) in kinds(root).into_iter().take(4) {
            let bounds = CollectiveBounds::new(&topology, kind);
            let limit = bounds.limit(size);
            prop_assert_eq!(limit.is_some(), topology.ranks() > 1);
            let Some(Limit::Cut { links, from, to }) = limit else { continue };
            prop_assert_eq!((from.len() + to.len()) as u32, topology.ranks());
            // A part of the vector that has to pass: blocks of those who have it, or for those who want it.
            let ranks = f64::from(topology.ranks());
            let part = match collective {
                Collective::AllGather => from.len() as f64 / ranks,
                Collective::ReduceScatter => to.len() as f64 / ranks,
                _ => 1.0,
            };
            let rate = bounds.rate.rate.bytes_per_second();
            prop_assert!((width(&links) / part / rate - 1.0).abs() < 1e-6, "{collective}: {}", topology.to_json());
        }
    }

    #[test]
    fn rates_of_all_to_alls_are_exact(topology in networks(), seed in any::<u64>()) {
        for blocks in [None, blocks(topology.ranks(), seed)] {
            let bounds = CollectiveBounds::new(&topology, Kind::AllToAll(blocks.clone()));
            prop_assert!(bounds.rate.exact, "{:?}: {blocks:?} {}", bounds.rate, topology.to_json());
        }
    }
}

proptest! {
    #![proptest_config(cases(60))]

    #[test]
    fn no_rate_rises_by_more_than_the_price_of_a_wider_link(topology in networks(), root in any::<u32>()) {
        let kinds = kinds(NodeId(root % topology.ranks())).map(|(_, kind)| Some(kind));
        for kind in kinds.into_iter().chain([None]) {
            let of = |topology: &Topology| match &kind {
                Some(kind) => CollectiveBounds::new(topology, kind.clone()),
                None => (*bounds(topology).of_sizes).clone(),
            };
            let before = of(&topology);
            let rate = before.rate.rate.bytes_per_second();
            let noise = if matches!(kind, Some(Kind::AllToAll(_))) { 2e-4 } else { 1e-6 };
            for (place, link) in topology.links().iter().enumerate().take(6) {
                let mut parts = vec![1.0; topology.links().len()];
                parts[place] = 1.1;
                let after = of(&topology.with_parts_of_bandwidths(&parts)).rate.rate.bytes_per_second();
                let most = rate + before.prices[place] * 0.1 * link.bandwidth.bytes_per_second();
                prop_assert!(rate.is_infinite() || after <= most + noise * rate,
                    "{kind:?}: {after} > {most}, link {link:?} of {}", topology.to_json());
            }
        }
    }
}

/// Two unequal cliques, joined by one thin cable: where the cut and the strength agree, the limit names the cut.
#[test]
fn the_limit_of_two_cliques_is_the_cable_between_them() {
    let thin = [(("GPU2".into(), "GPU3".into()), parse_bandwidth("1GB/s").unwrap())];
    let gone: Vec<(String, String)> = (0..3)
        .flat_map(|a| (3..8).map(move |b| (a, b)))
        .filter(|&ends| ends != (2, 3))
        .map(|(a, b)| (format!("GPU{a}"), format!("GPU{b}")))
        .collect();
    let cliques = from_spec("full:8", None, None).unwrap().without_links(&gone, Directions::BothWays).unwrap();
    let cliques = cliques.with_bandwidths(&thin, Directions::BothWays).unwrap();
    let limit = bounds(&cliques).of_sizes.limit_of_rate().clone();
    assert!(matches!(&limit, Limit::Cut { links, .. } if links.len() == 1), "{limit:?}");
}

/// The first of three ranks in a row has twice as much for the last as for the second.
#[test]
fn what_has_to_pass_a_link_bounds_unequal_blocks() {
    let line = Arc::new(from_spec("line:3", Some(parse_bandwidth("1GB/s").unwrap()), None).unwrap());
    let blocks = Blocks::new(3, &[0, 1, 2, 0, 0, 0, 0, 0, 0]).unwrap();
    let options = Options { collective: Collective::AllToAll, blocks, ..Options::default() };
    let bounds = planners::bounds_of(&line, &options);
    assert!((bounds.seconds(Bytes::known(3_000_000_000)).get() - 3.0).abs() < 0.003);
    assert!(matches!(bounds.limit(Bytes::known(3_000)), Some(Limit::FlowBack(NodeId(0), _))));
    let only = Blocks::new(3, &[0, 0, 0, 1, 0, 0, 0, 0, 0]).unwrap();
    let near = planners::bounds_of(&line, &Options { blocks: only, ..options });
    let once = line.links()[0].latency;
    assert_eq!((near.farthest, bounds.farthest), (once, once + once));
}

/// The rates of large vectors in GB/s, from minimum cuts and from linear programs (all-to-all).
#[test]
fn rates_have_known_values() {
    for (spec, gathered, exchanged) in [
        ("torus:4x4", 68.27, 32.0),
        ("torus:8x8", 65.02, 16.0),
        ("mesh:5x5", 33.33, 13.33),
        ("mesh:8x8", 32.51, 8.0),
        ("dgx2", 17.07, 17.07),
        ("fattree:8,2", 16.25, 16.25),
        ("bigraph:4x8", 16.52, 12.8),
        ("cluster:nodes=4,gpus=8,rails=8", 516.1, 66.67),
        ("b4", 0.05455, 0.01875),
        ("random:n=20,links=60,seed=1", 0.07895, 0.06944),
        ("b4:skew=0.7,seed=5", 0.04636, 0.02438),
    ] {
        let topology = from_spec(spec, None, None).unwrap();
        let rate = |kind| CollectiveBounds::new(&topology, kind).rate.rate.bytes_per_second() / 1e9;
        for kind in [Kind::AllGather, Kind::ReduceScatter] {
            assert!((rate(kind.clone()) / gathered - 1.0).abs() < 1e-3, "{spec} {}", rate(kind));
        }
        assert!(
            (0.999..1.001).contains(&(rate(Kind::AllToAll(None)) / exchanged)),
            "{spec} {}",
            rate(Kind::AllToAll(None))
        );
    }
    // A rank of a full mesh of eight sends a part of its vector over each of its seven links.
    let full = from_spec("full:8", None, None).unwrap();
    let rate = CollectiveBounds::new(&full, Kind::Broadcast(NodeId(3))).rate;
    assert!((rate.rate.bytes_per_second() / 112e9 - 1.0).abs() < 1e-9 && rate.exact);
}

/// Latency and bandwidth together say more than each alone.
#[test]
fn small_and_middle_sizes_have_bounds_of_their_own() {
    let b4 = from_spec("b4", None, None).unwrap();
    let bounds = CollectiveBounds::new(&b4, Kind::AllGather);
    let (tiny, middle, large) = ("1B", "64KiB", "1GiB");
    let limit = |size| bounds.limit(parse_bytes(size).unwrap()).unwrap();
    let seconds = |size| bounds.seconds(parse_bytes(size).unwrap()).get();
    assert!((seconds(tiny) / bounds.farthest.seconds() - 1.0).abs() < 1e-3);
    assert!(matches!(limit(middle), Limit::Flow(..)), "{:?}", limit(middle));
    let size = parse_bytes(middle).unwrap();
    let alone = bounds.rate.rate.seconds_for(size.get() as f64).get().max(bounds.farthest.seconds());
    assert!(seconds(middle) > 1.05 * alone);
    assert!(seconds(large) >= bounds.rate.rate.seconds_for((1u64 << 30) as f64).get());
}
