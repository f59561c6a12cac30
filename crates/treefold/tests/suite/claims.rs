//! What the papers, and the closed forms of the textbooks, say of each algorithm.

use std::sync::Arc;

use crate::common::{messages_per_link, planned, spec};
use treefold::plan::alpha_beta::Profile;
use treefold::plan::check::{check, slots_of};
use treefold::plan::{Direction, LaneRoutes, LinkLoads, Pace, Plan, Sharing};
use treefold::planners::{self, Options};
use treefold::sim::analytic::simulate;
use treefold::topology::{Topology, from_spec};
use treefold::units::{Bandwidth, Bytes, Seconds, Time};

/// Steps of one of an all-reduce's two halves.
fn steps_of_a_half(plan: &Plan) -> u32 {
    plan.steps().expect("paced in steps") / 2
}

/// N trees of N - 1 edges, each edge over at least one link; and on direct networks a link a step at best.
fn least_steps(topology: &Topology) -> u32 {
    let ranks = topology.ranks();
    let by_links = ((ranks - 1) * ranks).div_ceil(topology.links().len() as u32);
    let pairs = topology.rank_ids().flat_map(|a| topology.rank_ids().map(move |b| (a, b)));
    let diameter = pairs.map(|(a, b)| topology.hops(a, b)).max().unwrap();
    if topology.is_direct() { by_links.max(diameter) } else { by_links }
}

#[test]
fn multitree_needs_no_more_steps_than_published() {
    for (text, most) in [
        ("torus:4x4", 5),
        ("torus:8x8", 17),
        ("torus:16x16", 64),
        ("torus:32x32", 256),
        ("mesh:4x4", 8),
        ("mesh:8x8", 32),
        ("dgx2", 15),
        ("fattree:8,2", 63),
        ("bigraph:4x8", 31),
        ("bigraph:4x16", 63),
    ] {
        let plan = planned("multitree", text);
        let steps = steps_of_a_half(&plan);
        assert!(steps <= most, "{text}: {steps} steps, published are {most}");
        assert!(steps >= least_steps(&plan.topology), "{text}: {steps} steps are fewer than possible");
        check(&plan).unwrap();
    }
}

/// Counted edge by edge here: `check` takes two trees on one lane for one message.
#[test]
fn multitree_uses_no_link_twice_in_a_step() {
    for text in [
        "torus:4x4",
        "mesh:5x3",
        "dgx2",
        "fattree:4,2",
        "bigraph:4x8",
        "cluster:nodes=2,gpus=4,rails=2",
        "b4:skew=0.5,seed=1",
    ] {
        let plan = planned("multitree", text);
        let Pace::Step(Sharing::Transfers(slot)) = plan.phases[0].pace else { panic!("{text}: no promise") };
        for (step, used) in messages_per_link(&plan, &plan.phases[0], false).iter().enumerate() {
            for (link, &count) in plan.topology.links().iter().zip(used) {
                assert!(
                    count <= slots_of(link.bandwidth, slot),
                    "{text}: {count} messages on {link:?} in step {}",
                    step + 1
                );
            }
        }
    }
}

/// VII-C: fewer trees, fewer steps, and the whole vector still gets everywhere.
#[test]
fn multitree_with_fewer_trees_takes_fewer_steps() {
    let topology = spec("torus:8x8");
    let few = planners::plan("multitree", &topology, &Options { trees: Some(4), ..Options::default() }).unwrap();
    check(&few).unwrap();
    assert_eq!(few.trees.len(), 4);
    assert!(steps_of_a_half(&few) < 17 && steps_of_a_half(&few) >= 8, "{:?}", few.steps());
}

#[test]
fn step_counts_have_their_closed_forms() {
    for (algorithm, text, steps) in [
        ("ring", "torus:4x4", 2 * 15),
        ("ring", "dgx2", 2 * 15),
        ("ring", "line:2", 2),
        ("multiring", "torus:4x4", 2 * 15),
        ("multiring", "b4", 2 * 11),
        ("halving-doubling", "torus:4x4", 2 * 4),
        ("halving-doubling", "full:64", 2 * 6),
        ("halving-doubling", "full:6", 2 * (2 + 1)),
        ("hdrm", "bigraph:4x8", 2 * 5),
        ("hdrm", "bigraph:4x16", 2 * 6),
        ("ring2d", "torus:4x4", 2 * 3 + 2 * 3),
        // Two of the four flows go along the longer side in either phase.
        ("ring2d", "torus:4x8", 2 * 7 + 2 * 7),
        ("ring2d", "mesh:3x5", 2 * 4 + 2 * 4),
    ] {
        assert_eq!(planned(algorithm, text).steps(), Some(steps), "{algorithm} on {text}");
    }
    assert_eq!(planned("dbtree", "torus:4x4").steps(), None, "streamed");
}

#[test]
fn every_ranks_share_of_a_ring_is_optimal() {
    for text in ["ring:8", "torus:4x4", "dgx2"] {
        let plan = planned("ring", text);
        let (ranks, bandwidth) = (f64::from(plan.ranks()), plan.topology.links()[0].bandwidth.bytes_per_second());
        let optimal = bandwidth * ranks / (2.0 * (ranks - 1.0));
        assert!((plan.rate().unwrap().bytes_per_second() / optimal - 1.0).abs() < 1e-9, "{text}");
    }
}

/// Two edge-disjoint Hamiltonian cycles both ways: rate = links x bandwidth / (2 (N - 1)), the bound of
/// reduce-scatter plus all-gather.
#[test]
fn multiring_loads_every_link_of_a_torus_equally() {
    for text in ["torus:3x3", "torus:4x4", "torus:4x6", "torus:5x7", "torus:2x4", "torus:8x8"] {
        let plan = planned("multiring", text);
        let topology = &plan.topology;
        let LinkLoads(loads) = LinkLoads::new(&plan, &LaneRoutes::new(topology, &plan.lanes));
        assert!(loads.iter().all(|&load| load == loads[0]), "{text}: {loads:?}");
        let (links, ranks) = (topology.links().len() as f64, f64::from(topology.ranks()));
        let bound = links * topology.links()[0].bandwidth.bytes_per_second() / (2.0 * (ranks - 1.0));
        assert!(
            (plan.rate().unwrap().bytes_per_second() / bound - 1.0).abs() < 1e-9,
            "{text}: {:?}, bound {bound}",
            plan.rate()
        );
    }
}

#[test]
fn multiring_keeps_the_links_of_a_torus_busy() {
    let profile = Profile::new(&planned("multiring", "torus:4x4"));
    let busy = |size: u64| simulate(&profile, Bytes::known(size)).mean_utilization;
    assert!(busy(1 << 10) < busy(1 << 20) && busy(1 << 20) < busy(1 << 30));
    assert!((0.999..=1.0).contains(&busy(1 << 30)), "{}", busy(1 << 30));
}

#[test]
fn hdrm_has_no_contention_on_bigraphs() {
    for text in ["bigraph:2x4", "bigraph:2x8", "bigraph:4x8", "bigraph:4x16"] {
        let plan = planned("hdrm", text);
        check(&plan).unwrap();
        assert!(matches!(plan.phases[0].pace, Pace::Step(Sharing::Messages(_))), "{text}: promises it");
        let used = messages_per_link(&plan, &plan.phases[0], true);
        assert!(used.iter().flatten().all(|&count| count <= 1), "{text}");
    }
}

/// What the rank mapping is for: without it, halving-doubling shares links there.
#[test]
fn halving_doubling_has_contention_on_bigraphs() {
    let plan = planned("halving-doubling", "bigraph:4x8");
    assert!(messages_per_link(&plan, &plan.phases[0], true).iter().flatten().any(|&count| count > 1));
}

/// Ranks that have no children in a tree's broadcast half.
fn leaves(plan: &Plan, number: usize) -> Vec<bool> {
    let mut leaf = vec![true; plan.ranks() as usize];
    let edges = plan.half(&plan.phases[0], &plan.trees[number], Direction::Down);
    edges.for_each(|edge| leaf[edge.parent] = false);
    leaf
}

#[test]
fn leaves_of_one_double_binary_tree_are_inner_nodes_of_the_other() {
    for ranks in 2..40 {
        let plan = planned("dbtree", &format!("full:{ranks}"));
        assert!(plan.trees.len() == 2 && plan.trees.iter().all(|tree| 2 * tree.units() == plan.units), "half each");
        let both: Vec<usize> = (0..ranks).filter(|&rank| leaves(&plan, 0)[rank] && leaves(&plan, 1)[rank]).collect();
        assert!(both.is_empty(), "{ranks} ranks: {both:?} are leaves of both trees");
        let height = plan.shape().max_height;
        assert!(height <= (ranks as u32).next_power_of_two().ilog2() + 1, "{ranks} ranks: height {height}");
    }
}

/// Network of a spec with links of 10 GB/s and 2 us.
fn uniform(text: &str) -> Arc<Topology> {
    Arc::new(from_spec(text, Some(Bandwidth::known(1e10)), Some(Time::from_picoseconds(2_000_000))).unwrap())
}

fn assert_analytic(algorithm: &str, text: &str, seconds: impl Fn(f64) -> f64) {
    let profile = Profile::new(&planners::plan(algorithm, &uniform(text), &Options::default()).unwrap());
    for size in [1u64 << 10, 1 << 20, 1 << 26, 1 << 32] {
        let (got, expected) = (profile.seconds(Bytes::known(size)).get(), seconds(size as f64));
        assert!(
            (got / expected - 1.0).abs() < 1e-3,
            "{algorithm} on {text}, {size} B: {got} s instead of {expected} s"
        );
    }
}

#[test]
fn analytic_ring_has_its_closed_form() {
    for ranks in [2u32, 3, 8, 17] {
        let n = f64::from(ranks);
        assert_analytic("ring", &format!("ring:{ranks}"), |size| 2.0 * (n - 1.0) * (2e-6 + size / (n * 1e10)));
    }
}

#[test]
fn analytic_halving_doubling_has_its_closed_form() {
    for bits in [1, 3, 5] {
        let n = f64::from(1 << bits);
        let seconds = |size: f64| 2.0 * f64::from(bits) * 2e-6 + 2.0 * (n - 1.0) / n * size / 1e10;
        assert_analytic("halving-doubling", &format!("full:{}", 1 << bits), seconds);
    }
}

/// Steps have one message a link, so a step is a chunk's time.
#[test]
fn analytic_multitree_is_its_steps_times_a_chunks_time() {
    for text in ["torus:4x4", "mesh:4x4"] {
        let plan = planners::plan("multitree", &uniform(text), &Options::default()).unwrap();
        let (steps, n) = (f64::from(plan.steps().unwrap()), f64::from(plan.ranks()));
        assert_analytic("multitree", text, |size| steps * (2e-6 + size / (n * 1e10)));
    }
}

#[test]
fn nothing_takes_no_time() {
    assert_eq!(simulate(&Profile::new(&planned("ring", "ring:4")), Bytes::known(0)).seconds, Seconds::ZERO);
    assert_eq!(simulate(&Profile::new(&planned("multitree", "ring:1")), Bytes::known(1 << 20)).seconds, Seconds::ZERO);
}
