# frozen_string_literal: true

# Tests raw commands with redis-rb, as in the page for all clients.

require_relative "support"

class RawTest < Test
  def test_errors
    @redis.set("word", "x")
    refused("NOTHELD") { @redis.call("LOCK.RELEASE", "door", "alice") }
    refused("NOTHELD") { @redis.call("LOCK.EXTEND", "door", "alice") }
    refused("ERR") { @redis.call("LOCK.ACQUIRE", "door", "OWNED") }
    error = assert_raises(Redis::CommandError) { @redis.call("LOCK.ACQUIRE", "word") }
    assert_match(/\AWRONGTYPE /, error.message)
    assert_equal "Redis::WrongTypeError", error.class.name unless Redis::VERSION < "5"
  end

  # The page for all clients warns of this.
  def test_a_wait_on_the_shared_connection_keeps_the_holder_from_its_release
    @redis.call("LOCK.ACQUIRE", "door", "OWNER", "alice", "PX", 60_000)
    waiting = start { @redis.call("LOCK.ACQUIRE", "door", "OWNER", "bob", "BLOCK", 2000) }
    wait_for("bob waits") { waiters("door") == 1 }
    release = start { @redis.call("LOCK.RELEASE", "door", "alice") }
    assert_nil waiting.value
    assert_equal 0, release.value
  end

  def test_a_read_timeout_closes_the_connection_and_sends_once_more
    @other.call("LOCK.ACQUIRE", "door", "OWNER", "other", "PX", 60_000)
    redis = connect(read_timeout: 1)
    first = redis.call("CLIENT", "ID")
    waiting = start { redis.call("LOCK.ACQUIRE", "door", "OWNER", "bob", "BLOCK", 0, "ONCE") }
    clients = []
    wait_for("the wait ends") do
      clients |= info(@other, "door", "FULL")["queue"].map { |waiter| waiter.is_a?(Array) ? waiter[3] : waiter["client-id"] }
      !waiting.alive?
    end
    assert_raises(Redis::TimeoutError) { waiting.value }
    assert_equal 2, clients.size, "one waits on each connection"
    assert_equal first, clients[0]
    wait_for("it has left", 5) { waiters("door").zero? }
    assert_equal "hello", redis.echo("hello")
  end

  def test_a_session_lives_as_long_as_its_connection
    redis = connect(reconnect_attempts: 0)
    session = -> { redis.call("LOCK.ACQUIRE", "door", "OWNER", "alice", "PX", 60_000, "ONCE", "SESSION") }
    session.call
    assert_equal 1, info(@other, "door")["session"]
    kill(redis)
    wait_for("it ends") { info(@other, "door").empty? }
    assert_raises(Redis::ConnectionError) { redis.ping }
    assert_equal "PONG", redis.ping # redis-rb connects again

    session.call
    redis.close
    wait_for("it ends with close") { info(@other, "door").empty? }
    return if Redis::VERSION < "5"

    redis = connect
    redis.without_reconnect do
      session.call
      kill(redis)
      2.times { assert_raises(Redis::ConnectionError) { redis.ping } }
    end
  end

  def test_a_pooled_session_outlives_its_loan
    pool = ConnectionPool.new(size: 1) { connect }
    pool.with { |redis| redis.call("LOCK.ACQUIRE", "door", "OWNER", "alice", "PX", 60_000, "SESSION") }
    assert_equal 1, info(@other, "door")["session"]
  end

  def test_a_cluster
    url = ENV.fetch("CLUSTER_URL")
    skip "redis-clustering is not installed" unless Redis::VERSION < "5" || defined?(Redis::Cluster)
    @clients << @other = Redis.new(url: url)
    @other.flushall
    cluster = Redis::VERSION < "5" ? Redis.new(cluster: [url], read_timeout: 70) : Redis::Cluster.new(nodes: [url], read_timeout: 70)
    @clients << cluster
    assert_equal "alice", cluster.call("LOCK.ACQUIRE", "door", "OWNER", "alice")[0]
    assert_nil cluster.call("LOCK.ACQUIRE", "door", "OWNER", "bob")
    refused("NOTHELD") { cluster.call("LOCK.RELEASE", "door", "bob") }
    open_locks(cluster).with_lock("{a}1", "{a}2") { |held| assert_equal held.fence, info(@other, "{a}2")["fence"] }
  end
end
