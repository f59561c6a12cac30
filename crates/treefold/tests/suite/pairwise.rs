//! Recursive doubling, Swing, Bine, Bruck, PAT, direct exchange and buckets: the loads and hops that their papers give,
//! closed forms, and plans that are right on all kinds of networks.

use std::sync::Arc;

use crate::common::{edges_of, planned, spec};
use treefold::error::Result;
use treefold::plan::alpha_beta::Profile;
use treefold::plan::check::check;
use treefold::plan::check_schedule::check_schedule;
use treefold::plan::tables::{Tables, lockstep, lower_for_interfaces};
use treefold::plan::{Collective, LaneRoutes, LinkLoads, Plan, lower};
use treefold::planners::{self, Options};
use treefold::topology::{Topology, from_spec};
use treefold::units::Bytes;

const NAMES: [&str; 7] = ["recursive-doubling", "swing", "bine", "bucket", "direct", "bruck", "pat"];

/// Networks of all kinds, with 1, 2, 3, 5, 6, 7, 12 and more ranks.
const NETWORKS: [&str; 22] = [
    "line:1",
    "ring:2",
    "ring:3",
    "ring:6",
    "line:7",
    "mesh:2x3",
    "mesh:3x4",
    "mesh:2x3x4",
    "torus:2x2",
    "torus:3x4",
    "torus:4x6",
    "torus:2x3x4",
    "torus:4x4x4",
    "hypercube:3",
    "full:5",
    "full:8",
    "fattree:2,3",
    "fattree:4,2",
    "bigraph:2x4",
    "cluster:nodes=2,gpus=4,rails=2",
    "dgx2:planes=6",
    "b4",
];

const KIB: u64 = 1 << 10;
const GIB: u64 = 1 << 30;

fn plan_of(algorithm: &str, network: &Arc<Topology>, collective: Collective, size: u64) -> Result<Plan> {
    let options = Options { collective, size: Bytes::known(size), ..Options::default() };
    planners::plan(algorithm, network, &options)
}

/// The plan of an all-reduce of a size.
fn sized(algorithm: &str, text: &str, size: u64) -> Plan {
    plan_of(algorithm, &spec(text), Collective::AllReduce, size).unwrap()
}

/// The load of the busiest link, in parts of the vector.
fn load(plan: &Plan) -> f64 {
    let loads = LinkLoads::new(plan, &LaneRoutes::new(&plan.topology, &plan.lanes)).0;
    loads.into_iter().max().unwrap() as f64 / plan.units as f64
}

/// The hops of the longest route of each step, added up over all steps.
fn hops(plan: &Plan) -> usize {
    let routes = LaneRoutes::new(&plan.topology, &plan.lanes);
    let of_phase = |phase| {
        let mut longest = std::collections::BTreeMap::new();
        for (_, edge) in edges_of(plan, phase) {
            let most = longest.entry(edge.step).or_insert(0);
            *most = routes.of(edge.lane).len().max(*most);
        }
        longest.into_values().sum::<usize>()
    };
    plan.phases.iter().map(of_phase).sum()
}

fn assert_near(found: f64, expected: f64) {
    assert!((found - expected).abs() < 5e-5, "{found} is not {expected}");
}

#[test]
fn swing_has_the_loads_and_hops_of_its_paper() {
    for (text, bandwidth, latency) in [
        ("torus:8x8", (0.5391, 20), Some((2.5, 10))),
        ("torus:16x16", (0.5684, 40), Some((5.0, 20))),
        ("torus:4x4x4", (0.3281, 12), None),
        ("torus:8x8x8", (0.3418, 30), None),
    ] {
        let spread = sized("swing", text, GIB);
        assert_near(load(&spread), bandwidth.0);
        assert_eq!(hops(&spread), bandwidth.1, "{text}");
        if let Some((most, longest)) = latency {
            let exchange = sized("swing", text, KIB);
            assert_near(load(&exchange), most);
            assert_eq!(hops(&exchange), longest, "{text}");
        }
    }
}

/// 10 hops of 150 ns, and two and a half vectors at 16 GB/s.
#[test]
fn swing_takes_as_long_as_its_hops_and_bytes() {
    let seconds = Profile::new(&sized("swing", "torus:8x8", KIB)).seconds(Bytes::known(KIB)).get();
    assert!((seconds - (10.0 * 150e-9 + 2.5 * 1024.0 / 16e9)).abs() < 1e-12, "{seconds}");
}

#[test]
fn buckets_have_as_few_steps_and_bytes_as_their_formula() {
    for (text, dimensions, side) in
        [("ring:7", 1, 7), ("torus:3x3", 2, 3), ("torus:8x8", 2, 8), ("torus:4x4x4", 3, 4), ("torus:2x2x2", 3, 2)]
    {
        let plan = planned("bucket", text);
        let ranks = f64::from(plan.topology.ranks());
        assert_eq!(plan.steps(), Some(2 * dimensions * (side - 1)), "{text}");
        assert_near(load(&plan), (ranks - 1.0) / ranks / f64::from(dimensions));
        assert_eq!(hops(&plan) as u32, 2 * dimensions * (side - 1), "{text}");
    }
    // Lines are reduced and scattered in any order of the dimensions, and their steps add up.
    assert_eq!(planned("bucket", "torus:3x4x5").steps(), Some(2 * (2 + 3 + 4)));
    assert_eq!(planned("bucket", "mesh:2x5").steps(), Some(2 * (1 + 4)));
}

#[test]
fn exchanges_have_the_steps_of_their_formulas() {
    for ranks in [2u32, 3, 4, 5, 6, 7, 8, 12, 16, 31] {
        let text = format!("full:{ranks}");
        let (below, above) = (ranks.ilog2(), ranks.next_power_of_two().ilog2());
        let folds = u32::from(!ranks.is_power_of_two());
        let steps = |algorithm, size| sized(algorithm, &text, size).steps();
        assert_eq!(steps("recursive-doubling", KIB), Some(below + 2 * folds), "{text}");
        assert_eq!(steps("bine", KIB), Some(below + 2 * folds), "{text}");
        if ranks > 3 {
            // Two ranks exchange as many bytes in one step as in two.
            assert_eq!(steps("bine", GIB), Some(2 * (below + folds)), "{text}");
        }
        assert_eq!(steps("bruck", KIB), Some(2 * above), "{text}");
        assert_eq!(steps("pat", KIB), Some(2 * above), "{text}");
        assert_eq!(steps("direct", KIB), Some(2), "{text}");
        if ranks.is_multiple_of(2) && ranks > 2 {
            assert_eq!(steps("swing", GIB), Some(2 * above), "{text}");
        }
    }
}

/// Every rank sends and gets each part once: the bytes of all ranks together are the fewest.
#[test]
fn parts_are_sent_to_every_rank_once() {
    for (algorithm, text) in [
        ("swing", "full:12"),
        ("swing", "torus:4x6"),
        ("bine", "full:16"),
        ("bruck", "full:7"),
        ("pat", "full:7"),
        ("direct", "full:7"),
        ("bucket", "torus:3x4"),
    ] {
        let plan = sized(algorithm, text, GIB);
        let units = |phase| plan.trees_of(phase).iter().map(|tree| tree.units()).sum::<u64>();
        assert_eq!(plan.phases.iter().map(units).sum::<u64>(), plan.units, "{algorithm} on {text}");
        let ranks = u64::from(plan.topology.ranks());
        let edges: usize = plan.phases.iter().map(|phase| edges_of(&plan, phase).len()).sum();
        assert_eq!(edges as u64, plan.trees.len() as u64 * 2 * (ranks - 1), "{algorithm} on {text}");
    }
}

#[test]
fn plans_are_right_on_all_kinds_of_networks() {
    for text in NETWORKS {
        let network = spec(text);
        for algorithm in NAMES {
            for size in [1, KIB, GIB] {
                let plan = match plan_of(algorithm, &network, Collective::AllReduce, size) {
                    Ok(plan) => plan,
                    Err(error) if error.is_misfit() => continue,
                    Err(error) => panic!("{error}"),
                };
                let who = || format!("{algorithm} on {text}");
                check(&plan).unwrap_or_else(|error| panic!("{}: {error}", who()));
                check_schedule(&plan, &lower(&plan, 17, 8).unwrap())
                    .unwrap_or_else(|error| panic!("{}: {error}", who()));
            }
        }
    }
}

/// Small all-reduces have a form of their own, from which nothing follows; other collectives have a plan all the same.
#[test]
fn every_collective_has_a_plan_at_every_size() {
    for (algorithm, text) in
        NAMES.into_iter().flat_map(|name| ["torus:4x4", "torus:2x6", "mesh:2x4"].map(|text| (name, text)))
    {
        for collective in Collective::ALL.into_iter().filter(|_| algorithm != "recursive-doubling") {
            for size in [KIB, GIB] {
                let plan = plan_of(algorithm, &spec(text), collective, size).unwrap();
                check(&plan).unwrap_or_else(|error| panic!("{algorithm} {collective} on {text}: {error}"));
                assert_eq!(plan.collective, collective);
            }
        }
    }
}

#[test]
fn the_form_follows_the_size() {
    for algorithm in ["swing", "bine"] {
        assert!(sized(algorithm, "torus:4x4", KIB).phases.len() > 1, "{algorithm} exchanges small vectors");
        assert_eq!(sized(algorithm, "torus:4x4", GIB).phases.len(), 1, "{algorithm} spreads large ones");
    }
    assert_eq!(sized("swing", "torus:4x6", 1).phases.len(), 1, "exchanges need powers of two");
}

#[test]
fn what_does_not_fit_is_said_with_what_does() {
    let refused = |algorithm, text| {
        let error = planners::plan(algorithm, &spec(text), &Options::default()).unwrap_err();
        assert!(error.is_misfit(), "{error}");
        error.to_string()
    };
    assert_eq!(
        refused("swing", "torus:3x4"),
        "swing needs an even number of ranks along every dimension, and torus:3x4 has 3: use recursive-doubling, bine \
         or multitree"
    );
    assert!(refused("swing", "full:7").starts_with("swing needs an even number of ranks, and full:7 has 7: use"));
    assert_eq!(
        refused("bucket", "b4"),
        "bucket needs a torus or mesh whose nodes are all ranks; b4 is not one: use multiring or multitree"
    );
    assert!(refused("direct", "ring:257").contains("it is made for at most 256 ranks: use halving-doubling or ring"));
    let some = Arc::new(from_spec("torus:4x4", None, None).unwrap().with_ranks(&[0, 1, 2]).unwrap());
    assert!(planners::plan("bucket", &some, &Options::default()).unwrap_err().is_misfit());
    assert!(planners::plan("recursive-doubling", &some, &Options::default()).is_ok());
}

/// A rank that receives from one that it has not heard of must not make that one wait: in its table stands only what it
/// can know.
#[test]
fn tables_wait_for_what_the_rank_itself_receives() {
    for text in ["line:3", "full:7", "torus:4x4"] {
        for algorithm in ["recursive-doubling", "swing", "bine"] {
            let Ok(plan) = plan_of(algorithm, &spec(text), Collective::AllReduce, KIB) else { continue };
            let schedule = lower_for_interfaces(&plan, 1 << 10, 4).unwrap();
            let tables = Tables::new(&plan, &schedule, 4, lockstep(&plan)).unwrap();
            for (rank, entries) in tables.of_rank.iter().enumerate() {
                let mut waits = entries.iter().flat_map(|entry| &entry.waits);
                assert!(
                    waits.all(|&wait| schedule.ends(wait)[1].index() == rank),
                    "{algorithm} on {text}, rank {rank}"
                );
            }
        }
    }
}
