//! Modules use only the ones before them: `error, ids, units, search, random, linear, number, options, blocks ->
//! topology -> memory -> bound | plan -> planners | sim | run -> auto`.

use std::fs;
use std::path::{Path, PathBuf};

/// Each module, and what it may use besides itself.
const LAYERS: [(&str, &[&str]); 17] = [
    ("error", &[]),
    ("units", &["error"]),
    ("ids", &[]),
    ("search", &["ids", "units"]),
    ("random", &[]),
    ("linear", &["random"]),
    ("number", &["error"]),
    ("options", &["error", "units"]),
    ("topology", &["error", "ids", "units", "search", "random"]),
    ("blocks", &["error", "ids"]),
    ("memory", &["topology"]),
    ("bound", &["error", "ids", "units", "search", "random", "linear", "blocks", "topology", "memory"]),
    ("plan", &["error", "ids", "units", "random", "options", "blocks", "topology"]),
    (
        "planners",
        &[
            "error", "ids", "units", "search", "random", "linear", "options", "blocks", "topology", "memory", "bound",
            "plan",
        ],
    ),
    ("sim", &["error", "ids", "units", "random", "number", "options", "topology", "plan"]),
    ("run", &["error", "ids", "units", "number", "topology", "plan"]),
    (
        "auto",
        &[
            "error", "ids", "units", "random", "number", "options", "topology", "bound", "plan", "planners", "sim",
            "run",
        ],
    ),
];

/// Macros that stand at the crate's root, and the module that they belong to.
const MACROS: [(&str, &str); 2] = [("bail", "error"), ("misfit", "error")];

/// What the code of a file in module `path` (`["plan", "check"]`) names right below the crate's root.
fn used_modules(source: &str, path: &[&str]) -> Vec<String> {
    let code: String = source.lines().map(|line| line.split("//").next().unwrap_or("").to_owned() + " ").collect();
    let words: Vec<&str> = code.split_whitespace().collect();
    let code = words.join(" ").replace(":: ", "::").replace(" ::", "::");
    let mut from_root = vec!["crate::".to_owned()];
    from_root.extend((path.len()..path.len() + 2).filter(|&up| up > 0).map(|up| "super::".repeat(up)));
    let mut used: Vec<String> = from_root.iter().flat_map(|prefix| names_after(&code, prefix)).collect();
    used.retain(|name| !name.is_empty());
    used.sort_unstable();
    used.dedup();
    used.into_iter()
        .map(|name| MACROS.iter().find(|known| known.0 == name).map_or(name.clone(), |known| known.1.into()))
        .collect()
}

/// The first names of the paths that follow `prefix`, which may be a braced list.
fn names_after(code: &str, prefix: &str) -> Vec<String> {
    let starts = code.match_indices(prefix).map(|(at, _)| at);
    let whole = starts.filter(|&at| !code[..at].ends_with("::") && !code[..at].ends_with(is_of_name));
    whole.flat_map(|at| first_names(&code[at + prefix.len()..])).collect()
}

fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// `a` of `a::b`, and `a`, `c` of `{a::{x, y}, c}`.
fn first_names(rest: &str) -> Vec<String> {
    let Some(list) = rest.strip_prefix('{') else {
        return vec![rest.chars().take_while(|&c| is_of_name(c)).collect()];
    };
    let (mut depth, mut item, mut items) = (0, String::new(), Vec::new());
    for c in list.chars() {
        match c {
            '}' if depth == 0 => break,
            ',' if depth == 0 => items.push(std::mem::take(&mut item)),
            _ => {
                depth += i32::from(c == '{') - i32::from(c == '}');
                item.push(c);
            }
        }
    }
    items.push(item);
    items.iter().map(|item| item.trim().chars().take_while(|&c| is_of_name(c)).collect()).collect()
}

/// The modules that a file of module `path` uses although it must not.
fn forbidden(source: &str, path: &[&str]) -> Vec<String> {
    let (_, allowed) = LAYERS
        .iter()
        .find(|layer| layer.0 == path[0])
        .unwrap_or_else(|| panic!("give module {} a place in LAYERS", path[0]));
    let is_module = |name: &str| LAYERS.iter().any(|layer| layer.0 == name);
    let used = used_modules(source, path).into_iter();
    used.filter(|name| is_module(name) && name != path[0] && !allowed.contains(&name.as_str())).collect()
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}

#[test]
fn modules_use_only_the_ones_before_them() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut modules = 0;
    for file in rust_files(&src) {
        let inside = file.strip_prefix(&src).unwrap().with_extension("");
        let path: Vec<&str> = inside.iter().map(|part| part.to_str().unwrap()).collect();
        if path != ["lib"] {
            let wrong = forbidden(&fs::read_to_string(&file).unwrap(), &path);
            assert!(wrong.is_empty(), "{} uses {}, which comes after {}", file.display(), wrong.join(", "), path[0]);
            modules += 1;
        }
    }
    assert!(modules >= LAYERS.len(), "found only {modules} files");
}

#[test]
fn the_scanner_sees_every_way_to_name_a_module() {
    let used = |source: &str| used_modules(source, &["plan", "check"]);
    assert_eq!(used("use crate::planners::Options;"), ["planners"]);
    assert_eq!(
        used("use crate::{error::Result, sim::{self, analytic}, units::{Bytes, Time}};"),
        ["error", "sim", "units"]
    );
    assert_eq!(used("use\n    crate::{\n        sim,\n    };"), ["sim"]);
    assert_eq!(used("fn f() { let x = crate::auto::plan(); }"), ["auto"]);
    assert_eq!(used("pub(crate) fn f(t: &crate::topology::Topology) {}"), ["topology"]);
    assert_eq!(used("use crate::bail;"), ["error"]);
    assert_eq!(used("use super::super::planners::ring;"), ["planners"], "super twice is the root here");
    assert_eq!(used("use super::planners;"), [""; 0], "plan::planners is another module");
    assert_eq!(used("/// See [`crate::sim`]\n// use crate::sim;\nfn f() {}"), [""; 0], "comments do not count");
    assert_eq!(used_modules("use super::sim;", &["plan"]), ["sim"], "super is the root in a top-level file");
}

#[test]
fn a_wrong_import_is_found() {
    assert_eq!(forbidden("use crate::sim::analytic::Profile;", &["planners", "ring"]), ["sim"]);
    assert_eq!(forbidden("use crate::planners::Options;", &["sim", "analytic"]), ["planners"]);
    assert_eq!(forbidden("use crate::topology::Topology;", &["units"]), ["topology"]);
    assert_eq!(forbidden("use crate::{plan::Plan, auto};", &["topology", "json"]), ["auto", "plan"]);
    assert_eq!(forbidden("use crate::{plan::Plan, units::Bytes};", &["sim"]), [""; 0]);
}
