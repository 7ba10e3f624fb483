//! Altered `DUMP` payloads of a lock with a correct checksum, which `RESTORE` must still refuse.

use crc::{CRC_64_REDIS, Crc, Table};

use super::Client;

/// The RDB type of a module's value with opcodes between its parts.
const MODULE_2: u8 = 7;
/// The length of the RDB type, and of the module type's name and encoding version as a 64-bit length.
const HEAD: usize = 10;
/// The length of the RDB version and the checksum.
const FOOTER: usize = 10;

/// Restores a payload on a replica, where it counts as the primary's: any fence is accepted, even one that a client could not send.
#[track_caller]
pub(crate) fn restore_from_primary(client: &mut Client, key: &str, ttl: i64, payload: &[u8]) {
    client.ask::<()>("CONFIG SET replica-read-only no");
    // Nobody listens on this port.
    client.ask::<()>("REPLICAOF 127.0.0.1 1");
    client.ask_words::<(), _>([b"RESTORE", key.as_bytes(), ttl.to_string().as_bytes(), payload, b"REPLACE"]);
    client.ask::<()>("REPLICAOF NO ONE");
}

/// One part of a module's value.
#[derive(Clone)]
pub(crate) enum Item {
    Number(u64),
    Bytes(Vec<u8>),
}

/// One of several grants.
#[derive(Clone, Copy)]
pub(crate) struct Part<'a> {
    pub(crate) owner: &'a [u8],
    pub(crate) fence: u64,
    pub(crate) holds: u64,
    pub(crate) max_hold: u64,
    /// When the grant was made, in ms since 1970, if this differs from the fence; else 0.
    pub(crate) made: u64,
    /// The most holders that the grant allows, itself included; 0: any number.
    pub(crate) room: u64,
    /// By how many ms the lease is shorter than the latest one. If the latest one has no end: the end in ms since 1970, or 0.
    pub(crate) shorter: u64,
    /// The slot; 0: none.
    pub(crate) slot: u64,
    pub(crate) label: &'a [u8],
}

impl Part<'_> {
    fn packed(&self, endless: bool, more: bool) -> Vec<u8> {
        let numbers = [(self.holds, 1), (self.max_hold, 0), (self.room, 1), (self.made, 0), (self.slot, 0)];
        let fields = numbers.into_iter().chain([(self.label.len() as u64, 0)]);
        let flags = fields.enumerate().filter(|(_, (number, usual))| number != usual);
        let flags = flags.fold(0, |flags, (field, _)| flags | 16 << field);
        let mut bytes = Vec::new();
        let end = self.shorter > 0;
        varint(&mut bytes, flags | u64::from(more) << 1 | u64::from(endless) << 2 | u64::from(end) << 3);
        bytes.extend(&self.fence.to_le_bytes()[..7]);
        if end {
            varint(&mut bytes, self.shorter);
        }
        numbers
            .iter()
            .filter(|(number, usual)| number != usual)
            .for_each(|(number, _)| varint(&mut bytes, *number));
        if !self.label.is_empty() {
            varint(&mut bytes, self.label.len() as u64);
            bytes.extend(self.label);
        }
        bytes.extend(self.owner);
        bytes
    }
}

fn varint(to: &mut Vec<u8>, number: u64) {
    if number > 0x7f {
        to.push(number as u8 | 0x80);
        varint(to, number >> 7);
    } else {
        to.push(number as u8);
    }
}

/// Returns a grant with `SHARED` whose lease is the latest of its lock.
pub(crate) fn reader(owner: &[u8], fence: u64) -> Part<'_> {
    Part { owner, fence, holds: 1, max_hold: 0, made: 0, room: 0, shorter: 0, slot: 0, label: b"" }
}

/// A payload, split into its parts.
#[derive(Clone)]
pub(crate) struct Payload {
    head: Vec<u8>,
    pub(crate) items: Vec<Item>,
    rdb_version: [u8; 2],
}

impl Payload {
    /// Returns a lock with this owner, fence and holds, as this server dumps it.
    pub(crate) fn lock(client: &mut Client, owner: &[u8], fence: u64, holds: u64) -> Self {
        client.ask::<()>("LOCK.ACQUIRE payload:sample");
        let dump: Vec<u8> = client.ask("DUMP payload:sample");
        client.ask::<()>("LOCK.BREAK payload:sample");
        assert_eq!(dump[0], MODULE_2);
        let any = Self {
            head: dump[..HEAD].to_vec(),
            items: Vec::new(),
            rdb_version: dump[dump.len() - FOOTER..][..2].try_into().unwrap(),
        };
        any.with_lock(owner, fence, holds)
    }

    /// Returns this payload for another lock, without a maximum age.
    pub(crate) fn with_lock(&self, owner: &[u8], fence: u64, holds: u64) -> Self {
        self.packed(false, &[Part { holds, room: 1, ..reader(owner, fence) }])
    }

    /// Returns this payload with these grants. `endless`: whether the latest lease has no end.
    pub(crate) fn packed(&self, endless: bool, grants: &[Part<'_>]) -> Self {
        let more = |number: usize| number + 1 < grants.len();
        let pack = |(number, part): (usize, &Part<'_>)| Item::Bytes(part.packed(endless, more(number)));
        let items = grants.iter().enumerate().map(pack).collect();
        Self { items, ..self.clone() }
    }

    /// Replaces the encoding version of the type, which is in the last ten bits of the head.
    pub(crate) fn with_encoding(mut self, version: u16) -> Self {
        let last = u16::from_be_bytes([self.head[HEAD - 2], self.head[HEAD - 1]]);
        self.head[HEAD - 2..].copy_from_slice(&(last & !0x3ff | version).to_be_bytes());
        self
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        self.seal(&self.body())
    }

    /// The payload without its footer.
    pub(crate) fn body(&self) -> Vec<u8> {
        const END: u64 = 0;
        const NUMBER: u64 = 2;
        const BYTES: u64 = 5;
        let mut body = self.head.clone();
        for item in &self.items {
            match item {
                Item::Number(number) => {
                    length(&mut body, NUMBER);
                    length(&mut body, *number);
                }
                Item::Bytes(bytes) => {
                    length(&mut body, BYTES);
                    length(&mut body, bytes.len() as u64);
                    body.extend(bytes);
                }
            }
        }
        length(&mut body, END);
        body
    }

    /// Adds a correct footer to any bytes.
    pub(crate) fn seal(&self, body: &[u8]) -> Vec<u8> {
        let mut sealed = body.to_vec();
        sealed.extend(self.rdb_version);
        sealed.extend(checksum(&sealed));
        sealed
    }
}

/// Corrects the checksum of an altered RDB file, which is in its last eight bytes.
pub(crate) fn seal(file: &mut [u8]) {
    let (body, end) = file.split_at_mut(file.len() - 8);
    end.copy_from_slice(&checksum(body));
}

fn checksum(bytes: &[u8]) -> [u8; 8] {
    static REDIS: Crc<u64, Table<16>> = Crc::<u64, Table<16>>::new(&CRC_64_REDIS);
    REDIS.checksum(bytes).to_le_bytes()
}

/// Writes a number in the form of a length in RDB files.
fn length(to: &mut Vec<u8>, number: u64) {
    match number {
        0..0x40 => to.push(number as u8),
        0x40..0x4000 => to.extend((number as u16 | 0x4000).to_be_bytes()),
        0x4000..0x1_0000_0000 => {
            to.push(0x80);
            to.extend((number as u32).to_be_bytes());
        }
        _ => {
            to.push(0x81);
            to.extend(number.to_be_bytes());
        }
    }
}
