//! Traces that the cores of other languages replay. The test checks that the Rust core still does what they say.
//! `REDISLOCK_TRACES=same cargo test -p redislock-rules traces` rewrites them with what the core does now, and drops those that no longer
//! apply. `REDISLOCK_TRACES=new` chooses new ones, out of many worlds, so that each arrow of the table in docs/protocol.md is in one of
//! them, and each pair of consecutive arrows; `REDISLOCK_TRACES=more` adds those that are missing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde_json::Value as Json;

use super::trace::{Arrow, Bench, Call};
use super::world::World;

/// How many worlds there are to choose from, and how many traces are chosen in addition to those for arrows.
const WORLDS: u64 = 10_000;
const OTHERS: usize = 100;

/// The traces of `found.jsonl` were chosen here. Those of `written.jsonl` are handmade: add what a core is told.
fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/clients/conformance/traces").join(name)
}

/// Returns what a core does if it is told this.
fn replay(calls: &[(i64, Call)]) -> Option<Bench> {
    let mut bench = Bench::new();
    let told = calls.iter().all(|(at, call)| bench.call(*at, call));
    bench.pass(calls.last().map_or(0, |(at, _)| *at) + 60_000);
    told.then_some(bench)
}

/// Records a trace of a world.
fn record(seed: u64) -> Option<Bench> {
    let mut world = World::new(seed, false);
    world.record();
    for _ in 0..10 + seed % 40 {
        let luck = world.luck(u64::from(u32::MAX)) as u32;
        world.step(((luck >> 8) as u8, (luck >> 16) as u8, luck));
        if world.fault.is_some() {
            return None;
        }
    }
    if seed.is_multiple_of(8) {
        world.close_locks(0);
    }
    world.end_all();
    let recorder = world.processes[0].recorder.take()?;
    if world.fault.is_some() || recorder.ids.is_empty() {
        return None;
    }
    // Packages may differ in how they treat a first subscription that fails, and silence for an acquire that does not wait.
    let free = |call: &Call| match call {
        Call::Unreachable => true,
        Call::Answer(command, Err(error)) => {
            let words = &recorder.sent[*command as usize - 1].1;
            error.is_timeout() && words.contains("ACQUIRE") && !words.contains("BLOCK")
        }
        _ => false,
    };
    if recorder.calls.iter().any(|(_, call)| free(call)) {
        return None;
    }
    let bench = replay(&recorder.calls)?;
    let sent = bench.lines.iter().filter(|line| line[1] == "send").map(|line| line[3].as_str().unwrap());
    let same = sent.eq(recorder.sent.iter().map(|(_, words)| words.as_str()));
    (same && bench.is_over() && !bench.is_ambiguous()).then_some(bench)
}

fn text(bench: &Bench) -> String {
    let lines: Vec<String> = bench.lines.iter().map(Json::to_string).collect();
    format!("[{}]\n", lines.join(","))
}

/// Returns what the core does now if it is told what the trace says. Returns `None` if the trace answers a command that is no longer sent.
fn again(line: &str) -> Option<Bench> {
    let lines: Vec<Json> = serde_json::from_str(line).unwrap();
    let calls: Vec<_> = lines.iter().filter_map(Call::of_json).collect();
    replay(&calls)
}

/// Chooses traces with all arrows, and pairs of arrows, that are not in these traces.
fn choose(stored: &[String]) -> String {
    let taken: BTreeSet<_> =
        stored.iter().filter_map(|line| again(line)).flat_map(|bench| bench.ways()).collect();
    let arrows = |bench: &Bench| bench.ways().difference(&taken).cloned().collect();
    let mut all: Vec<(String, BTreeSet<Vec<[String; 3]>>)> =
        (1..=WORLDS).filter_map(record).map(|bench| (text(&bench), arrows(&bench))).collect();
    all.sort_by_key(|(text, _)| text.len());
    let mut left: BTreeSet<_> = all.iter().flat_map(|(_, arrows)| arrows.clone()).collect();
    let (mut chosen, wanted, mut count) = (String::new(), left.clone(), 0);
    while !left.is_empty() {
        // The trace with the most new arrows for its length is next.
        let gain = |(text, arrows): &(String, BTreeSet<_>)| arrows.len() * 1_000_000 / text.len();
        let best = all.iter().enumerate().max_by_key(|(_, one)| gain(one)).map(|(at, _)| at).unwrap();
        let (text, arrows) = all.remove(best);
        left.retain(|arrow| !arrows.contains(arrow));
        all.iter_mut().for_each(|(_, others)| others.retain(|arrow| !arrows.contains(arrow)));
        chosen.push_str(&text);
        count += 1;
    }
    println!("{count} traces, {} bytes, for these:", chosen.len());
    for arrow in &wanted {
        println!("{arrow:?}");
    }
    // Other traces follow, from short ones to long ones.
    let others = if stored.is_empty() { OTHERS } else { 0 };
    let step = (all.len() / OTHERS / 2).max(1);
    chosen.extend(all.iter().step_by(step).take(others).map(|(text, _)| text.as_str()));
    chosen
}

fn stored(name: &str) -> Vec<String> {
    std::fs::read_to_string(file(name)).unwrap().lines().map(str::to_string).collect()
}

const FILES: [&str; 2] = ["found.jsonl", "written.jsonl"];

#[test]
fn the_core_does_what_the_traces_say() {
    let wanted = std::env::var("REDISLOCK_TRACES").ok();
    for name in FILES {
        match wanted.as_deref() {
            Some("new") if name == "found.jsonl" => std::fs::write(file(name), choose(&[])).unwrap(),
            Some("more") if name == "found.jsonl" => {
                let all: Vec<_> = FILES.into_iter().flat_map(stored).collect();
                let found = std::fs::read_to_string(file(name)).unwrap();
                std::fs::write(file(name), found + &choose(&all)).unwrap();
            }
            Some(_) => {
                let lines = stored(name).into_iter().filter_map(|line| again(&line));
                std::fs::write(file(name), lines.map(|bench| text(&bench)).collect::<String>()).unwrap();
            }
            None => {}
        }
        for (number, line) in (1..).zip(stored(name)) {
            let now = again(&line).unwrap_or_else(|| panic!("{name}, {number}: it answers what is not sent"));
            let now = text(&now);
            let differs = now.split("],[").zip(line.split("],[")).find(|(now, then)| now != then);
            assert!(now.trim_end() == line, "{name}, {number}: {differs:?}");
        }
    }
}

const STATES: [&str; 7] = ["over", "asking", "queued", "held", "doubted", "lost", "leaving"];

/// A row of the table in docs/protocol.md.
struct Row {
    line: String,
    states: Vec<String>,
    events: Vec<String>,
    next: Vec<String>,
    sent: Vec<String>,
}

impl Row {
    fn has(&self, ([state, event, next], sent): &Arrow) -> bool {
        let nothing =
            self.sent.is_empty() || self.line.contains(" if ") || self.next.len() > 1 && next == "over";
        self.states.contains(state)
            && (self.events.contains(event) || self.states == ["lost"] && self.events == ["any"])
            && self.next.contains(next)
            && (self.sent.contains(sent) || sent == "later" || sent.is_empty() && nothing)
    }
}

fn table() -> Vec<Row> {
    let page = std::fs::read_to_string(file("../../../../docs/protocol.md")).unwrap();
    let lines = page.lines().skip_while(|line| *line != "| state | event | next: sent |").skip(2);
    let mut rows: Vec<Row> = Vec::new();
    for line in lines.take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [state, event, then] = cells[..] else { panic!("{line}") };
        let event: String = event.split('(').map(|part| part.split(')').next_back().unwrap()).collect();
        let quoted = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_string).collect::<Vec<_>>();
        let states = |cell: &str| {
            let words = cell.split(|sign: char| !sign.is_ascii_lowercase());
            words.filter(|word| STATES.contains(word)).map(str::to_string).collect::<Vec<_>>()
        };
        let above = rows.last().map_or(&[][..], |row| &row.states);
        rows.push(Row {
            line: line.to_string(),
            states: if state.is_empty() { above.to_vec() } else { states(state) },
            events: quoted(&event),
            next: states(then.split(':').next().unwrap()),
            sent: quoted(then),
        });
    }
    rows
}

/// In how many worlds there may be no arrow that the table lacks.
const OTHER_WORLDS: u64 = 300;

/// The traces take each arrow of the table, and send all that it says; neither they nor other worlds take another arrow.
#[test]
fn the_arrows_are_those_of_the_core() {
    let rows = table();
    let mut traces: BTreeMap<Arrow, Vec<usize>> = BTreeMap::new();
    for (number, line) in (1..).zip(FILES.into_iter().rev().flat_map(stored)) {
        for arrow in again(&line).unwrap().arrows() {
            traces.entry(arrow).or_default().push(number);
        }
    }
    let others: BTreeSet<Arrow> =
        (1..=OTHER_WORLDS).filter_map(record).flat_map(|bench| bench.arrows()).collect();
    // A message may be about an earlier grant or request.
    let is_idle = |([from, event, to], sent): &Arrow| {
        let listed = rows.iter().any(|row| row.states.contains(from) && row.events.contains(event));
        let late = matches!(event.as_str(), "lost" | "start");
        from == to && matches!(sent.as_str(), "" | "later") && (late || !listed)
    };
    let all = traces.keys().chain(&others).filter(|arrow| !is_idle(arrow));
    let unknown: Vec<_> = all.filter(|arrow| !rows.iter().any(|row| row.has(arrow))).collect();
    let mut missing = Vec::new();
    for row in &rows {
        let Row { line, states, events, next, sent } = row;
        let taken: Vec<_> = traces.iter().filter(|(arrow, _)| row.has(arrow)).collect();
        println!("{line}");
        for (([state, event, next], sent), numbers) in &taken {
            println!("    {state}, {event}, {next}: {sent} {:?}", &numbers[..numbers.len().min(5)]);
        }
        let pairs = states.iter().flat_map(|state| events.iter().map(move |event| (state, event)));
        let all_taken = pairs
            .filter(|(state, event)| *state != "lost" || *event != "any")
            .all(|(state, event)| taken.iter().any(|(([from, its, _], _), _)| from == state && its == event));
        // What waits for an answer goes out in the package's own order, so that other worlds may be the only ones to show it.
        let shown: Vec<_> = traces.keys().chain(&others).filter(|arrow| row.has(arrow)).collect();
        let all_sent = sent.iter().all(|one| shown.iter().any(|(_, its)| its == one));
        if !(all_taken && all_sent && next.iter().all(|one| taken.iter().any(|(([.., to], _), _)| to == one)))
        {
            missing.push(line);
        }
    }
    assert!(rows.len() > 20 && unknown.is_empty(), "not in the table: {unknown:?}");
    assert!(missing.is_empty(), "no trace takes all arrows of {missing:#?}");
}
