# frozen_string_literal: true

# Tests the package: blocks, losses, owners, forks, and what is refused.

require_relative "support"

class LocksTest < Test
  def test_the_lock_is_held_for_the_block_and_free_after_it
    answer = @locks.with_lock("door") do |held|
      assert_equal [held.owner, held.fence], info(@other, "door").values_at("owner", "fence")
      refute held.lost?
      "done"
    end
    assert_equal "done", answer
    assert_empty info(@other, "door")
  end

  def leave
    @locks.with_lock("door") { return "early" }
  end

  def test_a_return_a_break_or_a_throw_gives_the_lock_back
    assert_equal "early", leave
    assert_empty info(@other, "door")
    @locks.with_lock("door") { break }
    assert_empty info(@other, "door")
    catch(:out) { @locks.with_lock("door") { throw :out } }
    assert_empty info(@other, "door")
  end

  def test_an_exception_of_the_block_is_the_one_to_see
    assert_raises(ZeroDivisionError) { @locks.with_lock("door") { 1 / 0 } }
    assert_empty info(@other, "door")
    assert_raises(ZeroDivisionError) do
      @locks.with_lock("door") do
        assert_equal 1, @other.call("LOCK.BREAK", "door")
        1 / 0
      end
    end
  end

  # If the process was suspended, a release may come before the clock runs.
  def test_a_release_that_finds_the_lease_over_gives_the_lock_back
    held = @locks.acquire("door")
    held.instance_variable_get(:@entry).until = 0
    assert_raises(Redislock::LockLost) { held.release }
    wait_for("it is given back") { info(@other, "door").empty? }
  end

  # The answer to a late renewal may come before the clock runs.
  def test_a_renewal_that_comes_too_late_names_the_maximum_age
    held = @locks.acquire("door", lease: 600, max_hold: 300)
    entry = held.instance_variable_get(:@entry)
    @other.call("LOCK.RELEASE", "door", held.owner) # the holder gets no message of this
    @other.call("CLIENT", "PAUSE", 600_000, "WRITE")
    renewing = start { held.extend }
    wait_for("it is asked") { entry.flight }
    entry.until = 0
    @other.call("CLIENT", "UNPAUSE")
    assert_match(/maximum age/, assert_raises(Redislock::LockLost) { renewing.value }.message)
  ensure
    @other.call("CLIENT", "UNPAUSE")
  end

  def test_a_lost_lock_does_not_go_unnoticed
    lose = lambda do |held|
      told = Queue.new
      held.on_lost { |lost| told << lost }
      @other.call("LOCK.BREAK", "door")
      assert_kind_of Redislock::LockLost, told.pop
      held.on_lost { |lost| told << lost } # the block is called, although the lock is lost already
      assert_kind_of Redislock::LockLost, told.pop
      assert held.lost?
      assert_raises(Redislock::LockLost) { held.check! }
      assert_raises(Redislock::LockLost) { held.extend(60) }
    end
    assert_raises(Redislock::LockLost) { @locks.with_lock("door", &lose) }
    # The loss is raised, too, if the block runs while another exception is handled.
    begin
      raise "something else"
    rescue RuntimeError
      assert_raises(Redislock::LockLost) { @locks.with_lock("door", &lose) }
    end
  end

  def test_without_a_block
    held = @locks.acquire("door", "window", lease: 10, renew: false)
    assert_in_delta 60, held.extend(60), 0.001
    held.release
    held.release # nothing is left to release
    assert_raises(ArgumentError) { held.extend(60) }
    assert_empty info(@other, "door")
    @locks.try_acquire("door").release
  end

  # An earlier version visited all holders for each message, to see whether any waited.
  def test_a_message_costs_the_same_however_many_locks_are_held
    blocks = [1, 200].map do |count|
      held = Array.new(count) { |at| @locks.acquire("door#{at}") }
      told, calls = Queue.new, 0
      held[0].on_lost { |lost| told << lost }
      TracePoint.new(:b_call) { |point| calls += 1 if point.path.end_with?("core.rb") }.enable do
        @other.call("LOCK.BREAK", "door0")
        told.pop
      end
      held.drop(1).each(&:release)
      calls
    end
    assert_operator blocks[1], :<, blocks[0] + 100
  end

  def test_a_child_begins_anew_and_holds_nothing
    held = @locks.acquire("door", lease: 2)
    reader, writer = IO.pipe
    child = fork do
      held.release # does nothing: the parent holds the lock
      @locks.close # there is nothing to close
      own = @locks.acquire("window", lease: 2)
      writer.puts("#{@locks.try_acquire("door").inspect} #{own.lost?}")
      sleep
    ensure
      exit!(1)
    end
    writer.close
    assert_equal "nil false", reader.gets&.strip
    fence = info(@other, "window")["fence"]
    calls = -> { @other.info("commandstats")["lock.extend"]&.fetch("calls").to_i }
    before = calls.call
    wait_for("both are renewed over more than a lease") { calls.call >= before + 8 }
    assert_equal [held.fence, fence], %w[door window].map { |key| info(@other, key)["fence"] }
    refute held.lost?
    Process.kill(:KILL, child)
    wait_for("the child's lease ends") { info(@other, "window").empty? }
    held.release
    assert_empty info(@other, "door")
  ensure
    Process.kill(:KILL, child) # in case the test fails before the child ends
    Process.wait(child)
  end

  def test_locks_are_in_the_database_that_was_selected_when_they_were_made
    @redis.select(3)
    locks = open_locks(@redis)
    @redis.select(0)
    locks.with_lock("door") do
      assert_equal [false, true], [0, 3].map { |database| @redis.select(database) && @redis.exists?("door") }
    end
  end

  def test_a_server_that_is_not_there
    bound = Socket.new(:INET, :STREAM).tap { |socket| socket.bind(Addrinfo.tcp("127.0.0.1", 0)) } # a port on which nobody listens
    locks = open_locks(Redis.new(host: "127.0.0.1", port: bound.local_address.ip_port))
    2.times { assert_raises(Redis::CannotConnectError) { locks.acquire("door") } }
  ensure
    bound&.close
  end

  def test_rights
    @other.call("ACL", "SETUSER", "app", "on", ">secret", "resetchannels", "~door", "+@all")
    locks = open_locks(Redis.new(url: ENV.fetch("REDIS_URL"), username: "app", password: "secret"))
    assert_match(/NOPERM/, assert_raises(Redis::CommandError) { locks.acquire("door") }.message)
    @other.call("ACL", "SETUSER", "app", "&redislock:*")
    wait_for("it has subscribed") { locks.acquire("door").release || true rescue nil }
    assert_match(/NOPERM/, assert_raises(Redis::CommandError) { locks.acquire("window") }.message)
    wrong = open_locks(Redis.new(url: ENV.fetch("REDIS_URL"), username: "app", password: "wrong"))
    assert_match(/WRONGPASS/, assert_raises(Redis::BaseError) { wrong.acquire("door") }.message)
  ensure
    @other.call("ACL", "DELUSER", "app")
  end

  def test_bad_input_is_refused
    [{ wait: "1" }, { wait: Float::NAN }, { wait: 1e13 }, { lease: true }, { lease: 1e13 }, { limit: "2" }, { label: 5 }, { sync: 1 },
     { colour: "red" }].each { |options| assert_raises(ArgumentError, options.inspect) { @locks.acquire("door", **options) } }
    [%w[a a], [nil], [5]].each { |keys| assert_raises(ArgumentError) { @locks.acquire(*keys) } }
    assert_raises(ArgumentError) { Redislock::Locks.new("redis://localhost") }
  end

  def test_any_bytes
    @locks.with_lock("tür\xFF".b, owner: "日本 x", label: nil) do |held|
      assert_equal held.fence, info(@other, "tür\xFF".b)["fence"]
      waiting = start { @locks.with_lock("tür\xFF".b, owner: "\xFE \xFF".b) { |inner| inner.fence } }
      wait_for("it waits") { waiters("tür\xFF".b) == 1 }
      held.release
      assert_operator waiting.value, :>, held.fence
    end
  end
end
