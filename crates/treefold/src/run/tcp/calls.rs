//! Who calls whom: of each pair of ranks one calls, and the other one answers.
//!
//! Who does not listen calls all others. Of two ranks that listen the higher one calls. If no call of it has come after
//! a while, a firewall may keep it out, and the lower one calls for a while, then listens again, and so on. While it
//! calls it answers no call, so that both ends agree on which of the two calls has made their connection: a rank takes
//! a call for made when the proof has come that the other end has taken it.
//!
//! Both ends of a connection prove that they know a key which only the group has, so that a foreign process that finds
//! the port is sent away. A rank calls in threads while it accepts, as an end waits for the other one's proof.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant};

use super::Mesh;
use super::callers::{Call, Caller, accept, is_refusal};
use super::proof::Claim;
use super::repair::REPAIR;
use super::secure::Line;
use crate::error::{Error, Result};
use crate::ids::NodeId;

/// The greeting of a rank that calls for the first time.
pub const GREETING: [u8; 8] = *b"treefold";
/// The greeting of a rank that was cut off.
pub const REUNION: [u8; 8] = *b"treeback";
/// How long the lower rank of a pair waits for the call of the higher one, and then how long it tries to get through:
/// three times as long as the kernel waits before it sends a lost call again.
const TURN: Duration = Duration::from_secs(3);
/// How much longer than it calls a rank waits for the answer to a call that got through.
const GRACE: Duration = Duration::from_secs(2);

/// A rank to which this one is about to be connected.
struct Partner {
    rank: NodeId,
    address: SocketAddr,
    /// When this rank calls it; `None` if the other end is the one that calls.
    calls_at: Option<Instant>,
    /// The call that is not answered yet.
    calling: Option<Calling>,
    /// Why the last call got nowhere.
    why: Option<String>,
}

impl Mesh {
    /// Connects to `peers`, each a rank with its address; they have to do the same at the same time. Peers that are
    /// connected already are left out. The port of a peer that does not listen is 0. `dead_after` is how long a peer
    /// may take to acknowledge data.
    ///
    /// Returns the peers that were not reached within `timeout`, each with the reason.
    ///
    /// # Errors
    /// If a peer is not of this group, or has another certificate than its site's; or if `go_on` says no.
    pub fn connect(
        &mut self,
        peers: &[(NodeId, SocketAddr)],
        timeout: Duration,
        dead_after: Duration,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<(NodeId, String)>> {
        let deadline = Instant::now() + timeout;
        self.reunions.dead_after = dead_after;
        let wanted = |&&(rank, _): &&(NodeId, SocketAddr)| self.connections[rank].is_none() && rank != self.rank;
        let mut partners: Vec<Partner> =
            peers.iter().filter(wanted).map(|&(rank, address)| self.partner(rank, address)).collect();
        loop {
            self.call_partners(&mut partners, deadline);
            self.hear(&self.awaited_first(&partners, deadline));
            while self.answer_partner(&mut partners)? {}
            self.hear_partners(&mut partners)?;
            let is_late = Instant::now() > deadline;
            let is_over = |each: &Partner| each.calling.is_none() && (is_late || self.is_out_of_reach(each.address));
            if partners.iter().all(is_over) {
                return Ok(partners.into_iter().map(|each| (each.rank, self.reason(each, timeout))).collect());
            }
            if !go_on() {
                return Err(Error::interrupted(format!("rank {} was interrupted while it connected", self.rank)));
            }
            thread::sleep(Duration::from_millis(2));
        }
    }

    fn partner(&self, rank: NodeId, address: SocketAddr) -> Partner {
        let now = Instant::now();
        let calls_at = match (self.address.port() != 0, address.port() != 0) {
            (_, false) => None,
            (true, true) if self.rank < rank => Some(now + TURN),
            (_, true) => Some(now),
        };
        Partner { rank, address, calls_at, calling: None, why: None }
    }

    /// Returns whether neither end listens.
    fn is_out_of_reach(&self, other: SocketAddr) -> bool {
        self.address.port() == 0 && other.port() == 0
    }

    /// Returns whether the other end listens for our call first, or only.
    fn calls_first(&self, partner: &Partner) -> bool {
        partner.rank < self.rank || self.address.port() == 0
    }

    /// Calls the partners whose time has come.
    fn call_partners(&self, partners: &mut [Partner], deadline: Instant) {
        let now = Instant::now();
        for partner in partners {
            // Who has proven itself with one stream counts on that, and is about to come with the others.
            let is_coming =
                self.callers.iter().filter_map(|caller| caller.claim).any(|claim| claim.rank == partner.rank);
            let is_time = partner.calls_at.is_some_and(|at| at <= now && now < deadline);
            if is_time && partner.calling.is_none() && !is_coming {
                let until = if self.calls_first(partner) { deadline } else { deadline.min(now + TURN) };
                partner.calling = Some(self.call(GREETING, partner.rank, partner.address, until, deadline + GRACE));
            }
        }
    }

    /// Returns the partners whose calls are taken.
    fn awaited_first(&self, partners: &[Partner], deadline: Instant) -> Vec<NodeId> {
        let is_awaited = |each: &&Partner| self.calls_first(each) || each.calling.is_none();
        match Instant::now() > deadline {
            true => Vec::new(),
            false => partners.iter().filter(is_awaited).map(|partner| partner.rank).collect(),
        }
    }

    /// Keeps the connection of one partner that has called, if there is one.
    fn answer_partner(&mut self, partners: &mut Vec<Partner>) -> Result<bool> {
        let Some((rank, streams)) = self.next_member(GREETING) else { return Ok(false) };
        partners.retain(|partner| partner.rank != rank);
        self.reunions.calls.retain(|&(other, _)| other != rank);
        self.keep(rank, streams, self.reunions.dead_after)?;
        Ok(true)
    }

    /// Keeps the connections of calls that were answered.
    fn hear_partners(&mut self, partners: &mut Vec<Partner>) -> Result<()> {
        for mut partner in std::mem::take(partners) {
            match partner.calling.as_ref().and_then(Calling::answered) {
                Some(Ok(streams)) => {
                    self.reunions.calls.retain(|&(other, _)| other != partner.rank);
                    self.reunions.calls.push((partner.rank, partner.address));
                    self.keep(partner.rank, streams, self.reunions.dead_after)?;
                    continue;
                }
                Some(Err(error)) if is_refusal(&error) => {
                    return Err(Error::new(self.unreachable(&partner, &error)).outside(error.kind()));
                }
                Some(Err(error)) => {
                    partner.why = Some(self.unreachable(&partner, &error));
                    partner.calling = None;
                    partner.calls_at = Some(Instant::now() + TURN);
                }
                None => {}
            }
            partners.push(partner);
        }
        Ok(())
    }

    /// Returns why a partner was not reached.
    fn reason(&self, partner: Partner, timeout: Duration) -> String {
        partner.why.unwrap_or_else(|| {
            let (us, at) = (self.rank, self.address);
            if self.is_out_of_reach(partner.address) {
                return format!("rank {us} and rank {} do not listen; let one of them", partner.rank);
            }
            let remedy = "can it reach that address?";
            format!(
                "rank {} did not connect to rank {us} at {at} within {:.0} s; {remedy}",
                partner.rank,
                timeout.as_secs_f64()
            )
        })
    }

    fn unreachable(&self, partner: &Partner, error: &io::Error) -> String {
        let reason = match error.kind() {
            io::ErrorKind::UnexpectedEof => "it hung up".to_owned(),
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => "it does not answer".to_owned(),
            _ => error.to_string(),
        };
        let (rank, address) = (partner.rank, partner.address);
        let remedy = match self.credentials {
            None => "is there a route, or a firewall, and does the same group listen there?",
            Some(_) => "is there a route, or a firewall, does the same group listen there, and has it the same sites?",
        };
        format!("rank {} cannot reach rank {rank} at {address}: {reason}; {remedy}", self.rank)
    }

    /// Calls a rank in a thread, as that may take long: it tries to get through for a time, and then waits for answers
    /// for another one.
    pub(super) fn call(
        &self,
        greeting: [u8; 8],
        rank: NodeId,
        address: SocketAddr,
        until: Instant,
        deadline: Instant,
    ) -> Calling {
        let streams = self.streams[rank.index()];
        let claim = |stream| Claim { greeting, rank: self.rank, stream, streams };
        self.call_with((0..streams).map(claim).collect(), rank, address, until, deadline)
    }

    /// Calls a rank as [`Mesh::call`] does, once with each claim.
    pub(super) fn call_with(
        &self,
        claims: Vec<Claim>,
        rank: NodeId,
        address: SocketAddr,
        until: Instant,
        deadline: Instant,
    ) -> Calling {
        let call = Call {
            own: self.address.ip(),
            rank,
            address,
            until,
            deadline,
            key: self.key.clone(),
            credentials: self.credentials.clone(),
            is_given_up: Arc::default(),
        };
        let is_given_up = call.is_given_up.clone();
        let (sender, receiver) = channel();
        thread::spawn(move || {
            // Nobody listens if this rank has given up meanwhile.
            let _ = sender.send(call.with(&claims));
        });
        Calling { receiver, is_given_up }
    }

    /// Returns the streams of a rank with this greeting that has called with all of its streams, if there is one. It
    /// waits for none of them, so that a silent caller keeps nobody out.
    pub(super) fn next_member(&mut self, greeting: [u8; 8]) -> Option<(NodeId, Vec<Line>)> {
        let callers = &mut self.callers;
        let said = |caller: &Caller| caller.claim.filter(|claim| claim.greeting == greeting);
        let mut come: BTreeMap<NodeId, BTreeSet<usize>> = BTreeMap::new();
        let is_whole = |&Claim { rank, stream, streams, .. }: &Claim| {
            let of_rank = come.entry(rank).or_default();
            of_rank.insert(stream) && of_rank.len() == streams
        };
        let Claim { rank, .. } = callers.iter().filter_map(said).find(is_whole)?;
        let mut streams = BTreeMap::new();
        for caller in callers.extract_if(.., |caller| said(caller).is_some_and(|claim| claim.rank == rank)) {
            streams.insert(caller.claim.map(|claim| claim.stream), caller.into_line());
        }
        Some((rank, streams.into_values().collect()))
    }

    /// Accepts callers, and keeps those that may still prove to be awaited: for the first time if they are among
    /// `first`, and again if their connection or stream was lost.
    pub(super) fn hear(&mut self, first: &[NodeId]) {
        let mut callers = std::mem::take(&mut self.callers);
        let credentials = self.credentials.as_ref();
        if let Some(listener) = &self.listener {
            accept(listener, &mut callers, credentials);
        }
        let is_awaited = |claim: Claim| match claim.greeting {
            _ if claim.rank.index() >= self.connections.len() => false,
            GREETING => first.contains(&claim.rank),
            REUNION => self.awaits_again(claim.rank),
            REPAIR => self.is_broken((claim.rank, claim.stream)),
            _ => false,
        };
        callers.retain_mut(|caller| caller.serve(self.rank, &self.key, credentials, &is_awaited));
        self.callers = callers;
    }
}

/// A call to a rank that has not been answered.
pub struct Calling {
    receiver: Receiver<io::Result<Vec<Line>>>,
    is_given_up: Arc<AtomicBool>,
}

impl Drop for Calling {
    fn drop(&mut self) {
        self.is_given_up.store(true, Ordering::Relaxed);
    }
}

impl Calling {
    /// Returns the streams, or why there are none; `None` as long as neither is known.
    pub fn answered(&self) -> Option<io::Result<Vec<Line>>> {
        match self.receiver.try_recv() {
            Ok(answered) => Some(answered),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Err(io::Error::other("the call was given up"))),
        }
    }
}
