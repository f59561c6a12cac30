use std::sync::Arc;
use std::collections::BTreeMap;
use treefold::planners::{self, Options};
use treefold::plan::alpha_beta::Profile;
fn main() {
    let base: BTreeMap<String, serde_json::Value> = serde_json::from_str(&std::fs::read_to_string("/tmp/base.json").unwrap()).unwrap();
    let nets: BTreeMap<String, String> = serde_json::from_str(&std::fs::read_to_string("/tmp/nets.json").unwrap()).unwrap();
    let only = std::env::args().nth(1).unwrap_or_default();
    let (mut total, mut old) = (0.0, 0.0);
    for (key, was) in &base {
        if !key.contains(&only) { continue; }
        let was = was.as_array().unwrap();
        let words: Vec<&str> = key.split(' ').collect();
        let topology = Arc::new(treefold::topology::Topology::from_json(&nets[words[0]]).unwrap());
        let mut options = Options::default();
        match (words[2], words.get(3)) {
            ("None", _) => {}
            ("h4", _) => { options.trees = Some(2); options.height = Some(4); }
            ("lr", _) => options.least_rate = Some(treefold::units::parse_bandwidth("2MB/s").unwrap()),
            (t, _) if t.ends_with('B') => options.size = treefold::units::parse_bytes(t).unwrap(),
            (t, _) => options.trees = Some(t.parse().unwrap()),
        }
        let t = std::time::Instant::now();
        let planned = planners::plan_with_proof(words[1], &topology, &options, &mut |_| true);
        let s = t.elapsed().as_secs_f64();
        let cpu = was.last().unwrap().as_f64().unwrap();
        total += s; old += cpu;
        match planned {
            Ok((plan, proof)) => {
                let rate = plan.rate().map(|r| r.bytes_per_second()).unwrap_or(0.0);
                let time = Profile::new(&plan).seconds(options.size).get();
                let w = was[0].as_f64().unwrap_or(0.0);
                let wt = was.get(2).and_then(|x| x.as_f64()).unwrap_or(0.0);
                if words[2].ends_with('B') { if (time / wt - 1.0).abs() > 0.005 || s > 2.0 { println!("{key}: time {wt:.3e} -> {time:.3e} ({:.3}) trees {} -> {} cpu {cpu:.2} -> {s:.2}", wt/time, was[1], plan.trees.len()); } }
                else if (rate / w - 1.0).abs() > 0.002 || s > 2.0 || plan.trees.len() as f64 > 1.3 * was[1].as_f64().unwrap_or(0.0) + 1.0 { println!("{key}: rate {:.4} trees {} -> {} cpu {cpu:.2} -> {s:.2} gap {:?}", rate / w, was[1], plan.trees.len(), proof.gap); }
            }
            Err(e) => if was.len() != 2 || was[0].as_str().unwrap() != e.to_string() { println!("{key}: {e} | was {:?}", was[0]); },
        }
    }
    println!("total {old:.1} -> {total:.1}");
}
