//! The plan file: the plan's topology, its lanes, and its trees as arrays of lanes and steps.
//!
//! The types are the one description of the format: `schema/plan.schema.json` and what errors say of a field come from
//! their doc comments, which begin with an article for that.
//!
//! Nodes are numbered ranks first, in rank order, then the other accelerators, then switches; links are numbered as the
//! topology in the file lists them.

use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::misread;
use super::{
    Chunk, Direction, Draft, Edges, Half, LaneId, Lanes, MAX_STEPS, MAX_UNITS, Pace, Phase, Plan, Purpose, Routing,
    Sharing, Step, Tree, Unproven, step_number,
};
use crate::bail;
use crate::blocks::Blocks;
use crate::error::{Error, Result};
use crate::options;
use crate::topology::{Document as TopologyDocument, LinkId, NodeId, Topology, check_header, check_name};
use crate::units::{Bandwidth, Bytes};

/// The version of the file format; files of a later one are refused.
pub const VERSION: u32 = 1;
const FORMAT: &str = "treefold-plan";

/// A plan: a network, and the trees over which a vector travels on it. Beyond this schema, numbers must refer to nodes,
/// links and lanes that exist, and `treefold check` must find the plan right.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "treefold plan, version 1")]
pub(super) struct Document {
    /// The text `treefold-plan`.
    #[schemars(extend("const" = FORMAT))]
    format: String,
    /// The version of the format, which is 1.
    #[schemars(extend("const" = VERSION))]
    version: u32,
    /// The name of the algorithm that made the plan.
    algorithm: String,
    /// The name of the collective that the plan computes, such as `all-reduce`.
    collective: String,
    /// The number of equal parts into which the vector is cut, from 1 to 2^48.
    #[schemars(range(min = 1, max = MAX_UNITS))]
    units: u64,
    /// A list of a row for each rank with the sizes of its blocks for all ranks, in any unit, where those of an
    /// all-to-all are unlike.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    blocks: Option<Vec<Vec<u64>>>,
    /// The size in bytes of the vector for which the plan was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    size_bytes: Option<u64>,
    /// The name of the simulator by which the plan was chosen among others.
    #[serde(default, rename = "judged_by", skip_serializing_if = "Option::is_none")]
    chosen_by: Option<String>,
    /// An object of those options of the planner that were not left at their defaults.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    options: Map<String, Value>,
    /// A network as treefold writes it, in Python `json.loads(network.to_json())`.
    #[schemars(schema_with = "topology_schema")]
    topology: TopologyDocument,
    /// A list of the lanes that edges use.
    lanes: Vec<LaneDocument>,
    /// A list of the phases in the order in which they run, each of which works on what the one before it has left.
    phases: Vec<PhaseDocument>,
}

/// A route from one node to another, which edges refer to by its number in `lanes`, counted from 0.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "lane")]
struct LaneDocument {
    /// The number of the node where the lane begins: ranks come first, in rank order, then the other accelerators, then
    /// the switches.
    #[schemars(with = "u32")]
    source: NodeId,
    /// The number of the node where the lane ends.
    #[schemars(with = "u32")]
    target: NodeId,
    /// A list of the numbers of the lane's links, from source to target; if it is left out, the topology chooses the
    /// route.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Vec<u32>>")]
    links: Option<Vec<LinkId>>,
}

/// Trees that run together.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "phase")]
struct PhaseDocument {
    /// A way in which transfers follow each other: `{"step": {}}`, `"stream"`, `"paced"`, `"sub_flows"` or `"pulled"`.
    pace: PaceDocument,
    /// A list of the phase's trees.
    trees: Vec<TreeDocument>,
}

/// How the transfers of a phase follow each other.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[schemars(rename = "pace")]
enum PaceDocument {
    /// The transfers run step by step. At most one of the two fields promises how many share a link.
    Step {
        /// A bandwidth in bytes per second: in no step does a link carry more transfers than its bandwidth holds of
        /// these.
        #[serde(rename = "transfer_unit_Bps", default, skip_serializing_if = "Option::is_none")]
        transfer_unit: Option<f64>,
        /// A bandwidth in bytes per second, as for transfers, but transfers with one lane count as one message.
        #[serde(rename = "message_unit_Bps", default, skip_serializing_if = "Option::is_none")]
        message_unit: Option<f64>,
    },
    /// Chunks follow each other through each tree without pause.
    Stream,
    /// A stream that schedule tables cut into half as many sub-flows as there are ranks.
    SubFlows,
    /// A stream whose root asks for the sums where switches reduce.
    Pulled,
    /// A stream that holds each tree to its part of what the busiest link allows.
    Paced,
    /// Every link sends its messages in the order of their steps, and nobody waits for the end of a step.
    Ordered,
}

/// A tree, which carries a span of the vector to its root and back from there.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "tree")]
struct TreeDocument {
    /// A list of the first unit that the tree carries, and of the one behind the last: `[0, 1]` is unit 0.
    span: [u64; 2],
    /// The number of the node to which the tree reduces, and from which it broadcasts.
    #[schemars(with = "u32")]
    root: NodeId,
    /// The half that reduces: `{"edges": {"lanes": [..], "steps": [..]}}`, `"mirror"` or `"none"`.
    up: HalfDocument,
    /// The half that broadcasts: `{"edges": {"lanes": [..], "steps": [..]}}`, `"mirror"` or `"none"`.
    down: HalfDocument,
    /// A way in which a stream cuts the span: `"best"`, `"one"`, `{"count": 8}` or `{"bytes": 65536}`.
    chunk: ChunkDocument,
}

/// One half of a tree.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[schemars(rename = "half")]
enum HalfDocument {
    /// The tree has no such half.
    None,
    /// The half has the edges of the other half, with lanes and steps reversed.
    Mirror,
    /// The half has edges of its own, breadth-first from the root, with the children of a node side by side.
    Edges {
        /// A list of the number of each edge's lane, which leads to the root going up, and away from it going down.
        #[schemars(with = "Vec<u32>")]
        lanes: Vec<LaneId>,
        /// A list of the step of each edge, counted from 1 over both halves; 0 where an edge has none, as in streams.
        steps: Vec<u16>,
    },
}

/// How a stream cuts the span of a tree.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[schemars(rename = "chunk")]
enum ChunkDocument {
    /// The span is one chunk, as in steps.
    One,
    /// The span is cut into this many chunks.
    Count(#[schemars(range(min = 1))] u32),
    /// The span is cut into chunks of about this many bytes.
    Bytes(#[schemars(range(min = 1))] u64),
    /// The span is cut as is best for the size of the vector.
    Best,
}

fn topology_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"$ref": "topology.schema.json"})
}

impl Plan {
    /// Returns the JSON Schema of plan files. Their topology has a schema of its own, `topology.schema.json`.
    ///
    /// ```
    /// let schema = treefold::plan::Plan::schema();
    /// assert_eq!(schema["properties"]["format"]["const"], "treefold-plan");
    /// ```
    pub fn schema() -> Value {
        options::schema_of::<Document>()
    }

    /// Reads the text of a plan file. The plan is well formed but not proven.
    ///
    /// # Errors
    /// If the text is no plan file, has a later version, or refers to something that does not exist.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use treefold::planners::{self, Options};
    /// # let ring = Arc::new(treefold::topology::from_spec("ring:4", None, None)?);
    /// # let plan = planners::plan("multitree", &ring, &Options::default())?;
    /// use treefold::plan::Plan;
    ///
    /// assert_eq!(Plan::from_json(&plan.to_json())?.prove()?, &plan);
    /// assert!(Plan::from_json("{}").is_err());
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn from_json(text: &str) -> Result<Unproven> {
        check_header(text, FORMAT, VERSION)?;
        let document: Document = misread::read(text)?;
        let purpose = document.purpose()?;
        let topology = Topology::from_document(document.topology).map_err(|error| error.at("topology"))?;
        let topology = Arc::new(topology);
        if !(1..=MAX_UNITS).contains(&document.units) {
            bail!("units must be from 1 to {MAX_UNITS}, got {}", document.units);
        }
        check_name(&document.algorithm).map_err(|error| error.at(format!("algorithm '{}'", document.algorithm)))?;
        let mut plan = Draft::new(&topology, document.algorithm, document.units);
        plan.collective = document.collective.parse()?;
        plan.purpose = purpose;
        plan.blocks = document.blocks.map_or(Ok(None), |rows| Blocks::of_rows(topology.ranks(), &rows))?;
        plan.lanes = read_lanes(&document.lanes, &topology)?;
        for (number, phase) in document.phases.into_iter().enumerate() {
            let pace = phase.pace.read().map_err(|error| error.at(format!("phase {number}")))?;
            let first_edge = plan.edges.step.len();
            let trees = plan.read_trees(number, phase.trees)?;
            let in_steps = !pace.is_stream();
            if let Some(step) = plan.edges.step[first_edge..]
                .iter()
                .map(|&step| step_number(step))
                .find(|step| in_steps && !(1..=MAX_STEPS).contains(step))
            {
                bail!("an edge has step {step}; steps count from 1 to {MAX_STEPS}");
            }
            plan.push_phase(pace, trees);
        }
        Ok(Unproven::new(plan))
    }
}

impl Draft {
    /// Returns the text of a plan file.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use treefold::plan::Plan;
    /// use treefold::planners::{self, Options};
    /// use treefold::topology::from_spec;
    ///
    /// let ring = Arc::new(from_spec("ring:4", None, None)?);
    /// let text = planners::plan("ring", &ring, &Options::default())?.to_json();
    /// assert_eq!(Plan::from_json(&text)?.prove()?.to_json(), text);
    /// let newer = text.replacen("\"version\":1", "\"version\":99", 1);
    /// assert!(Plan::from_json(&newer).is_err());
    /// # Ok::<(), treefold::error::Error>(())
    /// ```
    pub fn to_json(&self) -> String {
        let phase = |phase: &Phase| PhaseDocument {
            pace: PaceDocument::new(phase.pace),
            trees: self.trees_of(phase).iter().map(|tree| TreeDocument::new(tree, &self.edges)).collect(),
        };
        let document = Document {
            format: FORMAT.into(),
            version: VERSION,
            algorithm: self.algorithm.clone(),
            collective: self.collective.to_string(),
            units: self.units,
            blocks: self.blocks.as_ref().map(|blocks| blocks.shares().map(Iterator::collect).collect()),
            size_bytes: self.purpose.size.map(|size| size.get()),
            chosen_by: self.purpose.chosen_by.clone(),
            options: self.purpose.options.clone(),
            topology: self.topology.to_document(),
            lanes: self.lanes.ids().map(|lane| LaneDocument::new(&self.lanes, lane)).collect(),
            phases: self.phases.iter().map(phase).collect(),
        };
        serde_json::to_string(&document).expect("a plan is always valid JSON")
    }

    fn read_trees(&mut self, phase: usize, trees: Vec<TreeDocument>) -> Result<Vec<Tree>> {
        let at = |number: usize| move |error: Error| error.at(format!("phase {phase}, tree {number}"));
        trees.into_iter().enumerate().map(|(number, tree)| self.read_tree(tree).map_err(at(number))).collect()
    }

    fn read_tree(&mut self, tree: TreeDocument) -> Result<Tree> {
        let nodes = self.topology.nodes().len();
        if tree.root.index() >= nodes {
            let name = self.topology.name();
            bail!("root must be the number of a node of {name}, from 0 to {}, got {}", nodes - 1, tree.root);
        }
        let [start, end] = tree.span;
        if start > end {
            bail!("span must be the first unit and the one behind the last, got [{start}, {end}]");
        }
        let up = self.read_half("up", tree.up)?;
        let down = self.read_half("down", tree.down)?;
        let chunk = match tree.chunk {
            ChunkDocument::One => Chunk::One,
            ChunkDocument::Count(0) => bail!("chunk must have a count of 1 or more, got 0"),
            ChunkDocument::Bytes(0) => bail!("chunk must have 1 or more bytes, got 0"),
            ChunkDocument::Count(count) => Chunk::Count(count),
            ChunkDocument::Bytes(bytes) => Chunk::Bytes(bytes),
            ChunkDocument::Best => Chunk::Best,
        };
        Ok(Tree { span: tree.span[0]..tree.span[1], root: tree.root, up, down, chunk })
    }

    fn read_half(&mut self, name: &str, half: HalfDocument) -> Result<Half> {
        let (lanes, steps) = match half {
            HalfDocument::None => return Ok(Half::None),
            HalfDocument::Mirror => return Ok(Half::Mirror),
            HalfDocument::Edges { lanes, steps } => (lanes, steps),
        };
        if lanes.len() != steps.len() {
            bail!("{name} has {} lanes but {} steps; list both of each edge", lanes.len(), steps.len());
        }
        if let Some(edge) = lanes.iter().position(|lane| lane.index() >= self.lanes.len()) {
            let (lane, listed) = (lanes[edge], self.lanes.len());
            bail!("{name} has lane {lane} at edge {edge}, but the plan lists {listed} lanes; count them from 0");
        }
        Ok(self.own_half(lanes.into_iter().zip(steps.into_iter().map(Step::new))))
    }
}

impl Document {
    /// Returns what the plan was made for. Whether a planner has its options is decided where they are used.
    fn purpose(&self) -> Result<Purpose> {
        let texts = self.options.values().filter_map(Value::as_str);
        self.options
            .keys()
            .map(String::as_str)
            .chain(texts)
            .try_for_each(check_name)
            .map_err(|it| it.at("'options'"))?;
        if let Some((name, _)) = self.options.iter().find(|(_, value)| value.is_array() || value.is_object()) {
            bail!("'options' has a list or an object for '{name}'; the value of an option is a number, a text or true");
        }
        self.chosen_by.as_deref().map_or(Ok(()), check_name).map_err(|error| error.at("'judged_by'"))?;
        let size = self.size_bytes.map(Bytes::new).transpose()?;
        Ok(Purpose { size, chosen_by: self.chosen_by.clone(), options: self.options.clone() })
    }
}

fn read_lanes(documents: &[LaneDocument], topology: &Topology) -> Result<Lanes> {
    let mut lanes = Lanes::default();
    for (number, lane) in documents.iter().enumerate() {
        let (name, nodes, links) = (topology.name(), topology.nodes().len(), topology.links().len());
        if let Some(node) = [lane.source, lane.target].into_iter().find(|&node| node.index() >= nodes) {
            bail!("lane {number} refers to node {node}, but {name} has {nodes} nodes; count them from 0");
        }
        if let Some(link) = lane.links.iter().flatten().find(|&&link| link.index() >= links) {
            bail!("lane {number} refers to link {link}, but {name} has {links} links; count them from 0");
        }
        if lane.links.as_ref().is_some_and(Vec::is_empty) {
            bail!("lane {number} lists no links; leave 'links' out to have it routed");
        }
        if lane.links.is_none() && !topology.reaches(lane.source, lane.target) {
            let name = |node| &topology.node(node).name;
            bail!("lane {number}: there is no route from {} to {}", name(lane.source), name(lane.target));
        }
        lanes.push_listed((lane.source, lane.target), lane.links.as_deref());
    }
    Ok(lanes)
}

impl LaneDocument {
    fn new(lanes: &Lanes, lane: LaneId) -> Self {
        let (source, target) = lanes.ends(lane);
        let links = (lanes.routing(lane) != Routing::Routed).then(|| lanes.links(lane).to_vec());
        Self { source, target, links }
    }
}

impl PaceDocument {
    fn new(pace: Pace) -> Self {
        let (transfer_unit, message_unit) = match pace {
            Pace::Stream => return Self::Stream,
            Pace::SubFlows => return Self::SubFlows,
            Pace::Pulled => return Self::Pulled,
            Pace::Paced => return Self::Paced,
            Pace::Ordered => return Self::Ordered,
            Pace::Step(Sharing::Shared) => (None, None),
            Pace::Step(Sharing::Transfers(slot)) => (Some(slot.bytes_per_second()), None),
            Pace::Step(Sharing::Messages(slot)) => (None, Some(slot.bytes_per_second())),
        };
        Self::Step { transfer_unit, message_unit }
    }

    fn read(&self) -> Result<Pace> {
        Ok(match *self {
            Self::Stream => Pace::Stream,
            Self::SubFlows => Pace::SubFlows,
            Self::Pulled => Pace::Pulled,
            Self::Paced => Pace::Paced,
            Self::Ordered => Pace::Ordered,
            Self::Step { transfer_unit: Some(_), message_unit: Some(_) } => {
                bail!("a step has transfer_unit_Bps and message_unit_Bps; leave out one, as links keep one promise")
            }
            Self::Step { transfer_unit: Some(slot), .. } => Pace::Step(Sharing::Transfers(Bandwidth::new(slot)?)),
            Self::Step { message_unit: Some(slot), .. } => Pace::Step(Sharing::Messages(Bandwidth::new(slot)?)),
            Self::Step { .. } => Pace::Step(Sharing::Shared),
        })
    }
}

impl TreeDocument {
    fn new(tree: &Tree, edges: &Edges) -> Self {
        let half = |direction| {
            let half = if direction == Direction::Up { &tree.up } else { &tree.down };
            match half {
                Half::None => HalfDocument::None,
                Half::Mirror => HalfDocument::Mirror,
                Half::Own(range) => HalfDocument::Edges {
                    lanes: edges.lane[range.clone()].to_vec(),
                    steps: edges.step[range.clone()].iter().map(|&step| step_number(step)).collect(),
                },
            }
        };
        let chunk = match tree.chunk {
            Chunk::One => ChunkDocument::One,
            Chunk::Count(count) => ChunkDocument::Count(count),
            Chunk::Bytes(bytes) => ChunkDocument::Bytes(bytes),
            Chunk::Best => ChunkDocument::Best,
        };
        Self {
            span: [tree.span.start, tree.span.end],
            root: tree.root,
            up: half(Direction::Up),
            down: half(Direction::Down),
            chunk,
        }
    }
}
