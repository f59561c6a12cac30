//! The binding of declared options: Python gives them by name, the core reads them, and the schema says what they are.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict};
use serde_json::{Map, Value};
use treefold::options::{Options, schema};
use treefold::sim::packet::Options as Machine;

use crate::{TreefoldError, raise};

/// The options that are given by name; the others have their defaults.
pub fn read<T: Options>(given: &Bound<'_, PyDict>) -> PyResult<T> {
    let mut values = Map::new();
    for (name, value) in given {
        let name: String = name.extract()?;
        let value = json(&value).ok_or_else(|| {
            let what = name.replace('_', " ");
            TreefoldError::new_err(format!("{what} must be a number, a text, True or False, got {value}"))
        })?;
        values.insert(name, value);
    }
    T::read(&values).map_err(raise)
}

/// A plain value of Python; `None` for everything that is not plain.
fn json(value: &Bound<'_, PyAny>) -> Option<Value> {
    if value.is_none() {
        return Some(Value::Null);
    }
    if let Ok(value) = value.cast::<PyBool>() {
        return Some(value.is_true().into());
    }
    let whole = || value.extract::<u64>().ok().map(Value::from);
    let number = || value.extract::<f64>().ok().map(Value::from);
    whole().or_else(number).or_else(|| value.extract::<String>().ok().map(Value::from))
}

/// The JSON Schema of the options of the `machine` or of a `planner`.
#[pyfunction]
pub fn option_schema(what: &str) -> String {
    let schema = if what == Machine::WHAT { schema::<Machine>() } else { schema::<treefold::planners::Options>() };
    schema.to_string()
}

/// All options of the `machine` or of a `planner` as numbers of base units: those given, and the defaults of the
/// others.
#[pyfunction]
pub fn read_options(what: &str, given: &Bound<'_, PyDict>) -> PyResult<String> {
    let values = if what == Machine::WHAT {
        serde_json::to_string(&read::<Machine>(given)?)
    } else {
        serde_json::to_string(&read::<treefold::planners::Options>(given)?)
    };
    Ok(values.expect("options are plain values"))
}
