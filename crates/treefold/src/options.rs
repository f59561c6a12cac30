//! Options that are declared once, as the fields of a struct.
//!
//! The declaration of a field has its name, type, default, range, help (its doc comment) and source (`x-paper`). serde
//! and schemars turn that into values and into a JSON Schema. Everything else reads the schema: the binding, Python's
//! dataclasses, the command line, and the manual. To add an option, add a field and use it.

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::bail;
use crate::error::{Error, Result, find, unknown};
use crate::units;

/// A struct of options.
pub trait Options: Serialize + DeserializeOwned + JsonSchema + Default {
    /// The thing to which the options belong, as errors name it, for example `machine`.
    const WHAT: &'static str;

    /// Returns the JSON Schema of the struct, which says all that its declaration says of every field.
    ///
    /// Each struct keeps what [`schema_of`] makes, because making it takes longer than planning a small network.
    ///
    /// ```
    /// use treefold::options::Options as _;
    /// use treefold::planners::Options;
    ///
    /// assert!(Options::schema()["properties"]["trees"]["description"].is_string());
    /// ```
    fn schema() -> &'static Value;

    /// Sets the options that are `given` by name, and leaves the others at their defaults.
    ///
    /// A value has the type of its option, or is a text that a person would write for it: `8192`, `"8192"` and
    /// `"8KiB"`.
    ///
    /// # Errors
    /// If a name is unknown, or a value has another type or is out of range.
    ///
    /// ```
    /// use treefold::options::Options as _;
    /// use treefold::planners::Options;
    ///
    /// let given = serde_json::json!({ "least_rate": "2GB/s", "trees": 3 });
    /// let options = Options::read(given.as_object().expect("it is one"))?;
    /// assert_eq!(options.trees, Some(3));
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    fn read(given: &Map<String, Value>) -> Result<Self> {
        let properties = properties::<Self>();
        let Ok(Value::Object(mut values)) = serde_json::to_value(Self::default()) else {
            unreachable!("a struct is written as an object")
        };
        for (name, value) in given {
            let known = if properties.contains_key(name) { name } else { known::<Self>(name)? };
            let value = typed(&readable(known), value, &properties[known])?;
            values.insert(known.to_owned(), value);
        }
        Ok(serde_json::from_value(Value::Object(values)).expect("values that fit the schema"))
    }

    /// Checks that all values are in their ranges, as code may set fields to any value.
    ///
    /// A plain number that may be absent has no place in a struct of options, because JSON has null for NaN; the types
    /// of [`crate::units`] do.
    ///
    /// # Errors
    /// If a value is out of range or not finite; the error names the option, its range and its value.
    ///
    /// ```
    /// use treefold::options::Options as _;
    /// use treefold::sim::packet::Options;
    ///
    /// assert!(Options { virtual_channels: 0, ..Options::default() }.check_ranges().is_err());
    /// ```
    fn check_ranges(&self) -> Result<()> {
        let values =
            serde_json::to_value(self).map_err(|error| Error::new(format!("{} options: {error}", Self::WHAT)))?;
        for (name, property) in properties::<Self>() {
            match &values[name] {
                Value::Number(number) => {
                    in_range(&readable(name), number.as_f64().expect("it fits"), property)?;
                }
                Value::Null if !may_be_absent(property) => {
                    bail!("{} must be a finite number, got NaN or an infinity", readable(name));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Makes the JSON Schema of a struct of options; [`Options::schema`] keeps it.
pub fn schema_of<T: JsonSchema>() -> Value {
    schemars::schema_for!(T).into()
}

/// Returns the schemas of the fields of a struct of options, by name.
pub(crate) fn properties<T: Options>() -> &'static Map<String, Value> {
    T::schema()["properties"].as_object().expect("a struct has properties")
}

/// Returns the name of the option that is meant, whatever its case, hyphens and underscores.
fn known<T: Options>(name: &str) -> Result<&'static str> {
    let names: Vec<&str> = properties::<T>().keys().map(String::as_str).collect();
    let found = find(name, &names).ok_or_else(|| unknown(&format!("{} option", T::WHAT), name, &names))?;
    Ok(names[found])
}

/// Returns a name as sentences have it: `virtual channels` for `virtual_channels`.
fn readable(name: &str) -> String {
    name.replace('_', " ")
}

/// Returns `value` with the type that the schema asks for.
fn typed(name: &str, value: &Value, property: &Value) -> Result<Value> {
    if may_be_absent(property) && (value.is_null() || value == "none") {
        return Ok(Value::Null);
    }
    let names = names_of(property);
    if !names.is_empty() {
        return named(name, value, &names);
    }
    if let Some(kind) = property["format"].as_str().and_then(quantity_of) {
        let number = in_range(name, quantity(name, value, &kind)?, property)?;
        return Ok(if property["format"] == "bytes" { (number as u64).into() } else { number.into() });
    }
    match types(property).find(|each| *each != "null").expect("every option has a type") {
        "boolean" => boolean(name, value),
        "integer" => whole(name, value, property),
        _ => Ok(in_range(name, number(name, value)?, property)?.into()),
    }
}

fn may_be_absent(property: &Value) -> bool {
    types(property).any(|each| each == "null")
}

/// Returns the types that a property may have.
fn types(property: &Value) -> impl Iterator<Item = &str> {
    let one_of = property["anyOf"].as_array().into_iter().flatten().filter_map(|each| each["type"].as_str());
    let listed = property["type"].as_array().into_iter().flatten().filter_map(Value::as_str);
    property["type"].as_str().into_iter().chain(listed).chain(one_of)
}

/// Returns the names that a property may have as its value; none if it is not chosen by name.
fn names_of(property: &Value) -> Vec<&str> {
    let nested = property["anyOf"].as_array().into_iter().flatten().flat_map(names_of);
    let own = property["oneOf"].as_array().into_iter().flatten().filter_map(|each| each["const"].as_str());
    let plain = property["enum"].as_array().into_iter().flatten().filter_map(Value::as_str);
    own.chain(plain).chain(nested).collect()
}

/// How a quantity is read.
struct Quantity {
    /// Reads a text with a unit.
    read: fn(&str) -> Result<f64>,
    /// Checks a number of the base unit.
    check: fn(f64) -> Result<f64>,
}

/// Returns how the quantity of a schema's format is read.
fn quantity_of(format: &str) -> Option<Quantity> {
    Some(match format {
        "bytes" => {
            Quantity { read: |text| units::parse_bytes(text).map(|bytes| bytes.get() as f64), check: whole_bytes }
        }
        "bytes/second" => Quantity {
            read: |text| units::parse_bandwidth(text).map(|bandwidth| bandwidth.bytes_per_second()),
            check: |number| units::Bandwidth::new(number).map(|bandwidth| bandwidth.bytes_per_second()),
        },
        "seconds" => Quantity {
            read: |text| units::parse_time(text).map(units::Time::seconds),
            check: |number| units::Time::from_seconds(number).map(units::Time::seconds),
        },
        "hertz" => Quantity {
            read: |text| units::parse_frequency(text).map(units::Frequency::hertz),
            check: |number| units::Frequency::new(number).map(units::Frequency::hertz),
        },
        _ => return None,
    })
}

fn whole_bytes(number: f64) -> Result<f64> {
    if number.fract() != 0.0 || number < 0.0 {
        bail!("must be a whole number of bytes, got {number}");
    }
    Ok(units::Bytes::new(number as u64)?.get() as f64)
}

fn quantity(name: &str, value: &Value, quantity: &Quantity) -> Result<f64> {
    match value {
        Value::String(text) => (quantity.read)(text),
        _ => (quantity.check)(number(name, value)?),
    }
    .map_err(|error| error.at(name))
}

fn named(name: &str, value: &Value, names: &[&str]) -> Result<Value> {
    let Some(text) = value.as_str() else { bail!("{name} must be one of {}, got {}", names.join(", "), plain(value)) };
    let at = find(text, names).ok_or_else(|| unknown(name, text, names))?;
    Ok(names[at].into())
}

fn boolean(name: &str, value: &Value) -> Result<Value> {
    match value.as_str().unwrap_or_default() {
        _ if value.is_boolean() => Ok(value.clone()),
        "true" => Ok(true.into()),
        "false" => Ok(false.into()),
        _ => bail!("{name} must be true or false, got {}", plain(value)),
    }
}

fn number(name: &str, value: &Value) -> Result<f64> {
    let read = |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite());
    let number = value.as_str().map_or_else(|| value.as_f64(), read);
    number.ok_or_else(|| Error::new(format!("{name} must be a number, got {}", plain(value))))
}

fn whole(name: &str, value: &Value, property: &Value) -> Result<Value> {
    let number = value.as_str().map_or_else(|| value.as_u64(), |text| text.parse().ok());
    let (least, most) = range(property);
    match number {
        Some(number) if (least..=most).contains(&(number as f64)) => Ok(number.into()),
        _ if most >= u32::MAX.into() && self::number(name, value).is_ok_and(|number| number >= most) => {
            bail!("{name} must be at most {}, got {}", most as u64, plain(value))
        }
        _ => Err(out_of_range(name, &plain(value), property)),
    }
}

fn in_range(name: &str, number: f64, property: &Value) -> Result<f64> {
    let (least, most) = range(property);
    match property["exclusiveMinimum"].as_f64() {
        Some(above) if number <= above || number > most => {
            bail!("{name} must be above {above} and at most {most}, got {number}")
        }
        None if !(least..=most).contains(&number) => Err(out_of_range(name, &with_unit(number, property), property)),
        _ => Ok(number),
    }
}

fn out_of_range(name: &str, shown: &str, property: &Value) -> Error {
    let (least, most) = range(property);
    let is_count = property["format"].as_str().is_some_and(|format| format.starts_with("uint"));
    let allowed = if is_count && most >= u32::MAX.into() {
        format!("a whole number from {least} on")
    } else {
        format!("{} to {}", with_unit(least, property), with_unit(most, property))
    };
    Error::new(format!("{name} must be {allowed}, got {shown}"))
}

/// Returns a number with the unit of its property, as a person would write it.
fn with_unit(number: f64, property: &Value) -> String {
    match property["format"].as_str() {
        Some("bytes") => units::format_bytes(number as u64),
        Some("bytes/second") => units::format_bandwidth(number),
        Some("seconds") => units::format_seconds(number),
        Some("hertz") => units::format_hertz(number),
        _ => number.to_string(),
    }
}

fn range(property: &Value) -> (f64, f64) {
    let most = match property["format"].as_str() {
        Some("uint32") => f64::from(u32::MAX),
        Some("uint64") => u64::MAX as f64,
        _ => f64::INFINITY,
    };
    let bound = |key: &str, otherwise| property[key].as_f64().unwrap_or(otherwise);
    (bound("minimum", f64::NEG_INFINITY), bound("maximum", most))
}

/// Returns a value of a property as a person would write it on a command line.
pub(crate) fn written(value: &Value, property: &Value) -> String {
    let is_quantity = property["format"].as_str().and_then(quantity_of).is_some();
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) if is_quantity => with_unit(number.as_f64().expect("it fits"), property),
        _ => plain(value),
    }
}

/// Returns a value as an error shows it.
fn plain(value: &Value) -> String {
    match value {
        Value::Null => "none".into(),
        Value::String(text) => format!("'{text}'"),
        // A whole number that does not fit into 64 bits is a float here.
        Value::Number(number) if number.is_f64() => match number.as_f64() {
            Some(large @ 1e16..1e21) => format!("{large:.0}"),
            _ => number.to_string(),
        },
        _ => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{Bandwidth, Bytes, Time};
    use serde::Deserialize;
    use serde_json::json;
    use std::sync::LazyLock;

    #[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    #[schemars(inline)]
    enum Color {
        Red,
        DarkBlue,
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(default)]
    struct Part {
        /// How long it takes.
        delay: Time,
        /// How fast it is.
        rate: Option<Bandwidth>,
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(default)]
    struct Thing {
        color: Option<Color>,
        #[schemars(range(min = 1, max = 16))]
        lanes: u32,
        tracks: u32,
        wave: Option<Bytes>,
        is_loud: bool,
        #[schemars(range(max = 1.0), extend("exclusiveMinimum" = 0.0))]
        share: f64,
        #[serde(flatten)]
        part: Part,
    }

    impl Default for Part {
        fn default() -> Self {
            Self { delay: Time::from_picoseconds(80_000), rate: None }
        }
    }

    impl Default for Thing {
        fn default() -> Self {
            let part = Part::default();
            Self { color: None, lanes: 4, tracks: 0, wave: None, is_loud: false, share: 1.0, part }
        }
    }

    impl Options for Thing {
        const WHAT: &'static str = "thing";

        fn schema() -> &'static Value {
            static SCHEMA: LazyLock<Value> = LazyLock::new(schema_of::<Thing>);
            &SCHEMA
        }
    }

    fn read(given: Value) -> Result<Thing> {
        Thing::read(given.as_object().unwrap())
    }

    #[test]
    fn values_and_the_texts_of_values_are_the_same() {
        let thing = Thing {
            color: Some(Color::DarkBlue),
            lanes: 2,
            tracks: 3,
            wave: Some(Bytes::known(8192)),
            is_loud: true,
            share: 0.5,
            part: Part { delay: Time::from_picoseconds(1_000_000), rate: None },
        };
        let values = json!({
            "color": "dark-blue", "lanes": 2, "tracks": 3, "wave": 8192, "is_loud": true, "share": 0.5, "delay": 1e-6,
            "rate": null,
        });
        let texts = json!({
            "color": "DarkBlue", "lanes": "2", "tracks": "3", "wave": "8KiB", "isloud": "true", "share": "0.5",
            "delay": "1us",
        });
        assert_eq!(read(values.clone()).unwrap(), thing);
        assert_eq!(read(texts).unwrap(), thing);
        assert_eq!(serde_json::to_value(&thing).unwrap(), values);
        assert_eq!(read(json!({})).unwrap(), Thing::default());
        assert_eq!(read(json!({"color": null, "wave": "none"})).unwrap(), Thing::default());
    }

    #[test]
    fn what_does_not_fit_the_declaration_is_refused_in_one_line() {
        for (given, message) in [
            (json!({"lane": 1}), "thing option 'lane' is unknown; did you mean lanes?"),
            (json!({"lanes": 0}), "lanes must be 1 to 16, got 0"),
            (json!({"lanes": "many"}), "lanes must be 1 to 16, got 'many'"),
            (json!({"lanes": 1.5}), "lanes must be 1 to 16, got 1.5"),
            (json!({"lanes": null}), "lanes must be 1 to 16, got none"),
            (json!({"tracks": 18446744073709551616.0}), "tracks must be at most 4294967295, got 18446744073709551616"),
            (json!({"tracks": "4294967296"}), "tracks must be at most 4294967295, got '4294967296'"),
            (json!({"tracks": -1}), "tracks must be a whole number from 0 on, got -1"),
            (json!({"tracks": 1e300}), "tracks must be at most 4294967295, got 1e+300"),
            (json!({"color": "rd"}), "color 'rd' is unknown; did you mean red? known are red, dark-blue"),
            (json!({"color": 1}), "color must be one of red, dark-blue, got 1"),
            (json!({"wave": "8"}), ""),
            (json!({"wave": 0.5}), "wave: must be a whole number of bytes, got 0.5"),
            (json!({"wave": -1}), "wave: must be a whole number of bytes, got -1"),
            (json!({"wave": 1e30}), "wave: a vector of"),
            (json!({"delay": "5"}), "delay: time '5': write a number and a unit"),
            (json!({"delay": -1}), "delay: time must not be negative, got -1"),
            (json!({"is_loud": "yes"}), "is loud must be true or false, got 'yes'"),
            (json!({"share": 0}), "share must be above 0 and at most 1, got 0"),
            (json!({"share": "nan"}), "share must be a number, got 'nan'"),
        ] {
            let refused = read(given).map_or_else(|error| error.to_string(), |_| String::new());
            assert!(refused.starts_with(message) && refused.is_empty() == message.is_empty(), "{refused}");
        }
        let built = Thing { lanes: 17, ..Thing::default() };
        assert_eq!(built.check_ranges().unwrap_err().to_string(), "lanes must be 1 to 16, got 17");
    }

    #[test]
    fn numbers_that_are_not_finite_are_refused_where_code_sets_them() {
        for share in [f64::NAN, f64::INFINITY] {
            let error = Thing { share, ..Thing::default() }.check_ranges().unwrap_err().to_string();
            assert_eq!(error, "share must be a finite number, got NaN or an infinity");
        }
        let part = Part { rate: Some(Bandwidth::known(f64::INFINITY)), ..Part::default() };
        let error = Thing { part, ..Thing::default() }.check_ranges().unwrap_err().to_string();
        assert_eq!(error, "thing options: a bandwidth must be finite, got inf");
        assert!(Thing::default().check_ranges().is_ok());
    }
}
