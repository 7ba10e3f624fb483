//! The lock commands in `MULTI` and scripts, in RESP2 and RESP3.

use redis::{Value, from_redis_value};

use crate::support::{Client, FREE, HELD_BY_ANOTHER, Server, grant, syntax_at, transaction};

/// A way to send commands: directly, in one transaction, or in scripts. Returns each reply, or the text of the error.
type Way = fn(&mut Client, &[&str]) -> Vec<Result<Value, String>>;

fn plainly(client: &mut Client, lines: &[&str]) -> Vec<Result<Value, String>> {
    lines.iter().map(|line| client.send(line)).collect()
}

/// Each line is a script of its own, because an error in a script is its only reply.
fn in_scripts(client: &mut Client, lines: &[&str]) -> Vec<Result<Value, String>> {
    lines
        .iter()
        .map(|line| {
            let words: Vec<_> = line.split(' ').collect();
            let mut script = vec![
                "EVAL",
                "return redis.pcall(ARGV[1], KEYS[1], unpack(ARGV, 2))",
                "1",
                words[1],
                words[0],
            ];
            script.extend(&words[2..]);
            client.send_words(script)
        })
        .collect()
}

const WAYS: [(&str, Way); 3] =
    [("plainly", plainly), ("in a transaction", transaction), ("in scripts", in_scripts)];

#[test]
fn the_replies_are_the_same_in_every_way_and_protocol() {
    let server = Server::start();
    let mut keys = 0;
    for (name, send) in WAYS {
        for (protocol, mut client) in [("RESP2", server.client()), ("RESP3", server.client_resp3())] {
            keys += 1;
            let lines = [
                "LOCK.ACQUIRE k OWNER alice PX 60000",
                "LOCK.ACQUIRE k OWNER alice PX 90000",
                "LOCK.ACQUIRE k OWNER bob",
                "LOCK.EXTEND k alice PX 80000",
                "LOCK.EXTEND k bob",
                "LOCK.RELEASE k alice",
                "LOCK.RELEASE k bob",
                "LOCK.ACQUIRE k OWNER",
                "LOCK.RELEASE k alice ALL",
                "LOCK.RELEASE k alice",
                "LOCK.INFO k",
                "LOCK.ACQUIRE k",
                "LOCK.BREAK k",
                "LOCK.BREAK k",
            ]
            .map(|line| line.replacen(" k", &format!(" k{keys}"), 1));
            let lines: Vec<_> = lines.iter().map(String::as_str).collect();
            let mut replies = send(&mut client, &lines).into_iter();
            let mut next = || replies.next().expect("a reply to each line");
            let way = format!("{name}, {protocol}");
            let first = grant(next().unwrap()).unwrap();
            assert_eq!((&first.owner[..], first.holds, first.lease), ("alice", 1, 60_000), "{way}");
            let second = grant(next().unwrap()).unwrap();
            assert_eq!((second.fence, second.holds, second.lease), (first.fence, 2, 90_000), "{way}");
            assert_eq!(next(), Ok(Value::Nil), "{way}");
            assert_eq!(next(), Ok(Value::Int(80_000)), "{way}");
            assert_eq!(next(), Err(HELD_BY_ANOTHER.into()), "{way}");
            assert_eq!(next(), Ok(Value::Int(1)), "{way}");
            assert_eq!(next(), Err(HELD_BY_ANOTHER.into()), "{way}");
            assert_eq!(next(), Err(syntax_at("OWNER")), "{way}");
            assert_eq!(next(), Ok(Value::Int(0)), "{way}");
            assert_eq!(next(), Err(FREE.into()), "{way}");
            assert_eq!(next(), Ok(Value::Nil), "{way}");
            let last = grant(next().unwrap()).unwrap();
            assert!(last.owner.len() == 36 && last.fence > first.fence, "{way}: {last:?}");
            assert_eq!(next(), Ok(Value::Int(1)), "{way}");
            assert_eq!(next(), Ok(Value::Int(0)), "{way}");
        }
    }
}

#[test]
fn info_has_the_same_fields_in_every_way() {
    let (server, mut client) = Server::and_client();
    client.acquire("k", "OWNER alice PX 60000").unwrap();
    let fields = |reply: Value| {
        let parts: Vec<String> = from_redis_value(reply).unwrap();
        parts.into_iter().step_by(2).collect::<Vec<_>>()
    };
    let plain = fields(client.send("LOCK.INFO k").unwrap());
    assert!(plain.len() >= 5);
    for (name, send) in WAYS {
        let reply = send(&mut client, &["LOCK.INFO k"]).remove(0).unwrap();
        assert_eq!(fields(reply), plain, "{name}");
    }
    let in_transaction = transaction(&mut server.client_resp3(), &["LOCK.INFO k"]).remove(0).unwrap();
    assert!(matches!(in_transaction, Value::Map(_)), "{in_transaction:?}");
    let script = "redis.setresp(3) return redis.call('LOCK.INFO', KEYS[1]).map.owner";
    assert_eq!(client.ask_words::<String, _>(["EVAL", script, "1", "k"]), "alice");
}

#[test]
fn a_read_only_script_may_look_at_a_lock_and_not_change_it() {
    let (_server, mut client) = Server::held();
    let script = "return redis.call('LOCK.INFO', KEYS[1])[2]";
    assert_eq!(client.ask_words::<String, _>(["EVAL_RO", script, "1", "k"]), "alice");
    let before = client.snapshot();
    for command in ["LOCK.ACQUIRE", "LOCK.BREAK"] {
        let script = format!("return redis.call('{command}', KEYS[1])");
        client.send_words(["EVAL_RO", &script, "1", "k"]).unwrap_err();
    }
    assert_eq!(client.snapshot(), before);
}
