# frozen_string_literal: true

# Helpers of the tests: connections, locks, threads, and waiting for a condition.

require "minitest/autorun"
require "connection_pool"
require "redis"
require "redislock"

begin
  require "redis-clustering"
rescue LoadError
  # redis-rb 4 contains it
end

class Test < Minitest::Test
  def setup
    @clients = []
    @opened = []
    @threads = []
    @redis = connect
    @other = connect
    @redis.flushall
    @redis.config(:set, "lock.default-lease", 600_000) # so that a lock that is soon free was released, and did not lapse
    @locks = open_locks(@redis)
  end

  def teardown
    @threads.each(&:kill)
    wait_for("the threads end") { @threads.none?(&:alive?) }
    @opened.each(&:close)
    @clients.each(&:close)
  end

  def connect(**options)
    @clients << Redis.new(url: ENV.fetch("REDIS_URL"), read_timeout: 70, **options)
    @clients.last
  end

  def open_locks(client)
    @opened << Redislock::Locks.new(client)
    @opened.last
  end

  # Starts a thread. Its exception is raised by `value` and `join`.
  def start(&work)
    @threads << Thread.new(&work)
    @threads.last.report_on_exception = false
    @threads.last
  end

  # Waits until the condition is true, and returns its value.
  def wait_for(what, seconds = 60)
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

  # Lets another owner hold the lock.
  def occupy(key)
    @other.call("LOCK.ACQUIRE", key, "OWNER", "other", "PX", 600_000)
  end

  def kill(client)
    assert_equal 1, @other.call("CLIENT", "KILL", "ID", client.call("CLIENT", "ID"))
  end

  def refused(code, &block)
    assert_match(/\A#{code} /, assert_raises(Redis::CommandError, &block).message)
  end
end
