//! Links that are watched: connections that were cut and come back, probes of idle links, round trips.

use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use treefold::plan::Plan;
use treefold::planners;
use treefold::run::tcp::{ControlMessage, Failure, Mesh};
use treefold::topology::{Directions, NodeId, from_spec};

use crate::run::{all_reduce, meshes, ring, together};

/// Serves the connections until `done` says so.
fn serve(mesh: &mut Mesh, done: impl Fn(&Mesh) -> bool) {
    let end = Instant::now() + Duration::from_secs(15);
    while !done(mesh) {
        assert!(Instant::now() < end, "it takes too long: {:?}", mesh.failure());
        mesh.idle(Duration::from_millis(50), &|| false);
    }
}

/// Ranks 0 and 1 take their connection for cut, as if their kernels had said so; `both` has them begin together, so
/// that each says so before it drops the connection.
fn cut(mesh: &mut Mesh, both: &Barrier, rank: u32, life: u32) {
    if rank < 2 {
        both.wait();
        mesh.announce(&ControlMessage::Cut { rank: NodeId(1 - rank), life, cause: "test".into() });
    }
    serve(mesh, |mesh| mesh.lives().iter().any(|&(_, last)| last >= life));
}

#[test]
fn a_pair_that_was_cut_meets_again_and_a_second_cut_is_news() {
    let (mut meshes, both, all) = (meshes(4), Barrier::new(2), Barrier::new(4));
    let plan = ring(4, false);
    let pair = (NodeId(0), NodeId(1));
    let found = together(&mut meshes, |rank, mesh| {
        mesh.watch(Vec::new());
        let before = all_reduce(mesh, &plan, rank, 1000).is_ok();
        all.wait();
        cut(mesh, &both, rank, 0);
        // Nobody broadcasts before: `serve` would not go on behind a message that the layer above has to take.
        all.wait();
        let during = all_reduce(mesh, &plan, rank, 1000);
        mesh.use_from(&[(pair, None)]);
        serve(mesh, |mesh| rank > 1 || !mesh.returned().is_empty());
        let returned = mesh.returned();
        // The layer above makes sure that all ranks switch between the same operations; here a broadcast does.
        mesh.broadcast(vec![]);
        let (mut heard, end) = (0, Instant::now() + Duration::from_secs(15));
        while heard < 3 {
            assert!(Instant::now() < end, "only {heard} others are as far");
            mesh.idle(Duration::from_millis(50), &|| false);
            heard += mesh.receive().len();
        }
        mesh.skip_to(10);
        mesh.use_from(&[(pair, Some(1))]);
        // A late report of the first cut changes nothing.
        if rank == 0 {
            mesh.announce(&ControlMessage::Cut { rank: NodeId(1), life: 0, cause: "late".into() });
        }
        let after: Vec<_> = (0..3).map(|_| all_reduce(mesh, &plan, rank, 100_000)).collect();
        all.wait();
        cut(mesh, &both, rank, 1);
        (before, during, returned, after, all_reduce(mesh, &plan, rank, 1000))
    });
    for (rank, (before, during, returned, after, again)) in found.into_iter().enumerate() {
        assert!(before);
        assert!(matches!(during, Err(Failure::Cut { .. })), "{during:?}");
        assert_eq!(returned, if rank < 2 { vec![(NodeId(1 - rank as u32), 1)] } else { vec![] });
        for result in after {
            assert_eq!(result.unwrap()[99_999], 4 * 3 * 99_999 + 6);
        }
        assert!(matches!(again, Err(Failure::Cut { .. })), "{again:?}");
    }
}

#[test]
fn a_connection_that_dies_again_before_a_plan_uses_it_ends_no_operation() {
    let (mut meshes, both) = (meshes(4), Barrier::new(2));
    let pair = (NodeId(0), NodeId(1));
    let plan = around(4);
    let found = together(&mut meshes, |rank, mesh| {
        mesh.watch(Vec::new());
        cut(mesh, &both, rank, 0);
        mesh.use_from(&[(pair, None)]);
        for life in 1..3 {
            serve(mesh, |mesh| rank > 1 || !mesh.returned().is_empty());
            cut(mesh, &both, rank, life);
        }
        (mesh.failure(), all_reduce(mesh, &plan, rank, 1000).map(|sums| sums[10]))
    });
    for (failure, sum) in found {
        assert_eq!((failure, sum), (None, Ok(4 * 30 + 6)));
    }
}

/// A plan for as many ranks in a line that does without ranks 0 and 1 side by side: 1, 2, ..., 0.
fn around(ranks: u32) -> Plan {
    let ring = from_spec(&format!("ring:{ranks}"), None, None).unwrap();
    let line = ring.without_links(&[("GPU0".into(), "GPU1".into())], Directions::BothWays).unwrap();
    planners::plan("multitree", &Arc::new(line), &planners::Options::default()).unwrap()
}

#[test]
fn an_idle_link_is_probed_and_round_trips_are_measured_beside_operations() {
    let mut meshes = meshes(4);
    let plan = around(4);
    let found = together(&mut meshes, |rank, mesh| {
        mesh.watch(if rank == 0 { vec![NodeId(1)] } else { Vec::new() });
        let (mut probes, mut sums) = (Vec::new(), Vec::new());
        let end = Instant::now() + Duration::from_secs(14);
        while Instant::now() < end {
            mesh.idle(Duration::from_millis(100), &|| false);
            probes.extend(mesh.probes());
        }
        sums.push(all_reduce(mesh, &plan, rank, 100_000).unwrap()[10]);
        (probes, mesh.round_trips(), sums)
    });
    for (rank, (probes, trips, sums)) in found.into_iter().enumerate() {
        assert_eq!(sums, [4 * 30 + 6]);
        assert_eq!(trips.len(), 3, "{trips:?}");
        assert!(trips.iter().all(|(_, time)| *time < Duration::from_millis(100)), "{trips:?}");
        assert_eq!(probes.len(), usize::from(rank == 0), "{probes:?}");
        for probe in probes {
            assert!(probe.rank == NodeId(1) && probe.bytes as f64 / probe.seconds.get() > 1e7, "{probe:?}");
        }
    }
}
