//! The flow simulator: events, and links that concurrent messages share max-min fairly.
//!
//! A message leaves when the tree lets it: everything it sums up or passes on has been received (store and forward on
//! every edge), and, in a stream, the chunk before it has left the same edge. In a step-paced phase a port, the first
//! link of a route, sends the messages of a step only when those of its earlier steps have left; nobody waits for a
//! step to end elsewhere. While on its route a message occupies all links of its route at one rate, at most the least
//! fair share among them, and in a paced stream at most its tree's part of what the busiest link allows; latency delays
//! its receipt and occupies nothing; overhead occupies the links. A phase begins on each rank when what the phases
//! before send there has been received, chunk by chunk of the vector. Several jobs share the links message by message.
//! Background traffic takes a share of each link, which is then narrower for all.
//!
//! Cost: a few hundred nanoseconds a message that meets no other; else see `links`.

mod calendar;
mod filling;
mod junctions;
mod links;
mod phase;
mod quantities;
mod workload;

use super::Watch;
use super::background::Background;
use super::jobs::{Job, Placed, place, routes_of};
use super::trace::Trace;
use crate::error::{Error, Result};
use crate::plan::Walkable;
use crate::plan::pipeline::check_chunks;
use crate::units::{Bytes, Seconds};
use links::SharedLinks;
use phase::Run;
use quantities::Instant;
use workload::{Workload, compile};

/// Simulates `plan` for a vector of `size`.
///
/// # Errors
/// If `watch` ends the simulation, or if the plan asks for more chunks than treefold handles.
///
/// ```
/// # use std::sync::Arc;
/// # use treefold::planners::{self, Options};
/// use treefold::sim::{Watch, flow::simulate};
/// use treefold::units::Bytes;
/// # let ring = Arc::new(treefold::topology::from_spec("ring:4", None, None)?);
/// # let plan = planners::plan("ring", &ring, &Options::default())?;
/// let trace = simulate(&plan, Bytes::known(1 << 20), Watch::TRANSFERS)?;
/// let last = trace.transfers.iter().map(|transfer| transfer.received).max();
/// assert_eq!(Some(trace.seconds), last);
/// # Ok::<(), treefold::error::Error>(())
/// ```
pub fn simulate<'a>(plan: impl Into<Walkable<'a>>, size: Bytes, watch: Watch) -> Result<Trace> {
    let [trace] = <[Trace; 1]>::try_from(simulate_together(&[Job::new(plan, size)], None, watch)?)
        .expect("one job has one trace");
    Ok(trace)
}

/// Simulates plans that all begin at once on the network of the first; returns a trace for each. What a trace says of
/// how much a link carried is of its own job; how long it was occupied, of all. Background traffic has no messages
/// here: it takes its share of each link's bandwidth.
///
/// # Errors
/// As for [`simulate`]; if the plans' networks differ in more than their ranks; or if the background traffic alone is
/// more than a link can carry.
///
/// ```
/// # use std::sync::Arc;
/// # use treefold::planners::{self, Options};
/// use treefold::sim::{Job, Watch, flow::simulate_together};
/// use treefold::units::Bytes;
/// # let ring = Arc::new(treefold::topology::from_spec("ring:4", None, None)?);
/// # let plan = planners::plan("ring", &ring, &Options::default())?;
/// let job = Job::new(&plan, Bytes::known(64 << 20));
/// let alone = simulate_together(&[job], None, Watch::NOTHING)?;
/// let both = simulate_together(&[job, job], None, Watch::NOTHING)?;
/// let slowdown = both[1].seconds / alone[0].seconds;
/// assert!((1.99..=2.0).contains(&slowdown), "two jobs share every link");
/// # Ok::<(), treefold::error::Error>(())
/// ```
pub fn simulate_together(jobs: &[Job], background: Option<&Background>, watch: Watch) -> Result<Vec<Trace>> {
    let routes = routes_of(jobs);
    let placed = place(jobs, &routes)?;
    jobs.iter().try_for_each(|job| check_chunks(job.plan.walked(), job.size))?;
    let network = &jobs[0].plan.topology;
    let left = background.map(|background| background.left_by(network)).transpose()?;
    let mut links = SharedLinks::new(left.as_ref().unwrap_or(network), &routes);
    let begin = |(number, job)| Course::begin(number, job, &mut links, watch.transfers);
    let mut courses: Vec<Course> = placed.iter().enumerate().map(begin).collect();
    run(&mut courses, &mut links, watch)?;
    let trace = |(number, course): (usize, Course)| Trace {
        size: placed[number].size,
        seconds: course.end.into(),
        occupied: links.occupied(),
        carried: links.carried(number, network),
        transfers: course.run.into_transfers(),
        uncertainty: Seconds::ZERO,
        samples: Vec::new(),
    };
    Ok(courses.into_iter().enumerate().map(trace).collect())
}

/// How many events pass between two questions whether to go on: few enough that nobody waits, and so many that asking
/// costs nothing.
const EVENTS_BETWEEN_QUESTIONS: usize = 1 << 15;

/// A job on its way.
struct Course {
    run: Run,
    /// When its last message was received.
    end: Instant,
}

impl Course {
    /// Puts the first messages of a job, the one with this number, on the links.
    fn begin(number: usize, job: &Placed, links: &mut SharedLinks, record: bool) -> Self {
        let Placed { plan, size, routes, .. } = *job;
        let workload = if size.get() > 0 { compile(plan, routes, size) } else { Workload::default() };
        let mut run = Run::new(workload, number, links, record);
        run.begin(links);
        Self { run, end: Instant::ZERO }
    }
}

/// Runs jobs to their ends, or until `watch` ends them.
fn run(courses: &mut [Course], links: &mut SharedLinks, mut watch: Watch) -> Result<()> {
    let mut handled = 0;
    settle(courses, links, Instant::ZERO);
    while let Some(now) = courses.iter().filter_map(|course| course.run.next_time()).min() {
        for course in courses.iter_mut().filter(|course| course.run.next_time() == Some(now)) {
            let was_over = course.run.is_over();
            handled += course.run.handle_all(now, links);
            if course.run.is_over() && !was_over {
                course.end = now;
            }
        }
        settle(courses, links, now);
        if handled >= EVENTS_BETWEEN_QUESTIONS {
            handled = 0;
            if !watch.goes_on(now.into()) {
                return Err(Error::interrupted("the simulation was interrupted"));
            }
        }
    }
    assert!(courses.iter().all(|course| course.run.is_over()), "every message is received");
    Ok(())
}

/// Settles the rates of messages, and puts the departures that change into the calendars.
fn settle(courses: &mut [Course], links: &mut SharedLinks, now: Instant) {
    links.settle(now, |job, queue, time| {
        courses[job].run.expect(queue, time);
    });
}
