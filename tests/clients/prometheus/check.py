"""Tests contrib/prometheus with a server on which many wait: the alert fires and ends, and each metric in the alerts and the dashboard
exists. ./run starts this with the folder of Prometheus's files."""

import json
import os
import re
import socket
import sys
import time
import urllib.parse
import urllib.request
from pathlib import Path

FILES = Path(sys.argv[1])


def get(url):
    with urllib.request.urlopen(url, timeout=10) as reply:
        return reply.read().decode()


def ask(path, **parameters):
    url = f"{os.environ['PROMETHEUS_URL']}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
    return json.loads(get(url))["data"]


def wait_for(what, condition):
    end = time.monotonic() + 20
    while not (found := condition()):
        if time.monotonic() > end:
            sys.exit(f"error: {what} did not come; alerts: {ask('alerts')}")
        time.sleep(0.1)
    return found


def firing():
    return {alert["labels"]["alertname"]: alert for alert in ask("alerts")["alerts"] if alert["state"] == "firing"}


def value_of(expression):
    return [float(sample["value"][1]) for sample in ask("query", query=expression)["result"]]


def send(command):
    """Opens a new connection, and sends the command."""
    connection = socket.create_connection(("127.0.0.1", int(os.environ["REDIS_PORT"])), timeout=20)
    connection.sendall(f"{command}\r\n".encode())
    return connection


def same(what, got, wanted):
    if got != wanted:
        sys.exit(f"error: {what}: {got} instead of {wanted}")


def the_alert_fires_and_ends():
    wait_for("the metric of waiters", lambda: value_of("redis_lock_waiters") == [0])
    same("alerts of a server at rest", firing(), {})
    holder = send("LOCK.ACQUIRE jam OWNER holder PX 60000")
    holder.recv(1)
    waiters = [send(f"LOCK.ACQUIRE jam OWNER waiter-{at} BLOCK 60000") for at in range(3)]
    stuck = wait_for("RedislockStuck", lambda: firing().get("RedislockStuck"))
    said = stuck["annotations"]["description"]
    if not said.startswith("3 clients wait for locks of 127.0.0.1:"):
        sys.exit(f"error: the alert says: {said}")
    print(f"ok: {said}")

    # Each waiter leaves when it is first in the queue, as does the holder: four grants, three of them by handover.
    for owner in ["holder", "waiter-0", "waiter-1", "waiter-2"]:
        send(f"LOCK.RELEASE jam {owner}").recv(1)
    wait_for("the end of RedislockStuck", lambda: "RedislockStuck" not in firing())
    wait_for("the handovers", lambda: value_of("redis_lock_handovers_total") == [3])
    wait_for("the waits", lambda: value_of('redis_lock_wait_seconds_bucket{le="+Inf"}') == [3])
    wait_for("their count", lambda: value_of("redis_lock_wait_seconds_count") == [3])
    same("the labels", ask("labels", **{"match[]": "redis_lock_handovers_total"}), ["__name__", "instance", "job"])
    for connection in [holder, *waiters]:
        connection.close()
    print("ok: the alert ends when the jam is over")


def each_metric_is_delivered():
    delivered = set(ask("label/__name__/values"))
    delivered |= set(re.findall(r"^\w+", get(f"{os.environ['EXPORTER_URL']}/metrics"), re.MULTILINE))
    alerts = "\n".join(re.findall(r"expr: (.*?)\n        \w", (FILES / "alerts.yml").read_text(), re.DOTALL))
    for name, text in [("alerts.yml", alerts), ("dashboard.json", "\n".join(expressions()))]:
        named = set(re.findall(r"\bredis_\w*[a-z]\b", text))
        same(f"metrics that {name} names and nobody delivers", sorted(named - delivered), [])
    shown = {metric for metric in delivered if metric.startswith("redis_lock_")}
    same("metrics that the dashboard leaves out", sorted(shown - set(re.findall(r"\w+", "\n".join(expressions())))), [])
    print(f"ok: {len(shown)} metrics of locks, all of them on the dashboard")


def expressions():
    dashboard = json.loads((FILES / "dashboard.json").read_text())
    return [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]


def each_panel_has_something_to_show():
    values = {"$job": ".+", "$instance": ".+", "$__rate_interval": "5s"}
    for expression in expressions():
        asked = expression
        for name, value in values.items():
            asked = asked.replace(name, value)
        # A slow scrape leaves a gap. Metrics named `redislock_` come from programs: tests/clients/python/test_observer.py tests their names.
        wait_for(f"something for {expression}", lambda: value_of(asked) or "redislock_" in asked)
    print(f"ok: {len(expressions())} expressions of the dashboard")


the_alert_fires_and_ends()
each_metric_is_delivered()
each_panel_has_something_to_show()
