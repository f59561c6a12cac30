//! Ranges of a rank's memory: its vector, and the scratch space behind it.

use std::ops::Range;

/// Returns the rest of `pieces` after their first `from` bytes.
pub(super) fn rest(pieces: &[Range<usize>], from: usize) -> impl Iterator<Item = Range<usize>> {
    let mut skip = from;
    pieces.iter().filter_map(move |piece| {
        let length = piece.end - piece.start;
        let here = skip.min(length);
        skip -= here;
        (here < length).then_some(piece.start + here..piece.end)
    })
}

/// Returns the bytes of a range of the vector, or of the scratch space behind it.
pub(super) fn place<'b>(vector: &'b mut [u8], scratch: &'b mut [u8], range: Range<usize>) -> &'b mut [u8] {
    match range.start.checked_sub(vector.len()) {
        Some(start) => &mut scratch[start..range.end - vector.len()],
        None => &mut vector[range],
    }
}

/// Returns the bytes of two ranges that do not overlap, of which one may be of the vector only if the other is not.
pub(super) fn two_places<'b>(
    vector: &'b mut [u8],
    scratch: &'b mut [u8],
    from: Range<usize>,
    to: Range<usize>,
) -> (&'b [u8], &'b mut [u8]) {
    let length = vector.len();
    let in_scratch = |range: Range<usize>| range.start - length..range.end - length;
    match (from.start < length, to.start < length) {
        (true, _) => (&vector[from], &mut scratch[in_scratch(to)]),
        (false, true) => (&scratch[in_scratch(from)], &mut vector[to]),
        (false, false) => {
            let places = scratch.get_disjoint_mut([in_scratch(from), in_scratch(to)]);
            let [from, to] = places.expect("buffers are apart");
            (from, to)
        }
    }
}
