//! What was found for the last networks, since one search serves all sizes.
//!
//! Threads that ask for the same at once all search, and keep the last result.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::topology::Topology;

/// How many results are kept.
const KEPT: usize = 8;

/// A network, what else was asked for, and the result.
type Entry<K, V> = (Arc<Topology>, K, Arc<V>);

/// The results that were asked for last, the latest first.
pub(crate) struct Memory<K, V>(Mutex<Vec<Entry<K, V>>>);

impl<K: PartialEq, V> Memory<K, V> {
    pub const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// Returns the result for a network and a key, which `find` finds if it is not known.
    pub fn get(&self, topology: &Arc<Topology>, key: K, find: impl FnOnce() -> V) -> Arc<V> {
        match self.try_get(topology, key, || Ok::<V, Infallible>(find())) {
            Ok(found) => found,
        }
    }

    /// Returns the result for a network and a key, as `get` does, unless `find` fails.
    pub fn try_get<E>(
        &self,
        topology: &Arc<Topology>,
        key: K,
        find: impl FnOnce() -> Result<V, E>,
    ) -> Result<Arc<V>, E> {
        let is_same = |(known, of, _): &Entry<K, V>| *of == key && (Arc::ptr_eq(known, topology) || known == topology);
        let known = self.lock().iter().find(|&entry| is_same(entry)).map(|(.., found)| Arc::clone(found));
        // Others may look for theirs during the search.
        let found = known.map_or_else(|| find().map(Arc::new), Ok)?;
        let mut entries = self.lock();
        entries.retain(|other| !is_same(other));
        entries.truncate(KEPT - 1);
        entries.insert(0, (Arc::clone(topology), key, Arc::clone(&found)));
        Ok(found)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Entry<K, V>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
