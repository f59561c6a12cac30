//! Running plans: every plan computes its collective on threads, in any order of messages, and over TCP; failures are
//! told.

use std::net::IpAddr;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::common::networks::{blocks, cases, networks, options, plans};
use proptest::prelude::*;
use treefold::number::{Number, Operator, combine};
use treefold::plan::schedule::{TransferId, input, output};
use treefold::plan::{Collective, Plan, derive};
use treefold::planners;
use treefold::random::Random;
use treefold::run::memory;
use treefold::run::message::Message;
use treefold::run::operation::Operation;
use treefold::run::program::{PeerId, Program};
use treefold::run::tcp::{Failure, Mesh, Timeouts};
use treefold::topology::{NodeId, from_spec};
use treefold::units::Time;

/// The value of element `e` (numbered as in schedules) at a rank; all-to-all numbers elements of all ranks through.
fn value(rank: NodeId, element: u64) -> u64 {
    (u64::from(rank) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ element.wrapping_mul(0x2545_f491_4f6c_dd1d)
}

/// Elements of a program's vector.
fn total(plan: &Plan, elements: u64) -> u64 {
    if plan.collective == Collective::AllGather { elements * u64::from(plan.ranks()) } else { elements }
}

fn vectors(plan: &Plan, programs: &[Program], elements: u64) -> Vec<Vec<u64>> {
    let fill = |program: &Program| {
        let mut vector = vec![0xdead; program.vector_bytes / 8];
        let start = input(plan, elements, program.rank).start;
        for (place, element) in (program.input.start / 8..program.input.end / 8).zip(start..) {
            vector[place] = value(program.rank, element);
        }
        vector
    };
    programs.iter().map(fill).collect()
}

/// What a rank should end with.
fn wanted(plan: &Plan, elements: u64, rank: NodeId) -> Vec<u64> {
    let reduced = matches!(plan.collective, Collective::AllReduce | Collective::ReduceScatter | Collective::Reduce);
    let ranks = plan.rank_ids();
    let owner = |element: u64| {
        ranks.clone().find(|&rank| input(plan, elements, rank).contains(&element)).expect("somebody has it")
    };
    let of = |element: u64| match reduced {
        true => ranks.clone().map(|rank| value(rank, element)).fold(0, u64::wrapping_add),
        false => value(owner(element), element),
    };
    output(plan, elements, rank).into_iter().flatten().map(of).collect()
}

/// The result's pieces in the vector and the scratch space behind it.
fn result(program: &Program, vector: &[u64], scratch: &[u64]) -> Vec<u64> {
    let whole = [vector, scratch].concat();
    program.output.iter().flat_map(|piece| whole[piece.start / 8..piece.end / 8].to_vec()).collect()
}

/// On real threads from 256 KiB of all vectors together, else in turns on one.
fn on_threads(plan: &Plan, elements: u64, overhead: Time) {
    let elements = total(plan, elements);
    let programs = Program::all(plan, elements, 8, overhead).unwrap();
    let mut data = vectors(plan, &programs, elements);
    let mut scratch = vec![Vec::new(); programs.len()];
    let mut bytes: Vec<&mut [u8]> = data.iter_mut().map(|vector| bytemuck::cast_slice_mut(vector)).collect();
    let all: Vec<&Program> = programs.iter().collect();
    memory::run(&all, Number::Uint64, Operator::Sum, &mut bytes, &mut scratch, None, &mut || true).unwrap();
    for (program, (vector, scratch)) in programs.iter().zip(data.iter().zip(&scratch)) {
        let found = result(program, vector, scratch);
        assert_eq!(found, wanted(plan, elements, program.rank), "{} {}", plan.algorithm, plan.collective);
    }
}

/// Runs operations of one thread until nothing is left to send; their messages are delivered in a random order.
pub fn deliver_in_any_order(plan: &Plan, programs: &[Program], operations: &mut [Operation<'_>], seed: u64) {
    let mut random = Random::new(seed);
    let mut under_way: Vec<(NodeId, PeerId, TransferId, Message)> = Vec::new();
    loop {
        for (rank, operation) in plan.rank_ids().zip(operations.iter_mut()) {
            for peer in PeerId::first(programs[rank].peers.len()) {
                while let Some(task) = operation.next_send(peer) {
                    let mut message = Message::default();
                    message.resize(operation.bytes(task));
                    operation.copy_payload(task, 0, message.bytes_mut());
                    under_way.push((rank, peer, operation.transfer(task), message));
                }
            }
        }
        if under_way.is_empty() {
            break;
        }
        let (rank, peer, transfer, message) = under_way.swap_remove(random.below(under_way.len() as u64) as usize);
        let target = programs[rank].peers[peer];
        let sent = operations[rank].sender(transfer).unwrap();
        operations[rank].end(sent);
        let from = PeerId::new(programs[target].peers.binary_search(&rank).unwrap());
        let received = operations[target].receiver(from, transfer).unwrap();
        operations[target].park(received, 0, message);
    }
}

/// Messages between operations of one thread, delivered in a random order, as by engines whose messages overtake each
/// other.
fn in_any_order(plan: &Plan, elements: u64, seed: u64) {
    let elements = total(plan, elements);
    let programs = Program::all(plan, elements, 8, Time::from_picoseconds(1_000)).unwrap();
    let mut data = vectors(plan, &programs, elements);
    let mut scratch = vec![Vec::new(); programs.len()];
    let memory = data.iter_mut().zip(&mut scratch);
    let mut operations: Vec<Operation<'_>> = (programs.iter().zip(memory))
        .map(|(program, (vector, scratch))| {
            let vector = bytemuck::cast_slice_mut(vector);
            Operation::new(program, Number::Uint64, Operator::Sum, vector, scratch).unwrap()
        })
        .collect();
    deliver_in_any_order(plan, &programs, &mut operations, seed);
    assert!(operations.iter().all(Operation::done), "{} {} stands still", plan.algorithm, plan.collective);
    drop(operations);
    for (program, (vector, scratch)) in programs.iter().zip(data.iter().zip(&scratch)) {
        assert_eq!(result(program, vector, scratch), wanted(plan, elements, program.rank));
    }
}

proptest! {
    #![proptest_config(cases(60))]

    #[test]
    fn every_plan_runs_on_threads_and_in_any_order(
        topology in networks(), options in options(), elements in 0u64..300, root in any::<u32>(), seed in any::<u64>(),
    ) {
        // Switches of in-network plans are no processes.
        for plan in plans(&topology, &options).into_iter().filter(|plan| !plan.algorithm.starts_with("innet")) {
            if topology.ranks() > 12 {
                continue;
            }
            for collective in Collective::ALL {
                if let Ok(derived) = derive(plan.clone(), collective, NodeId(root % topology.ranks())) {
                    on_threads(&derived, elements, Time::from_picoseconds(1_000));
                    in_any_order(&derived, elements, seed);
                    if collective == Collective::AllToAll {
                        let exchanged = derived.with_blocks(blocks(topology.ranks(), seed)).unwrap();
                        on_threads(&exchanged, elements, Time::from_picoseconds(1_000));
                        in_any_order(&exchanged, elements, seed);
                    }
                }
            }
        }
    }
}

#[test]
fn plans_run_on_a_thread_a_rank() {
    let topology = Arc::new(from_spec("torus:2x4", None, None).unwrap());
    for algorithm in ["ring", "multitree", "dbtree", "halving-doubling"] {
        let plan = planners::plan(algorithm, &topology, &planners::Options::default()).unwrap();
        for collective in Collective::ALL {
            on_threads(
                &derive(plan.clone(), collective, NodeId(4)).unwrap(),
                60_001,
                Time::from_picoseconds(100_000_000),
            );
        }
    }
}

#[test]
fn numbers_are_joined_as_their_names_say() {
    let mut floats = [1.5f32, f32::NAN, -2.0];
    let join = |number, operator| combine(number, operator).unwrap();
    join(Number::Float32, Operator::Max)(
        bytemuck::cast_slice_mut(&mut floats),
        bytemuck::cast_slice(&[2.5f32, 1.0, f32::NAN]),
    );
    assert!(floats[0] == 2.5 && floats[1].is_nan() && floats[2].is_nan());
    let mut halves = [half::bf16::from_f32(1.0); 300];
    let others = [half::bf16::from_f32(0.5); 300];
    join(Number::Bfloat16, Operator::Sum)(bytemuck::cast_slice_mut(&mut halves), bytemuck::cast_slice(&others));
    assert!(halves.iter().all(|half| half.to_f32() == 1.5));
    let mut bytes = [i8::MAX, 0b0110];
    join(Number::Int8, Operator::Sum)(bytemuck::cast_slice_mut(&mut bytes), bytemuck::cast_slice(&[1i8, 1]));
    assert_eq!(bytes, [i8::MIN, 7]);
    let mut turned = [[0.0f64, 1.0]];
    join(Number::Complex128, Operator::Prod)(
        bytemuck::cast_slice_mut(&mut turned),
        bytemuck::cast_slice(&[[0.0f64, 1.0]]),
    );
    assert_eq!(turned, [[-1.0, 0.0]]);
    let error = combine(Number::Float16, Operator::Bxor).unwrap_err().to_string();
    assert!(error.contains("float16 numbers have no operator 'bxor'"), "{error}");
}

const HOME: &str = "127.0.0.1";

/// Meshes of `ranks` ranks in this process, all connected.
pub fn meshes(ranks: u32) -> Vec<Mesh> {
    meshes_over(ranks, 1)
}

/// Meshes of `ranks` ranks in this process, whose connections have so many streams; those to rank 0 have more. Even and
/// odd ranks have different addresses, between which they meet over TCP.
pub fn meshes_over(ranks: u32, streams: usize) -> Vec<Mesh> {
    let address = |rank: u32| IpAddr::from([127, 0, 0, 1 + (rank % 2) as u8]);
    let mut all: Vec<Mesh> =
        (0..ranks).map(|rank| Mesh::listen(NodeId(rank), ranks, address(rank), Some(0), &[7; 32]).unwrap()).collect();
    let addresses: Vec<_> = NodeId::first(all.len()).zip(all.iter().map(Mesh::address)).collect();
    let second = Duration::from_secs(5);
    thread::scope(|scope| {
        for (rank, mesh) in all.iter_mut().enumerate() {
            let counts =
                (0..ranks).map(|other| (NodeId(other), streams + rank * usize::from(other == 0 && streams > 1)));
            mesh.use_streams(&counts.collect::<Vec<_>>());
            scope.spawn(|| assert!(mesh.connect(&addresses, second, second, &mut || true).unwrap().is_empty()));
        }
    });
    all
}

pub fn ring(ranks: u32, trees: bool) -> Plan {
    let topology = Arc::new(from_spec(&format!("full:{ranks}"), None, None).unwrap());
    let name = if trees { "dbtree" } else { "ring" };
    planners::plan(name, &topology, &planners::Options::default()).unwrap()
}

/// Runs `work` for each mesh on a thread of its own.
pub fn together<T: Send>(meshes: &mut [Mesh], work: impl Fn(u32, &mut Mesh) -> T + Sync) -> Vec<T> {
    thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = (0..).zip(meshes).map(|(rank, mesh)| scope.spawn(move || work(rank, mesh))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

const TIMEOUTS: Timeouts = Timeouts { silence: Duration::from_secs(1), operation: Some(Duration::from_secs(5)) };

pub fn all_reduce(mesh: &mut Mesh, plan: &Plan, rank: u32, elements: u64) -> Result<Vec<u32>, Failure> {
    let program = Program::new(plan, NodeId(rank), elements, 4, Time::from_picoseconds(1_000_000)).unwrap();
    let mut vector: Vec<u32> = (0..elements as u32).map(|element| element * 3 + rank).collect();
    let mut scratch = Vec::new();
    let bytes = bytemuck::cast_slice_mut(&mut vector);
    let mut operation = Operation::new(&program, Number::Uint32, Operator::Sum, bytes, &mut scratch).unwrap();
    mesh.run(&mut operation, TIMEOUTS, &mut || true)?;
    Ok(vector)
}

#[test]
fn operations_over_tcp_follow_each_other_without_a_barrier() {
    let mut meshes = meshes(4);
    let plans = [ring(4, false), ring(4, true)];
    let found = together(&mut meshes, |rank, mesh| {
        let run = |round: u64| all_reduce(mesh, &plans[round as usize % 2], rank, 1 + round * 977 % 40_000).unwrap();
        (0..60).map(run).collect::<Vec<_>>()
    });
    for results in found {
        for (round, result) in (0u64..).zip(results) {
            assert_eq!(result.len() as u64, 1 + round * 977 % 40_000);
            assert!((0u32..).zip(&result).all(|(element, &sum)| sum == 4 * 3 * element + 6));
        }
    }
}

/// Over several streams messages go in parts, which come in any order, some before they may be used.
#[test]
fn messages_over_several_streams_are_joined_in_place() {
    for streams in [2, 5] {
        let mut meshes = meshes_over(4, streams);
        let plans = [ring(4, false), ring(4, true)];
        let size = |round: u64| 1 + round * 250_007 % 900_000;
        let found = together(&mut meshes, |rank, mesh| {
            let run = |round: u64| all_reduce(mesh, &plans[round as usize % 2], rank, size(round)).unwrap();
            (0..24).map(run).collect::<Vec<_>>()
        });
        for results in found {
            for (round, result) in (0u64..).zip(results) {
                assert_eq!(result.len() as u64, size(round));
                assert!((0u32..).zip(&result).all(|(element, &sum)| sum == 4 * 3 * element + 6));
            }
        }
    }
}

/// Control messages come before what is sent later, whichever stream that takes.
#[test]
fn what_a_rank_announces_before_an_operation_is_known_at_its_end() {
    let mut meshes = meshes_over(3, 4);
    let plan = ring(3, true);
    together(&mut meshes, |rank, mesh| {
        let mut last = None;
        for round in 0..200u8 {
            if rank == 0 {
                mesh.broadcast(vec![round]);
            }
            all_reduce(mesh, &plan, rank, 60_000).unwrap();
            last = mesh.receive().last().map(|(_, message)| message[0]).or(last);
            // Rank 0 may be an operation ahead.
            assert!(rank == 0 || last >= Some(round), "rank {rank} knows {last:?} after {round}");
        }
    });
}

#[test]
fn ranks_that_disagree_are_all_told() {
    let mut meshes = meshes(3);
    let plan = ring(3, false);
    let found = together(&mut meshes, |rank, mesh| {
        let wrong = all_reduce(mesh, &plan, rank, if rank == 1 { 2000 } else { 1000 });
        (wrong, all_reduce(mesh, &plan, rank, 10))
    });
    for (wrong, right) in found {
        let Err(Failure::GivenUp(cause)) = wrong else { panic!("{wrong:?}") };
        assert!(cause.contains("2000 uint32") && cause.contains("1000 uint32"), "{cause}");
        assert_eq!(right.unwrap()[9], 3 * 27 + 3, "the next operation is not hurt");
    }
}

#[test]
fn a_rank_that_is_gone_is_named_on_every_other() {
    let mut meshes = meshes(4);
    let plan = ring(4, false);
    drop(meshes.remove(2));
    let mut ranks = [0, 1, 3].into_iter();
    let found: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (meshes.iter_mut())
            .map(|mesh| {
                let (rank, plan) = (ranks.next().unwrap(), &plan);
                scope.spawn(move || all_reduce(mesh, plan, rank, 100_000))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for failure in found {
        assert!(matches!(failure, Err(Failure::Gone { rank: NodeId(2), .. })), "{failure:?}");
    }
}

#[test]
fn a_rank_that_does_not_answer_is_named() {
    let mut meshes = meshes(3);
    let plan = ring(3, false);
    let start = Instant::now();
    // Rank 1 is there, but its process does nothing.
    let found = together(&mut meshes, |rank, mesh| match rank {
        1 => {
            thread::sleep(Duration::from_secs(4));
            None
        }
        _ => Some(all_reduce(mesh, &plan, rank, 100_000)),
    });
    for failure in found.into_iter().flatten() {
        assert!(
            matches!(&failure, Err(Failure::Gone { rank: NodeId(1), cause, .. }) if cause.contains("did not answer")),
            "{failure:?}"
        );
    }
    assert!(start.elapsed() < Duration::from_secs(6));
}

#[test]
fn a_rank_that_does_not_answer_is_blamed_and_not_those_behind_it() {
    let address: IpAddr = HOME.parse().unwrap();
    let mut line: Vec<Mesh> =
        (0..4).map(|rank| Mesh::listen(NodeId(rank), 4, address, Some(0), &[7; 32]).unwrap()).collect();
    let addresses: Vec<_> = NodeId::first(4).zip(line.iter().map(Mesh::address)).collect();
    let second = Duration::from_secs(5);
    together(&mut line, |rank, mesh| {
        let near: Vec<_> = addresses.iter().copied().filter(|(other, _)| other.0.abs_diff(rank) == 1).collect();
        assert!(mesh.connect(&near, second, second, &mut || true).unwrap().is_empty());
    });
    let topology = Arc::new(from_spec("line:4", None, None).unwrap());
    let plan = planners::plan("multitree", &topology, &planners::Options::default()).unwrap();
    let found = together(&mut line, |rank, mesh| match rank {
        2 => {
            thread::sleep(Duration::from_secs(6));
            None
        }
        _ => Some((all_reduce(mesh, &plan, rank, 100_000), mesh.lost())),
    });
    for (failure, lost) in found.into_iter().flatten() {
        assert!(matches!(&failure, Err(Failure::Gone { rank: NodeId(2), .. })), "{failure:?}");
        assert_eq!(lost, [NodeId(2)]);
    }
}

#[test]
fn a_rank_that_answers_but_does_not_begin_is_named() {
    let mut meshes = meshes(3);
    let plan = ring(3, false);
    let found = together(&mut meshes, |rank, mesh| {
        if rank == 1 {
            let end = Instant::now() + Duration::from_secs(6);
            while Instant::now() < end {
                mesh.idle(Duration::from_millis(100), &|| false);
            }
        }
        (all_reduce(mesh, &plan, rank, 100_000), all_reduce(mesh, &plan, rank, 10).is_ok())
    });
    for (late, next) in found {
        let Err(Failure::GivenUp(cause)) = late else { panic!("{late:?}") };
        assert!(cause.contains("rank 1 has not begun it"), "{cause}");
        assert!(next, "the next operation is not hurt");
    }
}

#[test]
fn strangers_are_sent_away() {
    let address: IpAddr = HOME.parse().unwrap();
    let mut one = Mesh::listen(NodeId(0), 2, address, Some(0), &[1; 32]).unwrap();
    let mut other = Mesh::listen(NodeId(1), 2, address, Some(0), &[2; 32]).unwrap();
    let (to_one, to_other) = ([(NodeId(0), one.address())], [(NodeId(1), other.address())]);
    let short = Duration::from_millis(600);
    let found = thread::scope(|scope| {
        scope.spawn(|| drop(other.connect(&to_one, short, short, &mut || true)));
        scope.spawn(|| one.connect(&to_other, short, short, &mut || true)).join().unwrap()
    });
    assert!(found.unwrap()[0].1.contains("did not connect to rank 0"));
}
