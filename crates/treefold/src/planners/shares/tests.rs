//! Choices of trees against all choices, on small random programs.

use super::choice::Chosen;
use super::*;
use crate::planners::spanning::ResourceId;

/// A random program of a few trees, and how many it should choose at most.
fn random_program(random: &mut Random) -> (Columns, usize) {
    let (resources, trees) = (2 + random.below(4) as usize, 2 + random.below(6));
    let capacity = (0..resources).map(|_| (1 + random.below(9)) as f64 * 1e9).collect();
    let mut tree = || {
        let used = |resource: usize| {
            (random.below(3) == 0).then_some(Usage { resource: ResourceId(resource as u32), count: 1 })
        };
        let usage: Vec<Usage> = (0..resources).filter_map(used).collect();
        if usage.is_empty() { vec![Usage { resource: ResourceId(0), count: 2 }] } else { usage }
    };
    let usage = (0..trees).map(|_| tree()).collect();
    (Columns { capacity, usage, are_long: random.below(2) == 0 }, 1 + random.below(trees) as usize)
}

/// All sets of at most `most` of so many trees.
fn choices(trees: usize, most: usize) -> impl Iterator<Item = Vec<usize>> {
    let all = (1u32..1 << trees).filter(move |set| set.count_ones() as usize <= most);
    all.map(move |set| (0..trees).filter(|tree| set >> tree & 1 == 1).collect())
}

/// The largest sum of the rates of exactly these trees, none below `least`; none if that is too much.
fn best(columns: &Columns, trees: &[usize], least: f64) -> Option<f64> {
    let mut part = columns.select(trees);
    let load = part.load(&vec![least; trees.len()]);
    if load.iter().any(|&load| load > 1.0 + 1e-9) {
        return None;
    }
    part.capacity.iter_mut().zip(load).for_each(|(capacity, load)| *capacity *= (1.0 - load).max(1e-12));
    Some(least * trees.len() as f64 + total(&part.corner(&vec![0.0; trees.len()])))
}

fn count(rates: &[f64]) -> usize {
    rates.iter().filter(|&&rate| rate > 0.0).count()
}

#[test]
fn choices_are_near_the_best_of_all_and_keep_the_limits() {
    let mut random = Random::new(5);
    for case in 0..400 {
        let (columns, most) = random_program(&mut random);
        let least = [0.0, 0.5e9, 1.2e9, 2.5e9][case % 4];
        let optimum =
            choices(columns.len(), most).filter_map(|trees| best(&columns, &trees, least)).fold(0.0, f64::max);
        let start = columns.trimmed(most, least);
        let limits = Limits { most_trees: most, least_rate: least };
        let Chosen { rates, bound } = columns.choose(limits, start.clone(), &mut |_| true).expect("nobody interrupts");
        assert!(total(&rates) >= optimum * (1.0 - GAP) && total(&rates) >= total(&start) * (1.0 - 1e-9), "case {case}");
        assert!(total(&rates) <= optimum * (1.0 + 1e-6) && bound >= optimum * (1.0 - 1e-6), "case {case}");
        for rates in [start, rates] {
            assert!(count(&rates) <= most && rates.iter().all(|&rate| rate == 0.0 || rate >= least * (1.0 - 1e-5)));
            assert!(columns.load(&rates).iter().all(|&load| load <= 1.0 + 1e-9), "case {case}");
        }
    }
}

#[test]
fn a_tree_is_held_at_the_least_rate_where_that_is_better_than_to_close_it() {
    // The three trees over cables of 1, 0.9 and 0.5 GB/s among three ranks.
    let usage =
        [[0, 1], [1, 2], [0, 2]].map(|pair| pair.map(|cable| Usage { resource: ResourceId(cable), count: 1 }).to_vec());
    let columns = Columns { capacity: vec![1e9, 0.9e9, 0.5e9], usage: usage.to_vec(), are_long: false };
    let limits = Limits { most_trees: 3, least_rate: 0.25e9 };
    let chosen = columns.choose(limits, columns.trimmed(3, 0.25e9), &mut |_| true).expect("nobody interrupts");
    assert!((total(&chosen.rates) - 1.15e9).abs() < 1e4, "{:?}", chosen.rates);
}

#[test]
fn an_interrupted_choice_ends() {
    let (columns, most) = random_program(&mut Random::new(7));
    let limits = Limits { most_trees: most, least_rate: 0.0 };
    assert!(columns.choose(limits, vec![0.0; columns.len()], &mut |_| false).is_err());
}

#[test]
fn the_fewest_trees_are_as_few_as_any_choice_needs() {
    let mut random = Random::new(6);
    for case in 0..300 {
        let (columns, _) = random_program(&mut random);
        let rate = 0.83 * total(&columns.corner(&vec![0.0; columns.len()]));
        let enough = |most: &usize| {
            choices(columns.len(), *most).any(|trees| best(&columns, &trees, 0.0).is_some_and(|sum| sum >= rate))
        };
        let needed = (1..=columns.len()).find(enough).expect("all trees are enough");
        let (rates, least) = columns.fewest(rate, columns.thinned(rate), &mut |_| true).expect("nobody interrupts");
        assert!(count(&rates) == needed && least <= needed, "case {case}: {needed} of {rates:?}");
        assert!(total(&rates) >= rate * (1.0 - 1e-7));
    }
}
