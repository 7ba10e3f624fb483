//! Payloads for `RESTORE` that no server has made, with the right checksum.

use crc::{CRC_64_REDIS, Crc, Table};

use crate::line::{Line, Outcome};
use crate::resp::request;

/// The byte of a module's value, and its type's name and encoding as a 64-bit length.
const HEAD: usize = 10;
/// The version of the server's files, and the checksum.
const FOOTER: usize = 10;
/// The greatest fence that there is.
const GREATEST: u64 = (1 << 53) - 1;

/// A `RESTORE` of one reader with the greatest fence. `good`: it has the latest lease, as one of them must.
pub(super) fn restore_greatest_fence(client: &mut Line, good: bool) -> Outcome<Vec<u8>> {
    client.say("LOCK.ACQUIRE sample")?;
    let reply = client.say("DUMP sample")?;
    client.say("LOCK.BREAK sample")?;
    // Between the line with its length and the end of the reply.
    let begin = reply.iter().position(|&byte| byte == b'\n').map_or(0, |end| end + 1);
    let dump = &reply[begin..reply.len() - 2];
    let mut payload = dump[..HEAD].to_vec();
    // The form for several grants; one of them follows; leases have ends.
    [0, 2, 1, 0].into_iter().for_each(|number| put(&mut payload, number));
    // A text of six bytes.
    payload.extend([5, 6]);
    payload.extend(b"reader");
    // Fence, holds, greatest age, when it was made, room, by how much its lease is shorter than the latest.
    [GREATEST, 1, 0, 0, 0, u64::from(!good)].into_iter().for_each(|number| put(&mut payload, number));
    payload.push(0);
    payload.extend(&dump[dump.len() - FOOTER..][..2]);
    let checksum = Crc::<u64, Table<16>>::new(&CRC_64_REDIS).checksum(&payload);
    payload.extend(checksum.to_le_bytes());
    Ok(request(&[b"RESTORE", &b"restored"[..], b"60000", &payload]))
}

/// A number as modules save it: its kind, then the number in the longest form of the server's lengths.
fn put(payload: &mut Vec<u8>, number: u64) {
    payload.extend([2, 0x81]);
    payload.extend(number.to_be_bytes());
}
