//! A subscriber, and its messages.

use redis::{Value, from_redis_value};

use super::{Client, Server, Setup};

/// A connection that is subscribed to a channel.
pub(crate) struct Mailbox {
    client: Client,
    channel: String,
    /// The server's word for a message: `message` or `smessage`.
    kind: &'static str,
}

/// Starts a server with these settings. Returns it, a client, and a subscriber of `ch`.
#[track_caller]
pub(crate) fn heard(settings: &str) -> (Server, Client, Mailbox) {
    let (server, client) = Setup::new().module_args(settings).start_and_client();
    let mail = Mailbox::of(&server, "ch");
    (server, client, mail)
}

impl Mailbox {
    #[track_caller]
    pub(crate) fn of(server: &Server, channel: &str) -> Self {
        let mut client = server.client();
        client.ask::<Value>(&format!("SUBSCRIBE {channel}"));
        Self { client, channel: channel.into(), kind: "message" }
    }

    /// Subscribes to a shard channel.
    #[track_caller]
    pub(crate) fn of_shard(server: &Server, channel: &str) -> Self {
        let mut client = server.client();
        client.ask::<Value>(&format!("SSUBSCRIBE {channel}"));
        Self { client, channel: channel.into(), kind: "smessage" }
    }

    /// Waits until the server has ended the subscription to a shard channel. Returns the messages before that.
    #[track_caller]
    pub(crate) fn until_ended(&mut self) -> Vec<String> {
        let mut told = Vec::new();
        loop {
            let (kind, _, text): (String, Value, Value) =
                from_redis_value(self.client.finish().unwrap()).unwrap();
            if kind == "sunsubscribe" {
                return told;
            }
            told.push(from_redis_value(text).unwrap());
        }
    }

    /// Returns the next message.
    #[track_caller]
    pub(crate) fn next(&mut self) -> String {
        String::from_utf8(self.next_bytes()).unwrap()
    }

    /// Returns the next message as bytes.
    #[track_caller]
    pub(crate) fn next_bytes(&mut self) -> Vec<u8> {
        let reply = self.client.finish().expect("a message");
        let (kind, _, text): (String, Vec<u8>, Vec<u8>) = from_redis_value(reply).expect("a message");
        assert_eq!(kind, self.kind);
        text
    }

    /// Returns the messages that have not been read.
    #[track_caller]
    pub(crate) fn rest(&mut self, sender: &mut Client) -> Vec<String> {
        sender.ask::<Value>(&format!("PUBLISH {} end", self.channel));
        std::iter::from_fn(|| Some(self.next()).filter(|text| text != "end")).collect()
    }
}
