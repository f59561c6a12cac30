//! The binding of declared options: Python gives them by name, the core reads them, and a schema describes them.

use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict};
use serde_json::{Map, Value};
use treefold::error::named;
use treefold::options::{Options, schema};
use treefold::planners::Options as Planner;
use treefold::sim::packet::Options as Machine;
use treefold::units::Bytes;

use crate::{TreefoldError, raise};

/// Reads options that are given by name; all others have their defaults.
pub fn read<T: Options>(given: &Bound<'_, PyDict>) -> PyResult<T> {
    T::read(&values(given)?).map_err(raise)
}

/// Returns plain values that are given by name as JSON.
pub fn values(given: &Bound<'_, PyDict>) -> PyResult<Map<String, Value>> {
    let mut values = Map::new();
    for (name, value) in given {
        let name: String = name.extract()?;
        let value = json(&value).ok_or_else(|| {
            let (what, kind) = (name.replace('_', " "), type_of(&value));
            TreefoldError::new_err(format!(
                "{what} must be a number, a text, True or False, got a value of type {kind}"
            ))
        })?;
        values.insert(name, value);
    }
    Ok(values)
}

/// Reads options that are given as the text of a JSON object.
pub fn read_text<T: Options>(written: &str) -> PyResult<T> {
    let given = serde_json::from_str(written).map_err(|error| TreefoldError::new_err(format!("options: {error}")))?;
    T::read(&given).map_err(raise)
}

/// Returns the name of a value's type, for errors.
pub fn type_of(value: &Bound<'_, PyAny>) -> String {
    value.get_type().name().map_or_else(|_| "unknown".to_owned(), |name| name.to_string())
}

/// A whole number that a caller gives, however large or negative. A value of another type is a `TypeError`.
pub struct Whole {
    /// The number, unless it is negative or too large.
    pub value: Option<u64>,
    /// The number as it was given, for errors.
    pub written: String,
}

impl<'py> FromPyObject<'_, 'py> for Whole {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let value = match given.extract::<u64>() {
            Ok(value) => Some(value),
            Err(error) if error.is_instance_of::<PyOverflowError>(given.py()) => None,
            Err(error) => return Err(error),
        };
        Ok(Self { value, written: given.to_string() })
    }
}

impl Whole {
    /// The number 0, where a caller gives none.
    pub const ZERO: Self = Self { value: Some(0), written: String::new() };

    /// Returns the number as that of a vector's bytes, or of its elements, which errors call `what`.
    pub fn count(&self, what: &str) -> PyResult<u64> {
        let count = self.value.filter(|&count| Bytes::new(count).is_ok());
        let written = &self.written;
        count.ok_or_else(|| TreefoldError::new_err(format!("{what} must be from 0 to 1e18, got {written}")))
    }
}

/// Returns a plain value of Python as JSON; `None` for any other value.
fn json(value: &Bound<'_, PyAny>) -> Option<Value> {
    if value.is_none() {
        return Some(Value::Null);
    }
    if let Ok(value) = value.cast::<PyBool>() {
        return Some(value.is_true().into());
    }
    let whole = || value.extract::<u64>().map(Value::from).or_else(|_| value.extract::<i64>().map(Value::from));
    let text = || value.extract::<String>().ok().map(Value::from);
    whole().ok().or_else(|| number(value)).or_else(text)
}

/// Returns a float as JSON. A number that JSON cannot have becomes a text, which an error then quotes.
fn number(value: &Bound<'_, PyAny>) -> Option<Value> {
    match value.extract::<f64>() {
        Ok(number) if number.is_finite() => Some(number.into()),
        Ok(number) => Some(number.to_string().into()),
        Err(error) if error.is_instance_of::<PyOverflowError>(value.py()) => {
            Some("a number of hundreds of digits".into())
        }
        Err(_) => None,
    }
}

/// What has options.
#[derive(Clone, Copy)]
enum Owner {
    Machine,
    Planner,
}

impl Owner {
    fn of(name: &str) -> PyResult<Self> {
        let known = [(Machine::WHAT, Self::Machine), (Planner::WHAT, Self::Planner)];
        named("owner of options", name, &known).map_err(raise)
    }
}

/// Return the JSON Schema of the options of the `machine` or of a `planner`.
#[pyfunction]
pub fn option_schema(what: &str) -> PyResult<String> {
    let schema = match Owner::of(what)? {
        Owner::Machine => schema::<Machine>(),
        Owner::Planner => schema::<Planner>(),
    };
    Ok(schema.to_string())
}

/// Return all options of the `machine` or of a `planner` as JSON, in base units; options not given have their defaults.
#[pyfunction]
pub fn read_options(what: &str, given: &Bound<'_, PyDict>) -> PyResult<String> {
    let values = match Owner::of(what)? {
        Owner::Machine => serde_json::to_string(&read::<Machine>(given)?),
        Owner::Planner => serde_json::to_string(&read::<Planner>(given)?),
    };
    Ok(values.expect("options are plain values"))
}
