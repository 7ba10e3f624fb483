//! The threads that keep the subscriptions of a cluster's shards.

use std::sync::Arc;

use redis::{Client, PushKind, RedisResult, Value, cmd};

use super::{Threads, Wanted, listen, spawn};
use crate::core::{LONGEST_PAUSE, SILENCE};
use crate::shards::{Job, Node, Shards, Slots, Todo, client_of, for_messages, payload};
use crate::shared::Shared;

impl Threads {
    pub(super) fn work(self: &Arc<Self>, shared: &Arc<Shared>, todo: Todo) {
        for job in todo.jobs {
            let (threads, shared) = (self.clone(), shared.clone());
            spawn(move || {
                let Some(shards) = &threads.shards else { return };
                match job {
                    Job::Read => {
                        let mut nodes = threads.servers().nodes();
                        if let Some(one) = nodes.first().cloned() {
                            nodes.extend(shards.nodes().iter().flat_map(|node| client_of(&one, node)));
                        }
                        let read = nodes.into_iter().find_map(|node| slots(node).ok());
                        threads.work(&shared, shards.learned(read, &shared));
                    }
                    Job::Follow(node, channel) => {
                        let slots = match threads.follow(&shared, shards, &node, &channel) {
                            Ok(true) => return,
                            Ok(false) => threads.client().and_then(|one| slots(client_of(&one, &node)?)).ok(),
                            Err(_) => None,
                        };
                        threads.work(&shared, shards.ended(&node, slots, &shared));
                    }
                    Job::Listen => listen(&shared, &threads),
                }
            });
        }
        for (command, node) in todo.send {
            self.forward(shared, node, Wanted { command, asking: false, redirects: 0 });
        }
    }

    /// Reads messages. Returns true when nobody needs the subscription any more, and false when its channel's slot has moved.
    fn follow(
        self: &Arc<Self>,
        shared: &Arc<Shared>,
        shards: &Shards,
        node: &Node,
        channel: &str,
    ) -> RedisResult<bool> {
        let mut connection =
            for_messages(&client_of(&self.client()?, node)?)?.get_connection_with_timeout(SILENCE)?;
        connection.set_read_timeout(Some(SILENCE))?;
        connection.set_write_timeout(Some(SILENCE))?;
        for word in ["SSUBSCRIBE", "SUBSCRIBE"] {
            connection.send_packed_command(&cmd(word).arg(channel).get_packed_command())?;
        }
        let (mut missing, mut asked) = (2, false);
        loop {
            match connection.recv_response() {
                Ok(Value::Push { kind: PushKind::SSubscribe | PushKind::Subscribe, .. }) => {
                    missing -= 1;
                    if missing == 0 {
                        self.work(shared, shards.opened(node));
                    }
                }
                Ok(Value::Push { kind: PushKind::Message | PushKind::SMessage, data }) => {
                    shards.heard(payload(&data), shared);
                }
                Ok(Value::Push { .. }) => return Ok(false),
                Ok(Value::ServerError(error)) if error.code() == "MOVED" => return Ok(false),
                Ok(reply) => drop(reply.extract_error()?),
                Err(error) if asked || missing > 0 || !error.is_timeout() => return Err(error),
                Err(_) if shards.unused(node, shared) => return Ok(true),
                Err(_) => {
                    // After a time-out, redis-rs drops the next answer, so of two PINGs, one is answered.
                    for _ in 0..2 {
                        connection.send_packed_command(&cmd("PING").get_packed_command())?;
                    }
                    asked = true;
                    continue;
                }
            }
            asked = false;
        }
    }
}

fn slots(client: Client) -> RedisResult<Slots> {
    let mut connection = client.get_connection_with_timeout(LONGEST_PAUSE)?;
    connection.set_read_timeout(Some(LONGEST_PAUSE))?;
    Slots::read(cmd("CLUSTER").arg("SLOTS").query(&mut connection)?, &client)
}
