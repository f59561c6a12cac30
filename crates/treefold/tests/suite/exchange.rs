//! Exchanges: a tree into every rank, and equal partial sums that are sent once. Groups of ranks, and what is planned
//! inside them and between them.

use std::sync::Arc;

use treefold::plan::check_schedule::check_schedule;
use treefold::plan::schedule::Op;
use treefold::plan::{Draft, LaneRoutes, LinkLoads, Plan, lower};
use treefold::planners::{self, Level, Options, bounds_of};
use treefold::topology::{NodeId, Topology};
use treefold::units::Bytes;

use crate::common::{flow_seconds, spec};

fn plan(algorithm: &str, topology: &Arc<Topology>, options: &Options) -> Plan {
    let plan = planners::plan(algorithm, topology, options).unwrap();
    Draft::from(plan.clone()).prove().unwrap();
    check_schedule(&plan, &lower(&plan, 2 * plan.units, 4).unwrap()).unwrap();
    plan
}

fn of_size(size: u64) -> Options {
    Options { size: Bytes::known(size), ..Options::default() }
}

fn loads(plan: &Plan) -> Vec<u64> {
    LinkLoads::new(plan, &LaneRoutes::new(&plan.topology, &plan.lanes)).0
}

/// On a network without circles, all trees agree on what crosses a link.
#[test]
fn every_link_of_a_line_carries_the_vector_once() {
    for text in ["line:2", "line:3", "line:7"] {
        let plan = plan("exchange", &spec(text), &of_size(1024));
        assert!(loads(&plan).iter().all(|&load| load == plan.units), "{text}: {:?}", loads(&plan));
    }
}

/// A ring of 5 needs two messages over each link; without sharing, 20 edges would go over 10 links, two on each, too.
/// Rows and columns of a torus are added up one after the other: of 63 edges a rank, 14 are messages.
#[test]
fn rows_are_added_up_before_columns() {
    for (text, messages) in [("ring:5", 4), ("torus:4x4", 6), ("torus:8x8", 14), ("torus:4x4x4", 9)] {
        let plan = plan("exchange", &spec(text), &of_size(1024));
        let ranks = u64::from(plan.ranks());
        assert!(loads(&plan).iter().sum::<u64>() <= messages * ranks * plan.units, "{text}: {:?}", loads(&plan));
    }
}

/// What is received once is added to several sums within the rank.
#[test]
fn a_message_for_several_sums_is_received_once() {
    let plan = plan("exchange", &spec("line:3"), &of_size(1024));
    let schedule = lower(&plan, 12, 4).unwrap();
    let count = |op| schedule.op.iter().filter(|&&other| other == op).count();
    // In the middle, each of two messages counts for the rank's result, and for what is sent on to the other side.
    let parts = plan.units as usize;
    assert_eq!((count(Op::Reduce), count(Op::LocalReduce)), (4 * parts, 4 * parts));
}

/// The sum of a small vector is everywhere after little more than the latency between the farthest two ranks.
#[test]
fn small_vectors_take_little_more_than_the_latency() {
    let networks = [
        "torus:4x4",
        "torus:8x8",
        "torus:4x4x4",
        "mesh:5x5",
        "mesh:8x8",
        "hypercube:5",
        "dgx1",
        "b4",
        "idn-like",
        "random:n=20,links=60,seed=1",
        "cluster:nodes=4,gpus=8,rails=8",
        "cluster:nodes=16,gpus=8,rails=8",
    ];
    for text in networks {
        let topology = spec(text);
        let least = bounds_of(&topology, &Options::default()).seconds(Bytes::known(1)).get();
        let ratio = flow_seconds(&plan("exchange", &topology, &of_size(1024)), 1024) / least;
        assert!((1.0..1.15).contains(&ratio), "{text}: {ratio}");
    }
}

#[test]
fn exchanges_are_for_few_ranks() {
    let error = planners::plan("exchange", &spec("torus:17x16"), &Options::default()).unwrap_err();
    assert!(error.is_misfit() && error.to_string().contains("at most 256 ranks"), "{error}");
}

/// Only a part of the vector goes over the slow links: what one rank of a server holds.
#[test]
fn servers_send_each_other_only_parts() {
    let cluster = spec("cluster:nodes=4,gpus=8,rails=8");
    for (inside, between) in [(None, None), (Some(Level::Ring), Some(Level::Multitree)), (None, Some(Level::Packing))] {
        let plan = plan("hierarchical", &cluster, &Options { inside, between, ..of_size(32 << 10) });
        // The switches of the rails stand behind those of the servers.
        let is_rail = |node: NodeId| node.index() >= 32 + 4;
        let into_rails = cluster.link_ids().filter(|&link| is_rail(cluster.link(link).target));
        let sent: u64 = into_rails.map(|link| loads(&plan)[link.index()]).sum();
        // Four ranks of a rail send at most three times what each holds, an eighth.
        assert!(sent > 0 && sent <= 8 * 4 * 3 * plan.units / 8, "{sent} of {}", plan.units);
    }
    let fastest = plan("hierarchical", &cluster, &of_size(32 << 10));
    let forest = plan("forest", &cluster, &of_size(32 << 10));
    assert!(flow_seconds(&fastest, 32 << 10) < 0.7 * flow_seconds(&forest, 32 << 10));
}

/// Servers in pods: three levels, of which the first two reduce-scatter and gather.
#[test]
fn levels_stand_in_each_other() {
    let pods = spec("cluster:nodes=4,gpus=4,pods=2,spines=2");
    let plan = plan("hierarchical", &pods, &of_size(1 << 20));
    assert_eq!(plan.ranks(), 16);
    assert!(plan.phases.len() >= 3);
}

#[test]
fn groups_must_be_equal() {
    let few = |ranks: &[u32]| Arc::new(spec("cluster:nodes=2,gpus=4,rails=4").with_ranks(ranks).unwrap());
    for (topology, told) in [
        (few(&[0, 1, 2, 4]), "have 1 to 3 ranks"),
        (few(&[0, 1, 2, 4, 5]), "have 2 to 3 ranks"),
        (few(&[0, 1, 2, 3]), "has none"),
        (spec("ring:4"), "has none"),
        (spec("torus:1x4"), "has none"),
        (spec("ring:1"), "has none"),
    ] {
        let error = planners::plan("hierarchical", &topology, &Options::default()).unwrap_err();
        assert!(error.is_misfit() && error.to_string().contains(told), "{error}");
    }
    let options = Options { inside: Some(Level::Exchange), ..of_size(1024) };
    let error = planners::plan("hierarchical", &spec("cluster:nodes=2,gpus=4,rails=4"), &options).unwrap_err();
    assert!(error.is_misfit() && error.to_string().contains("such as direct or ring"), "{error}");
}

/// On a grid, the groups are rows, and each dimension begins with a part of the vector; that is ahead of trees over the
/// whole grid where neither latency nor bandwidth decides alone.
#[test]
fn rows_and_columns_are_groups() {
    for (text, size, least) in [("torus:8x8", 8 << 10, 1.25), ("torus:8x8", 32 << 10, 1.2), ("mesh:8x8", 32 << 10, 1.1)]
    {
        let topology = spec(text);
        let rows = plan("hierarchical", &topology, &of_size(size));
        let forest = plan("forest", &topology, &of_size(size));
        let ratio = flow_seconds(&forest, size) / flow_seconds(&rows, size);
        assert!(ratio >= least, "{text} {size}: {ratio}");
    }
    for text in ["torus:2x3x4", "mesh:2x2", "torus:2x2", "hypercube:3", "mesh:1x3x1x2"] {
        for size in [64, 16 << 10] {
            let topology = spec(text);
            let rows = plan("hierarchical", &topology, &of_size(size));
            assert!(
                flow_seconds(&rows, size) >= bounds_of(&topology, &of_size(size)).seconds(Bytes::known(size)).get()
            );
        }
    }
    let turned: Vec<u32> = (0..16).map(|rank| rank * 7 % 16).collect();
    plan("hierarchical", &Arc::new(spec("mesh:4x4").with_ranks(&turned).unwrap()), &of_size(1024));
    let missing = spec("torus:4x4").with_ranks(&[0, 1, 2]).unwrap();
    assert!(planners::plan("hierarchical", &Arc::new(missing), &of_size(1024)).is_err());
}

/// Ranks in another order than the cells of a grid have the same rows and columns.
#[test]
fn rows_are_those_of_the_network_however_ranks_are_numbered() {
    let torus = spec("torus:4x4");
    let turned: Vec<u32> = (0..16).map(|rank| rank * 7 % 16).collect();
    let turned = Arc::new(torus.with_ranks(&turned).unwrap());
    let seconds = |topology| flow_seconds(&plan("exchange", topology, &of_size(1024)), 1024);
    assert!((seconds(&torus) / seconds(&turned) - 1.0).abs() < 1e-9);
}

/// Pieces are not so small that their number costs more than their order saves.
#[test]
fn messages_in_order_are_no_crumbs() {
    for (text, size) in [("torus:4x4", 32 << 10), ("mesh:4x4", 32 << 10), ("line:3", 1000), ("b4", 1000)] {
        let topology = spec(text);
        let ordered = plan("packing", &topology, &of_size(size));
        let streamed = plan("packing", &topology, &Options { pipeline: false, ..of_size(size) });
        let most = (8 * streamed.trees.len() as u64).max(16 * size.div_ceil(512));
        assert!(ordered.trees.len() as u64 <= most, "{text}: {}", ordered.trees.len());
    }
}
