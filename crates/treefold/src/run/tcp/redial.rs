//! Calls that a rank makes again and again until they are answered: for connections that were cut, and for streams that
//! broke. Each goes on in a thread, as it may take long.

use std::time::{Duration, Instant};

use super::calls::Calling;
use super::secure::Line;

/// How often a rank calls for one place.
const EVERY: Duration = Duration::from_secs(3);
/// How long a call tries to get through, and how long the other end may take then.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// The calls for places, such as ranks or streams.
pub struct Redials<P> {
    /// When each place was called for last.
    called: Vec<(P, Instant)>,
    /// The calls that are not answered yet.
    calling: Vec<(P, Calling)>,
}

impl<P> Default for Redials<P> {
    fn default() -> Self {
        Self { called: Vec::new(), calling: Vec::new() }
    }
}

impl<P: Copy + PartialEq> Redials<P> {
    /// Returns whether it is time to call for a place.
    pub fn is_due(&self, place: P, now: Instant) -> bool {
        let is_early = |&(other, at): &(P, Instant)| other == place && now - at < EVERY;
        !self.called.iter().any(is_early) && !self.calling.iter().any(|&(other, _)| other == place)
    }

    /// Keeps a call that has begun.
    pub fn begin(&mut self, place: P, calling: Calling, now: Instant) {
        self.called.retain(|&(other, _)| other != place);
        self.called.push((place, now));
        self.calling.push((place, calling));
    }

    /// Returns the streams of calls that were answered; those that failed are made again.
    pub fn answered(&mut self) -> Vec<(P, Vec<Line>)> {
        let mut answered = Vec::new();
        self.calling.retain(|(place, calling)| match calling.answered() {
            Some(Ok(lines)) => {
                answered.push((*place, lines));
                false
            }
            Some(Err(_)) => false,
            None => true,
        });
        answered
    }

    /// Gives up the calls that are not answered yet.
    pub fn give_up(&mut self) {
        self.calling.clear();
    }
}
