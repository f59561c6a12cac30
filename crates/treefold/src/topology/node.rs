//! Nodes: accelerators and switches, and what switches can do.

use crate::bail;
use crate::error::Result;
use crate::units::Time;

/// The kinds of nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A node that computes. It holds a vector if it is a rank; otherwise it is idle, and may relay.
    Accelerator,
    /// A node that forwards. It is a node of trees only as far as it can reduce and multicast.
    Switch(Abilities),
}

/// What a switch does besides forwarding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Abilities {
    /// Whether it adds up what comes in from several links.
    pub reduces: bool,
    /// Whether it sends what comes in over several links.
    pub multicasts: bool,
}

impl Abilities {
    /// It only forwards.
    pub const NONE: Self = Self { reduces: false, multicasts: false };
    /// It reduces and multicasts.
    pub const BOTH: Self = Self { reduces: true, multicasts: true };
}

/// A node of the network.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// The name, which no other node has.
    pub name: String,
    /// Whether it is an accelerator, or a switch and what it can do.
    pub kind: Kind,
    /// The time that data need to pass through, between an incoming and an outgoing link.
    pub latency: Time,
    /// The position on earth, which is only used to draw the network.
    pub position: Option<Position>,
}

/// A position on earth, in degrees.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Position {
    /// The degrees north of the equator, -90 to 90.
    pub latitude: f64,
    /// The degrees east of Greenwich, -180 to 180.
    pub longitude: f64,
}

impl Position {
    /// Checks that both are degrees on earth.
    ///
    /// # Errors
    /// If one of them is out of range, or no number.
    pub fn new(latitude: f64, longitude: f64) -> Result<Self> {
        for (name, degrees, most) in [("latitude", latitude, 90.0), ("longitude", longitude, 180.0)] {
            if !(-most..=most).contains(&degrees) {
                bail!("{name} must be between -{most} and {most} degrees, got {degrees}");
            }
        }
        Ok(Self { latitude, longitude })
    }
}

impl Node {
    /// Returns a plain accelerator.
    pub fn accelerator(name: impl Into<String>) -> Self {
        Self { name: name.into(), kind: Kind::Accelerator, latency: Time::ZERO, position: None }
    }

    /// Returns a switch that takes no time.
    ///
    /// ```
    /// use treefold::topology::{Abilities, Node};
    ///
    /// assert!(!Node::switch("leaf", Abilities::NONE).reduces());
    /// assert!(Node::switch("spine", Abilities::BOTH).multicasts());
    /// assert!(!Node::accelerator("GPU0").multicasts(), "only switches do that for trees");
    /// ```
    pub fn switch(name: impl Into<String>, abilities: Abilities) -> Self {
        Self { kind: Kind::Switch(abilities), ..Self::accelerator(name) }
    }

    /// Returns whether it is a switch.
    pub fn is_switch(&self) -> bool {
        self.kind != Kind::Accelerator
    }

    /// Returns what it does besides forwarding as a switch, which is nothing for an accelerator.
    pub fn abilities(&self) -> Abilities {
        match self.kind {
            Kind::Accelerator => Abilities::NONE,
            Kind::Switch(abilities) => abilities,
        }
    }

    /// Returns whether it is a switch that can reduce.
    pub fn reduces(&self) -> bool {
        self.abilities().reduces
    }

    /// Returns whether it is a switch that can multicast.
    pub fn multicasts(&self) -> bool {
        self.abilities().multicasts
    }
}
