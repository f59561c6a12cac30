//! The table of generators, and the networks that specs describe.

use super::spec::{Defaults, Form, Spec};
use super::{Topology, cluster, dragonfly, fattree, grid, hammingmesh, switched, twisted, wan};
use crate::error::{self, Error, Result};
use crate::units::{Bandwidth, Time};

/// A generator of networks.
pub struct Generator {
    /// How its specs are written.
    pub form: Form,
    /// The figures of its links unless a caller sets others.
    defaults: Defaults,
    build: fn(&Spec, &Defaults) -> Result<Topology>,
}

/// The figures of MultiTree, Table III: 16 GB/s and 150 ns a link.
const MULTITREE: Defaults = Defaults::new(16e9, 150_000, 0);
/// The figures of TE-CCL for one NVLink of a V100: 25 GB/s and 0.7 us.
const NVLINK: Defaults = Defaults::new(25e9, 700_000, 0);
/// The figures of the in-network paper, section V: 25 GB/s a port, 150 ns a switch.
const IN_NETWORK: Defaults = Defaults::new(25e9, 0, 150_000);
/// The figures of MTree, section IV: capacities around 200 Mbit/s; 1 ms.
const WIDE_AREA: Defaults = Defaults::new(25e6, 1_000_000_000, 0);
/// The figures of an eight-GPU server of 2024: 450 GB/s to its switch. The figures of its network cards are in
/// `cluster`.
const SERVERS: Defaults = Defaults::new(450e9, 150_000, 0);
/// The figures of a GB200 NVL72: 900 GB/s in each direction (NVLink 5, 1.8 TB/s in both).
const RACKS: Defaults = Defaults::new(900e9, 150_000, 0);
/// The figures of Slingshot (De Sensi et al., SC 2020): 200 Gbit/s a port, 350 ns a switch.
const SLINGSHOT: Defaults = Defaults::new(25e9, 0, 350_000);
/// The figures of one plane of accelerators with ports of 400 Gbit/s; the latency is MultiTree's.
const PORTS: Defaults = Defaults::new(50e9, 150_000, 0);

/// All generators. To add one, add a function and a line here.
pub const GENERATORS: [Generator; 20] = [
    generator("ring", "ring:8", MULTITREE, &[], grid::ring),
    generator("line", "line:8", MULTITREE, &[], grid::line),
    generator("full", "full:8", MULTITREE, &[], grid::full),
    generator("torus", "torus:8x8", MULTITREE, &[], grid::torus),
    generator("twisted-torus", "twisted-torus:4x8", MULTITREE, &[], twisted::twisted_torus),
    generator("mesh", "mesh:8x8", MULTITREE, &[], grid::mesh),
    generator("hypercube", "hypercube:6", MULTITREE, &[], grid::hypercube),
    generator("dgx1", "dgx1", NVLINK, &[], grid::dgx1),
    generator("dgx2", "dgx2:planes=6", MULTITREE, &["planes"], switched::dgx2),
    generator("fattree", "fattree:8,2", MULTITREE, &fattree::KEYS, fattree::fattree).or(FAT_TREE_OF_KEYS),
    generator("fattree128", "fattree128", IN_NETWORK, &[], switched::fattree128),
    generator("bigraph", "bigraph:4x8", MULTITREE, &[], switched::bigraph),
    generator("dragonfly", DRAGONFLY, SLINGSHOT, &dragonfly::KEYS, dragonfly::dragonfly),
    generator("hammingmesh", "hammingmesh:board=2x2,boards=4x4", PORTS, &hammingmesh::KEYS, hammingmesh::hammingmesh),
    generator("cluster", "cluster:nodes=4,gpus=8,rails=8", SERVERS, &cluster::KEYS, cluster::cluster),
    generator("nvl72", "nvl72:nodes=2,rails=4", RACKS, &cluster::KEYS, cluster::nvl72),
    generator("b4", "b4:skew=0.5,seed=1", WIDE_AREA, &["skew", "seed"], wan::b4),
    generator("equinix-like", "equinix-like:skew=0.5,seed=1", WIDE_AREA, &["skew", "seed"], wan::equinix_like),
    generator("idn-like", "idn-like:skew=0.5,seed=1", WIDE_AREA, &["skew", "seed"], wan::idn_like),
    generator("random", "random:n=20,links=60,seed=1", WIDE_AREA, &["n", "links", "skew", "seed"], wan::random),
];

/// The fat tree of switches with 8 ports.
const FAT_TREE_OF_KEYS: &str = "fattree:levels=3,radix=8";
/// The dragonfly that the paper draws, with 72 hosts.
const DRAGONFLY: &str = "dragonfly:groups=9,routers=4,hosts=2,global=2";

const fn generator(
    name: &'static str,
    example: &'static str,
    defaults: Defaults,
    keys: &'static [&'static str],
    build: fn(&Spec, &Defaults) -> Result<Topology>,
) -> Generator {
    Generator { form: Form { name, example, of_keys: None, keys }, defaults, build }
}

impl Generator {
    /// Adds an example that has keys only.
    const fn or(mut self, of_keys: &'static str) -> Self {
        self.form.of_keys = Some(of_keys);
        self
    }
}

/// Returns whether `text` starts with a generator's name, so that it is a spec and not a file.
///
/// ```
/// use treefold::topology::is_spec;
///
/// assert!(is_spec("b4:skew=0.5,seed=1"));
/// assert!(!is_spec("my_cluster.json"));
/// ```
pub fn is_spec(text: &str) -> bool {
    find(text).is_some()
}

/// Builds the network that a spec such as `torus:8x8` describes; `bandwidth` and `latency` set those of every link.
///
/// # Errors
/// If a name, key or size is unknown; the error has the nearest example that works.
///
/// ```
/// use treefold::topology::from_spec;
/// use treefold::units::{Bandwidth, Time};
///
/// let ring = from_spec("ring:8", Some(Bandwidth::known(25e9)), Some(Time::from_picoseconds(1_000_000)))?;
/// assert_eq!((ring.ranks(), ring.links().len()), (8, 16));
/// assert!(from_spec("rnig:8", None, None).unwrap_err().to_string().contains("did you mean ring:8?"));
/// # Ok::<(), treefold::error::Error>(())
/// ```
pub fn from_spec(text: &str, bandwidth: Option<Bandwidth>, latency: Option<Time>) -> Result<Topology> {
    let Some(generator) = find(text) else { return Err(no_spec(text)) };
    let spec = Spec::parse(text, &generator.form)?;
    (generator.build)(&spec, &generator.defaults.set(bandwidth, latency))
}

fn find(text: &str) -> Option<&'static Generator> {
    let names: Vec<&str> = GENERATORS.iter().map(|generator| generator.form.name).collect();
    error::find(name_of(text), &names).map(|at| &GENERATORS[at])
}

/// Returns the part of a spec before the colon.
fn name_of(text: &str) -> &str {
    text.split(':').next().unwrap_or_default()
}

fn no_spec(text: &str) -> Error {
    let names: Vec<&str> = GENERATORS.iter().map(|generator| generator.form.name).collect();
    let near = error::nearest(name_of(text), &names);
    let hint = near
        .first()
        .map_or_else(String::new, |name| format!("did you mean {}? ", text.replacen(name_of(text), name, 1)));
    let known: Vec<&str> = GENERATORS.iter().map(|generator| generator.form.example).collect();
    Error::new(format!("topology '{text}': neither a file nor a known spec; {hint}specs are {}", known.join(", ")))
}
