//! Every option of a machine: what is said to read it changes by it in some case, and nothing else does in any.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use treefold::options::Options as _;
use treefold::plan::{Collective, Plan, derive};
use treefold::planners;
use treefold::sim::Watch;
use treefold::sim::packet::readers::{refuse_unread, unread};
use treefold::sim::packet::{Options, simulate};
use treefold::topology::{NodeId, from_spec};
use treefold::units::Bytes;

/// A value of each option that changes something, beside what else that takes.
fn changes() -> Vec<(&'static str, Value, Value)> {
    let (none, rare) = (json!({}), json!({"table": 128, "reorder": 64}));
    vec![
        ("interfaces", json!("shared"), none.clone()),
        ("ports", json!(1), none.clone()),
        ("lockstep", json!(false), none.clone()),
        ("flow_control", json!("message"), none.clone()),
        ("virtual_channels", json!(1), none.clone()),
        ("buffer_flits", json!(17), none.clone()),
        ("flit", json!(32), none.clone()),
        ("payload", json!(64), none.clone()),
        ("clock", json!("3GHz"), none.clone()),
        ("router_cycles", json!(9), none.clone()),
        ("interface_packets", json!(1), none.clone()),
        ("injection_flits", json!(20), json!({"interfaces": "shared"})),
        ("processing_elements", json!(4), none.clone()),
        ("lanes", json!(1), none.clone()),
        ("switches", json!("fabric"), none.clone()),
        ("table", json!(128), json!({"reorder": 64})),
        ("wave", json!(256), none.clone()),
        ("waves", json!(1), json!({"wave": 256})),
        ("speedup", json!(1), none.clone()),
        ("queue_flits", json!(9), none.clone()),
        ("memory_cycles", json!(500), none.clone()),
        ("memory_spread", json!(1), none.clone()),
        ("timeout_cycles", json!(1500), rare.clone()),
        ("barrier", json!(true), none.clone()),
        ("initiation", json!("core"), none.clone()),
        ("reorder", json!(16), none.clone()),
        ("window", json!(1), none.clone()),
        ("credit", json!("acknowledgement"), json!({"wave": 256, "waves": 1})),
        ("home_mapping", json!("interleaved"), none.clone()),
        ("eviction_policy", json!("multicast"), rare),
        ("deterministic", json!(true), json!({"reorder": 16})),
        ("op", json!("max"), none.clone()),
        ("error_rate", json!(0.01), none.clone()),
        ("counters", json!(1), json!({"wave": 256})),
        ("retry_cycles", json!(1000), json!({"wave": 256, "counters": 1})),
        ("retries", json!(0), json!({"error_rate": 0.05})),
        ("sync_cost", json!("1us"), none.clone()),
        ("fence", json!("acknowledged"), none.clone()),
        ("seed", json!(2), none),
    ]
}

/// A plan of each kind that reads options.
fn plans() -> Vec<Plan> {
    let made = |network: &str, ranks: u32, algorithm: &str| {
        let whole = from_spec(network, None, None).unwrap();
        let ranks: Vec<u32> = (0..ranks).collect();
        planners::plan(algorithm, &Arc::new(whole.with_ranks(&ranks).unwrap()), &planners::Options::default()).unwrap()
    };
    let dgx2 = |algorithm| made("dgx2:planes=2", 16, algorithm);
    vec![
        made("torus:4x4", 16, "multitree"),
        made("dgx2", 16, "ring"),
        dgx2("ring"),
        dgx2("innet-push"),
        dgx2("innet-pull"),
        derive(dgx2("innet-pull"), Collective::AllGather, NodeId(0)).unwrap(),
    ]
}

/// What comes out of a plan on a machine with these options, or the error that refuses them.
fn outcome(plan: &Plan, options: &Options) -> Result<String, String> {
    let seen = simulate(plan, Bytes::known(100_000), options, Watch::NOTHING).map_err(|error| error.to_string())?;
    Ok(format!("{} {} {} {} {:?}", seen.cycles, seen.clock.hertz(), seen.packets, seen.flits, seen.fabric))
}

/// Reads options of which those that `plan` does not read are left out.
fn read(plan: &Plan, given: &Value) -> Options {
    let mut kept = given.as_object().unwrap().clone();
    let all = Options::read(&kept).unwrap();
    unread(plan, &all).unwrap().iter().for_each(|unread| drop(kept.remove(&unread.option)));
    Options::read(&kept).unwrap()
}

fn set(options: &Options, name: &str, value: &Value) -> Options {
    let Value::Object(mut values) = serde_json::to_value(options).unwrap() else { unreachable!() };
    values.insert(name.to_owned(), value.clone());
    let values: Map<String, Value> = values;
    Options::read(&values).unwrap()
}

#[test]
#[ignore = "takes seconds"]
fn an_option_has_an_effect_where_it_is_said_to_be_read_and_nowhere_else() {
    let (plans, changes) = (plans(), changes());
    let schema = Options::schema();
    let declared: Vec<&String> = schema["properties"].as_object().unwrap().keys().collect();
    // Only background traffic reads it, and `together` tests what it does there; without traffic it is refused.
    let kept = Options { kept_channels: Some(1), ..Options::default() };
    assert!(outcome(&plans[0], &kept).unwrap_err().contains("kept_channels=1 keeps virtual channels for background"));
    for name in declared.into_iter().filter(|name| *name != "kept_channels") {
        let (_, value, beside) = changes.iter().find(|(each, ..)| each == name).expect("a case for every option");
        let mut readers = Vec::new();
        for (number, plan) in plans.iter().enumerate() {
            let base = read(plan, beside);
            let changed = set(&base, name, value);
            let is_read = !unread(plan, &changed).unwrap().iter().any(|unread| unread.option == *name);
            let (before, after) = (outcome(plan, &base), outcome(plan, &changed));
            let differs = before != after;
            let silent = before.is_ok() && after.is_ok();
            assert!(is_read || !differs || !silent, "{name} has an effect on plan {number}, and is said to have none");
            assert_eq!(refuse_unread(plan, &changed).is_ok(), is_read, "{name}");
            readers.extend((is_read && differs).then_some(number));
        }
        assert!(!readers.is_empty(), "{name} has no effect in any case");
    }
}

#[test]
fn an_option_that_nothing_reads_is_refused_with_the_reason() {
    let plans = plans();
    for (plan, given, message) in [
        (
            3,
            json!({"barrier": true}),
            "has no effect: it is only for pulls, and this plan is simulated with pushes; leave barrier out",
        ),
        (
            2,
            json!({"table": 256}),
            "table=256B has no effect: it is only for pushes and pulls, and this plan is simulated with software on",
        ),
        (
            0,
            json!({"fence": "acknowledged"}),
            "fence=acknowledged has no effect: it is only for software on a fabric, and this plan is simulated with",
        ),
        (0, json!({"reorder": 2}), "reorder=2 has no effect: it is only for pushes, pulls and multicasts, and"),
        (4, json!({"lanes": 1}), "it is only for routers, and this plan is simulated with pulls"),
        (
            3,
            json!({"table": 256, "deterministic": true}),
            "table=256B has no effect: with deterministic=true nothing reads it",
        ),
        (5, json!({"wave": 256}), "wave=256B has no effect: with waves=0 nothing reads it"),
        (3, json!({"retries": 5}), "retries=5 has no effect: with error_rate=0.0 and counters=null nothing reads it"),
        (4, json!({"wave": 256, "waves": 0}), "wave=256B has no effect: with waves=0 nothing reads it"),
    ] {
        let machine = Options::read(given.as_object().unwrap()).unwrap();
        let refused = refuse_unread(&plans[plan], &machine).unwrap_err().to_string();
        assert!(refused.contains(message), "{refused}");
    }
}
