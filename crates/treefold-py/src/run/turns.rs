//! The turns of the threads that use one rank's connections, and the outcomes of operations for which they wait.
//!
//! Threads that begin operations or send control messages take turns, in their order. A thread that works on operations
//! in flight, the driver, has a turn, too, and ends it when another thread wants one. Threads that wait for operations
//! sleep while there is a driver. One that waits comes before the thread that serves the connections in the background.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

use treefold::error::{Error, Result};
use treefold::run::tcp::Failure;

/// How often a thread that waits looks whether it was interrupted.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// How often the thread in the background looks whether there is work for it.
const REST: Duration = Duration::from_millis(1);

#[derive(Default)]
pub struct Turns {
    state: Mutex<State>,
    has_changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The number of the next turn to give.
    next: u64,
    /// The number of the turn that goes on, if one was given.
    current: u64,
    /// Whether there is a driver.
    is_driven: bool,
    /// How many threads wait for operations.
    awaited: usize,
    /// The operations that have not ended.
    open: BTreeSet<u32>,
    /// Why operations have no result, if they have none.
    outcomes: HashMap<u32, Option<Failure>>,
    /// How many threads sleep until something changes.
    sleeping: usize,
    is_interrupted: bool,
    is_stopped: bool,
}

/// A thread's turn, which ends when it is dropped.
pub struct Turn<'a>(&'a Turns);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.change(|state| state.current += 1);
    }
}

/// The right to work on the operations in flight, for one thread.
pub struct Driver<'a>(&'a Turns);

impl Drop for Driver<'_> {
    fn drop(&mut self) {
        self.0.change(|state| state.is_driven = false);
    }
}

/// Sleeps for a moment.
pub fn rest() {
    std::thread::sleep(REST);
}

impl Turns {
    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic")
    }

    /// Changes the state, and wakes the threads that sleep, if there are any.
    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.locked();
        change(&mut state);
        if state.sleeping > 0 {
            self.has_changed.notify_all();
        }
    }

    /// Sleeps while something holds, at most for a moment.
    fn sleep_while<'a>(
        &self,
        mut state: MutexGuard<'a, State>,
        holds: impl Fn(&State) -> bool,
        most: Duration,
    ) -> MutexGuard<'a, State> {
        state.sleeping += 1;
        let slept = self.has_changed.wait_timeout_while(state, most, |state| holds(state));
        let (mut state, _) = slept.expect("no panic");
        state.sleeping -= 1;
        state
    }

    /// Waits for this thread's turn; `wake` wakes the thread that has one.
    pub fn take(&self, wake: impl FnOnce()) -> Turn<'_> {
        let mut state = self.locked();
        let own = state.next;
        state.next += 1;
        if state.current != own {
            drop(state);
            wake();
            state = self.locked();
        }
        while state.current != own {
            state = self.sleep_while(state, |state| state.current != own, POLL_INTERVAL);
        }
        drop(state);
        Turn(self)
    }

    /// Returns whether a thread waits for its turn.
    pub fn are_wanted(&self) -> bool {
        let state = self.locked();
        state.next > state.current + 1
    }

    /// Returns whether a thread waits for an operation.
    pub fn are_awaited(&self) -> bool {
        self.locked().awaited > 0
    }

    /// Waits as long as other threads work, or wait for their turn.
    pub fn let_others_go_first(&self) {
        let is_busy = |state: MutexGuard<'_, State>| state.is_driven || state.awaited > 0 || state.next > state.current;
        // To be woken would cost the others more time than it costs this thread to look now and then.
        while is_busy(self.locked()) {
            rest();
        }
    }

    /// Notes that an operation is in flight.
    pub fn begin(&self, number: u32) {
        self.locked().open.insert(number);
    }

    /// Notes that an operation has ended.
    pub fn end(&self, number: u32, failure: Option<Failure>) {
        self.change(|state| {
            state.open.remove(&number);
            state.outcomes.insert(number, failure);
        });
    }

    /// Returns whether an operation has ended.
    pub fn is_over(&self, number: u32) -> bool {
        !self.locked().open.contains(&number)
    }

    /// Returns why an operation that has ended has no result, `None` if it has one, and forgets it.
    ///
    /// # Errors
    /// If it was interrupted, or there is no such operation.
    pub fn outcome(&self, number: u32) -> Result<Option<Failure>> {
        match self.locked().outcomes.remove(&number) {
            Some(Some(Failure::Interrupted)) => Err(Error::interrupted("interrupted: the vector holds no result")),
            Some(failure) => Ok(failure),
            None => Err(Error::new(format!("operation {number} is not in flight; wait once for each"))),
        }
    }

    /// Waits until this thread may work on the operations in flight, or a moment; `None` if there is no need, as this
    /// operation has ended, or no chance yet.
    pub fn drive_soon(&self, wake: impl FnOnce(), number: u32) -> Option<Driver<'_>> {
        let mut state = self.locked();
        state.awaited += 1;
        if state.is_driven {
            drop(state);
            wake();
            state = self.locked();
        }
        if state.is_driven {
            let is_needless = |state: &State| state.is_driven && state.open.contains(&number);
            state = self.sleep_while(state, is_needless, POLL_INTERVAL);
        }
        state.awaited -= 1;
        let may_drive = !state.is_driven && state.open.contains(&number);
        state.is_driven |= may_drive;
        may_drive.then(|| Driver(self))
    }

    /// Returns the right to work on the operations in flight, if no other thread has it or waits.
    pub fn drive_alone(&self) -> Option<Driver<'_>> {
        let mut state = self.locked();
        let may_drive = !state.is_driven && state.awaited == 0;
        state.is_driven |= may_drive;
        may_drive.then(|| Driver(self))
    }

    /// Ends the operations in flight, as the thread that waits for one is interrupted.
    pub fn interrupt(&self) {
        let mut state = self.locked();
        state.is_interrupted = !state.open.is_empty();
    }

    /// Ends all operations, now and later.
    pub fn stop(&self) {
        self.locked().is_stopped = true;
    }

    /// Returns whether operations may go on; an interruption counts once.
    pub fn may_go_on(&self) -> bool {
        let mut state = self.locked();
        !std::mem::take(&mut state.is_interrupted) && !state.is_stopped
    }
}
