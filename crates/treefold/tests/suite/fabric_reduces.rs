//! Switches that reduce to one rank: reduces and reduce-scatters by pushes and by pulls.

use crate::common::networks::cases;
use crate::fabric::{derived, network, simulated};
use proptest::prelude::*;
use treefold::plan::{Collective, Plan, derive};
use treefold::planners;
use treefold::sim::Watch;
use treefold::sim::packet::options::{Fabric, HomeMapping, Initiation};
use treefold::sim::packet::{Options, simulate};
use treefold::topology::NodeId;
use treefold::units::Bytes;

const REDUCES: [Collective; 2] = [Collective::Reduce, Collective::ReduceScatter];

/// Bytes a second of a vector.
fn rate(algorithm: &str, collective: Collective, size: u64) -> f64 {
    let plan = derived(&network("dgx2:planes=6", &[]), algorithm, collective);
    size as f64 / simulated(&plan, size, Fabric::default()).trace.seconds.get()
}

/// Packets of 144 bytes carry 128, and pushes use the tables and adders of all ports. Those of a pull are at the port
/// to the rank that asks (section IV-C), so that eight operands a line share the adder of each of a lone root's six
/// ports.
#[test]
fn sums_for_one_rank_come_at_the_rate_of_links_or_adders() {
    let links = 150e9 * 128.0 / 144.0;
    for collective in REDUCES {
        // The rank's own block is not sent.
        let reached = rate("innet-push", collective, 4 << 20) / links;
        assert!((0.95..16.0 / 15.0).contains(&reached), "{collective}: {reached}");
    }
    let [reduce, scatter] = REDUCES.map(|collective| rate("innet-pull", collective, 4 << 20) / links);
    assert!((0.95..16.0 / 15.0).contains(&scatter), "{scatter}");
    assert!((0.85 / 8.0..1.0 / 8.0).contains(&reduce), "{reduce}");
}

/// What nobody else gets costs no multicast: memory is written once for each line, and read by every contributor.
#[test]
fn only_the_root_writes_what_all_have_read() {
    let size = 1 << 18;
    for algorithm in ["innet-push", "innet-pull"] {
        for collective in REDUCES {
            let plan = derived(&network("dgx2:planes=6", &[]), algorithm, collective);
            let seen = simulated(&plan, size, Fabric::default()).fabric.unwrap();
            assert!(seen.reads >= 15 * size && seen.reads <= 16 * size, "{algorithm} {collective}: {}", seen.reads);
            // The root of a push adds what comes to its own operand: two operands a line are one write.
            assert_eq!(seen.writes, size, "{algorithm} {collective}");
        }
    }
}

#[test]
fn a_reduce_ends_sooner_than_the_all_reduce() {
    let topology = network("dgx2:planes=6", &[]);
    for algorithm in ["innet-push", "innet-pull"] {
        let cycles = |collective| simulated(&derived(&topology, algorithm, collective), 4096, Fabric::default()).cycles;
        let (all, one) = (cycles(Collective::AllReduce), cycles(Collective::Reduce));
        assert!(one < all, "{algorithm}: {one} {all}");
    }
}

/// A switch cannot keep a sum, and blocks of an all-to-all meet in no switch.
#[test]
fn sums_that_end_at_no_rank_are_refused() {
    let topology = network("dgx2:planes=6", &[]);
    let plan = derived(&topology, "innet-push", Collective::AllToAll);
    let refused = simulate(&plan, Bytes::known(4096), &Options::default(), Watch::NOTHING).unwrap_err().to_string();
    assert!(refused.contains("work in trees of this all-to-all"), "{refused}");
}

/// A reduce into `root` with a home in a spine: a chain of switches leads from it to the root.
fn into(spec: &str, ranks: u32, algorithm: &str, root: u32) -> Plan {
    let topology = network(spec, &(0..ranks).collect::<Vec<u32>>());
    let plan = planners::plan(algorithm, &topology, &planners::Options::default()).unwrap();
    derive(plan, Collective::Reduce, NodeId(root)).unwrap()
}

#[test]
fn sums_find_their_way_through_two_levels_of_switches() {
    for algorithm in ["innet-push", "innet-pull"] {
        let plan = into("fattree128", 24, algorithm, 5);
        simulated(&plan, 100_000, Fabric::default());
    }
}

proptest! {
    #![proptest_config(cases(40))]

    /// `simulate` fails if a line is not at its rank, whole and once, or if anything is left in a switch.
    #[test]
    fn every_line_of_a_reduce_is_whole_at_its_rank(
        ranks in proptest::sample::subsequence((0u32..16).collect::<Vec<u32>>(), 2..=16),
        (pull, scatter, root, size) in (any::<bool>(), any::<bool>(), any::<u32>(), 0u64..200_000),
        (entries, waves, lines, seed) in (1u64..6, 0u32..20, 1u64..80, any::<u64>()),
        (timeout, reorder, window) in (1500u32..6000, 1u32..300, 1u32..100),
        (core, hashed, deterministic, barrier) in (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>()),
    ) {
        let fabric = Fabric {
            table: Some(Bytes::known(entries * 128)),
            wave: Bytes::known(lines * 128),
            waves: Some(waves),
            timeout_cycles: Some(timeout),
            initiation: if core { Initiation::Core } else { Initiation::Dma },
            home_mapping: if hashed { HomeMapping::Hashed } else { HomeMapping::Interleaved },
            // Answers over several links of a rank are added as they come, which `simulate` refuses.
            deterministic: deterministic && !pull,
            seed,
            reorder,
            window,
            barrier,
            ..Fabric::default()
        };
        let topology = network("dgx2:planes=2", &ranks);
        let algorithm = if pull { "innet-pull" } else { "innet-push" };
        let plan = planners::plan(algorithm, &topology, &planners::Options::default()).unwrap();
        let collective = if scatter { Collective::ReduceScatter } else { Collective::Reduce };
        let plan = derive(plan, collective, NodeId(root % ranks.len() as u32)).unwrap();
        let outcome = simulated(&plan, size, fabric.clone());
        prop_assert_eq!(outcome.cycles, simulated(&plan, size, fabric).cycles);
    }
}
