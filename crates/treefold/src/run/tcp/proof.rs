//! Proofs that both ends of a stream know the group's key, which is never sent.
//!
//! The rank that accepts a caller sends a random number. The caller answers with what it claims, a number of its own,
//! and an HMAC of all that; and the acceptor proves itself in the same way: mutual authentication by keyed hashes
//! (ISO/IEC 9798-4, 5.2.2). The HMAC covers the acceptor's rank and which end has made it, so that what a stranger has
//! recorded is no proof for another call, another rank or the other end.

use std::io;
use std::net::SocketAddr;

use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};

use super::MOST_STREAMS;
use crate::ids::NodeId;

/// The bytes of the group's key.
pub const KEY_BYTES: usize = 32;
/// The bytes of a random number.
pub const NUMBER_BYTES: usize = 32;
/// The bytes of a proof.
pub const PROOF_BYTES: usize = 32;
/// The bytes of a hello: the claims of the caller, its number, and its proof.
pub const HELLO_BYTES: usize = CLAIM_BYTES + NUMBER_BYTES + PROOF_BYTES;

const CLAIM_BYTES: usize = 16;
const CALLER: &[u8] = b"caller";
const ACCEPTOR: &[u8] = b"acceptor";

/// What a rank claims when it calls another one: why it calls, who it is, the number of this stream, and how many
/// streams it calls with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    pub greeting: [u8; 8],
    pub rank: NodeId,
    pub stream: usize,
    pub streams: usize,
}

impl Claim {
    fn to_bytes(self) -> [u8; CLAIM_BYTES] {
        let mut bytes = [0; CLAIM_BYTES];
        bytes[..8].copy_from_slice(&self.greeting);
        bytes[8..12].copy_from_slice(&self.rank.0.to_le_bytes());
        bytes[12..14].copy_from_slice(&(self.stream as u16).to_le_bytes());
        bytes[14..].copy_from_slice(&(self.streams as u16).to_le_bytes());
        bytes
    }

    /// Reads a claim; returns `None` if there can be no such stream.
    fn from_bytes(bytes: &[u8; CLAIM_BYTES]) -> Option<Self> {
        let short = |at: usize| usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]));
        let rank = NodeId(u32::from_le_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]));
        let claim = Self { greeting: *bytes.first_chunk()?, rank, stream: short(12), streams: short(14) };
        (claim.stream < claim.streams && claim.streams <= MOST_STREAMS).then_some(claim)
    }
}

/// The key of a group.
#[derive(Clone)]
pub struct Key(hmac::Key);

impl Key {
    pub fn new(bytes: &[u8; KEY_BYTES]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, bytes))
    }

    /// Returns the name by which a rank at this address is called within its machine. Strangers cannot guess it, so
    /// none of them can take it first.
    pub fn name_of(&self, rank: NodeId, address: SocketAddr) -> String {
        let tag = hmac::sign(&self.0, format!("name of rank {rank} at {address}").as_bytes());
        let secret: String = tag.as_ref()[..16].iter().map(|byte| format!("{byte:02x}")).collect();
        format!("treefold {address} {secret}")
    }

    /// Returns what a caller says to the rank `acceptor`, which has sent the number `asked`; and the proof with which
    /// that rank has to answer.
    pub fn hello(&self, acceptor: NodeId, asked: &[u8; NUMBER_BYTES], claim: Claim) -> io::Result<(Vec<u8>, Answer)> {
        let mut said = claim.to_bytes().to_vec();
        said.extend(number()?);
        let proof = hmac::sign(&self.0, &covered(CALLER, acceptor, asked, &said));
        let answer = Answer { key: self.0.clone(), covered: covered(ACCEPTOR, acceptor, asked, &said) };
        said.extend(proof.as_ref());
        Ok((said, answer))
    }

    /// Returns what a caller claims that the rank `acceptor` has asked with a number, and that rank's own proof; `None`
    /// if the caller does not prove it. The comparison takes the same time whichever bytes of a proof are wrong.
    pub fn check(
        &self,
        acceptor: NodeId,
        asked: &[u8; NUMBER_BYTES],
        hello: &[u8; HELLO_BYTES],
    ) -> Option<(Claim, [u8; PROOF_BYTES])> {
        let (said, proof) = hello.split_at(HELLO_BYTES - PROOF_BYTES);
        hmac::verify(&self.0, &covered(CALLER, acceptor, asked, said), proof).ok()?;
        let own = hmac::sign(&self.0, &covered(ACCEPTOR, acceptor, asked, said));
        Some((Claim::from_bytes(said.first_chunk()?)?, own.as_ref().try_into().ok()?))
    }
}

/// The proof that a caller expects.
pub struct Answer {
    key: hmac::Key,
    covered: Vec<u8>,
}

impl Answer {
    /// Returns whether this is the proof.
    pub fn is(&self, proof: &[u8; PROOF_BYTES]) -> bool {
        hmac::verify(&self.key, &self.covered, proof).is_ok()
    }
}

/// Returns a random number.
pub fn number() -> io::Result<[u8; NUMBER_BYTES]> {
    let mut bytes = [0; NUMBER_BYTES];
    SystemRandom::new().fill(&mut bytes).map_err(|_| io::Error::other("the system gives no random numbers"))?;
    Ok(bytes)
}

/// Returns what a proof covers. All parts but the first have a fixed length, so that no two cases look the same.
fn covered(end: &[u8], acceptor: NodeId, asked: &[u8; NUMBER_BYTES], said: &[u8]) -> Vec<u8> {
    [end, &acceptor.0.to_le_bytes()[..], asked, said].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLAIM: Claim = Claim { greeting: *b"treefold", rank: NodeId(3), stream: 1, streams: 2 };

    fn said(key: &Key, acceptor: u32, asked: &[u8; NUMBER_BYTES]) -> ([u8; HELLO_BYTES], Answer) {
        let (hello, answer) = key.hello(NodeId(acceptor), asked, CLAIM).unwrap();
        (hello.try_into().unwrap(), answer)
    }

    #[test]
    fn both_ends_prove_that_they_know_the_key() {
        let key = Key::new(&[7; KEY_BYTES]);
        let asked = number().unwrap();
        let (hello, answer) = said(&key, 0, &asked);
        let (claim, proof) = key.check(NodeId(0), &asked, &hello).unwrap();
        assert_eq!(claim, CLAIM);
        assert!(answer.is(&proof));
        assert!(!answer.is(hello.last_chunk().unwrap()), "the caller's own proof is no answer");
    }

    #[test]
    fn no_other_bytes_are_a_proof() {
        let key = Key::new(&[7; KEY_BYTES]);
        let asked = number().unwrap();
        let (hello, _) = said(&key, 0, &asked);
        assert!(key.check(NodeId(0), &number().unwrap(), &hello).is_none(), "what was recorded is played again");
        assert!(key.check(NodeId(1), &asked, &hello).is_none(), "it is played to another rank");
        assert!(Key::new(&[8; KEY_BYTES]).check(NodeId(0), &asked, &hello).is_none(), "the key is another one");
        for at in 0..HELLO_BYTES {
            let mut changed = hello;
            changed[at] ^= 1;
            assert!(key.check(NodeId(0), &asked, &changed).is_none(), "byte {at}");
        }
    }

    #[test]
    fn streams_that_cannot_be_are_refused() {
        let key = Key::new(&[7; KEY_BYTES]);
        let asked = number().unwrap();
        for (stream, streams) in [(0, 0), (2, 2), (0, MOST_STREAMS + 1)] {
            let (hello, _) = key.hello(NodeId(0), &asked, Claim { stream, streams, ..CLAIM }).unwrap();
            assert!(key.check(NodeId(0), &asked, &hello.try_into().unwrap()).is_none());
        }
    }
}
