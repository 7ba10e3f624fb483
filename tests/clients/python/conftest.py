"""Fixtures: a server for each test, and its worker processes. If a test fails, the server's log is shown."""

import signal

import pytest
import redis
import redislock

from support import LIMIT_S, Server, Workers

SERVER = pytest.StashKey()


def pytest_configure(config):
    config.addinivalue_line("markers", "crowd: takes long, with hundreds of workers; not in the quick form")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    server = item.stash.get(SERVER, None)
    if report.failed and server:
        report.sections.append((f"server log, {report.when}", server.log()))
    return report


@pytest.fixture
def server(tmp_path, request):
    server = request.node.stash[SERVER] = Server(tmp_path.with_name(f"{tmp_path.name}-server"))
    # Ends a test that would wait for ever, for example for a lock that is never granted.
    signal.signal(signal.SIGALRM, lambda *_: pytest.fail(f"not within {2 * LIMIT_S} s"))
    signal.alarm(2 * LIMIT_S)
    try:
        yield server
    finally:
        signal.alarm(0)
        server.kill()


@pytest.fixture
def workers(server):
    workers = Workers()
    yield workers
    workers.end()


@pytest.fixture
def locks(client):
    with redislock.Locks(client) as locks:
        yield locks


@pytest.fixture
def client(server):
    with redis.Redis.from_url(server.url, max_connections=300) as client:
        yield client


@pytest.fixture
def other(server):
    with server.connect() as other:
        yield other
