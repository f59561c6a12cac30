use std::sync::Arc;
use treefold::{planners, topology, plan};
fn cpu() -> f64 { let s = std::fs::read_to_string("/proc/self/stat").unwrap(); let f: Vec<&str> = s.rsplit(')').next().unwrap().split_whitespace().collect(); (f[11].parse::<f64>().unwrap()+f[12].parse::<f64>().unwrap())/100.0 }
fn main() {
    let alg = std::env::args().nth(1).unwrap();
    for spec in std::env::args().skip(2) {
        let t = Arc::new(topology::from_spec(&spec, None, None).unwrap());
        let c = cpu();
        match planners::plan(&alg, &t, &planners::Options::default()) {
            Ok(p) => {
                let c1 = cpu();
                let r = plan::check::check(&p);
                println!("{spec}: steps/phase {:?} trees {} plan {:.2}s check {:.2}s {:?} rate {:?} {:?}", p.steps().map(|s| s as f64/2.0), p.trees.len(), c1-c, cpu()-c1, r, p.rate(), p.shape());
            }
            Err(e) => println!("{spec}: {e}"),
        }
    }
    println!("{}", std::fs::read_to_string("/proc/self/status").unwrap().lines().find(|l| l.starts_with("VmHWM")).unwrap());
}
