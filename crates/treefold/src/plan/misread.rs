//! What is wrong with a value of a JSON file: where it stands, what is there, and what should be.
//!
//! The types of a format say what each of its fields must be, in the first sentence of a doc comment that begins with
//! an article; the schema has it as the field's description. An error says so of the deepest field on the way to the
//! fault. The text is read once if nothing is wrong, and three times if something is.

use std::fmt;

use schemars::JsonSchema;
use serde::de::{DeserializeOwned, Deserializer as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;
use serde_path_to_error::{Path, Segment};

use crate::error::{Error, Result, nearest};
use crate::options::schema_of;

/// The most characters of a value that an error quotes.
const LONGEST_QUOTE: usize = 60;

/// Reads a document of type `T`.
///
/// # Errors
/// If the text is not a whole document of this type. The error names the place, the value, and what must stand there.
pub(crate) fn read<T: DeserializeOwned + JsonSchema>(text: &str) -> Result<T> {
    serde_json::from_str(text).map_err(|error| {
        if serde_json::from_str::<IgnoredAny>(text).is_err() {
            return Error::new(format!("not valid JSON: {error}; is the file complete?"));
        }
        let mut reader = serde_json::Deserializer::from_str(text);
        match serde_path_to_error::deserialize::<_, T>(&mut reader) {
            Err(found) => explained(text, &segments(found.path()), &found.inner().to_string(), &schema_of::<T>()),
            Ok(_) => Error::new(error.to_string()),
        }
    })
}

/// Returns the error about the value to which the steps lead, of which the reader `says` what is wrong.
fn explained(text: &str, steps: &[Step], says: &str, schema: &Value) -> Error {
    if let Some(name) = quoted_name(says, "missing field `") {
        let (depth, what) = described(schema, &[steps, &[Step::Key(name)]].concat());
        let owner = if depth > steps.len() { "it".to_owned() } else { subject(&steps[..depth]) };
        return placed(steps, format!("'{name}' is missing; {owner} must be {what}"));
    }
    if let Some(name) = quoted_name(says, "unknown field `") {
        let owner = owner(steps, name);
        return placed(owner, unknown(name, &known_fields(schema, owner)));
    }
    if let Some(name) = quoted_name(says, "duplicate field `") {
        return placed(owner(steps, name), format!("'{name}' stands twice; keep one"));
    }
    // A variant is a step, too, but where it is only a text it has no value of its own.
    let found = (0..=steps.len()).rev().find_map(|end| Some((&steps[..end], part(text, &steps[..end])?)));
    let (steps, value) = found.unwrap_or((&[], text));
    let (depth, what) = described(schema, steps);
    let (mut place, it, value) = (words(steps), subject(steps), quoted(value));
    place.pop();
    let problem = match depth == steps.len() {
        true => format!("{it} must be {what}, got {value}"),
        false => format!("{it} cannot be {value}; {} must be {what}", subject(&steps[..depth])),
    };
    at(&place, problem)
}

/// Returns the way to the object of the key at which the reader stopped: its path ends at the key or at the object.
fn owner<'a, 'b>(steps: &'b [Step<'a>], key: &str) -> &'b [Step<'a>] {
    match steps.split_last() {
        Some((last, before)) if *last == Step::Key(key) => before,
        _ => steps,
    }
}

/// A step on the way from a document to a value in it.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Step<'a> {
    Key(&'a str),
    Index(usize),
}

fn segments(path: &Path) -> Vec<Step<'_>> {
    let steps = path.iter().filter_map(|segment| match segment {
        Segment::Seq { index } => Some(Step::Index(*index)),
        Segment::Map { key } => Some(Step::Key(key)),
        Segment::Enum { variant } => Some(Step::Key(variant)),
        Segment::Unknown => None,
    });
    steps.collect()
}

/// Returns the name behind `prefix` at the beginning of what the reader says, up to the next backtick.
fn quoted_name<'a>(says: &'a str, prefix: &str) -> Option<&'a str> {
    says.strip_prefix(prefix)?.split('`').next()
}

fn unknown(name: &str, known: &[&str]) -> String {
    let near = nearest(name, known);
    let hint = if near.is_empty() { String::new() } else { format!("did you mean {}? ", near.join(" or ")) };
    format!("'{name}' is unknown; {hint}known are {}", known.join(", "))
}

/// Returns the error with the place in front, in words: `phase 0, tree 3, down, edge 2`.
fn placed(steps: &[Step], problem: String) -> Error {
    at(&words(steps), problem)
}

fn at(place: &[String], problem: String) -> Error {
    let error = Error::new(problem);
    if place.is_empty() { error } else { error.at(place.join(", ")) }
}

/// Returns the last word of a place.
fn subject(steps: &[Step]) -> String {
    words(steps).pop().unwrap_or_else(|| "the file".to_owned())
}

/// Returns a place in words, such as `tree 3` for an item of a list.
fn words(steps: &[Step]) -> Vec<String> {
    let mut words = Vec::new();
    for (at, step) in steps.iter().enumerate() {
        match (*step, steps.get(at + 1)) {
            (Step::Key(list), Some(Step::Index(index))) => {
                let item = list.strip_suffix('s').unwrap_or(list);
                match at > 0 && steps[at - 1] == Step::Key("edges") {
                    true => words.extend([format!("edge {index}"), item.to_owned()]),
                    false => words.push(format!("{item} {index}")),
                }
            }
            (Step::Key("edges"), Some(_)) | (Step::Index(_), _) => {}
            (Step::Key(name), _) => words.push(name.to_owned()),
        }
    }
    words
}

/// Returns how many steps lead to the deepest field that has a description, and what the field must be: the first
/// sentence of its description.
fn described(schema: &Value, steps: &[Step]) -> (usize, String) {
    let (mut nodes, mut deepest) = (vec![schema], (0, "what its schema says"));
    for (at, step) in steps.iter().enumerate() {
        nodes = nodes.into_iter().flat_map(|node| inner(schema, node, *step)).collect();
        if let Some(description) = nodes.iter().find_map(|node| node["description"].as_str()) {
            deepest = (at + 1, description);
        }
    }
    let sentence = deepest.1.split(". ").next().unwrap_or(deepest.1).trim_end_matches('.').replace('`', "");
    let mut line = sentence.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some(first) = line.get_mut(..1) {
        first.make_ascii_lowercase();
    }
    (deepest.0, line)
}

/// Returns the names of the fields of the object to which the steps lead.
fn known_fields<'a>(schema: &'a Value, steps: &[Step]) -> Vec<&'a str> {
    let start = vec![schema];
    let nodes = steps
        .iter()
        .fold(start, |nodes, step| nodes.into_iter().flat_map(|node| inner(schema, node, *step)).collect::<Vec<_>>());
    let fields = nodes.into_iter().flat_map(|node| alternatives(schema, node));
    fields
        .filter_map(|node| node["properties"].as_object())
        .flat_map(|fields| fields.keys())
        .map(String::as_str)
        .collect()
}

/// Returns the schemas of what `step` leads to from a value with the schema `node`.
fn inner<'a>(schema: &'a Value, node: &'a Value, step: Step) -> Vec<&'a Value> {
    let of = |node: &'a Value| match step {
        Step::Key(name) => node["properties"].get(name),
        Step::Index(_) => node.get("items"),
    };
    alternatives(schema, node).into_iter().filter_map(of).collect()
}

/// Returns the schemas that a value may have: that to which a reference leads, and each of several.
fn alternatives<'a>(schema: &'a Value, node: &'a Value) -> Vec<&'a Value> {
    let target = node["$ref"].as_str().and_then(|name| schema.pointer(name.strip_prefix('#')?));
    let choices = ["oneOf", "anyOf"].iter().filter_map(|key| node[*key].as_array()).flatten();
    let others = target.into_iter().chain(choices).flat_map(|other| alternatives(schema, other));
    std::iter::once(node).chain(others).collect()
}

/// Returns the text of the value to which the steps lead.
fn part<'t>(text: &'t str, steps: &[Step]) -> Option<&'t str> {
    let mut value = text;
    for step in steps {
        let mut reader = serde_json::Deserializer::from_str(value);
        value = reader.deserialize_any(Part(*step)).ok()??.get();
    }
    Some(value.trim())
}

/// Finds the part of a value to which a step leads, without building the others.
struct Part<'a>(Step<'a>);

impl<'de> Visitor<'de> for Part<'_> {
    type Value = Option<&'de RawValue>;

    fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str("a list or an object")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> std::result::Result<Self::Value, A::Error> {
        let mut found = None;
        for index in 0.. {
            if self.0 == Step::Index(index) {
                found = items.next_element()?;
            } else if items.next_element::<IgnoredAny>()?.is_none() {
                break;
            }
        }
        Ok(found)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> std::result::Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(key) = fields.next_key::<String>()? {
            if self.0 == Step::Key(&key) {
                found = Some(fields.next_value()?);
            } else {
                fields.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }
}

/// Returns a value as errors quote it, on one line and cut where it is long.
fn quoted(value: &str) -> String {
    let line = value.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(LONGEST_QUOTE) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line,
    }
}
