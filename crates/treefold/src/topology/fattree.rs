//! Fat trees of any number of levels: k-ary n-trees, and folded Clos networks of switches with so many ports (the
//! k-ary fat tree of Al-Fares et al., SIGCOMM 2008, if there are three levels), full or tapered.
//!
//! Switches of a level have numbers with one digit for each level above them, the lowest one first. Two switches of
//! neighbouring levels are linked if their numbers agree in all digits but the lower one's level. A taper of t leaves
//! out the switches above the leaves whose first digit is in the upper (t - 1)/t of its range, so that a leaf has one
//! link up for t accelerators, and nothing else changes.

use super::builder::Builder;
use super::spec::{Defaults, Spec};
use super::{Shape, Topology};
use crate::error::Result;

/// The keys of a fat tree: its levels, the ports of a switch, and how many accelerators share a leaf's link up.
pub(super) const KEYS: [&str; 3] = ["levels", "radix", "taper"];

/// The sizes of a fat tree.
struct FatTree {
    levels: u32,
    /// The accelerators of a leaf, and the switches below one between the leaves and the top.
    down: u32,
    /// The switches below one at the top.
    top_down: u32,
    /// The links up of a leaf.
    leaf_up: u32,
}

/// Builds `fattree:8,2`, the k-ary n-tree with k^n accelerators and n levels of k^(n-1) switches, or
/// `fattree:levels=3,radix=8`, the folded Clos network of switches with 8 ports; `taper=2` halves what is above leaves.
pub(super) fn fattree(spec: &Spec, defaults: &Defaults) -> Result<Topology> {
    let tree = if spec.has_sizes() { k_ary(spec)? } else { of_radix(spec)? };
    spec.check_size(tree.nodes(), tree.cables().saturating_mul(2))?;
    tree.build(defaults).finish(spec, Shape::General)
}

fn k_ary(spec: &Spec) -> Result<FatTree> {
    if let Some(key) = ["levels", "radix"].into_iter().find(|key| spec.has(key)) {
        return Err(spec.misread(format!("arity and levels are given, so {key} cannot be; drop one of them")));
    }
    let [arity, levels] = spec.sizes_exactly()?;
    let leaf_up = tapered(spec, arity)?;
    if levels == 1 && leaf_up != arity {
        return Err(spec.misread("one level has no links above its leaf switch; drop taper"));
    }
    Ok(FatTree { levels, down: arity, top_down: arity, leaf_up })
}

fn of_radix(spec: &Spec) -> Result<FatTree> {
    let (levels, radix) = (spec.count("levels", 3)?, spec.count("radix", 8)?);
    if levels < 2 {
        return Err(spec.misread(format!("levels must be at least 2, leaves and what joins them, got {levels}")));
    }
    if radix % 2 != 0 {
        let why = "as half of a switch's ports go up";
        return Err(spec.misread(format!("radix must be even, {why}, got {radix}; take {}", radix.saturating_add(1))));
    }
    let down = radix / 2;
    Ok(FatTree { levels, down, top_down: radix, leaf_up: tapered(spec, down)? })
}

/// Returns how many links up a leaf has if it has `down` accelerators.
fn tapered(spec: &Spec, down: u32) -> Result<u32> {
    let taper = spec.count("taper", 1)?;
    if !down.is_multiple_of(taper) {
        let unit = if down == 1 { "accelerator" } else { "accelerators" };
        let what = format!("a leaf switch's {down} {unit} cannot share links up by {taper}");
        return Err(spec.misread(format!("{what}; take a taper that divides {down}")));
    }
    Ok(down / taper)
}

impl FatTree {
    /// Returns the number of switches of a level, of which the leaves are number 0.
    fn switches(&self, level: u32) -> u64 {
        let [down, top_down, leaf_up] = [self.down, self.top_down, self.leaf_up].map(u64::from);
        let times = |factor: u64, exponent: u32| factor.saturating_mul(down.saturating_pow(exponent));
        match (level, self.levels) {
            (0, 1) => 1,
            (0, levels) => times(top_down, levels - 2),
            (level, levels) if level + 1 == levels => times(leaf_up, levels - 2),
            (_, levels) => times(top_down.saturating_mul(leaf_up), levels - 3),
        }
    }

    fn accelerators(&self) -> u64 {
        u64::from(self.top_down).saturating_mul(u64::from(self.down).saturating_pow(self.levels - 1))
    }

    fn nodes(&self) -> u64 {
        let above_leaves = match self.levels {
            1 => 0,
            2 => self.switches(1),
            levels => self.switches(1).saturating_mul(u64::from(levels - 2)).saturating_add(self.switches(levels - 1)),
        };
        self.accelerators().saturating_add(self.switches(0)).saturating_add(above_leaves)
    }

    fn cables(&self) -> u64 {
        let above_leaves = self.switches(0).saturating_mul(self.leaf_up.into());
        self.accelerators().saturating_add(above_leaves.saturating_mul((self.levels - 1).into()))
    }

    fn build<'a>(&self, defaults: &'a Defaults) -> Builder<'a> {
        let accelerators = self.accelerators() as u32;
        let mut network = Builder::new(accelerators, defaults);
        let mut below = network.switches(self.switches(0) as u32);
        for accelerator in 0..accelerators {
            network.connect(accelerator, below + accelerator / self.down);
        }
        for level in 0..self.levels - 1 {
            let above = network.switches(self.switches(level + 1) as u32);
            self.join(&mut network, level, [below, above]);
            below = above;
        }
        network
    }

    /// Links the switches of a level, the first of which is `below`, to those of the next one.
    fn join(&self, network: &mut Builder, level: u32, [below, above]: [u32; 2]) {
        let stride = if level == 0 { 1 } else { self.leaf_up * self.down.pow(level - 1) };
        let digits = if level + 2 == self.levels { self.top_down } else { self.down };
        let up = if level == 0 { self.leaf_up } else { self.down };
        for low in 0..self.switches(level) as u32 {
            let (higher, lower) = (low / (digits * stride), low % stride);
            for digit in 0..up {
                network.connect(below + low, above + (higher * up + digit) * stride + lower);
            }
        }
    }
}
