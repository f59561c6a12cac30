//! Tells the binding from which commit it is built, so that `treefold --version` can say it.

use std::process::Command;

/// The environment variable that names the commit where git cannot, as in a source distribution.
const COMMIT: &str = "TREEFOLD_COMMIT";

fn main() {
    println!("cargo::rerun-if-env-changed={COMMIT}");
    for path in ["HEAD", "logs/HEAD"].iter().filter_map(|path| git(&["rev-parse", "--git-path", path])) {
        println!("cargo::rerun-if-changed={path}");
    }
    let known = std::env::var(COMMIT).ok().or_else(|| git(&["rev-parse", "--short=9", "HEAD"]));
    println!("cargo::rustc-env={COMMIT}={}", known.as_deref().unwrap_or("unknown"));
}

/// Returns what git prints; `None` if there is no git, or no repository of it.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}
