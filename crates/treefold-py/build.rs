//! Tells the binding from which commit it is built, so that `treefold --version` can say it.

use std::process::Command;

/// The environment variable that names the commit where git cannot, as in a source distribution.
const COMMIT: &str = "TREEFOLD_COMMIT";

fn main() {
    println!("cargo::rerun-if-env-changed={COMMIT}");
    for path in ["HEAD", "logs/HEAD"].iter().filter_map(|path| git(&["rev-parse", "--git-path", path])) {
        println!("cargo::rerun-if-changed={path}");
    }
    // A source distribution has no repository of its own, but may be unpacked within another one.
    let is_ours = git(&["rev-parse", "--show-prefix"]).as_deref() == Some("crates/treefold-py/");
    let commit = || git(&["rev-parse", "--short=9", "HEAD"]).filter(|_| is_ours);
    let known = std::env::var(COMMIT).ok().or_else(commit);
    println!("cargo::rustc-env={COMMIT}={}", known.as_deref().unwrap_or("unknown"));
}

/// Returns what git prints; `None` if there is no git, or no repository of it.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}
