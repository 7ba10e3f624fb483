//! Another client, which sends `PING` and measures how long it waits for the reply.

use std::time::{Duration, Instant};

use crate::line::Line;

/// In ms; on an idle server, a reply to `PING` takes less time.
const SLOW: f64 = 5.0;

pub(crate) struct Ping(Line);

impl Ping {
    pub(crate) fn new(port: u16) -> Self {
        Self(Line::new(port))
    }

    /// Returns the longest `PING` during this time, in ms.
    pub(crate) fn longest_for(&mut self, time: Duration) -> f64 {
        let begin = Instant::now();
        self.longest_while(|_| begin.elapsed() < time)
    }

    /// Sends `PING` for at least this long after `begin`, and until replies have been quick for a while. On a busy machine this may never
    /// happen.
    pub(crate) fn until_quick(&mut self, begin: Instant, at_least: Duration) -> f64 {
        self.longest_while(|slow| {
            let quick = slow.unwrap_or(begin).elapsed() >= Duration::from_secs(1);
            begin.elapsed() < at_least || !quick && begin.elapsed() < 3 * at_least
        })
    }

    /// Goes on as long as `go_on` returns true; its argument is the time of the last slow reply.
    fn longest_while(&mut self, go_on: impl Fn(Option<Instant>) -> bool) -> f64 {
        let (mut longest, mut slow) = (0.0_f64, None);
        while go_on(slow) {
            let begin = Instant::now();
            self.0.ask(b"PING\r\n").expect("an answer");
            let took = begin.elapsed().as_secs_f64() * 1e3;
            longest = longest.max(took);
            if took > SLOW {
                slow = Some(Instant::now());
            }
        }
        longest
    }
}
