//! Generators build what their names promise; files round-trip; routes are shortest and deterministic.

use treefold::topology::{GENERATORS, Link, NodeId, Topology, from_spec};
use treefold::units::{Bandwidth, Time};

fn spec(text: &str) -> Topology {
    from_spec(text, None, None).unwrap()
}

fn counts(text: &str) -> (u32, usize, usize) {
    let topology = spec(text);
    (topology.ranks(), topology.nodes().len() - topology.ranks() as usize, topology.links().len())
}

#[test]
fn generators_have_the_published_sizes() {
    assert_eq!(counts("torus:8x8"), (64, 0, 256));
    assert_eq!(counts("torus:2x2"), (4, 0, 16), "a dimension of 2 has two parallel links");
    assert_eq!(counts("torus:4x4x4"), (64, 0, 384));
    assert_eq!(counts("mesh:4x4"), (16, 0, 48));
    assert_eq!(counts("hypercube:6"), (64, 0, 384));
    assert_eq!(counts("ring:1"), (1, 0, 0));
    assert_eq!(counts("full:8"), (8, 0, 56));
    assert_eq!(counts("dgx1"), (8, 0, 8 * 6), "each GPU has six NVLinks");
    assert_eq!(counts("dgx2"), (16, 2, 2 * (16 + 8)));
    assert_eq!(counts("dgx2:planes=6"), (16, 12, 6 * 48));
    assert_eq!(counts("fattree:8,2"), (64, 16, 2 * (64 + 64)));
    assert_eq!(counts("fattree:2,3"), (8, 12, 2 * 24));
    assert_eq!(counts("fattree128"), (128, 144, 6 * 2 * (128 + 128)));
    assert_eq!(counts("bigraph:4x8"), (32, 8, 2 * (32 + 16)));
    assert_eq!(counts("cluster:nodes=4,gpus=8,rails=8"), (32, 12, 2 * (32 + 32)));
    assert_eq!(counts("cluster:nodes=2,gpus=4,rails=2"), (8, 2 + 2 + 4, 2 * (8 + 8 + 4)));
    assert_eq!(counts("b4"), (12, 0, 38));
    assert_eq!(counts("equinix-like"), (20, 0, 282));
    assert_eq!(counts("idn-like"), (40, 0, 462));
    assert_eq!(counts("random:n=20,links=60,seed=1"), (20, 0, 120));
}

#[test]
fn every_example_of_the_table_builds_and_round_trips() {
    for generator in &GENERATORS {
        let topology = spec(generator.form.example);
        let again = Topology::from_json(&topology.to_json()).unwrap();
        assert_eq!(again.to_json(), topology.to_json(), "{}", generator.form.example);
        assert_eq!(again.links(), topology.links());
    }
}

#[test]
fn skewed_capacities_are_multiples_of_ten_in_the_papers_range() {
    for seed in 1..20 {
        let topology = spec(&format!("b4:skew=0.5,seed={seed}"));
        for link in topology.links() {
            let mbit = link.bandwidth.bytes_per_second() * 8.0 / 1e6;
            assert!((150.0..=250.0).contains(&mbit) && (mbit / 10.0 - (mbit / 10.0).round()).abs() < 1e-9, "{mbit}");
        }
    }
    assert_eq!(spec("b4:skew=0.5,seed=3").to_json(), spec("b4:skew=0.5,seed=3").to_json());
    assert_ne!(spec("b4:skew=0.5,seed=3").links(), spec("b4:skew=0.5,seed=4").links());
}

#[test]
fn given_bandwidth_and_latency_set_every_link() {
    for text in ["torus:4x4", "dgx2:planes=6", "b4"] {
        let topology = from_spec(text, Some(Bandwidth::known(1e9)), Some(Time::from_picoseconds(7))).unwrap();
        assert!(
            topology
                .links()
                .iter()
                .all(|link| link.bandwidth.bytes_per_second() == 1e9 && link.latency == Time::from_picoseconds(7)),
            "{text}"
        );
    }
}

#[test]
fn links_inside_and_between_servers_are_set_apart() {
    let text = "cluster:nodes=2,gpus=2,rails=2,nvlink=900GB/s,nic=800Gbit/s,nic_latency=2us";
    let cluster = spec(text);
    let (inside, between): (Vec<&Link>, Vec<&Link>) = cluster
        .links()
        .iter()
        .partition(|link| link.bandwidth == Bandwidth::known(900e9) && link.latency == Time::from_picoseconds(150_000));
    assert_eq!((inside.len(), between.len()), (8, 8));
    assert!(
        between
            .iter()
            .all(|link| link.bandwidth == Bandwidth::known(100e9) && link.latency == Time::from_picoseconds(2_000_000))
    );
    for (bandwidth, latency, key) in
        [(Some(Bandwidth::known(1e9)), None, "nic="), (None, Some(Time::from_picoseconds(1)), "nic_latency=")]
    {
        let message = from_spec("cluster", bandwidth, latency).unwrap_err().to_string();
        assert!(message.contains(key) && message.contains("differ"), "{message}");
    }
}

#[test]
fn routes_join_their_ends_in_as_many_links_as_hops() {
    for text in [
        "torus:5x4",
        "torus:2x3",
        "mesh:3x4",
        "hypercube:4",
        "dgx2",
        "fattree:4,3",
        "bigraph:4x8",
        "b4",
        "cluster:nodes=2,gpus=4,rails=2",
    ] {
        let topology = spec(text);
        for source in topology.rank_ids() {
            for target in topology.rank_ids().filter(|&target| target != source) {
                let mut route = Vec::new();
                topology.route(source, target, &mut route);
                let mut at = source;
                for &link in &route {
                    assert_eq!(topology.link(link).source, at);
                    at = topology.link(link).target;
                }
                assert_eq!(at, target);
                assert_eq!(route.len() as u32, topology.hops(source, target), "{text} {source} {target}");
            }
        }
    }
}

#[test]
fn routes_are_dimension_ordered_and_up_down() {
    let mut route = Vec::new();
    let torus = spec("torus:8x8");
    torus.route(NodeId(0), NodeId(8 * 3 + 6), &mut route);
    let path: Vec<u32> = route.iter().map(|&link| torus.link(link).target.0).collect();
    assert_eq!(path, [7, 6, 14, 22, 30], "X first, the shorter way round");
    let tree = spec("fattree:8,2");
    route.clear();
    tree.route(NodeId(3), NodeId(63), &mut route);
    let path: Vec<&str> = route.iter().map(|&link| tree.node(tree.link(link).target).name.as_str()).collect();
    assert_eq!(path, ["SW0", "SW11", "SW7", "GPU63"], "the up-port is the source's");
}

#[test]
fn a_subset_of_ranks_keeps_names_and_routes() {
    let torus = spec("torus:4x4");
    let part = torus.with_ranks(&[5, 0, 10]).unwrap();
    assert_eq!(part.ranks(), 3);
    assert_eq!(part.nodes().len(), 16);
    assert_eq!(part.node(NodeId(0)).name, "GPU5");
    let mut route = Vec::new();
    part.route(NodeId(1), NodeId(2), &mut route);
    let path: Vec<&str> = route.iter().map(|&link| part.node(part.link(link).target).name.as_str()).collect();
    assert_eq!(path, ["GPU1", "GPU2", "GPU6", "GPU10"]);
    assert_eq!(Topology::from_json(&part.to_json()).unwrap().node(NodeId(0)).name, "GPU5");
    assert!(torus.with_ranks(&[16]).unwrap_err().to_string().contains("no accelerator with index 16"));
    assert!(torus.with_ranks(&[1, 1]).unwrap_err().to_string().contains("listed twice"));
    assert!(torus.with_ranks(&[]).unwrap_err().to_string().contains("no rank"));
}

#[test]
fn bad_specs_name_the_thing_the_value_and_a_remedy() {
    for (text, expected) in [
        ("torsu:8x8", "neither a file nor a known spec"),
        ("torus:8xx8", "'' is not a positive whole number"),
        ("torus:0x8", "'0' is not a positive"),
        ("torus:-1", "'-1' is not a positive"),
        ("torus", "'' is not a positive"),
        ("ring:8x8", "takes 1 size, got 2"),
        ("torus:100000x100000", "treefold handles"),
        ("fattree:99,9", "treefold handles"),
        ("hypercube:40", "at most 16"),
        ("bigraph:4x7", "must be even"),
        ("cluster:nodes=4,gpus=8,rails=3", "evenly"),
        ("cluster:nodes=0", "at least 1"),
        ("b4:skew=1.5", "between 0 and 1"),
        ("b4:skew=nan", "between 0 and 1"),
        ("b4:7", "has no meaning"),
        ("b4:sed=3", "key 'sed' is unknown; did you mean seed? known are skew, seed"),
        ("torus:a=3", "torus has no keys such as 'a'"),
        ("Tours:8x8", "did you mean torus:8x8?"),
        ("cluster:nic=50", "nic: bandwidth '50': write a number and a unit"),
        ("b4:seed=1,seed=2", "given twice"),
        ("dgx2:planes=x", "planes='x'"),
        ("random:n=5,links=3", "need 4 to 10 links"),
    ] {
        let message = from_spec(text, None, None).unwrap_err().to_string();
        assert!(message.contains(expected) && message.contains(text) && !message.contains('\n'), "{message}");
    }
}

#[test]
fn bad_files_name_the_thing_the_value_and_a_remedy() {
    let file = |nodes: &str, links: &str| {
        Topology::from_json(&format!(
            r#"{{"format":"treefold-topology","version":1,"name":"t","nodes":[{nodes}],"links":[{links}]}}"#
        ))
        .unwrap_err()
        .to_string()
    };
    let ab = r#"{"name":"A"},{"name":"B"}"#;
    let link = |bandwidth: &str| format!(r#"{{"source":"A","target":"B","bandwidth_Bps":{bandwidth}}}"#);
    assert_eq!(file(ab, &link("0")), "link A -> B: bandwidth must be positive, got 0");
    assert!(file(ab, &link("-3")).contains("must be positive, got -3"));
    assert!(file(ab, &link("1e300")).contains("out of range"));
    assert!(file(ab, &link("\"fast\"")).contains("expected f64"));
    assert!(file(ab, &link("1e9")).contains("no path from B to A; add the missing direction, or leave B out"));
    assert!(file(ab, "").contains("disconnected: 2 components: {A}, {B}"));
    assert!(file(r#"{"name":"A"},{"name":"A"}"#, "").contains("'A' is listed twice"));
    assert!(file(ab, r#"{"source":"A","target":"A","bandwidth_Bps":1}"#).contains("same node"));
    assert!(file(ab, r#"{"source":"A","target":"C","bandwidth_Bps":1}"#).contains("no node 'C'"));
    assert!(file(r#"{"name":"A","kind":"router"}"#, "").contains("'router'"));
    let able = file(r#"{"name":"A","multicasts":true}"#, "");
    assert!(able.starts_with("node 'A': an accelerator does not reduce or multicast as switches do; drop"), "{able}");
    assert!(file(r#"{"name":"A\u001b[2J"}"#, "").contains(r"got \u{1b}; remove it"));
    assert!(file(r#"{"name":"A\nB"}"#, "").contains(r"node 'A\nB': names must not have control characters"));
    assert!(file(r#"{"name":"A\u202e"}"#, "").contains("control characters"));
    assert!(file(r#"{"name":" "}"#, "").contains("must not be blank"));
    assert!(file(r#"{"name":"A","latitude":91,"longitude":0}"#, "").contains("between -90 and 90 degrees, got 91"));
    assert!(file(r#"{"name":"A","latitude":9}"#, "").contains("give both or neither"));
    assert!(file("", "").contains("no rank"));
    assert!(Topology::from_json("{").unwrap_err().to_string().contains("topology file"));
    let newer = r#"{"format":"treefold-topology","version":99,"nodes":[],"links":[]}"#;
    assert!(Topology::from_json(newer).unwrap_err().to_string().contains("upgrade treefold"));
}

#[test]
fn positions_on_earth_are_kept() {
    let text = r#"{"format":"treefold-topology","version":1,"name":"t","links":[],
        "nodes":[{"name":"Paris","latitude":48.8566,"longitude":2.3522}]}"#;
    let paris = Topology::from_json(text).unwrap();
    let again = Topology::from_json(&paris.to_json()).unwrap();
    assert_eq!(again.node(NodeId(0)).position.map(|at| (at.latitude, at.longitude)), Some((48.8566, 2.3522)));
    assert_eq!(again, paris);
}
