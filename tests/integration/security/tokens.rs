//! Owners that the server generates: anybody who could guess one could release another client's lock.

use std::collections::HashSet;
use std::thread;

use crate::support::{Client, Server, convert, figure, size};

/// Returns a UUID of version 4 as one number. The bits of version and variant are not random.
fn bits(owner: &str) -> u128 {
    let number = u128::from_str_radix(&owner.replace('-', ""), 16).unwrap();
    assert_eq!((owner.len(), number >> 76 & 0xf, number >> 62 & 3), (36, 4, 2), "{owner}");
    number
}

fn owners(client: &mut Client, count: usize) -> Vec<u128> {
    let lines: Vec<String> = (0..count).map(|number| format!("LOCK.ACQUIRE k{number} PX 600000")).collect();
    let replies = client.send_all(&lines).into_iter();
    replies.map(|reply| bits(&convert::<(String, i64, i64, i64)>(reply.unwrap()).0)).collect()
}

/// Servers start at the same moment, restart, and fork to write a file: no owner may be generated twice, and each random bit is set about
/// half of the time.
#[test]
fn no_two_servers_make_the_same_owner_and_no_bit_leans() {
    let (servers, each) = (8, size(1_000, 50_000));
    let handles = (0..servers).map(|_| {
        thread::spawn(move || {
            let mut server = Server::start();
            let mut made = owners(&mut server.client(), each);
            server.client().ask::<()>("BGSAVE");
            server.client().ask::<()>("FLUSHALL");
            made.extend(owners(&mut server.client(), each));
            server.kill_and_restart();
            server.client().ask::<()>("FLUSHALL");
            made.extend(owners(&mut server.client(), each));
            made
        })
    });
    let handles: Vec<_> = handles.collect();
    let all: Vec<u128> = handles.into_iter().flat_map(|handle| handle.join().unwrap()).collect();
    assert_eq!(all.len(), servers * each * 3);
    assert_eq!(all.iter().collect::<HashSet<_>>().len(), all.len(), "an owner was made twice");
    // The limits are more than seven standard deviations of the short run away from one half.
    let few = all.len() * 45 / 100;
    for bit in (0..128).filter(|bit| !(62..64).contains(bit) && !(76..80).contains(bit)) {
        let set = all.iter().filter(|owner| *owner >> bit & 1 == 1).count();
        assert!((few..=all.len() - few).contains(&set), "bit {bit} is set in {set} of {}", all.len());
    }
    figure("owners made by the server", format!("{} of {servers} servers, all different", all.len()));
}
