//! Plans whose numbers cross lines in fewer bytes: all ranks end with the same bits, within the stated bounds.

use std::time::Duration;

use crate::common::networks::{blocks, cases, networks, options, plans};
use crate::run::{deliver_in_any_order, meshes_over, ring, together};
use proptest::prelude::*;
use treefold::number::wire::Wire;
use treefold::number::{Number, Operator};
use treefold::plan::schedule::{input, output};
use treefold::plan::{Collective, Plan, derive};
use treefold::run::memory;
use treefold::run::operation::Operation;
use treefold::run::program::Program;
use treefold::run::tcp::{Failure, Timeouts};
use treefold::topology::NodeId;
use treefold::units::Time;

/// The value of an element at a rank, from -1 to 1; some are tiny, so that blocks differ.
fn value(rank: NodeId, element: u64) -> f32 {
    let bits = (u64::from(rank) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ element.wrapping_mul(0x2545_f491_4f6c_dd1d);
    let unit = (bits >> 40) as f32 / (1 << 23) as f32 - 1.0;
    if element % 700 < 300 { unit * 1e-3 } else { unit }
}

/// The largest error of a number of at most `peak`, which crosses lines once.
fn error_of(wire: Wire, peak: f64) -> f64 {
    match wire {
        Wire::Bfloat16 => peak / 256.0,
        Wire::Float16 => (peak / 2048.0).max(2f64.powi(-25)),
        Wire::Float8 => peak / 16.0,
        Wire::Int8 => peak / 253.0,
    }
}

fn total(plan: &Plan, elements: u64) -> u64 {
    if plan.collective == Collective::AllGather { elements * u64::from(plan.ranks()) } else { elements }
}

fn vectors(plan: &Plan, programs: &[Program], elements: u64) -> Vec<Vec<f32>> {
    let fill = |program: &Program| {
        let mut vector = vec![f32::NAN; program.vector_bytes / 4];
        let start = input(plan, elements, program.rank).start;
        for (place, element) in (program.input.start / 4..program.input.end / 4).zip(start..) {
            vector[place] = value(program.rank, element);
        }
        vector
    };
    programs.iter().map(fill).collect()
}

fn check(plan: &Plan, programs: &[Program], wire: Wire, elements: u64, data: &[Vec<f32>], scratch: &[Vec<u64>]) {
    let what = format!("{} {} of {elements} as {}", plan.algorithm, plan.collective, wire.name());
    let ranks = plan.rank_ids();
    let reduces = plan.collective.reduces();
    let mut first: Option<Vec<u32>> = None;
    for (program, (vector, scratch)) in programs.iter().zip(data.iter().zip(scratch)) {
        let whole = [&vector[..], bytemuck::cast_slice(scratch)].concat();
        let found: Vec<f32> =
            program.output.iter().flat_map(|piece| whole[piece.start / 4..piece.end / 4].to_vec()).collect();
        let places: Vec<u64> = output(plan, elements, program.rank).into_iter().flatten().collect();
        assert_eq!(places.len(), found.len());
        for (&element, &found) in places.iter().zip(&found) {
            let (wanted, most) = if reduces {
                let all = ranks.clone().map(|rank| f64::from(value(rank, element)));
                let count = f64::from(plan.ranks());
                (all.sum::<f64>(), count * error_of(wire, count) + 1e-5)
            } else {
                let owner = ranks.clone().find(|&rank| input(plan, elements, rank).contains(&element)).unwrap();
                (f64::from(value(owner, element)), error_of(wire, 1.0))
            };
            let error = (f64::from(found) - wanted).abs();
            assert!(error <= most, "{what}: element {element} is {found}, not {wanted}; {error} > {most}");
        }
        if !matches!(plan.collective, Collective::AllReduce | Collective::AllGather | Collective::Broadcast) {
            continue;
        }
        // Ranks that add up by themselves send numbers as they are, and round as they please.
        if program.wire.is_some() {
            let bits: Vec<u32> = found.iter().map(|value| value.to_bits()).collect();
            assert_eq!(first.get_or_insert_with(|| bits.clone()), &bits, "{what}: rank {}", program.rank);
        }
    }
}

fn on_threads(plan: &Plan, wire: Wire, elements: u64, overhead: Time) {
    let elements = total(plan, elements);
    let programs = Program::all_crossing_as(Some(wire), plan, elements, 4, overhead).unwrap();
    let mut data = vectors(plan, &programs, elements);
    let mut scratch = vec![Vec::new(); programs.len()];
    let mut bytes: Vec<&mut [u8]> = data.iter_mut().map(|vector| bytemuck::cast_slice_mut(vector)).collect();
    let all: Vec<&Program> = programs.iter().collect();
    memory::run(&all, Number::Float32, Operator::Sum, &mut bytes, &mut scratch, None, &mut || true).unwrap();
    check(plan, &programs, wire, elements, &data, &scratch);
}

/// Messages between operations of one thread, delivered in a random order.
fn in_any_order(plan: &Plan, wire: Wire, elements: u64, seed: u64) {
    let elements = total(plan, elements);
    let programs = Program::all_crossing_as(Some(wire), plan, elements, 4, Time::from_picoseconds(1_000)).unwrap();
    let mut data = vectors(plan, &programs, elements);
    let mut scratch = vec![Vec::new(); programs.len()];
    let memory = data.iter_mut().zip(&mut scratch);
    let mut operations: Vec<Operation<'_>> = (programs.iter().zip(memory))
        .map(|(program, (vector, scratch))| {
            let vector = bytemuck::cast_slice_mut(vector);
            Operation::new(program, Number::Float32, Operator::Sum, vector, scratch).unwrap()
        })
        .collect();
    deliver_in_any_order(plan, &programs, &mut operations, seed);
    assert!(operations.iter().all(Operation::done));
    drop(operations);
    check(plan, &programs, wire, elements, &data, &scratch);
}

fn wires() -> impl Strategy<Value = Wire> {
    prop::sample::select(&Wire::ALL[..])
}

proptest! {
    #![proptest_config(cases(40))]

    #[test]
    fn every_plan_ends_alike_and_near(
        topology in networks(), options in options(), elements in 0u64..3000, root in any::<u32>(),
        seed in any::<u64>(), wire in wires(),
    ) {
        for plan in plans(&topology, &options).into_iter().filter(|plan| !plan.algorithm.starts_with("innet")) {
            if topology.ranks() > 12 {
                continue;
            }
            for collective in Collective::ALL {
                if let Ok(derived) = derive(plan.clone(), collective, NodeId(root % topology.ranks())) {
                    on_threads(&derived, wire, elements, Time::from_picoseconds(1_000));
                    in_any_order(&derived, wire, elements, seed);
                    if collective == Collective::AllToAll {
                        let exchanged = derived.with_blocks(blocks(topology.ranks(), seed)).unwrap();
                        on_threads(&exchanged, wire, elements, Time::from_picoseconds(1_000));
                    }
                }
            }
        }
    }
}

const TIMEOUTS: Timeouts = Timeouts { silence: Duration::from_secs(2), operation: Some(Duration::from_secs(20)) };

#[test]
fn parts_over_several_streams_end_alike() {
    for streams in [1, 3] {
        let mut meshes = meshes_over(4, streams);
        for (plan, wire, elements) in [
            (ring(4, false), Wire::Int8, 1_000_003),
            (ring(4, true), Wire::Float8, 300_001),
            (ring(4, true), Wire::Bfloat16, 77_777),
            (ring(4, false), Wire::Float16, 255),
        ] {
            let programs =
                Program::all_crossing_as(Some(wire), &plan, elements, 4, Time::from_picoseconds(1_000_000)).unwrap();
            assert_eq!(programs[0].wire, Some(wire));
            let data = vectors(&plan, &programs, elements);
            let found = together(&mut meshes, |rank, mesh| {
                let (mut vector, mut scratch) = (data[rank as usize].clone(), Vec::new());
                let bytes = bytemuck::cast_slice_mut(&mut vector);
                let program = &programs[rank as usize];
                let mut operation =
                    Operation::new(program, Number::Float32, Operator::Sum, bytes, &mut scratch).unwrap();
                mesh.run(&mut operation, TIMEOUTS, &mut || true).unwrap();
                (vector, scratch)
            });
            let (vectors, scratch): (Vec<_>, Vec<_>) = found.into_iter().unzip();
            check(&plan, &programs, wire, elements, &vectors, &scratch);
        }
    }
}

#[test]
fn ranks_that_disagree_on_the_wire_type_are_all_told() {
    let mut meshes = meshes_over(3, 1);
    let plan = ring(3, false);
    let found = together(&mut meshes, |rank, mesh| {
        let wire = (rank == 1).then_some(Wire::Int8);
        let program = Program::crossing_as(wire, &plan, NodeId(rank), 100_000, 4, Time::from_picoseconds(1)).unwrap();
        let (mut vector, mut scratch) = (vec![0f32; 100_000], Vec::new());
        let bytes = bytemuck::cast_slice_mut(&mut vector);
        let mut operation = Operation::new(&program, Number::Float32, Operator::Sum, bytes, &mut scratch).unwrap();
        mesh.run(&mut operation, TIMEOUTS, &mut || true)
    });
    for failure in found {
        let Err(Failure::GivenUp(cause)) = failure else { panic!("{failure:?}") };
        assert!(cause.contains("100000 float32 as int8") && cause.contains("100000 float32 by"), "{cause}");
    }
}
