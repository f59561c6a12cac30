//! Jobs on networks whose nodes have caps: each capped node gets a switch as its card (`topology/cards.rs`).

use super::{Options, Outcomes, Sending, Together};
use crate::error::{Error, Result};
use crate::plan::Plan;
use crate::sim::{Job, Watch};
use crate::topology::Topology;

/// Returns the error for capacities that links share: no router knows what others send.
pub(super) fn cannot_share(network: &Topology) -> Error {
    let names: Vec<&str> = network.shared().iter().map(|shared| shared.name.as_str()).collect();
    Error::new(format!(
        "the packet simulator counts caps of nodes, but nothing else that links share, and no caps on a fabric; {} has \
         {} shared capacities (first '{}'): use the flow simulator, or put a switch where links meet",
        network.name(),
        names.len(),
        names[0]
    ))
    .misfit()
}

impl Together<'_> {
    /// Simulates jobs on a network with node caps, which are cards there.
    pub(super) fn on_cards(&self, options: &Options, sending: Sending, watch: Watch) -> Result<Outcomes> {
        self.check(options)?;
        let on_cards = |job: &Job| job.plan.walked().on_cards().ok_or_else(|| cannot_share(&job.plan.topology));
        let plans = self.jobs.iter().map(on_cards).collect::<Result<Vec<Plan>>>()?;
        let jobs: Vec<Job> = plans.iter().zip(self.jobs).map(|(plan, job)| Job::new(plan, job.size)).collect();
        let mut outcomes = Together { jobs: &jobs, background: self.background }.simulate(options, sending, watch)?;
        let network = &self.jobs[0].plan.topology;
        for outcome in &mut outcomes.jobs {
            outcome.trace.occupied.truncate(network.num_capacities());
            outcome.trace.carried.truncate(network.num_capacities());
            outcome.peaks.truncate(network.links().len());
        }
        Ok(outcomes)
    }
}
