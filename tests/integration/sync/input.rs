//! Numbers, and where a client can't be told later.

use super::pair;
use crate::support::{Server, no_integer, not_positive, syntax_at, transaction};

#[test]
fn sync_takes_two_numbers_among_other_options_in_any_case() {
    let (_primary, _replica, mut client, _) = pair();
    let told = client.acquire("k", "sync 1 10000 PX 9000 OWNER a").unwrap();
    assert_eq!((told.owner.as_str(), told.holds), ("a", 1));
    let extension = format!("LOCK.EXTEND k a Sync 1 10000 PX 19000 FENCE {}", told.fence);
    assert!((18_000..=19_000).contains(&client.ask(&extension)));
}

#[test]
fn sync_refuses_what_it_does_not_take() {
    let (_server, mut client) = Server::and_client();
    client.acquire("held", "OWNER a").unwrap();
    let syntax = &syntax_at("SYNC");
    let number = &no_integer("SYNC must be between 1 and 4294967295");
    let positive = &not_positive("SYNC must be between 1 and 4294967295");
    let cases = [
        ("SYNC", syntax),
        ("SYNC 1", syntax),
        ("SYNC 1 10 SYNC 1 10", syntax),
        ("SYNC one 10", number),
        ("SYNC 1 ten", number),
        ("SYNC 1.5 10", number),
        ("SYNC 4294967296 10", number),
        ("SYNC 1 9223372036854775808", number),
        ("SYNC 0 10", positive),
        ("SYNC -1 10", positive),
        ("SYNC 1 0", positive),
        ("SYNC 1 -1", positive),
    ];
    for (option, refusal) in cases {
        for command in
            ["LOCK.ACQUIRE k", "LOCK.MACQUIRE 2 k l", "LOCK.EXTEND held a", "LOCK.MEXTEND 1 held a"]
        {
            assert_eq!(client.refused(&format!("{command} {option}")), *refusal, "{command} {option}");
        }
    }
    assert_eq!(client.ask::<i64>("EXISTS k l"), 0);
}

#[test]
fn sync_is_refused_where_the_client_can_not_be_told_later() {
    let (_primary, _replica, mut client, _) = pair();
    client.acquire("held", "OWNER a").unwrap();
    for command in
        ["LOCK.ACQUIRE k SYNC 1 100", "LOCK.EXTEND held a SYNC 1 100", "LOCK.MACQUIRE 1 k SYNC 1 100"]
    {
        let replies = transaction(&mut client, &[command]);
        assert_eq!(replies, [Err("ERR SYNC is not allowed in transactions".into())], "{command}");
        let words: Vec<String> = command.split(' ').map(|word| format!("'{word}'")).collect();
        let script = format!("return redis.pcall({})", words.join(","));
        let refused = client.send_words(["EVAL", &script, "0"]).unwrap_err();
        assert!(refused.starts_with("ERR SYNC is not allowed in scripts"), "{refused}");
    }
    assert_eq!(client.ask::<i64>("EXISTS k"), 0);
}
