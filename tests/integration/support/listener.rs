//! A subscriber of keyspace events.

use super::{Client, Server};

/// A connection that is subscribed to the channels of a pattern.
pub(crate) struct Listener(Client);

impl Listener {
    pub(crate) fn new(server: &Server, classes: &str) -> Self {
        server.client().ask::<()>(&format!("CONFIG SET notify-keyspace-events {classes}"));
        Self::as_it_is(server)
    }

    /// Subscribes without changing which classes of events are enabled.
    pub(crate) fn as_it_is(server: &Server) -> Self {
        let mut client = server.client();
        client.ask::<()>("PSUBSCRIBE __key*");
        Self(client)
    }

    /// Returns the next messages, as `event key`.
    #[track_caller]
    pub(crate) fn next<const N: usize>(&mut self) -> [String; N] {
        std::array::from_fn(|_| {
            let message = self.0.finish().unwrap();
            let (_kind, _pattern, channel, key): (String, String, String, String) =
                redis::from_redis_value(message).unwrap();
            format!("{} {key}", channel.strip_prefix("__keyevent@0__:").unwrap_or(&channel))
        })
    }

    /// Returns all messages that have not been read.
    #[track_caller]
    pub(crate) fn rest(&mut self, server: &Server) -> Vec<String> {
        server.client().ask::<()>("PUBLISH __keyend end");
        let mut seen = Vec::new();
        loop {
            let [message] = self.next();
            if message == "__keyend end" {
                return seen;
            }
            seen.push(message);
        }
    }

    /// Checks that only these messages have not been read.
    #[track_caller]
    pub(crate) fn nothing_but(mut self, server: &Server, expected: &[&str]) {
        assert_eq!(self.rest(server), expected);
    }
}
