//! Parts of a vector: they are operations of their own, and together give what the whole gives, bit for bit.

use std::sync::Arc;

use crate::common::networks::{cases, networks, options, plans};
use proptest::prelude::*;
use treefold::number::{Number, Operator};
use treefold::plan::check::check;
use treefold::plan::{Collective, Plan, derive, parts};
use treefold::planners::{self, Options};
use treefold::random::Random;
use treefold::run::memory;
use treefold::run::program::Program;
use treefold::topology::{NodeId, from_spec};
use treefold::units::Time;

/// Runs a plan on vectors of doubles, in place.
fn run(plan: &Plan, vectors: &mut [Vec<f64>]) {
    let elements = vectors[0].len() as u64;
    let programs = Program::all(plan, elements, 8, Time::from_picoseconds(0)).unwrap();
    let mut scratch = vec![Vec::new(); programs.len()];
    let mut bytes: Vec<&mut [u8]> = vectors.iter_mut().map(|vector| bytemuck::cast_slice_mut(vector)).collect();
    let all: Vec<&Program> = programs.iter().collect();
    memory::run(&all, Number::Float64, Operator::Sum, &mut bytes, &mut scratch, None, &mut || true).unwrap();
}

/// Runs the parts of vectors one after the other, in memory of their own.
fn run_parts(plan: &Plan, most: u64, vectors: &mut [Vec<f64>]) {
    for part in parts(plan, vectors[0].len() as u64, most).unwrap() {
        check(&part.plan).unwrap();
        let indices: Vec<usize> =
            part.elements.iter().flat_map(|span| span.start as usize..span.end as usize).collect();
        assert!(!indices.is_empty() && indices.len() as u64 <= most, "{} of {most}", indices.len());
        let mut own: Vec<Vec<f64>> = vectors.iter().map(|all| indices.iter().map(|&at| all[at]).collect()).collect();
        run(&part.plan, &mut own);
        for (all, part) in vectors.iter_mut().zip(own) {
            indices.iter().zip(part).for_each(|(&at, value)| all[at] = value);
        }
    }
}

/// Sums of such values depend on the order of the additions.
fn random(ranks: u32, elements: usize, seed: u64) -> Vec<Vec<f64>> {
    let mut random = Random::new(seed);
    let mut value = || (random.unit() - 0.5) * 10f64.powi(random.below(12) as i32);
    (0..ranks).map(|_| (0..elements).map(|_| value()).collect()).collect()
}

fn bits(vector: &[f64]) -> Vec<u64> {
    vector.iter().map(|value| value.to_bits()).collect()
}

proptest! {
    #![proptest_config(cases(60))]

    /// Parts have the same trees, which reduce the same elements in the same order.
    #[test]
    fn parts_give_the_bits_of_the_whole(
        topology in networks(), options in options(), elements in 1usize..400, most in 1u64..90, seed in any::<u64>(),
    ) {
        // No worker runs on a switch that reduces or multicasts.
        let runs = |plan: &Plan| Program::new(plan, NodeId(0), 1, 8, Time::from_picoseconds(0)).is_ok();
        for plan in plans(&topology, &options).into_iter().filter(runs) {
            let before = random(plan.ranks(), elements, seed);
            let (mut whole, mut cut) = (before.clone(), before);
            run(&plan, &mut whole);
            run_parts(&plan, most, &mut cut);
            for (one, other) in whole.iter().zip(&cut) {
                prop_assert_eq!(bits(one), bits(other), "{}", plan.algorithm);
            }
            let Ok(reduce) = derive(plan, Collective::Reduce, NodeId(0)) else { continue };
            let before = random(reduce.ranks(), elements, seed);
            let (mut whole, mut cut) = (before.clone(), before);
            run(&reduce, &mut whole);
            run_parts(&reduce, most, &mut cut);
            prop_assert_eq!(bits(&whole[0]), bits(&cut[0]), "{}", reduce.algorithm);
        }
    }
}

#[test]
fn equal_parts_have_one_plan() {
    let torus = Arc::new(from_spec("torus:4x4", None, None).unwrap());
    let plan = planners::plan("packing", &torus, &Options::default()).unwrap();
    let found = parts(&plan, 1 << 20, 1 << 16).unwrap();
    let mut plans: Vec<u64> = found.iter().map(|part| part.plan.fingerprint()).collect();
    plans.sort_unstable();
    plans.dedup();
    assert!((16..=17).contains(&found.len()) && plans.len() <= 3, "{} {}", found.len(), plans.len());
}

#[test]
fn what_cannot_be_cut_is_refused() {
    let ring = Arc::new(from_spec("ring:4", None, None).unwrap());
    let plan = planners::plan("ring", &ring, &Options::default()).unwrap();
    let text = |plan: &Plan, most| parts(plan, 100, most).unwrap_err().to_string();
    assert_eq!(text(&plan, 0), "a part of no elements carries nothing; allow at least 1");
    let gather = derive(plan, Collective::AllGather, NodeId(0)).unwrap();
    assert_eq!(text(&gather, 10), "all-gather moves blocks of ranks; cut each block by itself");
}
