use std::sync::Arc;
use treefold::planners::{self, Options};
fn main() {
    let topology = Arc::new(treefold::topology::Topology::from_json(&std::fs::read_to_string(std::env::args().nth(1).unwrap()).unwrap()).unwrap());
    let t = std::time::Instant::now();
    let (plan, proof) = planners::plan_with_proof("packing", &topology, &Options::default(), &mut |s| { println!("{:.2} {s}", t.elapsed().as_secs_f64()); true }).unwrap();
    println!("{:.2} {:?} {} trees", t.elapsed().as_secs_f64(), proof, plan.trees.len());
    let options = Options { size: treefold::units::Bytes::known(1<<40), ..Options::default() };
    let (plan, proof) = planners::plan_with_proof("packing", &topology, &options, &mut |s| { println!("{:.2} {s}", t.elapsed().as_secs_f64()); true }).unwrap();
    println!("{:.2} {:?} {} trees", t.elapsed().as_secs_f64(), proof, plan.trees.len());
}
