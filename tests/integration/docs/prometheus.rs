//! The files for Prometheus: the script reports all of `INFO lock` and changes nothing; alerts and dashboard are correct.
//! `tests/clients/prometheus` tests them with redis_exporter and Prometheus.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use serde_json::Value;

use super::operations::{leads_somewhere, page};
use crate::support::{Client, Server, Setup, Waiter, root};

fn file(name: &str) -> String {
    fs::read_to_string(root().join("contrib/prometheus").join(name)).unwrap()
}

/// Connects as the exporter's user, which is made as the page says.
fn exporter(server: &Server) -> Client {
    let page = page("prometheus.md");
    let rule = page.lines().find_map(|line| line.strip_prefix("    ACL SETUSER exporter ")).unwrap();
    server.client().ask::<()>(&format!("ACL SETUSER exporter {rule}"));
    let mut client = server.client();
    client.ask::<()>("AUTH exporter secret");
    client
}

/// Returns the metrics that the script reports, with their values.
#[track_caller]
fn metrics(client: &mut Client) -> BTreeMap<String, String> {
    let said: Vec<String> = client.ask_words(["EVAL", &file("redislock.lua"), "0"]);
    let metrics: BTreeMap<_, _> = said.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect();
    assert_eq!(metrics.len() * 2, said.len(), "each once: {said:?}");
    metrics
}

/// Returns the metric of a field; `is_gauge`: its value can also fall.
fn metric(field: &str, is_gauge: bool) -> String {
    let waits = "redis_lock_wait_seconds";
    match field {
        "lock_waits_ms" => format!("{waits}_sum"),
        "lock_waits_le_1ms" => format!("{waits}_bucket{{le=\"0.001\"}}"),
        "lock_waits_le_10ms" => format!("{waits}_bucket{{le=\"0.01\"}}"),
        "lock_waits_le_100ms" => format!("{waits}_bucket{{le=\"0.1\"}}"),
        "lock_waits_le_1s" => format!("{waits}_bucket{{le=\"1\"}}"),
        "lock_waits_le_10s" => format!("{waits}_bucket{{le=\"10\"}}"),
        "lock_waits_all" => format!("{waits}_bucket{{le=\"+Inf\"}}"),
        _ if is_gauge => format!("redis_{}", field.replace("_ms", "_seconds")),
        _ => format!("redis_{field}_total"),
    }
}

#[test]
fn the_script_tells_each_field() {
    let (server, mut client) = Server::and_client();
    client.acquire("k", "OWNER alice SESSION").unwrap();
    client.acquire("k", "OWNER alice").unwrap();
    client.acquire("l", "OWNER alice").unwrap();
    let mut waiter = Waiter::new(&server, "l", "OWNER bob");
    client.ask::<i64>("LOCK.RELEASE l alice");
    waiter.granted();

    // The page marks the fields that are not counters.
    let page = page("watch.md");
    let gauges: BTreeSet<_> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once("` | "))
        .filter(|(_, meaning)| ["now: ", "since the start: "].iter().any(|mark| meaning.starts_with(mark)))
        .map(|(field, _)| field)
        .collect();
    let mut metrics = metrics(&mut exporter(&server));
    assert_eq!(
        metrics.remove("redis_lock_wait_seconds_count"),
        metrics.get("redis_lock_wait_seconds_bucket{le=\"+Inf\"}").cloned()
    );
    let info: String = client.ask("INFO lock");
    let fields: Vec<_> = info.lines().filter_map(|line| line.split_once(':')).collect();
    assert!(fields.len() > 20, "{info}");
    for (field, value) in fields {
        let metric = metric(field, gauges.contains(field));
        let told = metrics.remove(&metric).unwrap_or_else(|| panic!("no {metric} in {metrics:?}"));
        if metric.contains("_seconds") && !metric.contains("_bucket") {
            let [told, value] = [&told[..], value].map(|number| number.parse::<f64>().unwrap());
            // A wait grows between the two readings.
            assert!((told - value / 1000.0).abs() < 10.0, "{metric} {told}, {field} {value}");
        } else {
            assert_eq!(told, value, "{metric}");
        }
    }
    assert!(metrics.is_empty(), "more than INFO has: {metrics:?}");
}

#[test]
fn the_script_finds_nothing_on_a_server_without_the_module() {
    let server = Setup::new().without_module().start();
    assert_eq!(metrics(&mut exporter(&server)), BTreeMap::new());
}

#[test]
fn the_script_asks_for_one_section_and_nothing_else() {
    let server = Server::start();
    let mut observer = server.client();
    let mut exporter = exporter(&server);
    observer.ask::<()>("CONFIG RESETSTAT");
    metrics(&mut exporter);
    let stats: String = observer.ask("INFO commandstats");
    let calls: BTreeSet<_> = stats
        .lines()
        .filter_map(|line| line.strip_prefix("cmdstat_")?.split_once(",usec="))
        .map(|(calls, _)| calls)
        .filter(|calls| !calls.starts_with("config|"))
        .collect();
    assert_eq!(calls, BTreeSet::from(["eval:calls=1", "info:calls=1"]), "{stats}");
}

/// Tests states in which the server would refuse or delay a script that writes.
#[test]
fn the_script_runs_whatever_state_the_server_is_in() {
    let (server, mut client) = Server::held();
    let mut exporter = exporter(&server);
    for (before, after) in [
        ("CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0"),
        ("CONFIG SET min-replicas-to-write 1", "CONFIG SET min-replicas-to-write 0"),
        ("CLIENT PAUSE 600000 WRITE", "CLIENT UNPAUSE"),
        ("REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE"),
    ] {
        client.ask::<()>(before);
        if before.starts_with("REPLICAOF") {
            client.ask::<()>("CONFIG SET replica-serve-stale-data no");
        }
        assert_eq!(metrics(&mut exporter)["redis_lock_keys"], "1", "{before}");
        client.ask::<()>(after);
    }
}

#[test]
fn the_exporters_user_reaches_no_lock_not_by_scripts_either() {
    let server = Server::start();
    server.client().acquire("k", "OWNER alice").unwrap();
    let mut exporter = exporter(&server);
    for call in ["'LOCK.BREAK', 'k'", "'LOCK.INFO', 'k'", "'DEL', 'k'", "'PUBLISH', 'c', 'm'"] {
        let script = format!("return redis.call({call})");
        for keys in [&["0"][..], &["1", "k"]] {
            let refusal = exporter.send_words(["EVAL", &script].iter().chain(keys)).unwrap_err();
            // Redis 7.0 words this error in another way than the other servers.
            let is_forbidden = ["can't run", "permissions"].iter().any(|word| refusal.contains(word));
            assert!(is_forbidden, "{call}: {refusal}");
        }
    }
    assert_eq!(server.client().holder("k").unwrap().owner, "alice");
}

#[test]
fn each_alert_says_what_is_wrong_and_where_to_read_on() {
    let rules = file("alerts.yml");
    for rule in rules.split("- alert: ").skip(1) {
        let name = rule.lines().next().unwrap();
        let value = |field: &str| {
            let line = rule.lines().find_map(|line| line.trim().strip_prefix(&format!("{field}: ")));
            line.unwrap_or_else(|| panic!("{name} has no {field}"))
        };
        assert!(["critical", "warning", "info"].contains(&value("severity")), "{name}");
        assert!(value("summary").contains("$labels.instance"), "{name}");
        assert!(value("description").contains("$labels."), "{name}");
        assert!(leads_somewhere(&root().join("README.md"), value("runbook")), "{name}");
    }
}

/// Grafana would silently show an empty or hidden panel for such errors.
#[test]
fn the_dashboard_is_well_made() {
    let dashboard: Value = serde_json::from_str(&file("dashboard.json")).unwrap();
    let list = |value: &Value, field: &str| value[field].as_array().cloned().unwrap_or_default();
    let variables: BTreeSet<_> = list(&dashboard["templating"], "list")
        .iter()
        .map(|variable| variable["name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(variables, BTreeSet::from(["datasource", "instance", "job"].map(String::from)));

    let (mut ids, mut places) = (BTreeSet::new(), BTreeSet::new());
    for panel in list(&dashboard, "panels") {
        let title = panel["title"].as_str().unwrap();
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{title}: the id is another's");
        let [x, y, w, h] = ["x", "y", "w", "h"].map(|side| panel["gridPos"][side].as_u64().unwrap());
        assert!(w > 0 && h > 0 && x + w <= 24, "{title} is off the screen");
        for place in (x..x + w).flat_map(|x| (y..y + h).map(move |y| (x, y))) {
            assert!(places.insert(place), "{title} lies over another");
        }
        let targets = list(&panel, "targets");
        if panel["type"] == "row" {
            assert!(targets.is_empty(), "{title}");
            continue;
        }
        assert!(["stat", "timeseries", "heatmap"].contains(&panel["type"].as_str().unwrap()), "{title}");
        assert!(!panel["description"].as_str().unwrap().is_empty(), "{title}");
        assert!(!targets.is_empty(), "{title}");
        let names: BTreeSet<_> = targets.iter().map(|target| target["refId"].as_str().unwrap()).collect();
        assert_eq!(names.len(), targets.len(), "{title}");
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{title}");
        for target in &targets {
            let expression = target["expr"].as_str().unwrap();
            let selected = expression.matches("{job=~\"$job\", instance=~\"$instance\"}").count();
            assert_eq!(selected, expression.matches("redis_").count(), "{title}: {expression}");
            let is_counter =
                ["_total{", "_bucket{", "_sum{", "_count{"].iter().any(|end| expression.contains(end));
            let is_rate = ["rate(", "increase("].iter().any(|function| expression.contains(function));
            assert_eq!(is_counter, is_rate, "{title}: {expression}");
        }
    }
}
