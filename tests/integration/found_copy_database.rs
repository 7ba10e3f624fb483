//! The subscriptions of the module leave a client in the database that it selected.

use crate::support::{Server, Waiter};

#[test]
fn copy_to_another_database() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "OWNER alice PX 60000").unwrap();
    // From the first waiter on, the module is told of such events.
    let _bob = Waiter::new(&server, "k", "OWNER bob BLOCK 0");
    client.ask::<String>("SET a v");
    assert_eq!(client.ask::<i64>("COPY a b DB 1"), 1);
    assert_eq!(client.ask::<String>("GET a"), "v", "the client is in another database");
}
