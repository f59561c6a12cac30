//! What a fabric does when things go wrong: packets that arrive corrupt, waves that find no counter; and its operators.

use std::collections::BTreeSet;

use crate::common::networks::cases;
use crate::fabric::{chain, derived, network, run, simulated};
use proptest::prelude::*;
use treefold::number::Operator;
use treefold::plan::Collective;
use treefold::planners;
use treefold::sim::packet::options::{EvictionPolicy, Fabric, Fence, Initiation};
use treefold::sim::packet::{FabricStats, Outcome};
use treefold::units::Bytes;

fn errors(error_rate: f64) -> Fabric {
    Fabric { error_rate, ..Fabric::default() }
}

fn seen(outcome: &Outcome) -> &FabricStats {
    outcome.fabric.as_ref().unwrap()
}

/// `simulate` fails if an operand is lost, or added twice.
#[test]
fn corrupt_packets_cost_time_and_nothing_else() {
    let topology = network("dgx2:planes=2", &[]);
    for algorithm in ["innet-push", "innet-pull", "ring"] {
        let outcomes =
            [0.0, 1e-4, 1e-2, 0.1, 0.3].map(|rate| run(&topology, algorithm, 1 << 18, errors(rate)).unwrap());
        let cycles = outcomes.each_ref().map(|outcome| outcome.cycles);
        assert!(cycles.is_sorted(), "{algorithm}: {cycles:?}");
        assert!(cycles[4] > 2 * cycles[0], "{algorithm}: {cycles:?}");
        let again = outcomes.each_ref().map(|outcome| seen(outcome).retransmissions);
        assert!(again[0] == 0 && again.is_sorted(), "{algorithm}: {again:?}");
        assert!(outcomes[1..].iter().all(|outcome| seen(outcome).duplicates <= seen(outcome).retransmissions));
        assert!(seen(&outcomes[3]).duplicates > 0, "{algorithm}: acknowledgements get lost, too");
    }
}

/// Each packet that arrives corrupt comes once more, and so does what is under way behind it in a round trip.
#[test]
fn a_corrupt_packet_takes_back_a_round_trip_of_packets() {
    let rate = 1e-3;
    let outcome = run(&chain(1), "innet-push", 1 << 20, errors(rate)).unwrap();
    // Of every line there are two operands, two results and two acknowledgements on one link each. A link's round trip
    // takes some 230 cycles, in which it sends 26 packets of nine flits, or more of one flit.
    let corrupt = rate * 6.0 * (1 << 20) as f64 / 128.0;
    let each = seen(&outcome).retransmissions as f64 / corrupt;
    assert!((1.0..54.0).contains(&each), "{each}");
}

#[test]
fn the_seed_decides_which_packets_are_corrupt() {
    let topology = network("dgx2:planes=2", &[]);
    let retransmissions = |seed| {
        let fabric = Fabric { seed, ..errors(0.01) };
        let outcomes = [0, 1].map(|_| run(&topology, "innet-pull", 1 << 16, fabric.clone()).unwrap());
        assert_eq!(outcomes[0].cycles, outcomes[1].cycles);
        seen(&outcomes[0]).retransmissions
    };
    assert_ne!(retransmissions(1), retransmissions(2));
}

#[test]
fn retries_that_never_succeed_end_with_the_name_of_the_link() {
    for algorithm in ["innet-push", "innet-pull", "ring"] {
        let refused = run(&network("dgx2:planes=6", &[]), algorithm, 1 << 20, errors(1.0)).unwrap_err();
        assert!(refused.starts_with("link ") && refused.contains(" -> ") && refused.contains("gave up"), "{refused}");
        assert!(refused.contains("1000 retries") && refused.contains("lower error_rate (it is 1)"), "{refused}");
        assert!(!refused.contains('\n'), "{refused}");
    }
    let impatient = Fabric { retries: 0, ..errors(0.1) };
    assert!(run(&network("dgx2:planes=2", &[]), "innet-push", 1 << 18, impatient).unwrap_err().contains("gave up"));
}

/// If there are fewer counters than waves, waves ask again until one is free; then the machine is that with fewer
/// waves, except for the time between two questions.
#[test]
fn waves_wait_for_counters() {
    let topology = network("dgx2:planes=6", &[]);
    let outcome = |waves, counters, retry_cycles| {
        let fabric = Fabric { waves: Some(waves), counters, retry_cycles, retries: 100_000, ..Fabric::default() };
        run(&topology, "innet-pull", 1 << 20, fabric).unwrap()
    };
    let (enough, few) = (outcome(4, Some(4), 100), outcome(4, Some(1), 1));
    assert_eq!(enough.cycles, outcome(4, None, 100).cycles);
    assert_eq!(seen(&enough).failed_allocations, 0);
    assert_eq!(few.cycles, outcome(1, None, 100).cycles);
    assert!(seen(&few).failed_allocations > 0);
    let lazy = outcome(4, Some(1), 3000);
    assert!(lazy.cycles > few.cycles && seen(&lazy).failed_allocations < seen(&few).failed_allocations);
}

#[test]
fn a_wave_that_never_finds_a_counter_is_an_error_for_the_host() {
    let fabric = Fabric { counters: Some(1), retries: 3, retry_cycles: 1, ..Fabric::default() };
    let refused = run(&network("dgx2:planes=6", &[]), "innet-push", 1 << 20, fabric).unwrap_err();
    assert!(refused.starts_with("GPU") && refused.contains("found no counter for a wave to region"), "{refused}");
    assert!(refused.contains("in 3 retries: raise counters (now 1)"), "{refused}");
}

#[test]
fn pulls_without_an_entry_are_counted_once() {
    let topology = network("dgx2:planes=6", &[]);
    let stalls = |bytes| {
        let fabric = Fabric { table: Some(Bytes::known(bytes)), waves: Some(0), ..Fabric::default() };
        seen(&run(&topology, "innet-pull", 1 << 18, fabric).unwrap()).stalls
    };
    assert_eq!(stalls(1 << 20), 0);
    // A line is asked for once.
    assert!((1..=(1 << 18) / 128).contains(&stalls(512)), "{}", stalls(512));
}

/// Sums in floating point depend on the order; minima do not, nor do operators on bits. Each operator has a result of
/// its own, which is that of other tables, methods and times.
#[test]
fn every_operator_has_its_own_result() {
    let topology = network("dgx2:planes=2", &[]);
    let mut digests = BTreeSet::new();
    for op in Operator::ALL {
        let digest = |algorithm, seed, table| {
            let fabric = Fabric { op, seed, table: Some(Bytes::known(table)), reorder: 16, ..Fabric::default() };
            seen(&run(&topology, algorithm, 1 << 17, fabric).unwrap()).digest.unwrap()
        };
        let one = digest("innet-push", 1, 256);
        let rounds = matches!(op, Operator::Sum | Operator::Prod);
        assert_eq!(one == digest("innet-push", 2, 4096), !rounds, "{op:?}");
        assert_eq!(one, digest("innet-push", 1, 256), "{op:?}");
        digests.insert(one);
    }
    assert_eq!(digests.len(), Operator::ALL.len());
}

proptest! {
    #![proptest_config(cases(40))]

    /// Whatever gets lost, every rank has every line once and whole in the end, and no switch keeps anything.
    #[test]
    fn nothing_is_lost_or_applied_twice(
        ranks in proptest::sample::subsequence((0u32..16).collect::<Vec<u32>>(), 2..=16),
        (pull, rate, seed, size) in (any::<bool>(), 0.0f64..0.6, any::<u64>(), 0u64..60_000),
        (entries, waves, queue, window) in (1u64..6, 0u32..20, 9u32..200, 1u32..100),
        (core, multicast, counters) in (any::<bool>(), any::<bool>(), 1u32..8),
        (collective, op) in (
            proptest::sample::select(vec![
                Collective::AllReduce,
                Collective::Reduce,
                Collective::ReduceScatter,
                Collective::AllGather,
                Collective::Broadcast,
            ]),
            proptest::sample::select(Operator::ALL.to_vec()),
        ),
    ) {
        let fabric = Fabric {
            error_rate: rate,
            table: Some(Bytes::known(entries * 128)),
            waves: Some(waves),
            queue_flits: Some(queue),
            initiation: if core { Initiation::Core } else { Initiation::Dma },
            eviction_policy: if multicast { EvictionPolicy::Multicast } else { EvictionPolicy::Home },
            counters: Some(counters),
            retries: u32::MAX,
            retry_cycles: 100,
            window,
            seed,
            op,
            ..Fabric::default()
        };
        let algorithm = if pull { "innet-pull" } else { "innet-push" };
        let plan = derived(&network("dgx2:planes=2", &ranks), algorithm, collective);
        let outcome = simulated(&plan, size, fabric.clone());
        prop_assert_eq!(outcome.cycles, simulated(&plan, size, fabric).cycles);
    }

    #[test]
    fn software_receives_all_messages_in_spite_of_errors(
        ranks in proptest::sample::subsequence((0u32..16).collect::<Vec<u32>>(), 2..=16),
        algorithm in proptest::sample::select(vec!["ring", "multitree", "p2p"]),
        (rate, seed, acknowledged, size) in (0.0f64..0.6, any::<u64>(), any::<bool>(), 0u64..60_000),
    ) {
        let topology = network("dgx2:planes=2", &ranks);
        let fence = if acknowledged { Fence::Acknowledged } else { Fence::Ordered };
        let fabric = Fabric { error_rate: rate, seed, fence, retries: u32::MAX, ..Fabric::default() };
        if let Ok(plan) = planners::plan(algorithm, &topology, &planners::Options::default()) {
            simulated(&plan, size, fabric);
        }
    }
}
