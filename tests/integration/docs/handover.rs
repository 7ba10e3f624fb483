//! Draws the README's picture: how a lock changes hands with Redislock, and with `SET NX` and polling, from a trace of both on a real
//! server. By hand: `cargo test --test integration docs::handover -- --ignored`

use std::fmt::Write as _;
use std::sync::Mutex;
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use redis::Value;

use crate::support::{Client, Server, root};

const CLIENTS: usize = 4;
/// How often a program asks that has to poll: the default of redis-py and of many others.
const POLL: Duration = Duration::from_millis(100);
/// How long each of them works.
const WORK: Duration = Duration::from_millis(40);
/// How long the picture's axis is.
const AXIS: f64 = 420.0;

/// Of one client, in ms from the begin: when it asked, and when it held.
#[derive(Default)]
struct Trace {
    asks: Vec<f64>,
    held: Vec<(f64, f64)>,
}

#[test]
#[ignore = "draws docs/pictures/handover.svg anew, by hand"]
fn make() {
    let server = Server::start();
    let handed = traces(&server, |client, trace, begin| {
        let ms = || begin.elapsed().as_secs_f64() * 1e3;
        trace.asks.push(ms());
        client.ask::<Value>(&format!("LOCK.ACQUIRE k OWNER {:p} PX 30000 BLOCK 0", trace));
        let since = ms();
        sleep(WORK);
        client.ask::<i64>(&format!("LOCK.RELEASE k {:p}", trace));
        trace.held.push((since, ms()));
    });
    let polled = traces(&server, |client, trace, begin| {
        let ms = || begin.elapsed().as_secs_f64() * 1e3;
        loop {
            trace.asks.push(ms());
            if client.send("SET p mine NX PX 30000").unwrap() != Value::Nil {
                break;
            }
            sleep(POLL);
        }
        let since = ms();
        sleep(WORK);
        client.ask::<i64>("DEL p");
        trace.held.push((since, ms()));
    });
    let folder = root().join("docs/pictures");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("handover.svg"), drawn(&handed, &polled)).unwrap();
}

/// Clients that want one lock once each, each 12 ms after the one before.
fn traces(server: &Server, turn: impl Fn(&mut Client, &mut Trace, Instant) + Sync) -> Vec<Trace> {
    let (begin, done) = (Instant::now(), Mutex::new(Vec::new()));
    scope(|scope| {
        for number in 0..CLIENTS {
            let (turn, done, mut client) = (&turn, &done, server.client());
            scope.spawn(move || {
                sleep(Duration::from_millis(12) * number as u32);
                let mut trace = Trace::default();
                turn(&mut client, &mut trace, begin);
                done.lock().unwrap().push((number, trace));
            });
        }
    });
    let mut all = done.into_inner().unwrap();
    all.sort_by_key(|(number, _)| *number);
    all.into_iter().map(|(_, trace)| trace).collect()
}

fn drawn(handed: &[Trace], polled: &[Trace]) -> String {
    // Colours that can be read on white and on black.
    let mut svg = "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 760 300' font-family='system-ui,sans-serif' font-size='13' fill='#808080'>\n".to_owned();
    let x = |ms: f64| 110.0 + ms.min(AXIS) * 630.0 / AXIS;
    for (top, name, traces) in [
        (10.0, "Redislock: the server hands over", handed),
        (150.0, "SET NX: each asks every 100 ms", polled),
    ] {
        writeln!(svg, "<text x='10' y='{}' font-weight='bold'>{name}</text>", top + 12.0).unwrap();
        for (number, trace) in traces.iter().enumerate() {
            let y = top + 24.0 + 24.0 * number as f64;
            let (since, until) = trace.held[0];
            writeln!(svg, "<text x='10' y='{}'>client {}</text>", y + 13.0, number + 1).unwrap();
            let first = trace.asks[0];
            writeln!(
                svg,
                "<line x1='{:.1}' x2='{:.1}' y1='{2}' y2='{2}' stroke='#808080' stroke-dasharray='2 3'/>",
                x(first),
                x(since),
                y + 9.0
            )
            .unwrap();
            for ask in &trace.asks {
                writeln!(
                    svg,
                    "<line x1='{0:.1}' x2='{0:.1}' y1='{1}' y2='{2}' stroke='#d97706' stroke-width='3'/>",
                    x(*ask),
                    y + 3.0,
                    y + 15.0
                )
                .unwrap();
            }
            writeln!(
                svg,
                "<rect x='{:.1}' y='{}' width='{:.1}' height='14' rx='3' fill='#2563eb'/>",
                x(since) + 2.0,
                y + 2.0,
                x(until) - x(since) - 2.0
            )
            .unwrap();
        }
    }
    for ms in [0.0, 100.0, 200.0, 300.0, 400.0] {
        writeln!(svg, "<line x1='{0:.1}' x2='{0:.1}' y1='28' y2='272' stroke='#808080' stroke-opacity='0.3'/><text x='{0:.1}' y='290' text-anchor='middle'>{ms} ms</text>", x(ms)).unwrap();
    }
    svg + "<rect x='470' y='10' width='12' height='12' rx='3' fill='#2563eb'/><text x='488' y='21'>holds the lock</text>\n\
           <line x1='600' x2='600' y1='9' y2='23' stroke='#d97706' stroke-width='3'/><text x='608' y='21'>asks</text>\n\
           <line x1='652' x2='682' y1='16' y2='16' stroke='#808080' stroke-dasharray='2 3'/><text x='690' y='21'>waits</text>\n</svg>\n"
}
