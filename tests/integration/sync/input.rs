//! `SYNC` with other options, and where a client can't be answered later.

use super::pair;
use crate::support::transaction;

#[test]
fn sync_takes_two_numbers_among_other_options_in_any_case() {
    let (_primary, _replica, mut client, _) = pair();
    let told = client.acquire("k", "sync 1 10000 PX 9000 OWNER a").unwrap();
    assert_eq!((told.owner.as_str(), told.holds), ("a", 1));
    let extension = format!("LOCK.EXTEND k a Sync 1 10000 PX 19000 FENCE {}", told.fence);
    assert!((18_000..=19_000).contains(&client.ask(&extension)));
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
