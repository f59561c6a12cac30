//! Error feedback: what rounding takes from numbers is in the residuals, and so nothing is lost in the long run.

use std::time::Duration;

use crate::common::networks::{cases, networks, options, plans};
use crate::run::{deliver_in_any_order, meshes_over, ring, together};
use bytemuck::Pod;
use proptest::prelude::*;
use treefold::number::wire::Wire;
use treefold::number::{Number, Operator};
use treefold::plan::{Collective, Plan, derive};
use treefold::planners;
use treefold::run::operation::Operation;
use treefold::run::program::Program;
use treefold::run::tcp::Timeouts;
use treefold::topology::{NodeId, from_spec};
use treefold::units::Time;

const STEPS: u64 = 3;

/// The value of an element at a rank in a step; some are tiny, so that int8 rounds them to 0.
fn value(rank: u32, step: u64, element: usize) -> f32 {
    let seed = (u64::from(rank) + 1) * 977 + step * 31 + element as u64;
    let unit = (seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as f32 / (1 << 23) as f32 - 1.0;
    if element % 70 < 30 { unit * 1e-3 } else { unit }
}

/// A rank's vector, scratch space and residual.
struct Memory<T> {
    vector: Vec<T>,
    scratch: Vec<u64>,
    residual: Vec<f32>,
}

/// Runs several steps with the same residuals; checks that the ranks end alike, and that nothing is lost.
fn keeps_everything(plan: &Plan, wire: Wire, elements: usize, seed: u64) {
    let time = Time::from_picoseconds(1_000);
    let programs = Program::all_crossing_as(Some(wire), plan, elements as u64, 4, time).unwrap();
    let empty = || Memory { vector: vec![0.0; elements], scratch: Vec::new(), residual: vec![0.0; elements] };
    let mut ranks: Vec<Memory<f32>> = programs.iter().map(|_| empty()).collect();
    let (mut given, mut got) = (vec![0f64; elements], vec![0f64; elements]);
    let what = format!("{} of {elements} on {} as {}", plan.algorithm, plan.topology.name(), wire.name());
    for step in 0..STEPS {
        for (rank, memory) in (0..).zip(&mut ranks) {
            for (element, (place, given)) in memory.vector.iter_mut().zip(&mut given).enumerate() {
                *place = value(rank, step, element);
                *given += f64::from(*place);
            }
        }
        run(plan, Number::Float32, &programs, &mut ranks, seed + step);
        got.iter_mut().zip(&ranks[0].vector).for_each(|(got, &value)| *got += f64::from(value));
        let is_alike = |memory: &Memory<f32>| programs[0].wire.is_none() || memory.vector == ranks[0].vector;
        assert!(ranks.iter().all(is_alike), "{what}: ranks differ");
    }
    for element in 0..elements {
        let left: f64 = ranks.iter().map(|memory| f64::from(memory.residual[element])).sum();
        let lost = (given[element] - got[element] - left).abs();
        assert!(lost < 1e-6 * (ranks.len() * ranks.len()) as f64, "{what}: element {element} lost {lost}");
    }
}

fn run<T: Pod>(plan: &Plan, number: Number, programs: &[Program], ranks: &mut [Memory<T>], seed: u64) {
    let mut operations: Vec<Operation<'_>> = (programs.iter().zip(ranks))
        .map(|(program, Memory { vector, scratch, residual })| {
            let vector = bytemuck::cast_slice_mut(vector);
            Operation::with_feedback(program, number, Operator::Sum, vector, scratch, residual).unwrap()
        })
        .collect();
    deliver_in_any_order(plan, programs, &mut operations, seed);
    assert!(operations.iter().all(Operation::done));
}

fn wires() -> impl Strategy<Value = Wire> {
    prop::sample::select(&Wire::ALL[..])
}

proptest! {
    #![proptest_config(cases(60))]

    #[test]
    fn no_plan_loses_anything(
        topology in networks(), options in options(), elements in 0usize..2000, seed in 0u64..1 << 40, wire in wires(),
    ) {
        for plan in plans(&topology, &options).into_iter().filter(|plan| !plan.algorithm.starts_with("innet")) {
            if plan.collective == Collective::AllReduce && topology.ranks() <= 12 {
                keeps_everything(&plan, wire, elements, seed);
            }
        }
    }
}

#[test]
fn plans_that_send_results_from_copies_lose_nothing() {
    let cases = [("torus:3x3", "hierarchical"), ("fattree:8,2", "hierarchical"), ("torus:3x4", "ring2d")];
    for (network, algorithm) in cases {
        let topology = std::sync::Arc::new(from_spec(network, None, None).unwrap());
        let plan = planners::plan(algorithm, &topology, &planners::Options::default()).unwrap();
        Wire::ALL.into_iter().for_each(|wire| keeps_everything(&plan, wire, 9001, 5));
    }
}

#[test]
fn nothing_is_lost_over_several_streams() {
    const ELEMENTS: usize = 500_003;
    let timeouts = Timeouts { silence: Duration::from_secs(2), operation: Some(Duration::from_secs(20)) };
    let (plan, time) = (ring(3, true), Time::from_picoseconds(1_000_000));
    let programs = Program::all_crossing_as(Some(Wire::Int8), &plan, ELEMENTS as u64, 4, time).unwrap();
    let found = together(&mut meshes_over(3, 3), |rank, mesh| {
        let mut vector: Vec<f32> = (0..ELEMENTS).map(|element| value(rank, 0, element)).collect();
        let (mut scratch, mut residual) = (Vec::new(), vec![0f32; ELEMENTS]);
        let (program, bytes) = (&programs[rank as usize], bytemuck::cast_slice_mut(&mut vector));
        let (number, operator) = (Number::Float32, Operator::Sum);
        let mut operation =
            Operation::with_feedback(program, number, operator, bytes, &mut scratch, &mut residual).unwrap();
        mesh.run(&mut operation, timeouts, &mut || true).unwrap();
        (vector, residual)
    });
    for element in 0..ELEMENTS {
        let given: f64 = (0..3).map(|rank| f64::from(value(rank, 0, element))).sum();
        let left: f64 = found.iter().map(|(_, residual)| f64::from(residual[element])).sum();
        assert!((given - left - f64::from(found[0].0[element])).abs() < 1e-5, "element {element}");
    }
}

#[test]
fn what_bfloat16_vectors_have_no_room_for_stays_in_the_residual() {
    const ONE: u16 = 0x3f80;
    const TWO: u16 = 0x4000;
    let topology = std::sync::Arc::new(from_spec("full:2", None, None).unwrap());
    let plan = planners::plan("ring", &topology, &planners::Options::default()).unwrap();
    let programs = Program::all_crossing_as(Some(Wire::Int8), &plan, 300, 2, Time::from_picoseconds(1_000)).unwrap();
    let fill = |_| Memory { vector: vec![ONE; 300], scratch: Vec::new(), residual: vec![1.0 / 1024.0; 300] };
    let mut ranks: Vec<Memory<u16>> = (0..2).map(fill).collect();
    run(&plan, Number::Bfloat16, &programs, &mut ranks, 1);
    assert!(ranks.iter().all(|memory| memory.vector == [TWO; 300]));
    assert!(ranks.iter().all(|memory| memory.residual == [1.0 / 1024.0; 300]), "1 + 1/1024 is 1 in bfloat16");
}

#[test]
fn what_is_not_finite_stays_out_of_the_residual() {
    let plan = ring(3, false);
    for wire in Wire::ALL {
        let programs = Program::all_crossing_as(Some(wire), &plan, 1000, 4, Time::from_picoseconds(1_000)).unwrap();
        let fill = |rank| {
            let mut vector: Vec<f32> = (0..1000).map(|element| value(rank, 0, element)).collect();
            (vector[7], vector[300], vector[600]) = (f32::NAN, f32::INFINITY, f32::MAX / 2.0);
            Memory { vector, scratch: Vec::new(), residual: vec![0.25; 1000] }
        };
        let mut ranks: Vec<Memory<f32>> = (0..3).map(fill).collect();
        run(&plan, Number::Float32, &programs, &mut ranks, 9);
        assert!(ranks.iter().all(|memory| memory.residual.iter().all(|left| left.is_finite())), "{}", wire.name());
        assert!(ranks.iter().all(|memory| memory.vector[7].is_nan() && memory.vector[300] == f32::INFINITY));
    }
}

#[test]
fn a_residual_that_does_not_fit_is_refused() {
    let refused = |plan: &Plan, number: Number, operator: Operator, elements: usize| {
        let bytes = number.bytes();
        let program = Program::new(plan, NodeId(0), 100, bytes as u64, Time::from_picoseconds(1)).unwrap();
        let (mut vector, mut scratch, mut residual) = (vec![0u64; 100 * bytes / 8], Vec::new(), vec![0.0; elements]);
        let vector = bytemuck::cast_slice_mut(&mut vector);
        let made = Operation::with_feedback(&program, number, operator, vector, &mut scratch, &mut residual);
        made.err().map(|error| error.to_string()).unwrap_or_default()
    };
    let plan = ring(3, false);
    assert_eq!(refused(&plan, Number::Float32, Operator::Sum, 100), "");
    let short = refused(&plan, Number::Float32, Operator::Sum, 99);
    assert_eq!(short, "the residual has 99 elements, but the vector has 100");
    let most = refused(&plan, Number::Float32, Operator::Max, 100);
    assert!(most.contains("makes up for what sums lose, and the operator is max"), "{most}");
    assert!(refused(&plan, Number::Int64, Operator::Sum, 100).contains("this one is int64"));
    let gather = derive(plan, Collective::AllGather, NodeId(0)).unwrap();
    assert!(refused(&gather, Number::Float32, Operator::Sum, 100).contains("is for all-reduces, and"));
}
