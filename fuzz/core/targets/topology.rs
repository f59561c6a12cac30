//! Topology documents: what is read is written, read again, and has bounds.

#![no_main]

use libfuzzer_sys::fuzz_target;
use treefold::bound::bounds;
use treefold::topology::Topology;

const MOST_LINKS: usize = 200;

fuzz_target!(|text: &str| {
    let Ok(topology) = Topology::from_json(text) else { return };
    let again = topology.to_json();
    assert_eq!(Topology::from_json(&again).expect("what is written can be read").to_json(), again);
    if topology.links().len() <= MOST_LINKS {
        bounds(&topology);
    }
});
