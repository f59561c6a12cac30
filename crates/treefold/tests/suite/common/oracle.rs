//! A simulator that is slow and easy to believe, for comparison with the flow simulator.
//!
//! It walks the lowered schedule, not the plan's trees, and at every event it asks every message anew whether it may
//! leave and fills all links anew, message by message. No queue, no virtual clock, no component, no gate.

use std::collections::HashMap;

use treefold::plan::schedule::{Op, Schedule, TransferId};
use treefold::plan::{Collective, Direction, LaneRoutes, Pace, Plan, Tree};
use treefold::sim::trace::Transfer;
use treefold::topology::{Link, LinkId, Topology};

/// What tells a message from all others: phase, lane, step; in streams also tree, whether it reduces, and chunk.
pub type Key = (u16, usize, u16, u32, bool, u32);

/// The key of a transfer's message.
pub fn key_of(transfer: &Transfer) -> Key {
    match transfer.step {
        None => (transfer.phase, transfer.lane.index(), 0, transfer.tree, transfer.reduces, transfer.chunk),
        Some(step) => (transfer.phase, transfer.lane.index(), step.get(), 0, false, 0),
    }
}

/// What travels together.
pub struct Message {
    pub key: Key,
    pub bytes: f64,
    /// Makes it leave a little later than it should, to see what that does; 1 usually.
    pub nudge: f64,
    /// Messages that must have been received before it leaves.
    pub awaits: Vec<usize>,
    /// Messages that must have left before it does: of its port's earlier steps, or the chunk before it.
    behind: Vec<usize>,
    route: Vec<LinkId>,
    /// What the links of its route share, as often as they share it.
    shared: Vec<LinkId>,
    /// Bytes a second that it never exceeds.
    pace: f64,
}

impl Message {
    /// The messages that must have been received, or must have left, before it leaves.
    pub fn waits_for(&self) -> impl Iterator<Item = usize> {
        self.awaits.iter().chain(&self.behind).copied()
    }
}

/// When a message began to leave, had left, and was received.
pub type Times = [f64; 3];

/// The messages of a schedule for vectors of `size` bytes, whose elements need not be whole bytes: the transfers of a
/// lane and step travel as one, in streams each goes alone.
pub fn messages(plan: &Plan, schedule: &Schedule, size: u64) -> Vec<Message> {
    let routes = LaneRoutes::new(&plan.topology, &plan.lanes);
    let (mut messages, mut number_of) = (Vec::<Message>::new(), HashMap::new());
    let mut message_of = vec![None; schedule.len()];
    for id in schedule.ids() {
        let Some(lane) = schedule.lane[id] else { continue };
        let key = key_of_transfer(plan, schedule, id, |key| number_of.contains_key(&key));
        let number = *number_of.entry(key).or_insert(messages.len());
        if number == messages.len() {
            let (bytes, nudge, pace, route) = (0.0, 1.0, f64::INFINITY, routes.of(lane).to_vec());
            let shared = routes.capacities(lane)[route.len()..].to_vec();
            messages.push(Message { key, bytes, nudge, awaits: Vec::new(), behind: Vec::new(), route, shared, pace });
        }
        message_of[id] = Some(number);
        messages[number].bytes += schedule.elements_of(id) as f64 / schedule.elements as f64 * size as f64;
        let before = into_sender(schedule, id).into_iter().filter_map(|other| message_of[other]);
        messages[number].awaits.extend(before);
    }
    for number in 0..messages.len() {
        messages[number].behind = behind(plan, &messages, number, &number_of);
        messages[number].pace = pace(plan, &messages, messages[number].key);
    }
    messages
}

/// What must have come to the sender of a transfer, or happened within it, before it leaves. What has come too early
/// waits there for what it adds to or replaces; that does not keep its own sender from sending.
fn into_sender(schedule: &Schedule, id: TransferId) -> Vec<TransferId> {
    let sender = schedule.ends(id)[0];
    let mut found: Vec<TransferId> = Vec::new();
    let mut stack = vec![id];
    while let Some(id) = stack.pop() {
        for &other in schedule.dependencies.row(id) {
            if schedule.ends(other)[1] == sender && !found.contains(&other) {
                found.push(other);
                stack.push(other);
            }
        }
    }
    found
}

/// A paced edge sends all that it carries in just the time that the busiest link or shared capacity needs for all that
/// it carries.
fn pace(plan: &Plan, messages: &[Message], (phase, lane, _, tree, reduces, _): Key) -> f64 {
    if plan.phases[usize::from(phase)].pace != Pace::Paced {
        return f64::INFINITY;
    }
    let of_phase = || messages.iter().filter(|other| other.key.0 == phase);
    let of_edge = of_phase().filter(|other| (other.key.1, other.key.3, other.key.4) == (lane, tree, reduces));
    let mut seconds = vec![0.0; plan.topology.num_capacities()];
    let occupied = |message: &'_ Message| message.route.iter().chain(&message.shared).copied().collect::<Vec<_>>();
    for (message, id) in of_phase().flat_map(|message| occupied(message).into_iter().map(move |id| (message, id))) {
        seconds[id] += message.bytes / plan.topology.bandwidth(id).bytes_per_second();
    }
    of_edge.map(|message| message.bytes).sum::<f64>() / seconds.into_iter().fold(0.0, f64::max)
}

fn key_of_transfer(plan: &Plan, schedule: &Schedule, id: TransferId, known: impl Fn(Key) -> bool) -> Key {
    let (phase, step) = (schedule.phase[id], schedule.step[id]);
    let lane = schedule.lane[id].expect("not a local copy").index();
    if !plan.phases[usize::from(phase)].pace.is_stream() {
        return (phase, lane, step.unwrap().get(), 0, false, 0);
    }
    let tree = tree_of(plan, schedule, id);
    let chunk = |chunk| (phase, lane, 0, tree, schedule.op[id] == Op::Reduce, chunk);
    chunk((0..).find(|&number| !known(chunk(number))).unwrap())
}

/// The tree that carries a transfer's elements over its lane.
fn tree_of(plan: &Plan, schedule: &Schedule, id: TransferId) -> u32 {
    let first = schedule.pieces.row(id)[0].start;
    let unit = (first % schedule.elements) / (schedule.elements / plan.units);
    let carries = |&tree: &usize| {
        let tree = &plan.trees[tree];
        match plan.collective {
            Collective::AllToAll => {
                let of_block = unit % (plan.units / u64::from(plan.ranks()));
                u64::from(tree.root) == first / schedule.elements && tree.span.contains(&of_block)
            }
            _ => tree.span.contains(&unit),
        }
    };
    let phase = &plan.phases[usize::from(schedule.phase[id])];
    let direction = if schedule.op[id] == Op::Reduce { Direction::Up } else { Direction::Down };
    // Reduce-only trees over the same span differ in their lanes.
    let uses_lane = |tree: &Tree| plan.half(phase, tree, direction).any(|edge| Some(edge.lane) == schedule.lane[id]);
    let carries = |tree: &usize| carries(tree) && uses_lane(&plan.trees[*tree]);
    let trees = phase.trees.clone();
    let found: Vec<usize> = trees.filter(carries).collect();
    assert_eq!(found.len(), 1, "an element travels over one tree of a phase");
    found[0] as u32
}

fn behind(plan: &Plan, messages: &[Message], number: usize, number_of: &HashMap<Key, usize>) -> Vec<usize> {
    let (phase, lane, step, tree, reduces, chunk) = messages[number].key;
    if step == 0 {
        let before = chunk.checked_sub(1).map(|chunk| number_of[&(phase, lane, step, tree, reduces, chunk)]);
        return before.into_iter().collect();
    }
    // Where phases are ordered, every link keeps order, and else only the first one of a route.
    let is_ordered = |message: &Message| plan.phases[usize::from(message.key.0)].pace == Pace::Ordered;
    let ports =
        |message: &'_ Message| message.route[..if is_ordered(message) { message.route.len() } else { 1 }].to_vec();
    let own = ports(&messages[number]);
    let shares = |other: &Message| ports(other).iter().any(|port| own.contains(port));
    // Those of earlier phases come first, too; streams keep no order on ports.
    let is_earlier = |other: &Message| other.key.2 > 0 && (other.key.0, other.key.2) < (phase, step);
    let of_port = |other: &&Message| is_earlier(other) && shares(other);
    messages.iter().filter(of_port).map(|other| number_of[&other.key]).collect()
}

/// When every message of a plan travels, and when the last one has been received.
pub fn simulate(plan: &Plan, messages: &[Message]) -> (Vec<Times>, f64) {
    let (mut times, mut now) = (vec![[f64::INFINITY; 3]; messages.len()], 0.0);
    run(&plan.topology, messages, &mut times, &mut now);
    (times, now)
}

/// Runs the messages from `now` until the last has been received.
fn run(topology: &Topology, messages: &[Message], times: &mut [Times], now: &mut f64) {
    let mut waiting: Vec<usize> = (0..messages.len()).collect();
    let (mut moving, mut under_way) = (Vec::<(usize, f64)>::new(), Vec::<usize>::new());
    loop {
        let free = |&number: &usize| {
            let Message { awaits, behind, .. } = &messages[number];
            awaits.iter().all(|&other| times[other][2] <= *now) && behind.iter().all(|&other| times[other][1] <= *now)
        };
        let (starting, others): (Vec<usize>, Vec<usize>) = waiting.into_iter().partition(free);
        waiting = others;
        starting.iter().for_each(|&number| times[number][0] = *now);
        let work_of = |number: usize| work(topology, &messages[number]) * messages[number].nudge;
        moving.extend(starting.iter().map(|&number| (number, work_of(number))));
        let on_their_way: Vec<&Message> = moving.iter().map(|&(number, _)| &messages[number]).collect();
        let rates = fair_rates(topology, &on_their_way);
        let departure = |(&(_, left), rate): (&(usize, f64), &f64)| *now + left / rate;
        let next_left = moving.iter().zip(&rates).map(departure).fold(f64::INFINITY, f64::min);
        let next = under_way.iter().map(|&number| times[number][2]).fold(next_left, f64::min);
        if next == f64::INFINITY {
            assert!(waiting.is_empty(), "messages wait for ever");
            return;
        }
        let passed = next - *now;
        let mut still = Vec::new();
        for (&(number, left), rate) in moving.iter().zip(&rates) {
            let message = &messages[number];
            if *now + left / rate <= next || left <= 1e-13 * work(topology, message) {
                times[number] = [times[number][0], next, next + delay(topology, message)];
                under_way.push(number);
            } else {
                still.push((number, left - rate * passed));
            }
        }
        (moving, *now) = (still, next);
        under_way.retain(|&number| times[number][2] > next);
    }
}

/// What `message` could have of a link if it were alone.
fn speed(message: &Message, link: &Link) -> f64 {
    link.bandwidth.bytes_per_second().min(message.pace)
}

/// What it could have of its whole route, and of what this shares.
fn slowest(topology: &Topology, message: &Message) -> f64 {
    let links = message.route.iter().map(|&link| speed(message, topology.link(link)));
    links.fold(part_of_shared(topology, message), f64::min)
}

/// What it could have of what its links share: of one that two of them share, a half.
fn part_of_shared(topology: &Topology, message: &Message) -> f64 {
    let times = |id: LinkId| message.shared.iter().filter(|&&other| other == id).count() as f64;
    let parts = message.shared.iter().map(|&id| topology.bandwidth(id).bytes_per_second() / times(id));
    parts.fold(f64::INFINITY, f64::min)
}

/// Bytes that occupy the slowest link for as long as the message, with its overhead, occupies any link.
fn work(topology: &Topology, message: &Message) -> f64 {
    let links = message.route.iter().map(|&link| topology.link(link));
    let seconds = links.map(|link| link.overhead.seconds() + message.bytes / speed(message, link));
    let shared = message.bytes / part_of_shared(topology, message).min(message.pace);
    seconds.fold(shared, f64::max) * slowest(topology, message)
}

/// What a message takes to be received once it has left. Alone it takes all delays of its route and its bytes' time
/// on the slowest link, as in the alpha-beta model, no matter which link it occupied for how long.
fn delay(topology: &Topology, message: &Message) -> f64 {
    let links = || message.route.iter().map(|&link| topology.link(link));
    let delays: f64 = links().map(|link| link.latency.seconds() + link.overhead.seconds()).sum();
    // What starts at a switch has come through it.
    let begins_at_rank = links().next().is_some_and(|link| topology.is_rank(link.source));
    let passed: f64 =
        links().skip(begins_at_rank.into()).map(|link| topology.node(link.source).latency.seconds()).sum();
    delays + passed + (message.bytes - work(topology, message)) / slowest(topology, message)
}

/// Progressive filling: the link that gives each of its messages the least settles them, or a message that wants less
/// settles itself, again and again.
fn fair_rates(topology: &Topology, messages: &[&Message]) -> Vec<f64> {
    let mut rates = vec![0.0; messages.len()];
    let mut left: Vec<f64> = topology.bandwidths().map(|bandwidth| bandwidth.bytes_per_second()).collect();
    let occupied = |message: usize| messages[message].route.iter().chain(&messages[message].shared);
    loop {
        let mut users = vec![0u32; left.len()];
        let open: Vec<usize> = (0..messages.len()).filter(|&message| rates[message] == 0.0).collect();
        open.iter().for_each(|&message| occupied(message).for_each(|&id| users[id] += 1));
        let share = |link: usize| left[link] / f64::from(users[link]);
        let used = (0..left.len()).filter(|&link| users[link] > 0);
        let Some(least) = used.min_by(|&a, &b| share(a).total_cmp(&share(b))) else { return rates };
        let slowest = open.iter().copied().min_by(|&a, &b| messages[a].pace.total_cmp(&messages[b].pace));
        let slowest = slowest.filter(|&message| messages[message].pace < share(least));
        let level = slowest.map_or(share(least), |message| messages[message].pace);
        let over_least = |message: &usize| occupied(*message).any(|id| id.index() == least);
        let settled = open.into_iter().filter(|message| slowest.map_or(over_least(message), |one| one == *message));
        for message in settled {
            rates[message] = level;
            occupied(message).for_each(|&id| left[id] -= level);
        }
    }
}
