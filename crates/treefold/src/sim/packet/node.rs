//! A node at work: a router, and an accelerator's interfaces beside it.

use super::interface::{Feed, Table};
use super::machine::{InputId, Machine, OutputId, Wire};
use super::options::Options;
use super::router::{Group, Input, Output, Router};
use super::shared::Shared;
use super::stream::{Pair, Split, Stretch};
use super::wires::{NEVER, Wires};
use crate::topology::{LinkId, NodeId, Topology};

/// A node at work.
pub struct Node {
    pub router: Router,
    pub table: Option<Table>,
    /// Whether flits that arrive have arrived: it has interfaces, but no router.
    end_point: bool,
    /// The outputs that each interface's messages want.
    pub feeds: Vec<Vec<OutputId>>,
    /// All its ports.
    all: Group,
}

/// Makes a node with its ports; adds the interfaces' ways into its router to the wires.
pub fn build(topology: &Topology, machine: &Machine, node: NodeId, options: &Options, wires: &mut Wires) -> Node {
    let parameters = machine.nodes[node];
    let wire = |link: &LinkId| machine.links[*link];
    let from_link = |link: &LinkId| Input::new((*link).into(), wire(link).credit_delay, None);
    let mut inputs: Vec<Input> = topology.incoming(node).iter().map(from_link).collect();
    let mut outputs: Vec<Output> = topology
        .outgoing(node)
        .iter()
        .map(|link| Output::new(Some((*link).into()), wire(link), options.buffer_flits(), options.packet_flits()))
        .collect();
    let links = outputs.len() as u32;
    let mut feeds = Vec::new();
    let inside = machine.injection[node];
    if parameters.has_router {
        outputs.extend((0..parameters.all_interfaces()).map(|_| Output::ejection(Wire { delay: 0, ..inside })));
        for _ in 0..parameters.all_interfaces() {
            let wire = wires.add(node, node);
            feeds.push(Feed { output: OutputId::new(outputs.len()), input: Some(InputId::new(inputs.len())) });
            inputs.push(Input::new(wire, 0, Some(OutputId::new(outputs.len()))));
            outputs.push(Output::new(Some(wire), inside, options.buffer_flits(), 0));
        }
    } else {
        feeds.extend(OutputId::first(parameters.interfaces as usize).map(|output| Feed { output, input: None }));
    }
    let has_table = parameters.is_rank || parameters.has_background;
    let of_plans = parameters.interfaces as usize;
    let table = has_table.then(|| Table::new(&feeds, of_plans, parameters.interface_flits));
    let all =
        Group { inputs: InputId::first(inputs.len()).collect(), outputs: OutputId::first(links as usize).collect() };
    let router = Router::new(inputs, outputs, links, options.virtual_channels);
    Node { router, table, end_point: !parameters.has_router, feeds: Vec::new(), all }
}

impl Node {
    /// Works through the cycles from `from` on and before `horizon`; says in which there may be something to do next.
    pub fn advance(&mut self, from: u64, horizon: u64, mut shared: Shared) -> u64 {
        self.router.refresh(from, shared.wires);
        if self.end_point {
            self.router.absorb(horizon, &mut shared);
            let next = self.work(from, horizon, &mut shared);
            return next.min(self.router.next_flit_due());
        }
        if horizon == from + 1 {
            // To find out which ports need no decision would take longer than to decide for one cycle.
            let all = std::mem::take(&mut self.all);
            let next = self.run_group(&all, from, horizon, true, &mut shared);
            self.all = all;
            return next.min(self.router.next_flit_due());
        }
        let Split { mut pairs, mut group, ejects } =
            self.router.split(horizon, &self.feeds, shared.workload, shared.wires);
        let first_interface = InputId::new(self.router.inputs.len() - self.feeds.len());
        let inside = |input: InputId| input >= first_interface;
        let room =
            self.table.as_ref().is_none_or(|table| table.has_room(horizon - from, shared.workload, &self.router));
        let apart = room && !ejects && !group.inputs.iter().any(|&input| inside(input));
        if !apart {
            for Pair { input, output } in pairs.extract_if(.., |pair| inside(pair.input)) {
                group.inputs.push(input);
                group.outputs.push(output);
            }
            group.inputs.sort_unstable();
        }
        let mut next = NEVER;
        for &pair in pairs.iter().filter(|pair| !inside(pair.input)) {
            next = next.min(self.run_pair(pair, from, horizon, &mut shared));
        }
        if apart {
            next = next.min(self.work(from, horizon, &mut shared));
            for &pair in pairs.iter().filter(|pair| inside(pair.input)) {
                next = next.min(self.run_pair(pair, from, horizon, &mut shared));
            }
        }
        if !apart || !group.inputs.is_empty() {
            next = next.min(self.run_group(&group, from, horizon, !apart, &mut shared));
        }
        next.min(self.router.next_flit_due())
    }

    /// Lets the interfaces work in these cycles; says when they may have something to do next.
    fn work(&mut self, from: u64, to: u64, shared: &mut Shared) -> u64 {
        let Some(table) = &mut self.table else { return NEVER };
        for ended in self.router.ended.drain(..) {
            table.record(ended, shared.workload, shared.progress);
        }
        table.work(from, to, &mut self.router, shared)
    }

    /// Runs an input and an output that nobody else wants; says when they may have something to do next.
    fn run_pair(&mut self, pair: Pair, from: u64, horizon: u64, shared: &mut Shared) -> u64 {
        let mut now = from;
        while now < horizon {
            match self.router.stream(pair, now, horizon, shared) {
                Stretch::Done(next) => return next,
                Stretch::Disturbed(at) => {
                    let outputs = if pair.output.0 < self.router.links { vec![pair.output] } else { Vec::new() };
                    let group = Group { inputs: vec![pair.input], outputs };
                    for &output in &group.outputs {
                        self.router.outputs[output].take_credits(at.saturating_sub(1), shared.wires);
                    }
                    now = self.cycle(at, &group, false, shared);
                }
            }
        }
        now
    }

    /// Runs ports that contend, and the interfaces if they work `with` them, cycle by cycle; says when they may have
    /// something to do next.
    fn run_group(&mut self, group: &Group, from: u64, horizon: u64, with: bool, shared: &mut Shared) -> u64 {
        self.router.sample_before(from, &group.inputs, &group.outputs);
        let mut now = from;
        while now < horizon {
            now = self.cycle(now, group, with, shared);
        }
        now
    }

    /// Runs one cycle; says which is the next in which there may be something to do.
    fn cycle(&mut self, now: u64, group: &Group, with_table: bool, shared: &mut Shared) -> u64 {
        let (mut active, mut retry) = (false, NEVER);
        match self.router.switch(now, &group.inputs, shared) {
            Ok(()) => active = true,
            Err(at) => retry = at,
        }
        active |= self.router.receive(now, group, shared);
        let table = if with_table { self.work(now, now + 1, shared) } else { NEVER };
        active |= self.router.allocate(&group.inputs);
        self.router.sample(now, &group.inputs, &group.outputs);
        if active { now + 1 } else { retry.min(self.router.next_arrival(group)).min(table) }
    }
}
