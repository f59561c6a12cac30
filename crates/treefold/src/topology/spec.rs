//! Specs such as `torus:8x8` or `b4:skew=0.5,seed=1`, and how they are read.

use std::collections::BTreeMap;
use std::str::FromStr;

use super::{Link, MAX_LINKS, MAX_NODES, NodeId};
use crate::bail;
use crate::error::{self, Error, Result};
use crate::units::{Bandwidth, Time};

/// Larger counts of nodes or links are not written in full.
const MOST_WRITTEN: u64 = 1_000_000_000;

/// How the specs of a generator are written.
#[derive(Debug)]
pub struct Form {
    /// The word before the colon.
    pub name: &'static str,
    /// An example that works.
    pub example: &'static str,
    /// An example that has keys only, if the first one has sizes and specs can do without.
    pub(super) of_keys: Option<&'static str>,
    /// The keys of `key=value` pairs.
    pub(super) keys: &'static [&'static str],
}

/// The figures of every link of a generated network, unless the generator has others for some links.
#[derive(Debug, Clone)]
pub(super) struct Defaults {
    pub bandwidth: Bandwidth,
    pub latency: Time,
    /// The time through a switch.
    pub switch_latency: Time,
    /// Whether the caller has set the bandwidth, which then holds for every link.
    pub fixed_bandwidth: bool,
    /// Whether the caller has set the latency, which then holds for every link.
    pub fixed_latency: bool,
}

impl Defaults {
    pub const fn new(bandwidth: f64, latency_ps: u64, switch_latency_ps: u64) -> Self {
        Self {
            bandwidth: Bandwidth::known(bandwidth),
            latency: Time::from_picoseconds(latency_ps),
            switch_latency: Time::from_picoseconds(switch_latency_ps),
            fixed_bandwidth: false,
            fixed_latency: false,
        }
    }

    /// Returns the defaults with the values that the caller has set for every link.
    pub fn set(&self, bandwidth: Option<Bandwidth>, latency: Option<Time>) -> Self {
        Self {
            bandwidth: bandwidth.unwrap_or(self.bandwidth),
            latency: latency.unwrap_or(self.latency),
            fixed_bandwidth: bandwidth.is_some(),
            fixed_latency: latency.is_some(),
            ..self.clone()
        }
    }

    /// Returns the defaults with the values of another kind of links, where the caller has set none.
    pub fn unless_fixed(&self, bandwidth: Bandwidth, latency: Time) -> Self {
        Self {
            bandwidth: if self.fixed_bandwidth { self.bandwidth } else { bandwidth },
            latency: if self.fixed_latency { self.latency } else { latency },
            ..self.clone()
        }
    }

    pub fn link(&self, source: NodeId, target: NodeId) -> Link {
        Link { source, target, bandwidth: self.bandwidth, latency: self.latency, overhead: Time::ZERO, streams: None }
    }

    pub fn both_ways(&self, a: NodeId, b: NodeId) -> [Link; 2] {
        [self.link(a, b), self.link(b, a)]
    }
}

/// A spec, taken apart into its name, its sizes, and its `key=value` pairs.
pub(super) struct Spec<'a> {
    pub text: &'a str,
    form: &'static Form,
    /// The sizes, such as `8x8`.
    sizes: &'a str,
    keys: BTreeMap<&'a str, &'a str>,
}

impl<'a> Spec<'a> {
    /// Takes a spec of this form apart.
    pub fn parse(text: &'a str, form: &'static Form) -> Result<Self> {
        let body = text.split_once(':').map_or("", |(_, body)| body);
        // Sizes come before the first pair, which starts after the last comma before its equals sign.
        let first_pair = body.find('=').map_or(body.len(), |equals| body[..equals].rfind(',').unwrap_or(0));
        let (sizes, pairs) = body.split_at(first_pair);
        let mut spec = Self { text, form, sizes, keys: BTreeMap::new() };
        for pair in pairs.split(',').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            if form.keys.is_empty() {
                return Err(spec.misread(format!("{} has no keys such as '{key}'", form.name)));
            }
            if !form.keys.contains(&key) {
                return Err(spec.misread(error::unknown("key", key, form.keys)));
            }
            if spec.keys.insert(key, value).is_some() {
                return Err(spec.misread(format!("key '{key}' is given twice")));
            }
        }
        let takes_sizes = form.example.contains(':') && !form.example.contains('=');
        if !sizes.is_empty() && !takes_sizes {
            return Err(spec.misread(format!("'{sizes}' has no meaning for {}", form.name)));
        }
        Ok(spec)
    }

    /// Returns an error about this spec, with an example that works.
    pub fn misread(&self, what: impl std::fmt::Display) -> Error {
        Error::new(format!("topology '{}': {what}; write for example {}", self.text, self.example()))
    }

    /// Returns an example that is written as this spec is: with keys only, or with sizes.
    fn example(&self) -> &'static str {
        let has_only_keys = self.sizes.is_empty() && self.text.contains('=');
        self.form.of_keys.filter(|_| has_only_keys).unwrap_or(self.form.example)
    }

    /// Returns the word before the colon.
    pub fn name(&self) -> &'static str {
        self.form.name
    }

    /// Returns whether sizes such as `8,2` are given.
    pub fn has_sizes(&self) -> bool {
        !self.sizes.is_empty()
    }

    /// Returns whether a key is given.
    pub fn has(&self, key: &str) -> bool {
        self.keys.contains_key(key)
    }

    /// Returns the sizes of `8x8` or `8,2`, each at least 1.
    pub fn sizes(&self) -> Result<Vec<u32>> {
        self.sizes.split(['x', ',']).map(size).collect::<Result<_>>().map_err(|error| self.misread(error))
    }

    /// Returns the rows and columns of `key`, written as `2x2`, each at least 1, or `default`.
    pub fn sides(&self, key: &str, default: [u32; 2]) -> Result<[u32; 2]> {
        let Some(text) = self.keys.get(key) else { return Ok(default) };
        let sides: Result<Vec<u32>> = text.split('x').map(size).collect();
        let sides = sides.map_err(|error| self.misread(format!("{key}: {error}")))?;
        sides.try_into().map_err(|_| self.misread(format!("{key}='{text}' is not a number of rows and one of columns")))
    }

    /// Returns the single size of `ring:8`.
    pub fn size(&self) -> Result<u32> {
        self.sizes_exactly().map(|[size]| size)
    }

    /// Returns as many sizes as the caller asks for.
    pub fn sizes_exactly<const N: usize>(&self) -> Result<[u32; N]> {
        let sizes = self.sizes()?;
        let count = sizes.len();
        sizes
            .try_into()
            .map_err(|_| self.misread(format!("takes {N} size{}, got {count}", if N == 1 { "" } else { "s" })))
    }

    /// Returns the value of `key`, or `default`.
    pub fn value<T: FromStr>(&self, key: &str, default: T) -> Result<T> {
        match self.keys.get(key) {
            None => Ok(default),
            Some(text) => text.parse().map_err(|_| {
                // A number that cannot be read is one of a key that counts.
                let is_number = text.parse::<f64>().is_ok();
                let what = if is_number { "a whole number from 0 on, or is too large" } else { "a number" };
                self.misread(format!("{key}='{text}' is not {what}"))
            }),
        }
    }

    /// Returns the quantity of `key`, whose unit `parse` reads, or `default`.
    pub fn quantity<T>(&self, key: &str, default: T, parse: fn(&str) -> Result<T>) -> Result<T> {
        let read = |text: &&str| parse(text).map_err(|error| self.misread(format!("{key}: {error}")));
        self.keys.get(key).map_or(Ok(default), read)
    }

    /// Returns the value of `key`, or `default`, which must be at least 1.
    pub fn count(&self, key: &str, default: u32) -> Result<u32> {
        match self.value(key, default)? {
            0 => Err(self.misread(format!("{key} must be at least 1, got 0"))),
            count => Ok(count),
        }
    }

    /// Refuses a network that would be too large for memory before it is built.
    pub fn check_size(&self, nodes: u64, links: u64) -> Result<()> {
        if nodes > MAX_NODES as u64 || links > MAX_LINKS as u64 {
            let [nodes, links] = [nodes, links].map(written);
            return Err(
                self.misread(format!("{nodes} nodes and {links} links; treefold handles {MAX_NODES} and {MAX_LINKS}"))
            );
        }
        Ok(())
    }
}

/// Writes a count of nodes or links; a number beyond what anybody means may have stopped at the largest integer.
fn written(count: u64) -> String {
    if count > MOST_WRITTEN { format!("more than {MOST_WRITTEN}") } else { count.to_string() }
}

/// Reads a size, which is at least 1.
fn size(text: &str) -> Result<u32> {
    match text.parse::<u32>() {
        Ok(size) if size > 0 => Ok(size),
        _ if text.len() > 9 && text.bytes().all(|digit| digit.is_ascii_digit()) => bail!("'{text}' is too large"),
        _ => bail!("'{text}' is not a positive whole number"),
    }
}
