//! The binding of the definitions of collectives.

use pyo3::prelude::*;
use treefold::plan::{Collective as Defined, Held};

/// The definition of a collective.
///
/// Example:
///     >>> from treefold import _core
///     >>> broadcast = next(each for each in _core.collectives() if each.name == "broadcast")
///     >>> broadcast.before, broadcast.after, broadcast.reduces, broadcast.has_root
///     ('at-root', 'whole', False, True)
///
#[pyclass(frozen, get_all, module = "treefold._core")]
pub struct Collective {
    /// The name of the collective.
    name: &'static str,
    /// The part that each rank gives: a `whole` vector, its own `block` of one, or `at-root`, where only the root has a
    /// vector.
    before: &'static str,
    /// The part that each rank gets, in the same words: of the sum if the collective reduces, or else of all that was
    /// given.
    after: &'static str,
    /// Whether the collective reduces the vectors of all ranks.
    reduces: bool,
    /// Whether the collective has a root, which gives or gets something else than the other ranks.
    has_root: bool,
    /// Whether ranks hold blocks of a vector before or after the collective.
    has_blocks: bool,
    /// Whether each rank is sent a block of its own, so that its result has no place in its own vector.
    is_personalized: bool,
}

/// Return the definitions of all collectives.
#[pyfunction]
pub fn collectives() -> Vec<Collective> {
    let held = |held| match held {
        Held::Whole => "whole",
        Held::Block => "block",
        Held::AtRoot => "at-root",
    };
    let shown = |collective: Defined| Collective {
        name: collective.definition().name,
        before: held(collective.definition().before),
        after: held(collective.definition().after),
        reduces: collective.definition().reduces,
        has_root: collective.has_root(),
        has_blocks: collective.has_blocks(),
        is_personalized: collective.is_personalized(),
    };
    Defined::ALL.map(shown).into()
}
