//! The binding of declared options: Python gives them by name, the core reads them, and a schema describes them.

use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyString};
use serde_json::{Map, Value};
use treefold::error::named;
use treefold::options::Options;
use treefold::planners::Options as Planner;
use treefold::sim::packet::Options as Machine;
use treefold::units::Bytes;

use crate::{TreefoldError, raise};

/// Options as Python's dataclasses hold them, whose values the core has read when they were made.
pub trait Dataclass: Options {
    /// The name of the dataclass in `treefold.options`.
    const CLASS: &'static str;
}

impl Dataclass for Machine {
    const CLASS: &'static str = "Machine";
}

impl Dataclass for Planner {
    const CLASS: &'static str = "PlannerOptions";
}

/// Options that were read before: the fields of a dataclass. Their ranges are the business of what uses them.
pub struct Known<T>(pub T);

impl<'py, T: Dataclass> FromPyObject<'_, 'py> for Known<T> {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let class = given.py().import("treefold.options")?.getattr(T::CLASS)?;
        if !given.is_instance(&class)? {
            return Err(PyTypeError::new_err(format!("expected treefold.{}, got {}", T::CLASS, type_of(&given))));
        }
        let fields = values(given.getattr("__dict__")?.cast::<PyDict>()?)?;
        let options = serde_json::from_value(Value::Object(fields));
        options.map(Self).map_err(|error| TreefoldError::new_err(format!("{} options: {error}", T::WHAT)))
    }
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

    /// Returns the number of a vector's bytes, which errors call `what`.
    pub fn bytes(&self, what: &str) -> PyResult<Bytes> {
        self.value.and_then(|bytes| Bytes::new(bytes).ok()).ok_or_else(|| self.out_of_range(what))
    }

    /// Returns the number of other things of a vector, which errors call `what`; the core limits their bytes.
    pub fn count(&self, what: &str) -> PyResult<u64> {
        self.value.ok_or_else(|| self.out_of_range(what))
    }

    fn out_of_range(&self, what: &str) -> PyErr {
        TreefoldError::new_err(format!("{what} must be from 0 to 1e18, got {}", self.written))
    }
}

/// The size of a vector, which Python's own code has read.
pub struct Size(pub Bytes);

impl<'py> FromPyObject<'_, 'py> for Size {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        Bytes::new(given.extract()?).map(Self).map_err(raise)
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
    // Values that nearly all options have go first: an extraction that fails costs an exception.
    if let Ok(text) = value.cast::<PyString>() {
        return text.to_str().ok().map(Value::from);
    }
    if value.is_instance_of::<PyFloat>() {
        return number(value);
    }
    let whole = || value.extract::<u64>().map(Value::from).or_else(|_| value.extract::<i64>().map(Value::from));
    whole().ok().or_else(|| number(value))
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

/// Returns JSON as a value of Python.
pub fn python<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    match value {
        Value::Null => Ok(py.None().into_bound(py)),
        Value::Bool(value) => value.into_bound_py_any(py),
        Value::String(value) => value.into_bound_py_any(py),
        Value::Number(value) => match value.as_u64() {
            Some(whole) => whole.into_bound_py_any(py),
            None => {
                value.as_i64().map_or_else(|| value.as_f64().into_bound_py_any(py), |whole| whole.into_bound_py_any(py))
            }
        },
        Value::Array(values) => {
            let values = values.iter().map(|value| python(py, value)).collect::<PyResult<Vec<_>>>()?;
            values.into_bound_py_any(py)
        }
        Value::Object(values) => dictionary(py, values).map(Bound::into_any),
    }
}

/// Returns a JSON object as a dictionary of Python.
pub fn dictionary<'py>(py: Python<'py>, values: &Map<String, Value>) -> PyResult<Bound<'py, PyDict>> {
    let dictionary = PyDict::new(py);
    for (name, value) in values {
        dictionary.set_item(name, python(py, value)?)?;
    }
    Ok(dictionary)
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
pub fn option_schema<'py>(py: Python<'py>, what: &str) -> PyResult<Bound<'py, PyAny>> {
    python(
        py,
        match Owner::of(what)? {
            Owner::Machine => Machine::schema(),
            Owner::Planner => Planner::schema(),
        },
    )
}

/// Return the JSON Schema of plan files.
#[pyfunction]
pub fn plan_schema(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    python(py, &treefold::plan::Plan::schema())
}

/// Return the JSON Schema of trace files.
#[pyfunction]
pub fn trace_schema(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    python(py, &treefold::sim::trace::Trace::schema())
}

/// Return all options of the `machine` or of a `planner` by name, in base units; options not given have their defaults.
#[pyfunction]
pub fn read_options<'py>(py: Python<'py>, what: &str, given: &Bound<'py, PyDict>) -> PyResult<Bound<'py, PyAny>> {
    let given = values(given)?;
    let read = match Owner::of(what)? {
        Owner::Machine => Machine::read(&given).map(serde_json::to_value),
        Owner::Planner => Planner::read(&given).map(serde_json::to_value),
    };
    python(py, &read.map_err(raise)?.expect("options are plain values"))
}
