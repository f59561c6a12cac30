//! Traces in the Chrome format, as a program that draws them reads them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::common::networks::{cases, networks, options, plans};
use crate::common::{half, link, tree};
use proptest::prelude::*;
use serde_json::Value;
use treefold::plan::{Draft, Half, LaneRoutes, Pace, Plan};
use treefold::sim::chrome::to_chrome;
use treefold::sim::trace::Trace;
use treefold::sim::{Watch, flow};
use treefold::topology::{Node, Shape, Topology};
use treefold::units::Bytes;

/// What a viewer shows: tracks by id, each with its name, its place, and what runs on it.
#[derive(Default)]
struct Track {
    name: String,
    place: Option<u64>,
    /// Start and duration in microseconds, and bytes.
    slices: Vec<(f64, f64, f64)>,
}

fn simulate(plan: &Plan, size: u64) -> Trace {
    flow::simulate(plan, Bytes::known(size), Watch::TRANSFERS).unwrap()
}

/// The tracks of a file, and the arguments of its process.
fn read(text: &str) -> (BTreeMap<u64, Track>, Value) {
    let file: Value = serde_json::from_str(text).unwrap();
    let (mut tracks, mut process) = (BTreeMap::<u64, Track>::new(), Value::Null);
    for event in file["traceEvents"].as_array().unwrap() {
        assert_eq!(event["pid"], 1, "{event}");
        if event["name"] == "process_name" {
            process = event["args"].clone();
            continue;
        }
        let track = tracks.entry(event["tid"].as_u64().unwrap()).or_default();
        let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("{event}"));
        match (event["ph"].as_str().unwrap(), event["name"].as_str().unwrap()) {
            ("X", name) => {
                assert!(!name.is_empty() && ["reduce", "broadcast"].contains(&event["cat"].as_str().unwrap()));
                track.slices.push((number(&event["ts"]), number(&event["dur"]), number(&event["args"]["bytes"])));
            }
            ("M", "thread_name") => track.name = event["args"]["name"].as_str().unwrap().into(),
            ("M", "thread_sort_index") => track.place = event["args"]["sort_index"].as_u64(),
            _ => panic!("{event}"),
        }
    }
    (tracks, process)
}

/// Most of these intervals at any one moment.
fn depth(intervals: &[(f64, f64)]) -> usize {
    let at = |moment: f64| intervals.iter().filter(|(start, end)| *start <= moment && moment < *end).count();
    intervals.iter().map(|(start, _)| at(*start)).max().unwrap_or(0)
}

fn assert_readable(plan: &Plan, trace: &Trace) {
    let text = to_chrome(&[(plan, trace)]);
    let (tracks, process) = read(&text);
    assert_eq!(process["time_s"].as_f64().unwrap(), trace.seconds.get());
    for track in tracks.values() {
        let mut end = 0.0;
        for &(start, duration, _) in &track.slices {
            let rounding = 2e-6 + 1e-12 * start;
            assert!(start >= 0.0 && duration >= 0.0 && start >= end - rounding, "{start} before {end}: {}", track.name);
            end = start + duration;
        }
    }
    let routes = LaneRoutes::new(&plan.topology, &plan.lanes);
    for id in plan.topology.link_ids() {
        let spans = || trace.transfers.iter().filter(|span| routes.of(span.lane).contains(&id));
        let of_link: Vec<&Track> = tracks.values().filter(|track| track.place == Some(id.into())).collect();
        let most = depth(&spans().map(|span| (span.start.get(), span.sent.get())).collect::<Vec<_>>()).max(1);
        let name = plan.topology.describe_link(id);
        assert!((1..=most).contains(&of_link.len()), "{} tracks for {most} at once on {name}", of_link.len());
        for (beside, track) in of_link.iter().enumerate() {
            let expected = if beside == 0 { name.clone() } else { format!("{name} ({})", beside + 1) };
            assert_eq!(track.name, expected);
            assert!(beside == 0 || !track.slices.is_empty());
        }
        let slices = || of_link.iter().flat_map(|track| &track.slices);
        let bytes = [slices().map(|slice| slice.2).sum::<f64>(), spans().map(|span| span.bytes).sum()];
        assert!(slices().count() == spans().count() && (bytes[0] - bytes[1]).abs() <= 1e-9 * bytes[1], "{name}");
    }
    assert!(tracks.values().all(|track| track.place.is_some()), "a transfer on a track without a link");
    assert_eq!(text, to_chrome(&[(plan, &simulate(plan, trace.size.get()))]), "not the same twice");
}

proptest! {
    #![proptest_config(cases(30))]

    #[test]
    fn a_viewer_can_read_every_trace(topology in networks(), options in options(), bits in 10..26u32) {
        for plan in plans(&topology, &options) {
            let mut draft = Draft::from(plan);
            draft.trees.iter_mut().for_each(|tree| tree.chunk = treefold::plan::Chunk::Count(5));
            let plan = draft.unchecked();
            assert_readable(&plan, &simulate(&plan, 1 << bits));
        }
    }
}

/// Two messages that share a link lie beside each other, a third that follows them takes the link's own track again.
#[test]
fn transfers_that_overlap_lie_beside_each_other() {
    let nodes = vec![Node::accelerator("the \"first\""), Node::accelerator("C:\\second")];
    let topology = Topology::new("a\\b \"c\"", nodes, vec![link(0, 1), link(1, 0)], None, Shape::General).unwrap();
    let mut plan = Draft::new(&Arc::new(topology), "by hand", 4);
    for (spans, from, to) in [(vec![0..1, 1..3], 0, 1), (vec![0..1], 1, 0), (vec![0..1], 0, 1)] {
        let down = half(&mut plan, &[(from, to, 0)]);
        let trees = spans.into_iter().map(|span| tree(span, from, Half::None, down.clone())).collect();
        plan.push_phase(Pace::Stream, trees);
    }
    let plan = plan.unchecked();
    let trace = simulate(&plan, 4096);
    assert_readable(&plan, &trace);
    let (tracks, process) = read(&to_chrome(&[(&plan, &trace)]));
    assert_eq!(process["name"], "all-reduce by by hand on a\\b \"c\", 4KiB");
    let names: Vec<&str> = tracks.values().map(|track| track.name.as_str()).collect();
    let [there, back] = ["the \"first\" -> C:\\second", "C:\\second -> the \"first\""];
    assert_eq!(names, [there, back, &format!("{there} (2)")]);
    // 1024 and 2048 bytes at 1 GB/s, a latency of 1 us, then 1024 bytes back, and there again.
    assert_eq!(tracks[&1].slices, [(0.0, 2.048, 1024.0), (5.072, 1.024, 1024.0)]);
    assert_eq!(tracks[&3].slices, [(0.0, 3.072, 2048.0)]);
    assert_eq!(tracks[&2].slices, [(3.048, 1.024, 1024.0)]);
}

#[test]
fn every_link_has_a_track_even_if_nothing_is_sent() {
    let plan = crate::common::planned("ring", "torus:2x4");
    let (tracks, _) = read(&to_chrome(&[(&plan, &simulate(&plan, 0))]));
    let places: BTreeSet<_> = tracks.values().map(|track| track.place.unwrap()).collect();
    assert_eq!((tracks.len(), places.len()), (plan.topology.links().len(), plan.topology.links().len()));
    assert!(tracks.values().all(|track| track.slices.is_empty()));
}
