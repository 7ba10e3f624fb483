"""Tests the pages' programs for Celery and RQ with two workers, one of which is killed while it holds the lock."""

import os
import signal
import subprocess
import sys

import pytest

from support import info, wait_for

JOBS = """
import os, time
import jobs_{kind} as page
import redis

client = redis.Redis.from_url(os.environ["REDIS_URL"])

def work(customer, fence):
    if not client.set("inside", os.getpid(), nx=True):
        client.incr("two")
    if client.incr("begun") == 1:
        time.sleep(600)  # until it is killed
    client.delete("inside")
    client.rpush("done", fence)

page.work = work
"""
KINDS = {
    "celery": ("app = page.app", "page.job.delay", ["celery", "-A", "jobs", "worker", "--concurrency", "1", "--without-mingle"]),
    "rq": ("job = page.job; page.job.__module__ = 'jobs'", "page.enqueue", ["rq.cli", "worker", "--url", "{url}"]),
}


@pytest.mark.crowd
@pytest.mark.parametrize("kind", KINDS)
def test_a_job_of_a_worker_that_is_killed_is_done_by_another_and_no_two_are_at_work(server, other, tmp_path, kind):
    other.config_set("lock.default-lease", 2000)
    more, enqueue, command = KINDS[kind]
    (tmp_path / "jobs.py").write_text(JOBS.format(kind=kind) + more)
    path = os.pathsep.join([str(tmp_path), os.path.abspath("docs")])
    how = {"env": os.environ | {"REDIS_URL": server.url, "PYTHONPATH": path}, "cwd": tmp_path}
    subprocess.run([sys.executable, "-c", f"from jobs import page\nfor _ in range(4): {enqueue}(42)"], check=True, **how)
    words = [word.format(url=server.url) for word in command]
    workers, log = [], open(tmp_path / "log", "w")
    try:
        for number in range(2):
            name = ["--hostname" if kind == "celery" else "--name", f"w{number}"]
            workers.append(subprocess.Popen(
                [sys.executable, "-m", *words, *name], start_new_session=True, stdout=log, stderr=subprocess.STDOUT, **how))
        killed = int(wait_for(lambda: other.get("inside"), "one is at work"))
        wait_for(lambda: info(other, "customer:42")["waiters"] == 1, "the other one waits")
        wait_for(lambda: info(other, "customer:42")["waiters"] == 0, "its wait is over: its job is to be tried again")
        other.delete("inside")
        os.kill(killed, signal.SIGKILL)
        wait_for(lambda: other.llen("done") == 4, "all are done, also that of the one which was killed")
        assert other.get("two") is None
        fences = [int(fence) for fence in other.lrange("done", 0, -1)]
        assert fences == sorted(fences)
    finally:
        for worker in workers:
            os.killpg(worker.pid, signal.SIGKILL)
            worker.wait()
        print((tmp_path / "log").read_text()[-3000:])
