//! Twisted tori: the links around the short dimensions are shifted by half of the long ones.
//!
//! The sides are k and 2k, as in slices of TPU v4. With one of each it is the rectangular twisted torus of Cámara et
//! al. (IEEE TPDS 2010); with two sides of k and one of 2k it is a face-centred cubic lattice, and with one of k and
//! two of 2k a body-centred one (Camarero et al., arXiv:1311.2019). Its shape is no grid, as it is no product of
//! rings.

use super::grid::{accelerators, coordinate, neighbour, stride};
use super::spec::{Defaults, Spec};
use super::{NodeId, Shape, Topology};
use crate::error::Result;

/// Builds `twisted-torus:4x8`, numbered and with links listed as a torus.
pub(super) fn twisted_torus(spec: &Spec, defaults: &Defaults) -> Result<Topology> {
    let dims = spec.sizes()?;
    let short = check_sides(spec, &dims)?;
    let count = dims.iter().fold(1u64, |cells, &side| cells.saturating_mul(side.into()));
    spec.check_size(count, count.saturating_mul(2 * dims.len() as u64))?;
    let mut links = Vec::new();
    for cell in 0..count as u32 {
        for dimension in 0..dims.len() {
            for forward in [false, true] {
                let next = twisted_neighbour(&dims, short, cell, dimension, forward);
                links.push(defaults.link(NodeId(cell), NodeId(next)));
            }
        }
    }
    Topology::new(spec.text, accelerators(count as u32), links, None, Shape::General)
}

/// Returns the short side, or an error if the sides are not k and 2k.
fn check_sides(spec: &Spec, dims: &[u32]) -> Result<u32> {
    let (short, long) = dims.iter().fold((u32::MAX, 0), |(low, high), &side| (low.min(side), high.max(side)));
    if short < 2 {
        return Err(spec.misread(format!("sides must be at least 2, got {short}")));
    }
    let odd = dims.iter().find(|&&side| side != short && u64::from(side) != 2 * u64::from(short));
    if let Some(side) = odd {
        return Err(spec.misread(format!("sides must be k and 2k, but {side} is neither {short} nor twice {short}")));
    }
    if short == long {
        let remedy = "double one of them, or write torus for one without a twist";
        return Err(
            spec.misread(format!("all sides are {short}, and a twist is along a side that is longer; {remedy}"))
        );
    }
    Ok(short)
}

/// Returns the next cell along `dimension`, which over the edge of a short one is shifted by half of each long one.
fn twisted_neighbour(dims: &[u32], short: u32, cell: u32, dimension: usize, forward: bool) -> u32 {
    let next = neighbour(dims, true, cell, dimension, forward).expect("a ring of two or more has neighbours");
    let crosses = coordinate(dims, cell, dimension) == if forward { dims[dimension] - 1 } else { 0 };
    if !crosses || dims[dimension] != short {
        return next;
    }
    let long = (0..dims.len()).filter(|&along| dims[along] != short);
    long.fold(next, |cell, along| {
        let at = coordinate(dims, cell, along);
        cell - at * stride(dims, along) + (at + short) % dims[along] * stride(dims, along)
    })
}
