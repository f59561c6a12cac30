//! The plan file: the plan's topology, its lanes, and its trees as arrays of lanes and steps.
//!
//! Nodes are numbered ranks first, in rank order, then the other accelerators, then switches; links are numbered as the
//! topology in the file lists them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{
    Chunk, Direction, Draft, Edges, Half, LaneId, Lanes, MAX_STEPS, MAX_UNITS, Pace, Phase, Plan, Purpose, Routing,
    Sharing, Step, Tree, Unproven, step_number,
};
use crate::bail;
use crate::error::{Error, Result};
use crate::topology::{Document as TopologyDocument, LinkId, NodeId, Topology, check_header, check_name};
use crate::units::{Bandwidth, Bytes};

/// The version of the file format; files of a later one are refused.
pub const VERSION: u32 = 1;
const FORMAT: &str = "treefold-plan";

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    format: String,
    version: u32,
    algorithm: String,
    collective: String,
    units: u64,
    /// The size of the vector for which the plan was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    size_bytes: Option<u64>,
    /// The simulator by which the plan was chosen among others.
    #[serde(default, rename = "judged_by", skip_serializing_if = "Option::is_none")]
    chosen_by: Option<String>,
    /// The options of the planner that were not left at their defaults.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    options: Map<String, Value>,
    topology: TopologyDocument,
    lanes: Vec<LaneDocument>,
    phases: Vec<PhaseDocument>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LaneDocument {
    source: NodeId,
    target: NodeId,
    /// The links of the lane; if they are missing, the topology's route.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    links: Option<Vec<LinkId>>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PhaseDocument {
    pace: PaceDocument,
    trees: Vec<TreeDocument>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum PaceDocument {
    Step {
        #[serde(rename = "transfer_unit_Bps", default, skip_serializing_if = "Option::is_none")]
        transfer_unit: Option<f64>,
        #[serde(rename = "message_unit_Bps", default, skip_serializing_if = "Option::is_none")]
        message_unit: Option<f64>,
    },
    Stream,
    SubFlows,
    Pulled,
    Paced,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TreeDocument {
    span: [u64; 2],
    root: NodeId,
    up: HalfDocument,
    down: HalfDocument,
    chunk: ChunkDocument,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum HalfDocument {
    None,
    Mirror,
    /// A file writes 0 for the step of an edge that has none.
    Edges {
        lanes: Vec<LaneId>,
        steps: Vec<u16>,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum ChunkDocument {
    One,
    Count(u32),
    Bytes(u64),
    Best,
}

impl Plan {
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
        let document: Document =
            serde_json::from_str(text).map_err(|error| Error::new(format!("plan file: {error}")))?;
        let purpose = document.purpose()?;
        let topology = Arc::new(Topology::from_document(document.topology)?);
        if !(1..=MAX_UNITS).contains(&document.units) {
            bail!("the plan cuts the vector into {} units; it needs 1 to {MAX_UNITS}", document.units);
        }
        check_name(&document.algorithm).map_err(|error| error.at(format!("algorithm '{}'", document.algorithm)))?;
        let mut plan = Draft::new(&topology, document.algorithm, document.units);
        plan.collective = document.collective.parse()?;
        plan.purpose = purpose;
        plan.lanes = read_lanes(&document.lanes, &topology)?;
        for phase in document.phases {
            let pace = phase.pace.read()?;
            let first_edge = plan.edges.step.len();
            let trees = phase.trees.into_iter().map(|tree| plan.read_tree(tree)).collect::<Result<Vec<_>>>()?;
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
            size_bytes: self.purpose.size.map(|size| size.get()),
            chosen_by: self.purpose.chosen_by.clone(),
            options: self.purpose.options.clone(),
            topology: self.topology.to_document(),
            lanes: self.lanes.ids().map(|lane| LaneDocument::new(&self.lanes, lane)).collect(),
            phases: self.phases.iter().map(phase).collect(),
        };
        serde_json::to_string(&document).expect("a plan is always valid JSON")
    }

    fn read_tree(&mut self, tree: TreeDocument) -> Result<Tree> {
        if tree.root.index() >= self.topology.nodes().len() {
            bail!(
                "a tree has root {}, but {} has {} nodes",
                tree.root,
                self.topology.name(),
                self.topology.nodes().len()
            );
        }
        if tree.span[0] > tree.span[1] {
            bail!("a tree has the span {:?}; its start must not be behind its end", tree.span);
        }
        let up = self.read_half(tree.up)?;
        let down = self.read_half(tree.down)?;
        let chunk = match tree.chunk {
            ChunkDocument::One => Chunk::One,
            ChunkDocument::Count(0) => bail!("a tree is cut into 0 chunks; it needs at least 1"),
            ChunkDocument::Bytes(0) => bail!("a tree is cut into chunks of 0 bytes; each needs at least 1"),
            ChunkDocument::Count(count) => Chunk::Count(count),
            ChunkDocument::Bytes(bytes) => Chunk::Bytes(bytes),
            ChunkDocument::Best => Chunk::Best,
        };
        Ok(Tree { span: tree.span[0]..tree.span[1], root: tree.root, up, down, chunk })
    }

    fn read_half(&mut self, half: HalfDocument) -> Result<Half> {
        let (lanes, steps) = match half {
            HalfDocument::None => return Ok(Half::None),
            HalfDocument::Mirror => return Ok(Half::Mirror),
            HalfDocument::Edges { lanes, steps } => (lanes, steps),
        };
        if lanes.len() != steps.len() {
            bail!("a tree has {} lanes but {} steps; each edge needs both", lanes.len(), steps.len());
        }
        if let Some(lane) = lanes.iter().find(|&&lane| lane.index() >= self.lanes.len()) {
            bail!("a tree uses lane {lane}, but the plan lists {} lanes", self.lanes.len());
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
        let nodes = topology.nodes().len();
        if let Some(node) = [lane.source, lane.target].into_iter().find(|&node| node.index() >= nodes) {
            bail!("lane {number} refers to node {node}, but {} has {nodes} nodes", topology.name());
        }
        let links = topology.links().len();
        if let Some(link) = lane.links.iter().flatten().find(|&&link| link.index() >= links) {
            bail!("lane {number} refers to link {link}, but {} has {links} links", topology.name());
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
