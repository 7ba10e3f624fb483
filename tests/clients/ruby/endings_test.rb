# frozen_string_literal: true

# Tests what ends locks besides a release: a closed client, closed locks, losses, the end of the program. Each holder is told once, and nothing
# stays behind.

require_relative "support"

class EndingsTest < Test
  def teardown
    super
    assert_empty subscriptions
    wait_for("no thread is left") { ours.empty? }
  end

  def ours = Thread.list.select { |thread| thread.name == "redislock" }
  def subscriptions = @other.call("PUBSUB", "CHANNELS", "redislock:*")

  # Runs the block, which has to end a held lock and a wait of this client.
  def ends(client, message)
    locks = open_locks(client)
    told, inside = Queue.new, Queue.new
    occupy("window")
    held = locks.acquire("door")
    held.on_lost { |lost| told << lost }
    waiting = start { locks.acquire("window") }
    block = start { locks.with_lock("block") { |inner| inside.push(true) && wait_for("it is told") { inner.lost? } } }
    wait_for("all are there") { waiters("window") == 1 && !inside.empty? }
    assert(ours.all? { |thread| thread.thread_variable_get(:fork_safe) }) # otherwise, Puma would warn of these threads
    yield locks
    wait_for("it is told") { !told.empty? }
    assert_equal "door: #{message}", told.pop.message
    assert_equal message, assert_raises(Redislock::Closed) { waiting.value }.message
    assert_equal "block: #{message}", assert_raises(Redislock::LockLost) { block.value }.message
    wait_for("all is free") { %w[door block].all? { |key| info(@other, key).empty? } && waiters("window").zero? }
    wait_for("nobody listens") { subscriptions.empty? && ours.empty? }
    assert_empty told
    assert_raises(Redislock::LockLost) { held.release }
    @other.call("LOCK.RELEASE", "window", "other")
    locks
  end

  def test_a_closed_client_ends_what_was_made_of_it
    pool = ConnectionPool.new(size: 1) { connect }
    wrapped = ConnectionPool.wrap(size: 1) { connect }
    ways = [[connect, :close.to_proc], [connect, :quit.to_proc], [connect, :disconnect!.to_proc],
            [pool, ->(client) { client.shutdown(&:close) }], [wrapped, ->(client) { client.pool_shutdown(&:close) }]]
    ways.each do |client, close|
      locks = ends(client, "the client was closed") { close.call(client) }
      locks.with_lock("door") { nil } # the client opens again, and so do its locks
      locks.close
      assert_raises(Redislock::Closed) { locks.acquire("door") }
    end
  end

  def test_closed_in_a_trap
    client = connect
    before = trap(:USR2) { client.close }
    ends(client, "the client was closed") { Process.kill(:USR2, Process.pid) }.close
  ensure
    trap(:USR2, before || "DEFAULT")
  end

  def test_closed_locks
    client = connect
    ends(client, "the locks were closed", &:close)
    assert_equal "PONG", client.ping
    client.close
  end

  def test_a_loss_in_nested_blocks
    inner = outer = nil
    error = assert_raises(Redislock::LockLost) do
      @locks.with_lock("outer") do |one|
        outer = one
        @locks.with_lock("inner") do |two|
          inner = two
          @other.call("LOCK.BREAK", "outer")
          wait_for("it is told") { one.lost? }
        end
        assert_empty info(@other, "inner")
      end
    end
    assert_same outer.lost, error
    refute inner.lost?
  end

  def test_a_listener_that_fails_hinders_no_other
    told = Queue.new
    held = @locks.acquire("door")
    held.on_lost do
      Thread.current.report_on_exception = false
      raise "mine"
    end
    held.on_lost { |lost| told << lost }
    @other.call("LOCK.BREAK", "door")
    wait_for("it is told") { !told.empty? }
    @locks.with_lock("door") { nil }
  end

  PROGRAM = <<~'RUBY'
    redis = Redis.new(url: ENV.fetch("REDIS_URL"), read_timeout: 70, reconnect_attempts: 0)
    locks = Redislock::Locks.new(redis)
    3.times { |at| locks.acquire("door#{at}") }
    locks.acquire("kept", renew: false)
  RUBY

  def run_program(more)
    began = clock
    process = spawn(RbConfig.ruby, "-W:no-deprecated", "-r", "redis", "-r", "redislock", "-e", PROGRAM + more, err: File::NULL)
    wait_for("it ends") { Process.wait(process, Process::WNOHANG) }
    process = nil
    clock - began
  ensure
    Process.kill(:KILL, process) && Process.wait(process) if process
  end

  def held_doors = 3.times.reject { |at| info(@other, "door#{at}").empty? }

  def test_a_program_that_ends_gives_back_what_it_renews
    ["", "exit 3", "raise 'a failure'", "Process.kill(:TERM, $$); sleep", "redis.close", "Thread.new { loop { locks.with_lock('x') { } } }"].each do |more|
      run_program(more)
      assert_empty held_doors, more
      assert_equal more == "redis.close", info(@other, "kept").empty?
      @other.flushall
    end
  end

  def test_a_program_that_does_not_end_in_order_gives_back_nothing
    ["exit!", "Process.kill(:KILL, $$)", "fork { exit }; Process.wait; exit!"].each do |more|
      run_program(more)
      assert_equal [0, 1, 2], held_doors, more
      @other.flushall
    end
  end

  def test_a_program_ends_without_its_server
    assert_operator run_program("redis.call('CLIENT', 'PAUSE', 600_000, 'WRITE')"), :<, 30
  ensure
    @other.call("CLIENT", "UNPAUSE")
  end
end
