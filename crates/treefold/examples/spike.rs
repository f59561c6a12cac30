use std::sync::Arc;
fn main() {
    let t = Arc::new(treefold::topology::from_spec(&std::env::args().nth(1).unwrap(), None, None).unwrap());
    let p = treefold::planners::plan("multitree", &t, &Default::default()).unwrap();
    println!("{:?}", p.steps());
}
