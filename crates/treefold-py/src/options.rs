//! The binding of declared options: Python gives them by name, the core reads them, and a schema describes them.

use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict};
use serde_json::{Map, Value};
use treefold::options::{Options, schema};
use treefold::sim::packet::Options as Machine;

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

/// Return the JSON Schema of the options of the `machine` or of a `planner`.
#[pyfunction]
pub fn option_schema(what: &str) -> String {
    let schema = if what == Machine::WHAT { schema::<Machine>() } else { schema::<treefold::planners::Options>() };
    schema.to_string()
}

/// Return all options of the `machine` or of a `planner` as JSON, in base units; options not given have their defaults.
#[pyfunction]
pub fn read_options(what: &str, given: &Bound<'_, PyDict>) -> PyResult<String> {
    let values = if what == Machine::WHAT {
        serde_json::to_string(&read::<Machine>(given)?)
    } else {
        serde_json::to_string(&read::<treefold::planners::Options>(given)?)
    };
    Ok(values.expect("options are plain values"))
}
