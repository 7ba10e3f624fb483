//! The subscriptions of a cluster's shards, as threads.

use std::sync::Arc;
use std::sync::mpsc::channel as pushes;
use std::time::Duration;

use redis::{PubSub, PushKind, RedisResult, Value, cmd};

use super::{Threads, listen, spawn};
use crate::core::{LONGEST_PAUSE, SILENCE};
use crate::shards::{Job, Node, Shards, Slots, Todo, client_of};
use crate::shared::Shared;

impl Threads {
    pub(super) fn work(self: &Arc<Self>, shared: &Arc<Shared>, todo: Todo) {
        for job in todo.jobs {
            let (threads, shared) = (self.clone(), shared.clone());
            spawn(move || {
                let Some(shards) = &threads.shards else { return };
                match job {
                    Job::Read => threads.work(&shared, shards.learned(threads.slots(), &shared)),
                    Job::Follow(node, channel) => {
                        if !threads.follow(&shared, shards, &node, &channel).unwrap_or_default() {
                            threads.work(&shared, shards.ended(&node, &shared));
                        }
                    }
                    Job::Listen => listen(&shared, &threads),
                }
            });
        }
        todo.send.into_iter().for_each(|command| self.forward(shared, command));
    }

    fn slots(&self) -> RedisResult<Slots> {
        let client = self.client()?;
        let mut connection = client.get_connection_with_timeout(LONGEST_PAUSE)?;
        connection.set_read_timeout(Some(LONGEST_PAUSE))?;
        Slots::read(cmd("CLUSTER").arg("SLOTS").query(&mut connection)?, &client)
    }

    /// Is true when nobody needs the subscription any more.
    fn follow(
        self: &Arc<Self>,
        shared: &Arc<Shared>,
        shards: &Shards,
        node: &Node,
        channel: &str,
    ) -> RedisResult<bool> {
        let mut connection = client_of(&self.client()?, node)?.get_connection_with_timeout(SILENCE)?;
        connection.set_read_timeout(Some(SILENCE))?;
        connection.set_write_timeout(Some(SILENCE))?;
        let (pushes, pushed) = pushes();
        connection.set_push_sender(pushes);
        connection.send_packed_command(&cmd("SSUBSCRIBE").arg(channel).get_packed_command())?;
        let mut messages = connection.as_pubsub();
        let hear = |messages: &mut PubSub<'_>| {
            messages.ping::<Value>()?; // the answer is that to SSUBSCRIBE
            messages.subscribe(channel)?;
            self.work(shared, shards.opened(node));
            loop {
                match messages.get_message() {
                    Ok(message) => shards.heard(message.get_payload_bytes(), shared),
                    Err(error) if !error.is_timeout() => return Err(error),
                    Err(_) if shards.unused(node, shared) => return Ok(true),
                    Err(_) => drop(messages.ping::<Value>()?),
                }
                if pushed.try_iter().any(|push| push.kind == PushKind::SUnsubscribe) {
                    return Ok(false);
                }
            }
        };
        let ended = hear(&mut messages);
        messages.set_read_timeout(Some(Duration::from_millis(1)))?; // to end it waits for an answer
        ended
    }
}
