# frozen_string_literal: true

# Many threads at once.

require "tempfile"
require_relative "support"

class ManyTest < Test
  # Locks that don't lock.
  class WithoutLock
    def with_lock(*) = yield(nil)
  end

  # Threads that all wait at a closed gate, then take the lock five times each.
  def crowd(locks)
    occupy("door")
    inside = 0
    fences = []
    THREADS.times do
      start do
        5.times do
          locks.with_lock("door") do |held|
            assert_equal 1, inside += 1
            Thread.pass # the others' chance
            fences << held.fence
            inside -= 1
          end
        end
      end
    end
    wait_for("all wait") { waiters("door") == THREADS }
    begin_at = clock
    @other.call("LOCK.RELEASE", "door", "other")
    @threads.each(&:join)
    puts "#{name}: #{(fences.size / (clock - begin_at)).round} grants a second"
    assert_equal THREADS * 5, fences.uniq.size
    assert_equal fences.sort, fences
  end

  def test_100_threads_share_one_client_and_one_lock
    crowd(@locks)
  end

  def test_100_threads_share_a_pool_of_5_connections_and_one_lock
    crowd(open_locks(ConnectionPool.new(size: 5) { connect }))
  end

  # How many pieces 500 threads buy: 60 of each of 5 articles are there, and 100 want one.
  def sale(locks)
    articles = 5.times.to_h { |article| ["stock:#{article}", 60] }
    @redis.mset(*articles.flatten)
    sold = Queue.new
    500.times do |buyer|
      start do
        stock = "stock:#{buyer % 5}"
        locks.with_lock("lock:#{stock}") do
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
    assert_equal 5 * 60, sale(@locks)
  end

  def test_control_without_the_lock_pieces_are_sold_twice
    assert_operator sale(WithoutLock.new), :>, 5 * 60
  end

  # Whoever reads while somebody writes sees it: by a count of who is inside, and by a file that is written in two steps.
  def test_100_threads_read_and_5_write
    inside = Hash.new(0)
    most = written = 0
    book = Tempfile.new
    File.write(book, "0 0")
    read = lambda do |_held|
      assert_equal 0, inside[:writers]
      most = [most, inside[:readers] += 1].max
      sleep 0.02
      one, other = File.read(book).split
      assert_equal one, other
      assert_equal 0, inside[:writers]
      inside[:readers] -= 1
    end
    write = lambda do |_held|
      assert_equal [0, 0], inside.values_at(:readers, :writers)
      inside[:writers] += 1
      File.write(book, "#{written += 1} ")
      sleep 0.001 # the others' chance
      File.write(book, "#{written} #{written}")
      assert_equal [0, 1], inside.values_at(:readers, :writers)
      inside[:writers] -= 1
    end
    5.times { start { 4.times { @locks.with_lock("book", &write) } } }
    THREADS.times { start { 4.times { @locks.with_lock("book", shared: true, &read) } } }
    @threads.each(&:join)
    assert_equal 20, written
    assert_operator most, :>, 2
    assert_empty info(@other, "book")
  end

  def test_200_threads_share_10_permits_and_some_are_killed
    lost = 5.times.map do |at|
      connect(reconnect_attempts: 0).tap { |redis| redis.call("LOCK.ACQUIRE", "service", "OWNER", "lost#{at}", "LIMIT", 10, "SESSION") }
    end
    inside = most = served = killed = 0
    200.times do
      start do
        @locks.with_lock("service", limit: 10) do
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
end
