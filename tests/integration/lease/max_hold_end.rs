//! The last milliseconds before the maximum age: all commands must agree on whether the grant is held.

use redis::Value;

use crate::support::{Server, convert, grant};

#[test]
fn an_extension_finds_the_grant_as_long_as_its_owner_gets_it_back() {
    const GRANTS: usize = 30;
    let (_server, mut client) = Server::and_client();
    let step: Vec<Vec<&str>> =
        ["MULTI", "LOCK.EXTEND k alice PX 10000", "LOCK.ACQUIRE k OWNER alice PX 10000 ONCE", "EXEC"]
            .map(|line| line.split(' ').collect())
            .into();
    let (mut steps, mut late) = (0, Vec::new());
    for _ in 0..GRANTS {
        let first = client.acquire("k", "OWNER alice PX 10 MAXHOLD 10").unwrap();
        loop {
            client.begin_together(&step);
            let [_, _, _, replies] = [(); 4].map(|()| client.finish().unwrap());
            let Value::Array(replies) = replies else { panic!("{replies:?}") };
            let [extended, again] = <[Value; 2]>::try_from(replies).unwrap();
            let again = grant(convert(again)).unwrap();
            if again.fence != first.fence {
                break;
            }
            steps += 1;
            if !matches!(extended, Value::Int(_)) {
                late.push(extended);
            }
        }
        client.ask::<i64>("LOCK.BREAK k");
    }
    assert!(steps > GRANTS, "{steps} looks at {GRANTS} grants");
    assert!(late.is_empty(), "{} of {steps} extensions of a held grant: {:?}", late.len(), late[0]);
}
