//! What callers from Python give for links: pairs of nodes, and quantities with or without a unit.

use std::collections::BTreeMap;

use pyo3::prelude::*;
use treefold::topology::Ends;
use treefold::units::{Bandwidth, Time, parse_bandwidth, parse_time};
use treefold::{bail, error};

use crate::options::type_of;
use crate::raise;

/// A quantity as a number of its base unit, or as a text with a unit.
#[derive(FromPyObject)]
pub enum Quantity {
    Number(f64),
    Text(String),
    Other(Py<PyAny>),
}

impl Quantity {
    pub fn bandwidth(&self) -> error::Result<Bandwidth> {
        match self {
            Self::Number(number) => Bandwidth::new(*number),
            Self::Text(text) => parse_bandwidth(text),
            Self::Other(value) => bail!(
                "bandwidth must be a number of bytes per second, or a text such as 10Gbit/s; got a {}",
                Python::attach(|py| type_of(value.bind(py)))
            ),
        }
    }

    /// Returns a time in seconds, which may be negative.
    pub fn seconds(&self) -> error::Result<f64> {
        match self {
            Self::Number(number) => Ok(*number),
            Self::Text(text) => match text.trim().strip_prefix('-') {
                Some(size) => parse_time(size).map(|time| -time.seconds()),
                None => parse_time(text).map(Time::seconds),
            },
            Self::Other(value) => bail!(
                "latency must be a number of seconds, or a text such as 1us; got a {}",
                Python::attach(|py| type_of(value.bind(py)))
            ),
        }
    }
}

/// The names of two nodes, which stand for the links between them: a tuple or a list.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub struct Pair(pub Ends);

/// Reads what each pair of nodes is given; errors name the pair.
pub fn read<T>(
    given: BTreeMap<Pair, Quantity>,
    value: impl Fn(&Quantity) -> error::Result<T>,
) -> PyResult<Vec<(Ends, T)>> {
    let read = |(Pair(ends), given): (Pair, Quantity)| match value(&given) {
        Ok(value) => Ok((ends, value)),
        Err(error) => Err(raise(error.at(format!("link {} -> {}", ends.0, ends.1)))),
    };
    given.into_iter().map(read).collect()
}

impl<'py> FromPyObject<'_, 'py> for Pair {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let names = value.extract::<(String, String)>().ok();
        let listed = || Some(<[String; 2]>::try_from(value.extract::<Vec<String>>().ok()?).ok()?.into());
        names.or_else(listed).map(Self).ok_or_else(|| {
            raise(error::Error::new(format!(
                "links are named by pairs of nodes, for example (\"GPU0\", \"GPU1\"); got a value of type {}",
                type_of(&value)
            )))
        })
    }
}
