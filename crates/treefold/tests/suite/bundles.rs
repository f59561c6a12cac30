//! `forest` where links are parallel: equal ones act as one wide link.

use std::collections::HashSet;
use std::sync::Arc;

use proptest::prelude::*;
use treefold::bound::{CollectiveBounds, Kind};
use treefold::plan::alpha_beta::Profile;
use treefold::plan::check::check;
use treefold::plan::{Collective, Pace, Plan};
use treefold::planners::{self, Options};
use treefold::sim::{Watch, flow};
use treefold::topology::{Link, Shape, Topology, from_spec};
use treefold::units::{Bandwidth, Bytes, parse_bytes};

use crate::common::networks::{cases, networks};

fn plan(topology: &Arc<Topology>, collective: Collective, size: Bytes) -> Plan {
    let plan = planners::plan("forest", topology, &Options { collective, size, ..Options::default() }).unwrap();
    check(&plan).unwrap();
    plan
}

/// Returns a network of these nodes: for each first link between two nodes there are `count`, together as wide.
fn with_links(topology: &Topology, count: usize) -> Arc<Topology> {
    let mut known = HashSet::new();
    let first = topology.links().iter().filter(|link| known.insert((link.source, link.target)));
    let part = |link: &Link| Link {
        bandwidth: Bandwidth::known(link.bandwidth.bytes_per_second() / count as f64),
        ..link.clone()
    };
    let links = first.flat_map(|link| vec![part(link); count]).collect();
    let ranks = Some(topology.rank_ids().collect());
    Arc::new(Topology::new("bundles", topology.nodes().to_vec(), links, ranks, Shape::General).unwrap())
}

#[test]
fn one_or_two_links_between_ranks_come_near_the_bound() {
    for (spec, size, least) in [
        ("dgx1", "128KiB", 0.865),
        ("dgx1", "1MiB", 0.995),
        ("torus:2x4", "128KiB", 0.975),
        ("torus:2x4", "1MiB", 0.995),
    ] {
        let (topology, size) = (Arc::new(from_spec(spec, None, None).unwrap()), parse_bytes(size).unwrap());
        for (collective, kind) in
            [(Collective::AllGather, Kind::AllGather), (Collective::ReduceScatter, Kind::ReduceScatter)]
        {
            let bound = CollectiveBounds::new(&topology, kind).seconds(size).get();
            let plan = plan(&topology, collective, size);
            let part = bound / flow::simulate(&plan, size, Watch::NOTHING).unwrap().seconds.get();
            assert!((least..1.0 + 1e-9).contains(&part), "{spec} {collective} {size:?}: {part}");
        }
    }
}

const EQUAL_EDGES: [Collective; 5] = [
    Collective::AllReduce,
    Collective::AllGather,
    Collective::ReduceScatter,
    Collective::Broadcast,
    Collective::Reduce,
];

proptest! {
    #![proptest_config(cases(60))]

    /// Reduce halves have links of their own where directions differ, and switches are passed over bundles, too. Most
    /// plans take no longer; of some thousand, one or two took a fifth longer.
    #[test]
    fn plans_over_two_or_three_links_are_right_and_much_like_those_over_one_as_wide(
        topology in networks(), count in 2usize..=3, log_size in 16u32..30
    ) {
        let (one, more) = (with_links(&topology, 1), with_links(&topology, count));
        let size = Bytes::new(1 << log_size).unwrap();
        for collective in EQUAL_EDGES {
            let (wide, narrow) = (plan(&one, collective, size), plan(&more, collective, size));
            // Plans of few steps are made of trees of their own.
            if matches!(wide.phases[0].pace, Pace::Step(_)) {
                continue;
            }
            let [wide, narrow] = [wide, narrow].map(|plan| Profile::new(&plan).seconds(size));
            prop_assert!(narrow.get() <= wide.get() * 1.5, "{collective}: {narrow:?} {wide:?} {}", more.to_json());
        }
    }
}
