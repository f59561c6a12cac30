//! Who reads which option of a machine: the declarations of options say it (`x-readers`, `x-unless`), and here a plan's
//! simulation is held to them, so that no option that was given is without effect in silence.

use serde_json::Value;

use super::in_network;
use super::options::Options;
use crate::error::Result;
use crate::misfit;
use crate::options::{properties, written};
use crate::plan::Walkable;

/// What reads options: a kind of machine, or a use of trees on one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reader {
    /// Routers and network interfaces.
    Routers,
    /// Software that writes data and flags over a fabric.
    Software,
    /// Ranks of a fabric that push.
    Push,
    /// Ranks of a fabric that pull.
    Pull,
    /// Ranks of a fabric that multicast what they have.
    Multicast,
}

impl Reader {
    /// Returns its name in declarations, and what errors call it.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Routers => ("routers", "routers"),
            Self::Software => ("software", "software on a fabric"),
            Self::Push => ("push", "pushes"),
            Self::Pull => ("pull", "pulls"),
            Self::Multicast => ("multicast", "multicasts"),
        }
    }
}

/// An option that was given another value than its default, and has no effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unread {
    /// Its name.
    pub option: String,
    /// Its value, as a person would write it.
    pub value: String,
    /// Why nothing reads it.
    pub why: String,
}

/// Lists the options that were given and that the simulation of `plan` does not read.
///
/// # Errors
/// If no machine of these options runs the plan.
///
/// ```
/// use std::sync::Arc;
/// use treefold::planners;
/// use treefold::sim::packet::{Options, options::Fabric, readers::unread};
/// use treefold::topology::from_spec;
///
/// let dgx2 = Arc::new(from_spec("dgx2:planes=6", None, None)?);
/// let push = planners::plan("innet-push", &dgx2, &planners::Options::default())?;
/// let machine = Options { fabric: Fabric { barrier: true, ..Fabric::default() }, ..Options::default() };
/// assert_eq!(unread(&push, &machine)?[0].why, "it is only for pulls, and this plan is simulated with pushes");
/// # Ok::<(), treefold::error::Error>(())
/// ```
pub fn unread<'a>(plan: impl Into<Walkable<'a>>, options: &Options) -> Result<Vec<Unread>> {
    let plan = plan.into().walked();
    let readers = if in_network::applies(plan, options)? { in_network::readers(plan)? } else { vec![Reader::Routers] };
    let (values, defaults) = (values_of(options), values_of(&Options::default()));
    let in_force = in_force(&values, &readers);
    let of = |(name, declared): (&String, &Value)| {
        let why = reason(declared, &readers, &in_force)?;
        Some(Unread { option: name.clone(), value: written(&values[name], declared), why })
    };
    let given = properties::<Options>().iter().filter(|(name, _)| values[*name] != defaults[*name]);
    Ok(given.filter_map(of).collect())
}

/// Returns the values with which a plan with these readers is simulated. If multicasts are the only ones, nothing
/// bounds their waves, unless the options do.
fn in_force(values: &Value, readers: &[Reader]) -> Value {
    let mut in_force = values.clone();
    if values["waves"].is_null() && readers.iter().all(|reader| *reader == Reader::Multicast) {
        in_force["waves"] = 0.into();
    }
    in_force
}

/// Refuses options that were given and that the simulation of `plan` does not read.
///
/// # Errors
/// If there is one; the error names the option and its value, why nothing reads it, and the remedy.
///
/// ```
/// use std::sync::Arc;
/// use treefold::planners;
/// use treefold::sim::packet::{Options, options::Fabric, readers::refuse_unread};
/// use treefold::topology::from_spec;
///
/// let ring = Arc::new(from_spec("ring:4", None, None)?);
/// let plan = planners::plan("ring", &ring, &planners::Options::default())?;
/// assert!(refuse_unread(&plan, &Options::default()).is_ok(), "defaults are never refused");
/// let machine = Options { fabric: Fabric { barrier: true, ..Fabric::default() }, ..Options::default() };
/// let error = refuse_unread(&plan, &machine).unwrap_err();
/// assert!(error.to_string().starts_with("barrier=true has no effect: it is only for pulls"));
/// # Ok::<(), treefold::error::Error>(())
/// ```
pub fn refuse_unread<'a>(plan: impl Into<Walkable<'a>>, options: &Options) -> Result<()> {
    if let Some(Unread { option, value, why }) = unread(plan, options)?.first() {
        misfit!("{option}={value} has no effect: {why}; leave {option} out");
    }
    Ok(())
}

fn values_of(options: &Options) -> Value {
    serde_json::to_value(options).expect("options are plain values")
}

/// Says why an option has no effect, given the values in force; `None` if it has one.
fn reason(declared: &Value, readers: &[Reader], in_force: &Value) -> Option<String> {
    let list = |of: &dyn Fn(&str) -> bool| {
        let all = [Reader::Routers, Reader::Software, Reader::Push, Reader::Pull, Reader::Multicast];
        let names = all.into_iter().map(Reader::names).filter(|(name, _)| of(name)).map(|(_, shown)| shown);
        listed(&names.collect::<Vec<_>>())
    };
    if let Some(its) = declared["x-readers"].as_array() {
        let reads = |name: &str| its.iter().any(|each| each == name);
        let is_here = |name: &str| readers.iter().any(|reader| reader.names().0 == name);
        if !readers.iter().any(|reader| reads(reader.names().0)) {
            let (its, here) = (list(&reads), list(&is_here));
            return Some(format!("it is only for {its}, and this plan is simulated with {here}"));
        }
    }
    let unless: Vec<&str> = declared["x-unless"].as_array()?.iter().filter_map(Value::as_str).collect();
    let holds = |condition: &&str| {
        let (other, value) = condition.split_once('=').expect("an option and its value");
        in_force[other] == value.parse::<Value>().expect("a plain value")
    };
    unless.iter().all(holds).then(|| format!("with {} nothing reads it", listed(&unless)))
}

/// Returns a list as a sentence has it: `pushes, pulls and multicasts`.
fn listed(names: &[&str]) -> String {
    match names {
        [others @ .., last] if !others.is_empty() => format!("{} and {last}", others.join(", ")),
        _ => names.concat(),
    }
}
