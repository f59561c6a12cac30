//! Texts of the command line: specs of networks, sizes, bandwidths, times, collectives.

#![no_main]

use libfuzzer_sys::fuzz_target;
use treefold::plan::Collective;
use treefold::topology::from_spec;
use treefold::units::{parse_bandwidth, parse_bytes, parse_time};

fuzz_target!(|text: &str| {
    let said = [
        parse_bytes(text).err(),
        parse_bandwidth(text).err(),
        parse_time(text).err(),
        text.parse::<Collective>().err(),
        from_spec(text, None, None).err(),
    ];
    for message in said.into_iter().flatten().map(|error| error.to_string()) {
        assert!(!message.contains(char::is_control), "{message:?}");
    }
});
