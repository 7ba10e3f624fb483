//! Invalid input: each kind has its own error, and nothing changes.

use crate::support::{Server, no_integer, not_positive, syntax_at};

/// Expands each `{a|b}` of a line into its alternatives.
fn each(line: &str) -> Vec<String> {
    let Some(end) = line.find('}') else { return vec![line.to_owned()] };
    let begin = line[..end].rfind('{').unwrap();
    let parts = line[begin + 1..end].split('|');
    parts.flat_map(|part| each(&format!("{}{part}{}", &line[..begin], &line[end + 1..]))).collect()
}

/// Returns a word of `refused.txt` in the form in which it is sent.
fn sent(word: &str) -> String {
    match word.trim_matches(['[', ']']).split_once('*') {
        _ if matches!(word, "''" | "['']") => String::new(),
        Some((letter, count)) => letter.repeat(count.parse().unwrap()),
        None => word.trim_matches(['[', ']']).replace('_', " "),
    }
}

#[test]
fn what_the_table_of_wrong_words_has_is_refused_and_changes_nothing() {
    let (_server, mut client) = Server::and_client();
    client.ask::<()>("SET string text");
    client.ask::<()>("RPUSH list item");
    client.acquire("held", "OWNER alice PX 600000").unwrap();
    client.acquire("shared", "OWNER alice PX 600000 SHARED").unwrap();
    client.acquire("shared", "OWNER bob PX 600000 SHARED").unwrap();
    let before = client.snapshot();
    let (mut numbers, mut count) = ("", 0);
    for line in include_str!("refused.txt").lines() {
        if let Some(given) = line.strip_prefix("NUMBERS = ") {
            numbers = given;
        }
        let Some((commands, error)) = line.split_once(" => ") else { continue };
        for command in each(&commands.replace("NUMBERS", numbers)) {
            let wrong = command.split(' ').find(|word| word.starts_with('['));
            let error = match error.split_once(' ') {
                None => syntax_at(&sent(wrong.expect("a word in brackets"))),
                Some(("number", range)) => no_integer(range),
                Some(("positive", range)) => not_positive(range),
                Some(_) => error.to_owned(),
            };
            assert_eq!(client.send_words(command.split(' ').map(sent)), Err(error), "{command}");
            count += 1;
        }
    }
    assert!(count > 400, "{count}");
    assert_eq!(client.snapshot(), before);
}

/// A client's bytes in an error must not end its line, nor make it long.
#[test]
fn what_an_error_repeats_of_a_client() {
    let (_server, mut client) = Server::and_client();
    client.acquire("held", "OWNER alice").unwrap();
    let before = client.snapshot();
    let (most, long) = ("x".repeat(64), "x".repeat(1_000_000));
    let cut = format!("{most}...");
    for (word, shown) in [
        (&b"cr\r\nlf"[..], r"cr\r\nlf"),
        (b"+OK\r\n-ERR", r"+OK\r\n-ERR"),
        (b"nul\0inside", r"nul\x00inside"),
        (b"\xff\x1b[31m", r"\xff\x1b[31m"),
        (b"'quoted' \"twice\" \\", r#"\'quoted\' \"twice\" \\"#),
        (b"%s%n", "%s%n"),
        (b"", ""),
        (most.as_bytes(), &most),
        (long.as_bytes(), &cut),
    ] {
        assert_eq!(client.send_words([&b"LOCK.ACQUIRE"[..], b"held", word]), Err(syntax_at(shown)));
        let lost = format!("NOTHELD the lock is not held by this owner: '{shown}' is free");
        assert_eq!(client.send_words([&b"LOCK.MEXTEND"[..], b"2", b"held", word, b"alice"]), Err(lost));
    }
    assert_eq!(client.snapshot(), before);
}

#[test]
fn what_a_primary_tells_its_replicas_is_refused_in_scripts_and_transactions() {
    let (_server, mut client) = Server::and_client();
    client.acquire("held", "OWNER alice").unwrap();
    let before = client.snapshot();
    client.send_words(["EVAL", "return redis.call('LOCK.APPLY', KEYS[1])", "1", "held"]).unwrap_err();
    client.ask::<()>("MULTI");
    client.ask::<()>("LOCK.APPLY held");
    let replies = client.send("EXEC");
    assert!(
        matches!(&replies, Ok(redis::Value::Array(replies)) if matches!(replies[..], [redis::Value::ServerError(_)]))
    );
    assert_eq!(client.snapshot(), before);
}
