//! The Python binding, as thin as it can be: types cross as plain values, work happens in `treefold`.

use pyo3::create_exception;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

create_exception!(treefold, TreefoldError, PyValueError, "A caller's mistake: the thing, the value, the remedy.");

/// Turns the core's error into Python's.
fn raise(error: treefold::error::Error) -> PyErr {
    TreefoldError::new_err(error.to_string())
}

/// Bytes of a size such as `64MiB`.
#[pyfunction]
fn parse_size(text: &str) -> PyResult<u64> {
    Ok(treefold::units::parse_bytes(text).map_err(raise)?.0)
}

/// Bytes a second of a bandwidth such as `100Gbit/s`.
#[pyfunction]
fn parse_bandwidth(text: &str) -> PyResult<f64> {
    Ok(treefold::units::parse_bandwidth(text).map_err(raise)?.0)
}

/// Seconds of a time such as `150ns`.
#[pyfunction]
fn parse_time(text: &str) -> PyResult<f64> {
    Ok(treefold::units::parse_time(text).map_err(raise)?.seconds())
}

#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("TreefoldError", module.py().get_type::<TreefoldError>())?;
    module.add_function(wrap_pyfunction!(parse_size, module)?)?;
    module.add_function(wrap_pyfunction!(parse_bandwidth, module)?)?;
    module.add_function(wrap_pyfunction!(parse_time, module)?)?;
    Ok(())
}
