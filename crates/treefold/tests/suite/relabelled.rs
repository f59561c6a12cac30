//! The name of a plan's algorithm is only a name: its trees and paces say what is sent, how tables order it and how
//! long it takes.

use crate::common::{planned, spec};
use treefold::plan::tables::{Tables, lockstep, lower_for_interfaces};
use treefold::plan::{AnyPlan, Collective, Draft, Pace, Plan, Walkable};
use treefold::planners::{self, Options, PLANNERS};
use treefold::sim::{Watch, flow, packet};
use treefold::topology::NodeId;
use treefold::units::Bytes;

const NETWORKS: [&str; 5] = ["torus:3x3", "ring:5", "dgx2", "bigraph:2x4", "line:1"];

/// The plan under a name that no planner has, from its file, as anybody could write it.
fn relabelled(plan: &Plan) -> Plan {
    let text = plan.to_json();
    let name = format!("\"algorithm\":\"{}\"", plan.algorithm);
    assert_eq!(text.matches(&name).count(), 1);
    Plan::from_json(&text.replace(&name, "\"algorithm\":\"mine\"")).unwrap().prove().unwrap().clone()
}

fn with_pace(plan: Plan, pace: Pace) -> Plan {
    let mut draft = Draft::from(plan);
    draft.phases[0].pace = pace;
    draft.prove().unwrap()
}

/// The plan, its reduce halves, and the plans that are derived from it, with their names.
fn kin(plan: &Plan) -> Vec<(String, AnyPlan)> {
    let whole = AnyPlan::Sound(plan.clone());
    let derived = Collective::ALL.into_iter().map(|it| (it.to_string(), whole.derive(it, NodeId(0))));
    let all = derived.chain([("halves".to_owned(), whole.reduce_halves())]);
    all.filter_map(|(name, plan)| Some((name, plan.ok()?))).collect()
}

/// What simulators say of the plan, as a text; it is empty if one refuses the plan, whose errors may name it.
fn simulated(plan: Walkable<'_>) -> [String; 2] {
    let size = Bytes::known(1 << 13);
    let packets = packet::simulate(plan, size, &packet::Options::default(), Watch::TRANSFERS);
    let unrecorded = || packet::simulate(plan, size, &packet::Options::default(), Watch::NOTHING);
    let packets = packets.or_else(|_| unrecorded()).map(|outcome| format!("{outcome:?}"));
    let flows = flow::simulate(plan, size, Watch::TRANSFERS).map(|trace| format!("{trace:?}"));
    [packets, flows].map(Result::unwrap_or_default)
}

fn tables(plan: &Plan) -> Tables {
    let schedule = lower_for_interfaces(plan, 1 << 11, 4).unwrap();
    Tables::new(plan, &schedule, 4, lockstep(plan)).unwrap()
}

/// Every planner, all collectives: under another name a plan has the same fingerprint, tables and simulations.
#[test]
fn the_name_of_a_plan_changes_nothing_but_itself() {
    let mut seen = Vec::new();
    for (text, planner) in NETWORKS.iter().flat_map(|text| PLANNERS.iter().map(move |planner| (text, planner))) {
        let Ok(plan) = planners::plan(planner.name, &spec(text), &Options::default()) else { continue };
        let other = relabelled(&plan);
        assert_eq!(plan.fingerprint(), other.fingerprint(), "{} on {text}", planner.name);
        for ((collective, one), (_, two)) in kin(&plan).into_iter().zip(kin(&other)) {
            let who = format!("{} {collective} on {text}", planner.name);
            assert!(simulated(one.sound().unwrap()) == simulated(two.sound().unwrap()), "{who}");
            if let (Ok(one), Ok(two)) = (one.runnable(), two.runnable()) {
                assert!(tables(one).of_rank == tables(two).of_rank, "{who}");
            }
        }
        seen.push(planner.name);
    }
    assert!(PLANNERS.iter().all(|planner| seen.contains(&planner.name)), "{seen:?}");
}

/// The facts that names once stood for are in the plan: a fingerprint, a table or a simulation differs without them.
#[test]
fn paces_say_what_names_once_said() {
    let tree = planned("dbtree", "torus:4x4");
    let stream = with_pace(tree.clone(), Pace::Stream);
    assert!(tree.fingerprint() != stream.fingerprint() && tables(&tree).of_rank != tables(&stream).of_rank);
    assert!(simulated((&tree).into())[0] != simulated((&stream).into())[0], "tables decide in packets");
    assert!(simulated((&tree).into())[1] == simulated((&stream).into())[1], "but not in flows");

    let pull = planned("innet-pull", "dgx2");
    let push = with_pace(pull.clone(), Pace::Stream);
    assert_ne!(pull.fingerprint(), push.fingerprint());
    let reduce = |plan: Plan| AnyPlan::Sound(plan).derive(Collective::Reduce, NodeId(0)).unwrap();
    let [pull, push] = [pull, push].map(|plan| simulated(reduce(plan).sound().unwrap()));
    assert!(!pull[0].is_empty() && pull[0] != push[0] && pull[1] == push[1]);
}

/// A plan keeps its pace where it is moved, derived, reduced to its halves, and split over planes.
#[test]
fn kin_of_a_plan_keep_its_pace() {
    for (algorithm, text, pace) in
        [("dbtree", "dgx2:planes=6", Pace::SubFlows), ("innet-pull", "dgx2:planes=6", Pace::Pulled)]
    {
        let plan = planned(algorithm, text);
        let moved = plan.moved_to(&spec(text)).unwrap().prove().unwrap().clone();
        for (name, kin) in kin(&plan).into_iter().chain(kin(&moved)) {
            assert!(kin.sound().unwrap().phases.iter().all(|phase| phase.pace == pace), "{algorithm} {name}");
        }
    }
}
