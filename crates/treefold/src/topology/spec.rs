//! Specs such as `torus:8x8` or `b4:skew=0.5,seed=1`: the table of generators and how a spec is read.

use std::collections::BTreeMap;
use std::str::FromStr;

use super::{Link, MAX_LINKS, MAX_NODES, NodeId, Topology, fabric, grid, wan};
use crate::error::{self, Error, Result};
use crate::units::{Bandwidth, Time};

/// A generator: how to write it, what its links are unless told otherwise, and how it is built.
pub struct Generator {
    /// The word before the colon.
    pub name: &'static str,
    /// An example that works.
    pub example: &'static str,
    defaults: Defaults,
    keys: &'static [&'static str],
    build: fn(&Spec, &Defaults) -> Result<Topology>,
}

/// What every link of a generated network is, unless the generator's own figures differ by link.
#[derive(Debug, Clone)]
pub(super) struct Defaults {
    pub bandwidth: Bandwidth,
    pub latency: Time,
    /// Time through a switch.
    pub switch_latency: Time,
    /// Whether the caller set the bandwidth or latency: then it holds for every link.
    pub fixed_bandwidth: bool,
    pub fixed_latency: bool,
}

impl Defaults {
    const fn new(bandwidth: f64, latency_ps: u64, switch_latency_ps: u64) -> Self {
        Self {
            bandwidth: Bandwidth(bandwidth),
            latency: Time(latency_ps),
            switch_latency: Time(switch_latency_ps),
            fixed_bandwidth: false,
            fixed_latency: false,
        }
    }

    /// The caller's values for every link.
    fn set(&self, bandwidth: Option<Bandwidth>, latency: Option<Time>) -> Self {
        Self {
            bandwidth: bandwidth.unwrap_or(self.bandwidth),
            latency: latency.unwrap_or(self.latency),
            fixed_bandwidth: bandwidth.is_some(),
            fixed_latency: latency.is_some(),
            ..self.clone()
        }
    }

    /// These defaults where the caller set nothing and the generator has links of another kind.
    pub fn unless_fixed(&self, bandwidth: Bandwidth, latency: Time) -> Self {
        Self {
            bandwidth: if self.fixed_bandwidth { self.bandwidth } else { bandwidth },
            latency: if self.fixed_latency { self.latency } else { latency },
            ..self.clone()
        }
    }

    pub fn link(&self, source: NodeId, target: NodeId) -> Link {
        Link { source, target, bandwidth: self.bandwidth, latency: self.latency, overhead: Time(0) }
    }

    pub fn both_ways(&self, a: NodeId, b: NodeId) -> [Link; 2] {
        [self.link(a, b), self.link(b, a)]
    }
}

/// MultiTree, Table III: 16 GB/s and 150 ns a link.
const MULTITREE: Defaults = Defaults::new(16e9, 150_000, 0);
/// In-network, section V: 25 GB/s a port, 150 ns a switch.
const IN_NETWORK: Defaults = Defaults::new(25e9, 0, 150_000);
/// MTree, section IV: 200 Mbit/s around which capacities vary; 1 ms.
const WIDE_AREA: Defaults = Defaults::new(25e6, 1_000_000_000, 0);
/// An eight-GPU server of 2024: 450 GB/s to its switch; its network cards are in `fabric::cluster`.
const SERVERS: Defaults = Defaults::new(450e9, 150_000, 0);

/// Every generator. To add one: a function and a line here.
pub const GENERATORS: [Generator; 15] = [
    generator("ring", "ring:8", MULTITREE, &[], grid::ring),
    generator("line", "line:8", MULTITREE, &[], grid::line),
    generator("full", "full:8", MULTITREE, &[], grid::full),
    generator("torus", "torus:8x8", MULTITREE, &[], grid::torus),
    generator("mesh", "mesh:8x8", MULTITREE, &[], grid::mesh),
    generator("hypercube", "hypercube:6", MULTITREE, &[], grid::hypercube),
    generator("dgx2", "dgx2:planes=6", MULTITREE, &["planes"], fabric::dgx2),
    generator("fattree", "fattree:8,2", MULTITREE, &[], fabric::fattree),
    generator("fattree128", "fattree128", IN_NETWORK, &[], fabric::fattree128),
    generator("bigraph", "bigraph:4x8", MULTITREE, &[], fabric::bigraph),
    generator("cluster", "cluster:nodes=4,gpus=8,rails=8", SERVERS, &fabric::CLUSTER_KEYS, fabric::cluster),
    generator("b4", "b4:skew=0.5,seed=1", WIDE_AREA, &["skew", "seed"], wan::b4),
    generator("equinix-like", "equinix-like:skew=0.5,seed=1", WIDE_AREA, &["skew", "seed"], wan::equinix_like),
    generator("idn-like", "idn-like:skew=0.5,seed=1", WIDE_AREA, &["skew", "seed"], wan::idn_like),
    generator("random", "random:n=20,links=60,seed=1", WIDE_AREA, &["n", "links", "skew", "seed"], wan::random),
];

const fn generator(
    name: &'static str,
    example: &'static str,
    defaults: Defaults,
    keys: &'static [&'static str],
    build: fn(&Spec, &Defaults) -> Result<Topology>,
) -> Generator {
    Generator { name, example, defaults, keys, build }
}

/// A spec taken apart: `name`, positional sizes, `key=value` pairs.
pub(super) struct Spec<'a> {
    pub text: &'a str,
    generator: &'static Generator,
    positional: &'a str,
    keys: BTreeMap<&'a str, &'a str>,
}

/// Whether `text` starts with a generator's name, so that it is a spec and not a file.
pub fn is_spec(text: &str) -> bool {
    find(text).is_some()
}

/// Builds the network that a spec such as `torus:8x8` describes; `bandwidth` and `latency` set every link.
///
/// # Errors
/// An unknown name, key or size, with the nearest working example.
pub fn from_spec(text: &str, bandwidth: Option<Bandwidth>, latency: Option<Time>) -> Result<Topology> {
    let Some(generator) = find(text) else { return Err(no_spec(text)) };
    let spec = Spec::parse(text, generator)?;
    (generator.build)(&spec, &generator.defaults.set(bandwidth, latency))
}

fn find(text: &str) -> Option<&'static Generator> {
    let names: Vec<&str> = GENERATORS.iter().map(|generator| generator.name).collect();
    error::find(name_of(text), &names).map(|at| &GENERATORS[at])
}

/// What stands before the colon.
fn name_of(text: &str) -> &str {
    text.split(':').next().unwrap_or_default()
}

fn no_spec(text: &str) -> Error {
    let names: Vec<&str> = GENERATORS.iter().map(|generator| generator.name).collect();
    let near = error::nearest(name_of(text), &names);
    let hint = near
        .first()
        .map_or_else(String::new, |name| format!("did you mean {}? ", text.replacen(name_of(text), name, 1)));
    let known: Vec<&str> = GENERATORS.iter().map(|generator| generator.example).collect();
    Error::new(format!("topology '{text}': neither a file nor a known spec; {hint}specs are {}", known.join(", ")))
}

impl<'a> Spec<'a> {
    fn parse(text: &'a str, generator: &'static Generator) -> Result<Self> {
        let body = text.split_once(':').map_or("", |(_, body)| body);
        let (positional, pairs) = if body.contains('=') { ("", body) } else { (body, "") };
        let mut spec = Self { text, generator, positional, keys: BTreeMap::new() };
        for pair in pairs.split(',').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            if generator.keys.is_empty() {
                return Err(spec.misread(format!("{} has no keys such as '{key}'", generator.name)));
            }
            if !generator.keys.contains(&key) {
                return Err(spec.misread(error::unknown("key", key, generator.keys)));
            }
            if spec.keys.insert(key, value).is_some() {
                return Err(spec.misread(format!("key '{key}' is given twice")));
            }
        }
        let takes_sizes = generator.keys.is_empty() && generator.example.contains(':');
        if !positional.is_empty() && !takes_sizes {
            return Err(spec.misread(format!("'{positional}' says nothing to {}", generator.name)));
        }
        Ok(spec)
    }

    /// An error about this spec, with an example that works.
    pub fn misread(&self, what: impl std::fmt::Display) -> Error {
        Error::new(format!("topology '{}': {what}; write for example {}", self.text, self.generator.example))
    }

    /// The sizes of `8x8` or `8,2`: each at least 1.
    pub fn sizes(&self) -> Result<Vec<u32>> {
        let parse = |part: &str| match part.parse::<u32>() {
            Ok(size) if size > 0 => Ok(size),
            _ if part.len() > 9 && part.bytes().all(|digit| digit.is_ascii_digit()) => {
                Err(self.misread(format!("'{part}' is too large")))
            }
            _ => Err(self.misread(format!("'{part}' is not a positive whole number"))),
        };
        self.positional.split(['x', ',']).map(parse).collect()
    }

    /// The one size of `ring:8`.
    pub fn size(&self) -> Result<u32> {
        self.sizes_exactly().map(|[size]| size)
    }

    /// Exactly as many sizes as the caller destructures.
    pub fn sizes_exactly<const N: usize>(&self) -> Result<[u32; N]> {
        let sizes = self.sizes()?;
        let count = sizes.len();
        sizes.try_into().map_err(|_| self.misread(format!("takes {N} size(s), got {count}")))
    }

    /// The value of `key`, or `default`.
    pub fn value<T: FromStr>(&self, key: &str, default: T) -> Result<T> {
        match self.keys.get(key) {
            None => Ok(default),
            Some(text) => text.parse().map_err(|_| self.misread(format!("{key}='{text}' is not a number it can take"))),
        }
    }

    /// Like [`Self::value`] for what has a unit, which `parse` reads.
    pub fn quantity<T>(&self, key: &str, default: T, parse: fn(&str) -> Result<T>) -> Result<T> {
        let read = |text: &&str| parse(text).map_err(|error| self.misread(format!("{key}: {error}")));
        self.keys.get(key).map_or(Ok(default), read)
    }

    /// Like [`Self::value`] for counts: at least 1.
    pub fn count(&self, key: &str, default: u32) -> Result<u32> {
        match self.value(key, default)? {
            0 => Err(self.misread(format!("{key} must be at least 1, got 0"))),
            count => Ok(count),
        }
    }

    /// Refuses networks that could not be held before they are built.
    pub fn check_size(&self, nodes: u64, links: u64) -> Result<()> {
        if nodes > MAX_NODES as u64 || links > MAX_LINKS as u64 {
            return Err(
                self.misread(format!("{nodes} nodes and {links} links; treefold handles {MAX_NODES} and {MAX_LINKS}"))
            );
        }
        Ok(())
    }
}
