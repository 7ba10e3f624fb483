# frozen_string_literal: true

# Tests threads that are killed or interrupted at any point: no lock stays held, and no place stays in a queue.

require "timeout"
require_relative "support"

class InterruptsTest < Test
  class Stop < StandardError; end

  def test_a_thread_that_is_killed_leaves_the_queue_and_gives_back_what_it_holds
    occupy("door")
    waiting = start { @locks.with_lock("door") { flunk "two have the lock" } }
    wait_for("it waits") { waiters("door") == 1 }
    waiting.kill
    assert_raises(Timeout::Error) { Timeout.timeout(0.05) { @locks.acquire("door") } }
    wait_for("both have left") { waiters("door").zero? }
    working = start { @locks.with_lock("window") { sleep } }
    wait_for("it works") { !info(@other, "window").empty? }
    working.kill
    wait_for("it is free") { info(@other, "window").empty? }
  end

  def test_the_process_ends_while_its_threads_hold_and_wait
    occupy("window")
    script = <<~'RUBY'
      locks = Redislock::Locks.new(Redis.new(url: ENV.fetch("REDIS_URL")))
      held = Queue.new
      3.times { |at| Thread.new { locks.with_lock("door#{at}") { held << true && sleep } } }
      Thread.new { locks.with_lock("window") { nil } }
      3.times { held.pop }
    RUBY
    process = spawn(RbConfig.ruby, "-W:no-deprecated", "-r", "redis", "-r", "redislock", "-e", script)
    wait_for("it ends") { Process.wait(process, Process::WNOHANG) }
    process = nil
    wait_for("all is free") { 3.times.all? { |at| info(@other, "door#{at}").empty? } && waiters("window").zero? }
  ensure
    Process.kill(:KILL, process) && Process.wait(process) if process
  end

  # Interrupts a lock at each of its lines in turn: first at the first line, then at the second, and so on.
  def test_interrupted_at_each_line
    [0, 1].each do |others|
      1.step do |at|
        occupy("door") if others == 1
        reached = interrupted(at) { @locks.with_lock("door", wait: others.zero? ? nil : 0.001) { nil } }
        @other.call("LOCK.RELEASE", "door", "other") if others == 1
        wait_for("the lock is free after line #{at}") { info(@other, "door").empty? }
        break assert_operator(at, :>, 30) unless reached
      end
    end
  end

  # Lets another thread interrupt the block at this line. Returns false if fewer lines ran.
  def interrupted(at)
    lines = 0
    working = nil
    trace = TracePoint.new(:line) do |point|
      next unless Thread.current == working && point.path.match?(%r{/redislock/(core|answers|held)\.rb}) && (lines += 1) == at

      Thread.new { working.raise(Stop) }.join
    end
    gate = Queue.new
    working = start { gate.pop && yield }
    trace.enable do
      gate << :open
      working.join
    end
    lines >= at
  rescue Stop, Redislock::NotAcquired
    lines >= at
  end

  # A thread that is about to read may be delayed until its time is over. It still has to read a message that is there.
  def test_who_has_no_time_left_hears_only_what_is_there
    connection = Redislock::Connection.like(@redis).connect
    connection.subscribe("ch", false)
    assert_equal :up, wait_for("the subscription") { connection.hear(60) }
    assert start { [0, -1].map { |seconds| connection.hear(seconds) } }.join(60), "it waits for ever"
  ensure
    connection.close
  end
end
