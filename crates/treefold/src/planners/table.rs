//! The table of planners: what each is, where it comes from, what it fits, plans and costs.
//!
//! Which options a planner reads, and which of them are limits, is declared with the options (`options.rs`).

use std::sync::Arc;

use super::planner::Plans;
use super::{
    Collectives, Listener, Options, Planned, Planner, bine, blink, bruck, bucket, dbtree, direct, exchange, forest,
    halving_doubling, hdrm, hierarchical, in_network, innet, mtree, multiring, multitree, nccl, p2p, packing, pat,
    plink, ps, psld, recursive_doubling, ring, ring2d, swing, topoadopt,
};
use crate::error::{Result, named};
use crate::plan::Draft;
use crate::topology::Topology;

/// All algorithms of the core.
///
/// ```
/// use std::sync::Arc;
/// use treefold::planners::{self, Options, PLANNERS};
/// use treefold::topology::from_spec;
///
/// let line = Arc::new(from_spec("line:4", None, None)?);
/// let refuses = |name| planners::plan(name, &line, &Options::default()).is_err();
/// let names = PLANNERS.iter().map(|planner| planner.name);
/// assert_eq!(names.filter(|name| refuses(name)).next(), Some("ring2d"), "a line has no rows and columns");
/// for planner in PLANNERS {
///     assert!([planner.summary, planner.source, planner.fits, planner.cost].iter().all(|text| !text.is_empty()));
/// }
/// # Ok::<(), treefold::error::Error>(())
/// ```
pub const PLANNERS: &[Planner] = &[
    Planner {
        name: "ring",
        summary: "one ring, one direction",
        source: "Patarasuk and Yuan, 2009; Baidu, 2017",
        fits: "any network; it is good for large vectors where all links on the way are alike, and bad where some \
            are slow",
        cost: "linear in the edges, of which N ranks have N (N - 1)",
        ..quick(ring::plan)
    },
    Planner {
        name: "multiring",
        summary: "a ring each way; on 2-D tori two disjoint Hamiltonian cycles",
        source: "treefold; Kotzig, 1973, for the two cycles",
        fits: "any network; on 2-D tori nothing that first reduces and then gathers is faster for large vectors",
        cost: "quadratic in the ranks at worst",
        ..quick(multiring::plan)
    },
    Planner {
        name: "ring2d",
        summary: "rings along rows and columns, four at once",
        source: "Ying et al., 2018",
        fits: "2-D tori and meshes whose nodes are all ranks; it has fewer steps than a ring, so it is good for \
            smaller vectors",
        cost: "linear in the edges",
        collectives: Collectives::AllReduce,
        ..quick(ring2d::plan)
    },
    Planner {
        name: "dbtree",
        summary: "NCCL's double binary tree, streamed",
        source: "Sanders, Speck and Traeff, 2009; NCCL",
        fits: "any network; it is good for small vectors on many ranks whose links are alike",
        cost: "linear in the ranks",
        ..quick(dbtree::plan)
    },
    Planner {
        name: "nccl",
        summary: "what NCCL does: rings or double binary trees over all rails at once",
        source: "NCCL; Jeaugey, 2019; Hu et al., 2025",
        fits: "any network; it is made for servers of GPUs with several rails, and is what to compare with there",
        cost: "a tour of all ranks for each of at most eight rings",
        ..quick(nccl::plan)
    },
    Planner {
        name: "halving-doubling",
        summary: "recursive halving and doubling",
        source: "Thakur, Rabenseifner and Gropp, 2005",
        fits: "any network; it is good for small vectors where every two ranks are equally far from each other",
        cost: "N log2 N edges for N ranks",
        ..quick(halving_doubling::plan)
    },
    Planner {
        name: "hierarchical",
        summary: "a planner inside groups of ranks, and one between them",
        source: "Cho et al., BlueConnect, 2019",
        fits: "networks whose ranks form groups of equal size by latency, such as servers, pods or sites, as only a \
            part of the vector goes over the slow links between groups; and tori and meshes, for middle sizes",
        cost: "that of the planners, for each group; rows of a grid are planned once",
        collectives: Collectives::AllReduce,
        most_work: 1 << 19,
        ..quick(hierarchical::plan)
    },
    Planner {
        name: "hdrm",
        summary: "halving-doubling with ranks mapped to a BiGraph",
        source: "Dong et al., EFLOPS, HPCA 2020",
        fits: "BiGraphs, all of whose accelerators are ranks, a power of two",
        cost: "N log2 N edges for N ranks",
        ..quick(hdrm::plan)
    },
    Planner {
        name: "multitree",
        summary: "one tree for each rank, scheduled without contention",
        source: "Huang et al., MultiTree, ISCA 2021",
        fits: "any network; it is made for direct networks such as tori and meshes",
        cost: "steps times trees times frontiers; with switches, a search for each edge",
        ..quick(multitree::plan)
    },
    Planner {
        name: "packing",
        summary: "spanning trees with the largest total rate, streamed",
        source: "treefold, on theorems of Nash-Williams, Tutte and Edmonds",
        fits: "any network, above all one whose links are unequal; for large all-reduces nothing in which switches \
            only forward is faster",
        cost: "a linear program and a search for cheap trees in each round",
        keeps_shared: true,
        most_work: 300_000,
        gap: "the bound is at most {} above this rate",
        ..proven(packing::plan)
    },
    Planner {
        name: "forest",
        summary: "trees out of every rank at the best rate, with an order of messages",
        source: "Edmonds, 1973; Zhao et al., ForestColl, 2024",
        fits: "all collectives on any network; all-reduces on tori and on switched networks of equal links, where \
            that is as fast as trees for all-reduces (packing)",
        cost: "many searches for a tree for each rank, and linear programs where one rate is not enough",
        collectives: Collectives::Each,
        keeps_shared: true,
        most_work: 1 << 20,
        ..usual(Plans::Telling(forest::plan))
    },
    Planner {
        name: "ps",
        summary: "one parameter server, to which all ranks send and which sends to all",
        source: "Li et al., OSDI 2014",
        fits: "any network; it is a baseline, and good for small vectors only",
        cost: "a search for the quickest routes from each rank",
        ..quick(ps::plan)
    },
    Planner {
        name: "p2p",
        summary: "every rank sends its vector to every other",
        source: "Li et al., Malt, EuroSys 2015",
        fits: "any network of few ranks; nothing is faster for very small vectors",
        cost: "N (N - 1) edges for N ranks",
        collectives: Collectives::AllReduce,
        ..quick(p2p::plan)
    },
    Planner {
        name: "exchange",
        summary: "a quickest tree into every rank; equal partial sums are sent once",
        source: "treefold; recursive doubling and Swing's latency form, on any network",
        fits: "any network of at most 256 ranks; it is good for the smallest vectors, as the sum is everywhere after \
            little more than the latency between the farthest two ranks",
        cost: "N (N - 1) edges for N ranks, several times",
        collectives: Collectives::AllReduce,
        most_work: 1 << 20,
        ..quick(exchange::plan)
    },
    Planner {
        name: "psld",
        summary: "parameter servers, each with a part in proportion to its bandwidth",
        source: "Chen et al., PSLD, SoCC 2020",
        fits: "any network; it is a baseline for wide-area networks",
        cost: "a search for the quickest routes from each rank, and an edge to each rank for each server",
        ..quick(psld::plan)
    },
    Planner {
        name: "plink",
        summary: "two levels: groups of nearby ranks, each with an aggregator",
        source: "Luo et al., PLink, MLSys 2020",
        fits: "any network; it is a baseline for ranks in groups with small latencies inside",
        cost: "a search for the quickest routes from each rank, and rounds of k-medoids",
        ..quick(plink::plan)
    },
    Planner {
        name: "topoadopt",
        summary: "a few spanning trees and their shares, by simulated annealing",
        source: "Luo et al., TopoAdopt, ICENAT 2022",
        fits: "direct networks of about a hundred ranks at most, whose links go both ways; it is a baseline for \
            wide-area networks",
        cost: "at most 400 moves for each tree and cable",
        ..quick(topoadopt::plan)
    },
    Planner {
        name: "recursive-doubling",
        summary: "pairs exchange whole vectors, at twice the distance in each step",
        source: "Thakur, Rabenseifner and Gropp, 2005",
        fits: "any network; it has the fewest steps in pairs, and is good for very small vectors where every two \
            ranks are equally far from each other",
        cost: "N log2 N edges for N ranks",
        collectives: Collectives::AllReduce,
        ..quick(recursive_doubling::plan)
    },
    Planner {
        name: "swing",
        summary: "exchanges that swing from side to side, at all ports at once",
        source: "De Sensi et al., Swing, NSDI 2024",
        fits: "tori with even sides, and other networks of an even number of ranks, as one ring; on tori it is good \
            for small vectors",
        cost: "2 D N (N - 1) edges for N ranks in D dimensions",
        collectives: Collectives::Each,
        most_work: 1 << 22,
        ..quick(swing::plan)
    },
    Planner {
        name: "bine",
        summary: "binomial trees and exchanges whose partners are nearer",
        source: "De Sensi et al., Bine trees, SC 2025",
        fits: "any network; it is made for ranks in groups with narrow links between, such as dragonflies and \
            tapered fat trees",
        cost: "N (N - 1) edges for N ranks",
        collectives: Collectives::Each,
        most_work: 1 << 22,
        ..quick(bine::plan)
    },
    Planner {
        name: "bucket",
        summary: "rings along each dimension in turn, all ports at once",
        source: "Jain and Sabharwal, ICS 2010",
        fits: "tori and meshes of any number of dimensions whose nodes are all ranks; on tori with equal sides \
            nothing is faster for large vectors",
        cost: "4 D N (N - 1) edges for N ranks in D dimensions",
        most_work: 1 << 22,
        ..quick(bucket::plan)
    },
    Planner {
        name: "direct",
        summary: "every rank adds up one part, which all send it, and sends it back",
        source: "Thakur, Rabenseifner and Gropp, 2005; TensorRT-LLM and MSCCL++",
        fits: "any network of few ranks; it is made for GPUs on one switch",
        cost: "N (N - 1) edges for N ranks",
        ..quick(direct::plan)
    },
    Planner {
        name: "bruck",
        summary: "all-gather of twice the blocks and twice the distance in each step",
        source: "Bruck et al., 1997",
        fits: "any network; it is good for small vectors on any number of ranks that are equally far from each other",
        cost: "N (N - 1) edges for N ranks",
        most_work: 1 << 22,
        ..quick(bruck::plan)
    },
    Planner {
        name: "pat",
        summary: "all-gather of twice the blocks and half the distance in each step",
        source: "Jeaugey, PAT, 2025; NCCL",
        fits: "any network; it is good for small vectors on any number of ranks, near ones of which are next to each \
            other",
        cost: "N (N - 1) edges for N ranks",
        most_work: 1 << 22,
        ..quick(pat::plan)
    },
    Planner {
        name: "innet-pull",
        summary: "each rank pulls its part of the sum through switches that add it up",
        source: "Klenk et al., ISCA 2020",
        fits: "networks with switches that both reduce and multicast",
        cost: "a breadth-first search for each link out of a rank",
        in_network: true,
        ..quick(in_network::pull)
    },
    Planner {
        name: "innet-push",
        summary: "each part goes to a home switch, which reduces and multicasts it",
        source: "Klenk et al., ISCA 2020",
        fits: "networks with switches that both reduce and multicast; with many accelerators it is ahead of \
            innet-pull at almost every size",
        cost: "a breadth-first search for each home and each rank",
        in_network: true,
        ..quick(in_network::push)
    },
    Planner {
        name: "innet",
        summary: "packed trees of switches that reduce and multicast, streamed",
        source: "treefold",
        fits: "networks with switches that reduce and multicast, of any shape",
        cost: "a linear program and a search for cheap trees in each round",
        in_network: true,
        keeps_shared: true,
        reads_simulator: true,
        gap: "the in-network bound is at most {} above this rate",
        ..proven(innet::plan)
    },
    Planner {
        name: "mtree",
        summary: "low spanning trees of high bandwidth, in the best shares, streamed",
        source: "Luo, Wang and Xing, MTree",
        fits: "direct networks whose links go both ways, such as wide-area networks; it is for those who want few \
            and low trees",
        cost: "ranks times cables for each tree, and a branch and bound with a limit of work",
        most_work: 300_000,
        gap: "the best choice of the trees that were grown is at most {} above this rate",
        ..proven(mtree::plan)
    },
    Planner {
        name: "blink",
        summary: "the fewest trees of one root with 95 % of its best rate, streamed",
        source: "Wang et al., Blink, MLSys 2020",
        fits: "direct and switched networks whose links go both ways; it is a baseline for servers and wide-area \
            networks",
        cost: "20 searches for a tree for each rank, and a branch and bound with a limit of work",
        keeps_shared: true,
        most_work: 30_000,
        gap: "at most {} of the trees might not be needed",
        ..proven(blink::plan)
    },
];

/// Returns a planner that makes a plan at once.
const fn quick(plan: fn(&Arc<Topology>, &Options) -> Result<Draft>) -> Planner {
    usual(Plans::Quick(plan))
}

/// Returns a planner that needs linear programs and proves how good its plans are.
const fn proven(plan: fn(&Arc<Topology>, &Options, Listener) -> Result<Planned>) -> Planner {
    usual(Plans::Proven(plan))
}

/// Returns a planner without a name, with what is usual: it is quick on every network, and in its plans switches only
/// forward.
const fn usual(plan: Plans) -> Planner {
    Planner {
        name: "",
        summary: "",
        source: "",
        fits: "",
        cost: "",
        collectives: Collectives::Derived,
        in_network: false,
        keeps_shared: false,
        reads_simulator: false,
        most_work: usize::MAX,
        gap: "",
        plan,
    }
}

/// Returns the planner of this name.
///
/// # Errors
/// If the name is unknown.
///
/// ```
/// assert!(treefold::planners::planner_named("innet")?.in_network);
/// # Ok::<(), treefold::error::Error>(())
/// ```
pub fn planner_named(algorithm: &str) -> Result<&'static Planner> {
    let known: Vec<(&str, &Planner)> = PLANNERS.iter().map(|planner| (planner.name, planner)).collect();
    named("algorithm", algorithm, &known)
}
