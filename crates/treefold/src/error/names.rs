//! Names that callers write. They are matched without regard to case, hyphens and underscores; the error of an unknown
//! name suggests names that may have been meant.

use super::{Error, Result};

/// Returns the value of the name that `text` means, whatever its case, hyphens and underscores; errors call it a
/// `what`.
///
/// # Errors
/// If `text` is none of the names; the error suggests names that may have been meant.
///
/// ```
/// use treefold::error::named;
///
/// let speeds = [("slow", 1), ("fast", 100)];
/// assert_eq!(named("speed", "fast", &speeds)?, 100);
/// let error = named("speed", "fats", &speeds).unwrap_err();
/// assert!(error.to_string().contains("did you mean fast"));
/// # Ok::<(), treefold::error::Error>(())
/// ```
pub fn named<T: Copy>(what: &str, text: &str, known: &[(&str, T)]) -> Result<T> {
    let names: Vec<&str> = known.iter().map(|&(name, _)| name).collect();
    find(text, &names).map(|at| known[at].1).ok_or_else(|| unknown(what, text, &names))
}

/// Returns the index of `text` in `known`, or else of the only name that differs from it in case, hyphens and
/// underscores alone.
pub fn find(text: &str, known: &[&str]) -> Option<usize> {
    let alike = || {
        let mut found = (0..known.len()).filter(|&at| letters(known[at]) == letters(text));
        found.next().filter(|_| found.next().is_none())
    };
    known.iter().position(|&name| name == text).or_else(alike)
}

/// Returns the error that `text` is none of `known`, with those of them that may have been meant.
pub fn unknown(what: &str, text: &str, known: &[&str]) -> Error {
    let near = nearest(text, known);
    let hint = if near.is_empty() { String::new() } else { format!("did you mean {}? ", near.join(" or ")) };
    Error::new(format!("{what} '{text}' is unknown; {hint}known are {}", known.join(", ")))
}

/// Returns up to three names of `known` that `text` may stand for, the most likely first: it may be misspelt, cut
/// short, in another order, or their initials.
pub fn nearest<'a>(text: &str, known: &[&'a str]) -> Vec<&'a str> {
    let mut near: Vec<(f64, &str)> = known.iter().map(|&name| (likeness(text, name), name)).collect();
    near.retain(|&(likeness, _)| likeness >= LIKELY);
    near.sort_by(|a, b| b.0.total_cmp(&a.0));
    near.into_iter().map(|(_, name)| name).take(3).collect()
}

/// Names that are less alike than this are not suggested.
const LIKELY: f64 = 0.6;
/// How alike names with the same characters in another order are at least, such as `2dring` and `ring2d`.
const TURNED: f64 = 0.8;
/// The most bytes of a name that is compared: a longer one is not misspelt, and comparing it would take long.
const LONGEST_NAME: usize = 64;

/// Returns how likely it is, from 0 to 1, that a person who wrote `text` meant `name`.
fn likeness(text: &str, name: &str) -> f64 {
    if text.len() > LONGEST_NAME {
        return 0.0;
    }
    let initials: String = name.split(['-', '_', ' ']).filter_map(|word| word.chars().next()).collect();
    let (text, name) = (letters(text), letters(name));
    if is_other_number(&text, &name) {
        return 0.0;
    }
    let is_part = text.len() >= 3 && name.contains(&text);
    let is_short = initials.len() >= 2 && (text == initials || text.strip_suffix('s') == Some(&initials));
    let is_turned = text.len() >= 5 && sorted(&text) == sorted(&name);
    let least = if is_turned {
        TURNED
    } else if is_part || is_short {
        LIKELY
    } else {
        0.0
    };
    strsim::normalized_damerau_levenshtein(&text, &name).max(least)
}

fn sorted(name: &str) -> Vec<char> {
    let mut characters: Vec<char> = name.chars().collect();
    characters.sort_unstable();
    characters
}

/// Returns whether only digits tell two names with digits apart, and `text` is not `name` cut short: who wrote `GPU9`
/// did not mean `GPU0`, but who wrote `h10` may have meant `h100`.
fn is_other_number(text: &str, name: &str) -> bool {
    let undigited = |name: &str| name.replace(|c: char| c.is_ascii_digit(), "");
    let have_digits = [text, name].iter().all(|name| name.bytes().any(|byte| byte.is_ascii_digit()));
    have_digits && !name.starts_with(text) && undigited(text) == undigited(name)
}

/// Returns the characters of a name that count when it is compared: its letters in lower case, without hyphens and
/// underscores.
fn letters(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, '-' | '_' | ' ')).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [&str; 6] = ["ring", "ring2d", "multitree", "halving-doubling", "virtual-channels", "waves"];

    #[test]
    fn case_hyphens_and_underscores_do_not_matter_where_one_name_is_left() {
        for (text, name) in
            [("MultiTree", "multitree"), ("multi-tree", "multitree"), ("Halving_Doubling", "halving-doubling")]
        {
            assert_eq!(find(text, &KNOWN).map(|at| KNOWN[at]), Some(name));
        }
        assert_eq!(find("ab", &["a-b", "a_b"]), None);
        assert_eq!(find("a_b", &["a-b", "a_b"]), Some(1));
    }

    #[test]
    fn what_may_have_been_meant_is_suggested_and_nothing_else() {
        for (text, near) in [
            ("rings", &["ring", "ring2d"][..]),
            ("multitre", &["multitree"]),
            ("doubling", &["halving-doubling"]),
            ("vcs", &["virtual-channels"]),
            ("zebra", &[]),
            ("ring3d", &["ring"]),
            ("ring2", &["ring2d", "ring"]),
            ("rign2d", &["ring2d"]),
            ("2dring", &["ring2d", "ring"]),
            (&"ring".repeat(1000), &[]),
        ] {
            assert_eq!(nearest(text, &KNOWN), near, "{text}");
        }
        let message = named("algorithm", "rnig", &[("ring", 1), ("tree", 2)]).unwrap_err().to_string();
        assert_eq!(message, "algorithm 'rnig' is unknown; did you mean ring? known are ring, tree");
    }
}
