//! How quantities are read and written.

use super::*;

#[test]
fn people_write_units_in_many_ways() {
    assert_eq!(parse_bytes("64MiB").unwrap(), Bytes::known(64 << 20));
    assert_eq!(parse_bytes("1.5 KiB").unwrap(), Bytes::known(1536));
    assert_eq!(parse_bytes("4096").unwrap(), Bytes::known(4096));
    assert_eq!(parse_bytes("1e6B").unwrap(), Bytes::known(1_000_000));
    assert_eq!(parse_bandwidth("100Gbit/s").unwrap(), Bandwidth(12.5e9));
    assert_eq!(parse_bandwidth("16GB/s").unwrap(), Bandwidth(16e9));
    assert_eq!(parse_time("150ns").unwrap(), Time::from_picoseconds(150_000));
    assert_eq!(parse_time("0").unwrap(), Time::ZERO);
}

/// A size in hundredths of a unit is what integers say, and refused only if it is no whole number of bytes.
#[test]
fn sizes_are_exact() {
    let units = [("KB", 1000u64), ("MB", 1_000_000), ("GB", 1_000_000_000), ("TB", 1_000_000_000_000), ("KiB", 1024)];
    for (hundredths, (unit, bytes)) in (1..10_000u64).flat_map(|number| units.map(|unit| (number, unit))) {
        let text = format!("{}.{:02}{unit}", hundredths / 100, hundredths % 100);
        let exact = hundredths * bytes;
        let read = parse_bytes(&text).ok();
        assert_eq!(read, exact.is_multiple_of(100).then_some(Bytes(exact / 100)), "{text}");
    }
    for (text, bytes) in [
        ("2.010e3", 2010),
        ("201e-2KB", 2010),
        ("0.0009765625KiB", 1),
        (".5KB", 500),
        ("+1.KB", 1000),
        ("0e99", 0),
        ("999999999999999999", 999_999_999_999_999_999),
        ("0.999999999999999999e18", 999_999_999_999_999_999),
    ] {
        assert_eq!(parse_bytes(text).unwrap(), Bytes(bytes), "{text}");
    }
    assert!(parse_bytes("1.00000000000000000000001KB").is_err(), "a float would take it for 1000");
}

#[test]
fn nonsense_is_refused_with_the_value_and_a_remedy() {
    for text in ["", "MiB", "64QB", "-1MiB", "1.5B", "0.1KiB", "nanMiB", "inf", "1e30B"] {
        let message = parse_bytes(text).unwrap_err().to_string();
        assert!(message.contains(text), "{message}");
    }
    for text in ["16", "0GB/s", "-1GB/s", "16GB", "NaNGB/s", "1e30GB/s", "1e-9B/s"] {
        let message = parse_bandwidth(text).unwrap_err().to_string();
        assert!(message.contains(text), "{message}");
    }
    for text in ["5", "-1ms", "5min", "1e9s"] {
        assert!(parse_time(text).unwrap_err().to_string().contains(text));
    }
    for text in ["5", "0Hz", "-1GHz", "NaNHz", "1e400Hz", "GHz"] {
        assert!(parse_frequency(text).unwrap_err().to_string().contains(text));
    }
}

#[test]
fn times_are_the_same_when_read_back() {
    let read_back = |time: Time| Time::from_seconds(time.seconds()).unwrap();
    for spread in (1..100_000u64).map(|number| number.wrapping_mul(0x9e37_79b9_7f4a_7c15)) {
        // A number of seconds has no room for all picoseconds of more than two hours.
        let time = Time::from_picoseconds(spread % (8_000 * PICOSECONDS));
        assert_eq!(read_back(time), time);
        let long = read_back(Time::from_picoseconds(spread % (100_000 * PICOSECONDS)));
        assert_eq!(read_back(long), long);
    }
}

#[test]
fn values_print_as_people_write_them() {
    assert_eq!(Bytes::known(64 << 20).to_string(), "64MiB");
    assert_eq!(Bandwidth(12.5e9).to_string(), "12.5GB/s");
    assert_eq!(Time::from_picoseconds(150_000).to_string(), "150ns");
    assert_eq!(Bytes::known(0).to_string(), "0B");
}

#[test]
fn a_unit_in_the_wrong_case_is_guessed() {
    let said = |error: crate::error::Error| error.to_string();
    assert!(said(parse_bytes("1mib").unwrap_err()).ends_with("; did you mean 1MiB?"));
    assert!(said(parse_bandwidth("400gbit/s").unwrap_err()).ends_with("; did you mean 400Gbit/s?"));
    assert!(said(parse_time("5MS").unwrap_err()).ends_with("; did you mean 5ms?"));
    assert!(!said(parse_bandwidth("16gb/s").unwrap_err()).contains("did you mean"), "it may be bits or bytes");
    assert!(!said(parse_bytes("mib").unwrap_err()).contains("did you mean"));
}
