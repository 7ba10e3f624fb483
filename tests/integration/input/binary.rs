//! Keys and owners are byte strings: any bytes come back unchanged.

use crate::support::{Client, Server};

/// Names that a careless parser would mishandle.
const AWKWARD: [&[u8]; 10] = [
    b"nul\0inside",
    b"\0",
    b"%s%n%s%n%d%p",
    b"cr\r\nlf",
    b"\xff\xfe\x80\xc3\x28",
    b" ",
    b"\"quoted\" \\back\\",
    b"\x1b[31mred\x07\x7f",
    "\u{2028}\u{85}\u{202e}".as_bytes(),
    b"{tag}*?[a-z]",
];

type Reply = (Vec<u8>, i64, i64, i64);

fn owner_in_info(client: &mut Client, key: &[u8]) -> Vec<u8> {
    let info: Vec<redis::Value> = client.ask_words([b"LOCK.INFO", key]);
    redis::from_redis_value(info[1].clone()).unwrap()
}

#[test]
fn any_bytes_make_an_owner_and_a_key() {
    let (_server, mut client) = Server::and_client();
    for bytes in AWKWARD {
        let reply: Reply = client.ask_words([b"LOCK.ACQUIRE", bytes, b"OWNER", bytes]);
        assert_eq!((&reply.0[..], reply.2), (bytes, 1));
        assert_eq!(client.ask_words::<Vec<Vec<u8>>, _>([b"KEYS", &b"*"[..]]), [bytes]);
        assert_eq!(owner_in_info(&mut client, bytes), bytes);
        let reply: Reply = client.ask_words([b"LOCK.ACQUIRE", bytes, b"OWNER", bytes]);
        assert_eq!((&reply.0[..], reply.2), (bytes, 2));
        assert_eq!(client.ask_words::<i64, _>([b"LOCK.EXTEND", bytes, bytes, b"PX", b"5000"]), 5000);
        assert_eq!(client.ask_words::<i64, _>([b"LOCK.RELEASE", bytes, bytes]), 1);
        assert_eq!(client.ask_words::<i64, _>([b"LOCK.RELEASE", bytes, bytes]), 0);
        assert_eq!(client.ask::<i64>("DBSIZE"), 0);
    }
}

#[test]
fn an_owner_ends_where_its_bytes_end_not_at_a_nul() {
    let (_server, mut client) = Server::and_client();
    client.ask_words::<(), _>([b"LOCK.ACQUIRE", &b"k"[..], b"OWNER", b"a\0b"]);
    for other in [&b"a"[..], b"a\0", b"a\0c", b"a\0b\0"] {
        client.send_words([b"LOCK.RELEASE", &b"k"[..], other]).unwrap_err();
    }
    assert_eq!(client.ask_words::<i64, _>([b"LOCK.RELEASE", &b"k"[..], b"a\0b"]), 0);
}
