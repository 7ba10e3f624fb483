"""Stock: more buyers than pieces, a lock per article. The stock is read and written in two steps."""

import time

import pytest
import redis

from support import connect, held, info, locks, run_threads


def buy(port, sku, buyers):
    """Each buyer in turn asks for one piece, and is told yes or no."""
    client = connect(port)
    for buyer in buyers:
        with held(client, f"lock:sku:{sku}"):
            left = int(client.get(f"stock:{sku}"))
            time.sleep(0.0005)  # the others' chance
            if left > 0:
                client.set(f"stock:{sku}", left - 1)
        client.hset(f"answers:{sku}", buyer, "yes" if left > 0 else "no")


def start_sale(server, workers, sku, pieces, buyers, processes):
    with server.connect() as client:
        client.set(f"stock:{sku}", pieces)
    return [workers.start(buy, server.port, sku, range(buyers)[first::processes]) for first in range(processes)]


def assert_sold(client, sku, pieces, buyers):
    answers = list(client.hgetall(f"answers:{sku}").values())
    assert (answers.count("yes"), answers.count("no")) == (pieces, buyers - pieces)
    assert client.get(f"stock:{sku}") == "0"


@pytest.mark.crowd
def test_no_piece_is_sold_twice(server, workers):
    start_sale(server, workers, 25, pieces=100, buyers=500, processes=8)
    start_sale(server, workers, 26, pieces=40, buyers=60, processes=2)
    workers.join()
    with server.connect() as client:
        assert_sold(client, 25, 100, 500)
        assert_sold(client, 26, 40, 60)


def test_other_articles_are_sold_unhindered(server, workers):
    with server.connect() as client:
        with held(client, "lock:sku:25", lease_ms=60_000):
            start_sale(server, workers, 25, pieces=10, buyers=50, processes=2)
            for other in start_sale(server, workers, 26, pieces=10, buyers=50, processes=2):
                other.join(20)
            assert_sold(client, 26, 10, 50)
            assert client.get("stock:25") == "10"
            assert info(client, "lock:sku:25")["waiters"] == 2
        workers.join()
        assert_sold(client, 25, 10, 50)


@pytest.mark.crowd
def test_five_hundred_buyers_of_five_articles_in_one_process(server):
    """A thread for each buyer, all on the default pool."""
    articles, pieces = [f"article:{number}" for number in range(5)], 40
    with redis.Redis.from_url(server.url) as client:
        client.mset(dict.fromkeys(articles, pieces))
        sold = dict.fromkeys(articles, 0)

        def buy(number):
            article = articles[number % 5]
            with locks(client).lock(f"lock:{article}"):
                left = int(client.get(article))
                time.sleep(0.002)  # the others' chance
                if left > 0:
                    client.set(article, left - 1)
                    sold[article] += 1

        run_threads(500, buy)
        assert sold == dict.fromkeys(articles, pieces)
        assert client.mget(articles) == [b"0"] * 5
