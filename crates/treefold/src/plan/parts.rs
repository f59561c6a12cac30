//! Parts of a vector that are operations of their own, where not all of it is at hand at once.
//!
//! A tree has the same share of each part as of the whole, and its part of the elements is a piece of its own span. So
//! the same tree reduces each element in the same order, and the parts' sums are, bit for bit, those of the whole.
//!
//! Cost: a pass over the trees, and a copy of the plan for each of the two or three sizes of parts.

use std::ops::Range;

use super::schedule::cut;
use super::{Draft, Plan, Tree};
use crate::bail;
use crate::error::Result;

/// A part of a vector.
#[derive(Debug, Clone)]
pub struct Part {
    /// The plan for the part, whose vector has its elements one behind the other.
    pub plan: Plan,
    /// Where these stand in the whole vector.
    pub elements: Vec<Range<u64>>,
}

/// Returns the parts of a vector of `elements` elements, each of at most `most`.
///
/// # Errors
/// If the collective has blocks, as a part of one block would need parts of all, or `most` is 0.
///
/// ```
/// use std::sync::Arc;
/// use treefold::plan::parts;
/// use treefold::planners::{self, Options};
/// use treefold::topology::from_spec;
///
/// let ring = Arc::new(from_spec("ring:2", None, None)?);
/// let plan = planners::plan("ring", &ring, &Options::default())?;
/// let found: Vec<_> = parts(&plan, 10, 4)?.into_iter().map(|part| part.elements).collect();
/// assert_eq!(found, [[0..2, 5..7], [2..4, 7..9], [4..5, 9..10]], "each of both trees has a half of every part");
/// # Ok::<(), treefold::error::Error>(())
/// ```
pub fn parts(plan: &Plan, elements: u64, most: u64) -> Result<Vec<Part>> {
    if plan.collective.has_blocks() {
        bail!("{} moves blocks of ranks; cut each block by itself", plan.collective);
    }
    if most == 0 {
        bail!("a part of no elements carries nothing; allow at least 1");
    }
    if elements <= most {
        return Ok(vec![Part { plan: plan.clone(), elements: std::iter::once(0..elements).collect() }]);
    }
    let (edges, mut left) = spans(plan, elements);
    let lengths = |left: &[Range<u64>]| left.iter().map(|span| span.end - span.start).collect::<Vec<u64>>();
    // Rounded down, so that a part never has more than `most`.
    let usual: Vec<u64> = lengths(&left).iter().map(|&length| cut(most, elements, length)).collect();
    let mut found: Vec<(Vec<u64>, Part)> = Vec::new();
    while left.iter().any(|span| !span.is_empty()) {
        let rest = lengths(&left);
        let sizes = if rest.iter().sum::<u64>() <= most { rest } else { next(&usual, &rest, most) };
        let taken: Vec<Range<u64>> =
            left.iter().zip(&sizes).map(|(span, size)| span.start..span.start + size).collect();
        left.iter_mut().zip(&sizes).for_each(|(span, size)| span.start += size);
        let same = found.iter().rev().find(|(other, _)| *other == sizes).map(|(_, part)| part.plan.clone());
        let plan = same.unwrap_or_else(|| resized(plan, &edges, &sizes));
        let elements = taken.into_iter().filter(|span| !span.is_empty()).collect();
        found.push((sizes, Part { plan, elements }));
    }
    Ok(found.into_iter().map(|(_, part)| part).collect())
}

/// Returns the units at which trees begin and end, and the elements between each two of them.
fn spans(plan: &Plan, elements: u64) -> (Vec<u64>, Vec<Range<u64>>) {
    let ends = plan.trees.iter().flat_map(|tree| [tree.span.start, tree.span.end]);
    let mut edges: Vec<u64> = ends.chain([0, plan.units]).collect();
    edges.sort_unstable();
    edges.dedup();
    let at = |unit| cut(elements, plan.units, unit);
    let spans = edges.windows(2).map(|pair| at(pair[0])..at(pair[1])).collect();
    (edges, spans)
}

/// Returns how many elements of each span the next part has: as usual, or what is left; where spans are so short that
/// this is nothing, as many of them as fit.
fn next(usual: &[u64], rest: &[u64], most: u64) -> Vec<u64> {
    let sizes: Vec<u64> = usual.iter().zip(rest).map(|(&usual, &rest)| usual.min(rest)).collect();
    if sizes.iter().any(|&size| size > 0) {
        return sizes;
    }
    let mut room = most;
    let mut take = |&rest: &u64| {
        let size = rest.min(room);
        room -= size;
        size
    };
    rest.iter().map(&mut take).collect()
}

/// Returns the plan with trees over so many elements of each span between `edges`, and a unit for each element.
fn resized(plan: &Plan, edges: &[u64], sizes: &[u64]) -> Plan {
    let mut places = vec![0];
    for size in sizes {
        places.push(places[places.len() - 1] + size);
    }
    let at = |unit: u64| places[edges.binary_search(&unit).expect("a tree begins or ends there")];
    let trees = plan.trees.iter().map(|tree| Tree { span: at(tree.span.start)..at(tree.span.end), ..tree.clone() });
    let units = *places.last().expect("it begins with 0");
    Draft { units, trees: trees.collect(), ..Draft::from(plan.clone()) }.trusted()
}
