# frozen_string_literal: true

# Raw commands through redis-rb, and the program of its page. Run by ./run.

require "minitest/autorun"
require "connection_pool"
require "tempfile"
require_relative "docs/lock"

begin
  require "redis-clustering"
rescue LoadError
  # redis-rb 4 has it in itself
end

THREADS = 100

# A client whose lock commands do nothing. It expects LOCK.ACQUIRE key OWNER owner PX milliseconds ...
class WithoutLock < Redis
  def call(*words)
    words[0] == "LOCK.ACQUIRE" ? [words[3], 1, 1, words[5]] : 0
  end
end

class Tests < Minitest::Test
  def setup
    @clients = []
    @threads = []
    @redis = connect
    @other = connect
    @redis.flushall
  end

  def teardown
    @threads.each(&:kill)
    wait_for("the threads end") { @threads.none?(&:alive?) }
    @clients.each(&:close)
  end

  def connect(type = Redis, **options)
    @clients << type.new(url: ENV.fetch("REDIS_URL"), read_timeout: 70, **options)
    @clients.last
  end

  # A thread whose exception `value` and `join` raise.
  def start(&work)
    @threads << Thread.new(&work)
    @threads.last.report_on_exception = false
    @threads.last
  end

  # The condition's value, as soon as it is true.
  def wait_for(what, seconds = 30)
    till = clock + seconds
    until (value = yield)
      assert clock < till, "not within #{seconds} s: #{what}"
      sleep 0.002
    end
    value
  end

  def clock
    Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end

  def info(client, key, *full)
    reply = client.call("LOCK.INFO", key, *full)
    reply.is_a?(Array) ? Hash[*reply] : reply || {}
  end

  def waiters(key)
    info(@other, key).fetch("waiters", 0)
  end

  def connections
    @other.info("clients")["connected_clients"]
  end

  def kill(client)
    assert_equal 1, @other.call("CLIENT", "KILL", "ID", client.call("CLIENT", "ID"))
  end

  def refused(code, &block)
    assert_match(/\A#{code} /, assert_raises(Redis::CommandError, &block).message)
  end

  def test_a_lock_from_its_grant_to_its_end
    owner, fence, holds, lease = @redis.call("LOCK.ACQUIRE", "door", "OWNER", "alice", "PX", 30_000)
    assert_equal ["alice", 1, 30_000], [owner, holds, lease]
    assert_operator fence, :>, 10**15
    exact = @other.eval("return string.format('%.0f', redis.call('LOCK.INFO', 'door')[4])")
    assert_equal exact, fence.to_s
    assert_equal ["alice", fence, 2], @redis.call("LOCK.ACQUIRE", "door", "OWNER", "alice")[0, 3]
    assert_equal ["alice", fence, 2, 40_000], @redis.call("LOCK.ACQUIRE", "door", "OWNER", "alice", "PX", 40_000, "ONCE")
    assert_equal 60_000, @redis.call("LOCK.EXTEND", "door", "alice", "EX", 60, "FENCE", fence)
    assert_nil @redis.call("LOCK.ACQUIRE", "door", "OWNER", "bob")
    assert_kind_of Redis::VERSION < "6" ? Array : Hash, @redis.call("LOCK.INFO", "door")
    now = info(@redis, "door")
    assert_equal %w[owner fence holds lease-ms held-ms session client-id mode limit holders waiters], now.keys
    assert_equal ["alice", fence, 2], now.values_at("owner", "fence", "holds")
    assert_equal 1, @redis.call("LOCK.RELEASE", "door", "alice", "FENCE", fence)
    assert_equal 0, @redis.call("LOCK.RELEASE", "door", "alice", "ALL")
    assert_nil @redis.call("LOCK.INFO", "door")
    @redis.call("LOCK.ACQUIRE", "door", "OWNER", "carol")
    assert_equal 1, @redis.call("LOCK.BREAK", "door")
  end

  def test_errors
    @redis.set("word", "x")
    refused("NOTHELD") { @redis.call("LOCK.RELEASE", "door", "alice") }
    refused("NOTHELD") { @redis.call("LOCK.EXTEND", "door", "alice") }
    refused("ERR") { @redis.call("LOCK.ACQUIRE", "door", "OWNED") }
    error = assert_raises(Redis::CommandError) { @redis.call("LOCK.ACQUIRE", "word") }
    assert_match(/\AWRONGTYPE /, error.message)
    assert_equal "Redis::WrongTypeError", error.class.name unless Redis::VERSION < "5"
  end

  def test_the_lock_is_held_for_the_block_and_free_after_it
    answer = with_lock(@redis, "door") do |fence|
      assert_nil @other.call("LOCK.ACQUIRE", "door", "OWNER", "other")
      assert_equal fence, info(@other, "door")["fence"]
      "done"
    end
    assert_equal "done", answer
    assert_empty info(@other, "door")
  end

  def leave
    with_lock(@redis, "door") { return "early" }
  end

  def test_a_return_or_a_break_gives_the_lock_back
    assert_equal "early", leave
    assert_empty info(@other, "door")
    with_lock(@redis, "door") { break }
    assert_empty info(@other, "door")
  end

  def test_an_exception_of_the_block_is_the_one_to_see
    assert_raises(ZeroDivisionError) { with_lock(@redis, "door") { 1 / 0 } }
    assert_empty info(@other, "door")
    assert_raises(ZeroDivisionError) do
      with_lock(@redis, "door") do
        assert_equal 1, @other.call("LOCK.BREAK", "door")
        1 / 0
      end
    end
  end

  def test_a_lost_lock_does_not_go_unnoticed
    lose = ->(_fence) { wait_for("the lease ends") { info(@other, "door").empty? } }
    refused("NOTHELD") { with_lock(@redis, "door", lease_ms: 50, &lose) }
    # Nor while another exception is handled.
    begin
      raise "something else"
    rescue RuntimeError
      refused("NOTHELD") { with_lock(@redis, "door", lease_ms: 50, &lose) }
    end
  end

  def test_it_waits_no_longer_than_asked
    @other.call("LOCK.ACQUIRE", "door", "OWNER", "other", "PX", 60_000)
    @redis.ping
    before = connections
    GC.disable # it would close a forgotten connection some day
    error = assert_raises(LockTimeout) { with_lock(@redis, "door", wait_ms: 20) { flunk "two have the lock" } }
    assert_equal "someone else holds door", error.message
    wait_for("its connection is closed", 5) { connections == before }
  ensure
    GC.enable
  end

  def test_a_late_release_with_the_fence
    _, old, = @redis.call("LOCK.ACQUIRE", "door", "OWNER", "A", "PX", 50)
    _, new, = @other.call("LOCK.ACQUIRE", "door", "OWNER", "B", "PX", 60_000, "BLOCK", 0)
    assert_operator new, :>, old
    refused("NOTHELD") { @redis.call("LOCK.RELEASE", "door", "A", "FENCE", old) }
    refused("NOTHELD") { @redis.call("LOCK.RELEASE", "door", "B", "FENCE", old) }
    assert_equal new, info(@redis, "door")["fence"]
    assert_equal 0, @redis.call("LOCK.RELEASE", "door", "B", "FENCE", new)
  end

  # Threads that all wait at a closed gate, then take the lock five times each.
  def crowd(redis, key, count, rounds)
    @other.call("LOCK.ACQUIRE", key, "OWNER", "gate", "PX", 60_000)
    inside = 0
    fences = []
    count.times do
      start do
        rounds.times do
          with_lock(redis, key, wait_ms: 60_000) do |fence|
            assert_equal 1, inside += 1
            Thread.pass # the others' chance
            fences << fence
            inside -= 1
          end
        end
      end
    end
    wait_for("all wait") { @threads.each { |thread| thread.join(0) } && waiters(key) == count }
    begin_at = clock
    @other.call("LOCK.RELEASE", key, "gate")
    @threads.each(&:join)
    puts "#{name}: #{(fences.size / (clock - begin_at)).round} grants a second"
    assert_equal count * rounds, fences.uniq.size
    assert_equal fences.sort, fences
  end

  def test_100_threads_share_one_client_and_one_lock
    crowd(@redis, "door", THREADS, 5)
  end

  def test_100_threads_share_a_pool_of_5_connections_and_one_lock
    crowd(ConnectionPool.new(size: 5) { connect }, "door", THREADS, 5)
  end

  # How many pieces 500 threads buy: 60 of each of 5 articles are there, and 100 want one.
  def sale(locks)
    articles = 5.times.to_h { |article| ["stock:#{article}", 60] }
    @redis.mset(*articles.flatten)
    sold = Queue.new
    500.times do |buyer|
      start do
        stock = "stock:#{buyer % 5}"
        with_lock(locks, "lock:#{stock}", wait_ms: 60_000) do
          left = @redis.get(stock).to_i
          Thread.pass # the others' chance
          if left.positive?
            @redis.set(stock, left - 1)
            sold << buyer
          end
        end
      end
    end
    @threads.each(&:join)
    sold.size
  end

  def test_500_buyers_of_5_articles
    assert_equal 5 * 60, sale(@redis)
  end

  def test_control_without_the_lock_pieces_are_sold_twice
    assert_operator sale(connect(WithoutLock)), :>, 5 * 60
  end

  # Whoever reads while somebody writes sees it: by a count of who is inside, and by a file that is written in two steps.
  def test_100_threads_read_and_5_write
    inside = Hash.new(0)
    most = written = 0
    book = Tempfile.new
    File.write(book, "0 0")
    read = lambda do |_fence|
      assert_equal 0, inside[:writers]
      most = [most, inside[:readers] += 1].max
      sleep 0.02
      one, other = File.read(book).split
      assert_equal one, other
      assert_equal 0, inside[:writers]
      inside[:readers] -= 1
    end
    write = lambda do |_fence|
      assert_equal [0, 0], inside.values_at(:readers, :writers)
      inside[:writers] += 1
      File.write(book, "#{written += 1} ")
      sleep 0.001 # the others' chance
      File.write(book, "#{written} #{written}")
      assert_equal [0, 1], inside.values_at(:readers, :writers)
      inside[:writers] -= 1
    end
    5.times { start { 4.times { with_lock(@redis, "book", wait_ms: 60_000, &write) } } }
    THREADS.times { start { 4.times { with_lock(@redis, "book", "SHARED", wait_ms: 60_000, &read) } } }
    @threads.each(&:join)
    assert_equal 20, written
    assert_operator most, :>, 2
    assert_empty info(@other, "book")
  end

  def test_200_threads_share_10_permits_and_some_are_killed
    lost = 5.times.map { |at| connect(reconnect_attempts: 0).tap { |redis| redis.call("LOCK.ACQUIRE", "service", "OWNER", "lost#{at}", "LIMIT", 10, "SESSION") } }
    inside = most = served = killed = 0
    200.times do |number|
      start do
        with_lock(@redis, "service", "LIMIT", 10, wait_ms: 60_000) do
          most = [most, inside += 1].max
          sleep 0.02
        ensure
          inside -= 1
          served += 1
          lost.each { |redis| kill(redis) } if served == 20
        end
      end
    end
    wait_for("some are served") { served >= 40 }
    @threads.last(20).each { |thread| killed += 1 if thread.alive? && thread.kill }
    @threads.each(&:join)
    assert_operator served, :>=, 200 - killed
    assert_operator most, :<=, 10
    assert_operator most, :>, 2
    wait_for("all permits are given back") { info(@other, "service").empty? }
  end

  # What the page warns of.
  def test_a_wait_on_the_shared_connection_keeps_the_holder_from_its_release
    @redis.call("LOCK.ACQUIRE", "door", "OWNER", "alice", "PX", 60_000)
    waiting = start { @redis.call("LOCK.ACQUIRE", "door", "OWNER", "bob", "BLOCK", 2000) }
    wait_for("bob waits") { waiters("door") == 1 }
    release = start { @redis.call("LOCK.RELEASE", "door", "alice") }
    assert_nil waiting.value
    assert_equal 0, release.value
  end

  def test_a_wait_that_is_ended_leaves_the_queue
    @other.call("LOCK.ACQUIRE", "door", "OWNER", "other", "PX", 60_000)
    waiting = start { with_lock(@redis, "door") { flunk "two have the lock" } }
    wait_for("it waits") { waiters("door") == 1 }
    waiting.kill
    wait_for("it has left", 5) { waiters("door").zero? }
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

  def test_a_lost_connection_is_made_anew_and_the_command_sent_once_more
    @other.call("LOCK.ACQUIRE", "door", "OWNER", "other", "PX", 60_000)
    waiting = start { with_lock(@redis, "door") { "served" } }
    client = wait_for("it waits") do
      waiter = info(@other, "door", "FULL")["queue"][0]
      waiter && (waiter.is_a?(Array) ? waiter[3] : waiter["client-id"])
    end
    assert_equal 1, @other.call("CLIENT", "KILL", "ID", client)
    wait_for("it waits again") { waiters("door") == 1 }
    @other.call("LOCK.RELEASE", "door", "other")
    assert_equal "served", waiting.value
  end

  def test_a_session_lives_as_long_as_its_connection
    redis = connect(reconnect_attempts: 0)
    session = -> { redis.call("LOCK.ACQUIRE", "door", "OWNER", "alice", "PX", 60_000, "ONCE", "SESSION") }
    session.call
    assert_equal 1, info(@other, "door")["session"]
    kill(redis)
    wait_for("it ends") { info(@other, "door").empty? }
    assert_raises(Redis::ConnectionError) { redis.ping }
    assert_equal "PONG", redis.ping # made anew

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
    crowd(cluster, "gate", 10, 3)
  end
end
