//! Several jobs at once, and background traffic: who disturbs whom, and by how much.

use std::sync::Arc;

use crate::common::{planned, spec};
use treefold::plan::{Chunk, Draft, Half, Pace, Plan, Tree};
use treefold::planners::{self, Options as Wishes};
use treefold::sim::packet::{FlowControl, Options, Outcomes, Sending, Together};
use treefold::sim::{Background, Job, Watch, flow, packet};
use treefold::topology::{Directions, NodeId, Topology};
use treefold::units::{Bytes, Seconds};

const LIGHT: Background = Background { load: 0.1, message: Bytes::known(64), seed: 1 };

fn in_packets(jobs: &[Job], background: Option<Background>, options: &Options) -> Outcomes {
    Together { jobs, background }.simulate(options, Sending::All, Watch::NOTHING).unwrap()
}

/// Adders that take next to no time, so that what counts are links.
fn quick_adders() -> Options {
    Options { lanes: 1 << 16, ..Options::default() }
}

fn packet_seconds(jobs: &[Job]) -> Vec<f64> {
    let outcomes = in_packets(jobs, None, &quick_adders());
    outcomes.jobs.iter().map(|job| job.trace.seconds.get()).collect()
}

fn flow_seconds(jobs: &[Job]) -> Vec<f64> {
    let traces = flow::simulate_together(jobs, None, Watch::NOTHING).unwrap();
    traces.iter().map(|trace| trace.seconds.get()).collect()
}

fn ring_of(network: &Topology, ranks: &[u32]) -> Plan {
    planners::plan("ring", &Arc::new(network.with_ranks(ranks).unwrap()), &Wishes::default()).unwrap()
}

fn refused(jobs: &[Job]) -> String {
    flow::simulate_together(jobs, None, Watch::NOTHING).unwrap_err().to_string()
}

#[test]
fn two_equal_jobs_on_one_ring_take_twice_the_time_in_both_simulators() {
    let plan = planned("ring", "ring:8");
    let job = Job::new(&plan, Bytes::known(4 << 20));
    for seconds in [flow_seconds, packet_seconds] {
        let alone = seconds(&[job])[0];
        for together in seconds(&[job, job]) {
            assert!((1.9..=2.02).contains(&(together / alone)), "{} times as long", together / alone);
        }
    }
}

#[test]
fn jobs_on_disjoint_parts_of_a_torus_do_not_disturb_each_other() {
    let torus = spec("torus:4x4");
    let rows = [[0, 1, 2, 3], [8, 9, 10, 11]].map(|row| ring_of(&torus, &row));
    let jobs = [(&rows[0], 256 << 10), (&rows[1], 100 << 10)].map(|(plan, size)| Job::new(plan, Bytes::known(size)));
    for seconds in [flow_seconds, packet_seconds] {
        assert_eq!(seconds(&jobs), [seconds(&jobs[..1])[0], seconds(&jobs[1..])[0]]);
    }
}

#[test]
fn a_job_ends_and_the_other_goes_on_faster() {
    let plan = planned("ring", "ring:8");
    let [short, long] = [1 << 20, 8 << 20].map(|size| Job::new(&plan, Bytes::known(size)));
    for seconds in [flow_seconds, packet_seconds] {
        let (alone, both) = ([seconds(&[short])[0], seconds(&[long])[0]], seconds(&[short, long]));
        // The links carry the same in the end, whoever comes first.
        assert!((both[1] / (alone[0] + alone[1]) - 1.0).abs() < 0.03, "{both:?} {alone:?}");
        assert!(both[0] < both[1]);
    }
    // Links are shared byte by byte, and interfaces message by message: a short one waits for a long one in each step.
    let [flow, packet] = [flow_seconds(&[short, long]), packet_seconds(&[short, long])];
    assert!((1.9..2.05).contains(&(flow[0] / flow_seconds(&[short])[0])), "{flow:?}");
    assert!(packet[0] > 0.8 * packet[1], "{packet:?}");
}

#[test]
fn every_job_sends_what_it_sends_alone() {
    let torus = spec("torus:4x4");
    let (trees, row) = (planned("multitree", "torus:4x4"), ring_of(&torus, &[0, 1, 2, 3]));
    let jobs = [(&trees, 256 << 10), (&row, 100 << 10)].map(|(plan, size)| Job::new(plan, Bytes::known(size)));
    let together = in_packets(&jobs, Some(LIGHT), &Options::default()).jobs;
    let flows = flow::simulate_together(&jobs, None, Watch::TRANSFERS).unwrap();
    for (job, (seen, flow)) in jobs.iter().zip(together.iter().zip(&flows)) {
        let alone = packet::simulate(job.plan, job.size, &Options::default(), Watch::NOTHING).unwrap();
        assert_eq!((seen.packets, seen.flits), (alone.packets, alone.flits));
        assert_eq!(seen.trace.carried, alone.trace.carried);
        let bytes = |trace: &treefold::sim::trace::Trace| trace.transfers.iter().map(|sent| sent.bytes).sum::<f64>();
        let single = flow::simulate(job.plan, job.size, Watch::TRANSFERS).unwrap();
        assert!((bytes(flow) / bytes(&single) - 1.0).abs() < 1e-12);
        assert!(flow.carried.iter().zip(&single.carried).all(|(a, b)| (a.get() - b.get()).abs() <= 1e-12 * b.get()));
    }
}

/// Where both ways around a row are equally short, each packet of a job draws its way, and other jobs change no lot.
#[test]
fn packets_draw_the_same_ways_whichever_jobs_send() {
    let torus = spec("torus:4x4");
    let rows = [[0, 1, 2, 3], [8, 9, 10, 11]]
        .map(|row| planners::plan("dbtree", &Arc::new(torus.with_ranks(&row).unwrap()), &Wishes::default()).unwrap());
    let together =
        Together { jobs: &rows.each_ref().map(|plan| Job::new(plan, Bytes::known(64 << 10))), background: None };
    let options = Options { interfaces: packet::Interfaces::Shared, ..Options::default() };
    let run = |sending| together.simulate(&options, sending, Watch::TRANSFERS).unwrap().jobs;
    let all = run(Sending::All);
    for (number, job) in all.iter().enumerate() {
        let alone = &run(Sending::Only(number))[0];
        let seen = |of: &packet::Outcome| (of.cycles, of.trace.carried.clone(), of.trace.transfers.clone());
        assert_eq!(seen(job), seen(alone), "job {number}");
    }
    let loads = |job: &packet::Outcome| {
        let used = job.trace.carried.iter().copied().filter(|&seconds| seconds > Seconds::ZERO);
        used.collect::<Vec<_>>()
    };
    assert_ne!(loads(&all[0]), loads(&all[1]), "jobs that are alike draw other lots");
}

#[test]
fn the_order_of_ranks_and_jobs_changes_no_network() {
    let torus = spec("torus:4x4");
    let (up, down) = (ring_of(&torus, &[0, 1, 2, 3]), ring_of(&torus, &[3, 2, 1, 0]));
    let [up, down] = [&up, &down].map(|plan| Job::new(plan, Bytes::known(64 << 10)));
    for seconds in [flow_seconds, packet_seconds] {
        let (one, other) = (seconds(&[up, down]), seconds(&[down, up]));
        assert!(one.iter().zip(&other).all(|(a, b)| (a / b - 1.0).abs() < 0.01), "{one:?} {other:?}");
    }
}

#[test]
fn another_network_is_refused_and_the_difference_named() {
    let ring = planned("ring", "ring:4");
    let with = |plan: &Plan| refused(&[&ring, plan].map(|plan| Job::new(plan, Bytes::known(4096))));
    assert!(with(&planned("ring", "ring:5")).contains("has 5 nodes and 10 links instead of 4 and 8"));
    let faster = spec("ring:4").with_bandwidths(
        &[(("GPU0".into(), "GPU1".into()), treefold::units::parse_bandwidth("1GB/s").unwrap())],
        Directions::OneWay,
    );
    let other = planners::plan("ring", &Arc::new(faster.unwrap()), &Wishes::default()).unwrap();
    let message = with(&other);
    assert!(message.contains("link GPU0 -> GPU1 has 1GB/s instead of 16GB/s"), "{message}");
    assert!(refused(&[]).contains("there is no job"));
}

#[test]
fn a_fabric_runs_one_job_at_a_time() {
    let plan = planned("innet-push", "dgx2:planes=6");
    let together = Together { jobs: &[Job::new(&plan, Bytes::known(4096)); 2], background: None };
    let error = together.simulate(&Options::default(), Sending::All, Watch::NOTHING).unwrap_err();
    assert!(error.is_misfit() && error.to_string().contains("use the flow simulator"), "{error}");
}

#[test]
fn kept_channels_without_traffic_are_refused() {
    let (plan, options) = (planned("ring", "ring:4"), Options { kept_channels: Some(1), ..Options::default() });
    let error = packet::simulate(&plan, Bytes::known(4096), &options, Watch::NOTHING).unwrap_err();
    assert!(error.to_string().contains("there is none; drop it"), "{error}");
}

#[test]
fn background_takes_its_share_of_links_in_both_simulators() {
    let plan = planned("ring", "ring:8");
    let job = [Job::new(&plan, Bytes::known(1 << 20))];
    // Of 7 targets 3 are in each direction, and one is ahead, 4 hops away: 10 hops ahead, 6 back.
    let ahead = 0.1 * 2.0 * 10.0 / 7.0;
    let [in_flow, alone] =
        [Some(&LIGHT), None].map(|with| flow::simulate_together(&job, with, Watch::NOTHING).unwrap()[0].seconds);
    assert!((in_flow / alone * (1.0 - ahead) - 1.0).abs() < 0.02, "{}", in_flow / alone);
    let slowdown = |load: f64, flow_control| {
        let options = Options { flow_control, ..quick_adders() };
        let together = Together { jobs: &job, background: Some(Background { load, ..LIGHT }) };
        let [all, alone] = [Sending::All, Sending::Only(0)]
            .map(|sending| together.simulate(&options, sending, Watch::NOTHING).unwrap().jobs[0].cycles as f64);
        all / alone
    };
    assert!((slowdown(0.1, FlowControl::Message) * (1.0 - ahead) - 1.0).abs() < 0.03);
    // A packet of a plan needs more room than a short one, so short ones go before it as soon as buffers fill.
    let [light, heavy] = [0.02, 0.1].map(|load| slowdown(load, FlowControl::Packet) * (1.0 - ahead * load / 0.1));
    assert!((light - 1.0).abs() < 0.05 && heavy > 2.0, "{light} {heavy}");
}

#[test]
fn messages_come_at_their_load_and_the_same_again_for_a_seed() {
    let plan = planned("ring", "torus:4x4");
    let job = [Job::new(&plan, Bytes::known(256 << 10))];
    let run = |seed| in_packets(&job, Some(Background { seed, ..LIGHT }), &Options::default());
    let (first, again, other) = (run(1), run(1), run(2));
    let figures = |outcomes: &Outcomes| outcomes.background.unwrap();
    assert_eq!((first.jobs[0].cycles, figures(&first)), (again.jobs[0].cycles, figures(&again)));
    assert_ne!(figures(&first), figures(&other));
    // Five flits of 16 bytes each on 4 links of 16 bytes a cycle: 0.08 messages a cycle and accelerator.
    let expected = first.jobs[0].cycles as f64 * 16.0 * 0.1 * 4.0 / 5.0;
    let count = figures(&first).messages as f64;
    assert!((count - expected).abs() < 5.0 * expected.sqrt(), "{count} of {expected}");
    let latencies = figures(&first);
    assert!(latencies.mean_latency.unwrap().get() > 160e-9 && latencies.mean_latency < latencies.p99_latency);
}

#[test]
fn what_links_cannot_carry_is_refused() {
    let plan = planned("ring", "torus:8x8");
    let job = [Job::new(&plan, Bytes::known(4096))];
    let error = |load| {
        let background = Background { load, ..LIGHT };
        flow::simulate_together(&job, Some(&background), Watch::NOTHING).unwrap_err().to_string()
    };
    assert!(error(1.0).contains("background load 1 is not from 0 to below 1"));
    assert!(error(0.5).contains("whose bandwidth would be used up; use a load below"), "{}", error(0.5));
    assert!(error(f64::NAN).contains("is not from 0 to below 1"));
}

/// All ranks send their whole vectors to rank 0 at once.
fn all_to_one(network: &Arc<Topology>) -> Plan {
    let mut plan = Draft::new(network, "star", 1);
    let root = NodeId(0);
    let lanes: Vec<_> = network.rank_ids().skip(1).map(|rank| plan.lanes.routed(rank, root)).collect();
    let tree = Tree { span: 0..1, root, up: plan.streamed_half(lanes), down: Half::None, chunk: Chunk::One };
    plan.push_phase(Pace::Stream, vec![tree]);
    plan.unchecked()
}

/// The MultiTree paper, IV-B: "Virtual channels are used to avoid starvation of other short messages."
#[test]
fn short_messages_keep_a_channel_and_are_not_starved_by_large_ones() {
    let plan = all_to_one(&spec("fattree:8,2"));
    let job = [Job::new(&plan, Bytes::known(64 << 10))];
    let message = Options { flow_control: FlowControl::Message, ..Options::default() };
    let p99 = |kept| {
        let options = Options { kept_channels: kept, ..message.clone() };
        let background = Background { load: 0.02, ..LIGHT };
        in_packets(&job, Some(background), &options).background.unwrap().p99_latency.unwrap().get()
    };
    let (kept, starved) = (p99(None), p99(Some(0)));
    // A message of 64 KiB takes a link for 4.1 us, and seven of them may be ahead on each channel.
    assert!(starved > 8e-6 && kept < starved / 4.0, "{kept} s, and without a channel of their own {starved} s");
}

/// Without the rule short messages took all room as it came free, so that a plan's packet of 17 flits never had any.
#[test]
fn packets_of_a_plan_are_not_starved_by_short_messages() {
    let plan = planned("ring", "ring:8");
    let job = [Job::new(&plan, Bytes::known(64 << 10))];
    let together = Together { jobs: &job, background: Some(Background { load: 0.3, ..LIGHT }) };
    let in_time = &mut |simulated: Seconds| simulated.get() < 1e-3;
    let outcomes = together.simulate(&Options::default(), Sending::All, Watch::asking(in_time));
    let seconds = outcomes.expect("it ends within a millisecond").jobs[0].trace.seconds.get();
    assert!(seconds > 1e-5, "{seconds} s is what it takes alone");
}
