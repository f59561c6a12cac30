//! Quantities as the declarations of options have them: how they are read, written, and described by a JSON Schema.

use serde::de::Error;

use super::{Bandwidth, Bytes, Frequency, Time};
use crate::error::Result;

/// Lets options have a quantity as a number of its base unit; the schema says which unit that is.
macro_rules! option_quantity {
    ($type:ident, $name:literal, $number:ty, $format:literal, $read:expr, $write:expr) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
                let write: fn(&Self) -> $number = $write;
                let number = write(self);
                // JSON would have null for it, as for an option that is not given.
                if !(number as f64).is_finite() {
                    return Err(serde::ser::Error::custom(format_args!("{} must be finite, got {number}", $name)));
                }
                serde::Serialize::serialize(&number, serializer)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
                let read: fn($number) -> Result<Self> = $read;
                read(serde::Deserialize::deserialize(deserializer)?).map_err(D::Error::custom)
            }
        }

        impl schemars::JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": ["number", "string"], "format": $format })
            }
        }
    };
}

option_quantity!(Bytes, "a size", u64, "bytes", |bytes| Bytes::new(bytes), |bytes| bytes.0);
option_quantity!(Bandwidth, "a bandwidth", f64, "bytes/second", |rate| Bandwidth::new(rate), |rate| rate
    .bytes_per_second());
option_quantity!(Time, "a time", f64, "seconds", |seconds| Time::from_seconds(seconds), |time| time.seconds());
option_quantity!(Frequency, "a frequency", f64, "hertz", |hertz| Frequency::new(hertz), |frequency| frequency.hertz());
