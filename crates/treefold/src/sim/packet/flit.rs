//! Flits on the wire: the types of the MultiTree paper's Table II and the formats of its Fig. 8, as bit layouts.
//!
//! Every flit begins with its virtual channel and its type. A head goes on with packet information (normal packets:
//! destination and source; messages of trees: the output at the next router, the ejection port after it, which the
//! router exchanges, and the tree), and has room for header information; others carry data. On the 4x4 torus the widths
//! are the figure's: 2, 3 and 10 bits, the 10 being 2 unused, 4, 4 or 3, 3, 4. The figure's data and header widths are
//! not legible: here a flit is its data and 8 bits beside them, of which a body uses 5.

use super::options::{FlowControl, Options};
use crate::topology::Topology;

/// The kind of a flit in its packet or message (Table II); the discriminant is its code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// The first of several flits of a packet.
    Head = 0b000,
    /// A flit in the middle of a packet.
    Body = 0b001,
    /// The last flit of a packet.
    Tail = 0b010,
    /// The only flit of a packet.
    HeadAndTail = 0b011,
    /// The first flit of a message.
    SubHead = 0b100,
    /// A flit in the middle of a sub-packet, or its first one.
    SubBody = 0b101,
    /// The last flit of a sub-packet that is not the message's last.
    SubTail = 0b110,
    /// The last flit of a message.
    MessageTail = 0b111,
}

impl Kind {
    /// All kinds, in the order of their codes.
    pub const ALL: [Self; 8] = [
        Self::Head,
        Self::Body,
        Self::Tail,
        Self::HeadAndTail,
        Self::SubHead,
        Self::SubBody,
        Self::SubTail,
        Self::MessageTail,
    ];

    /// Returns the name that Table II gives it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Head => "Head",
            Self::Body => "Body",
            Self::Tail => "Tail",
            Self::HeadAndTail => "Head & Tail",
            Self::SubHead => "Sub-packet Head",
            Self::SubBody => "Sub-packet Body",
            Self::SubTail => "Sub-Tail",
            Self::MessageTail => "Sub-packet Tail",
        }
    }

    /// Says what flit `number` is in a packet (or, message-based, in a message) of `flits`, whose payloads are of
    /// `payload` flits.
    pub fn of(number: u64, flits: u64, payload: u64, flow_control: FlowControl) -> Self {
        let (first, last) = (number == 0, number + 1 == flits);
        match flow_control {
            FlowControl::Packet if first && last => Self::HeadAndTail,
            FlowControl::Packet if first => Self::Head,
            FlowControl::Packet if last => Self::Tail,
            FlowControl::Packet => Self::Body,
            FlowControl::Message if first => Self::SubHead,
            FlowControl::Message if last => Self::MessageTail,
            FlowControl::Message if number.is_multiple_of(payload) => Self::SubTail,
            FlowControl::Message => Self::SubBody,
        }
    }
}

/// The name of a flit's field, and its bits.
pub type Field = (&'static str, u32);

/// Lists the formats of a network's flits: the name of each, and its fields from the first bit on.
pub fn formats(topology: &Topology, options: &Options) -> [(&'static str, Vec<Field>); 3] {
    let bits = |count: usize| usize::BITS - count.saturating_sub(1).leading_zeros();
    let nodes = bits(topology.nodes().len());
    let trees = bits(topology.ranks() as usize);
    // A port for each link, and the ejection ports beside them.
    let ports = topology.node_ids().map(|node| topology.outgoing(node).len() + 1).max().unwrap_or(1);
    let (data, channel) = (8 * options.flit.get() as u32, bits(options.virtual_channels as usize));
    let packet_info = (2 * nodes).max(2 * bits(ports) + trees);
    let start = [("VC", channel), ("Type", 3)];
    let head = |info: Vec<Field>| {
        let used: u32 = info.iter().map(|field| field.1).sum();
        let mut fields = start.to_vec();
        fields.extend((packet_info > used).then_some(("unused", packet_info - used)));
        fields.extend(info);
        fields.push(("Header Info", (data + 8).saturating_sub(channel + 3 + packet_info)));
        fields
    };
    let body = [&start[..], &[("unused", 8u32.saturating_sub(channel + 3)), ("Payload", data)]].concat();
    [
        ("head of a packet", head(vec![("Dest", nodes), ("Src", nodes)])),
        ("head of a message", head(vec![("Next", bits(ports)), ("Eject", bits(ports)), ("Tree ID", trees)])),
        ("body or tail", body),
    ]
}
