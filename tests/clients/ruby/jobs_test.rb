# frozen_string_literal: true

# Tests the page's program for customers' jobs with two Sidekiq workers, one of which is killed.

require_relative "support"
require "fileutils"
require "tmpdir"

class JobsTest < Test
  PROGRAM = File.expand_path("../../../docs/programs/reports.rb", __dir__)
  # Reports note when they begin, and run until the test ends them.
  WORK = <<~RUBY
    require #{PROGRAM.dump}
    OUTSIDE = Redis.new(url: ENV.fetch("REDIS_URL"), read_timeout: 70)
    class ReportJob
      def perform(customer)
        OUTSIDE.rpush("begun", "\#{customer} \#{Process.pid}")
        OUTSIDE.blpop("end:\#{customer}", timeout: 60)
      end
    end
  RUBY

  def setup
    super
    @folder = Dir.mktmpdir
    @program = File.join(@folder, "work.rb")
    File.write(@program, WORK)
    @workers = []
  end

  def teardown
    @workers.each { |worker| Process.kill(:KILL, worker) && Process.wait(worker) }
    FileUtils.rm_r(@folder)
    super
  end

  # With one thread each, a worker that waits for a lock takes no other job.
  def work
    @workers << spawn("sidekiq", "--require", @program, "--concurrency", "1", chdir: @folder, %i[out err] => File.join(@folder, "log"))
    @workers.last
  end

  def program(code)
    system("ruby", "-W:no-deprecated", "-r", @program, "-e", "ActiveJob::Base.logger = nil; #{code}", %i[out err] => File.join(@folder, "log"))
  end

  def begun = @other.blpop("begun", timeout: 60)

  def test_two_workers_of_which_one_is_killed
    mine = @locks.acquire("reports:7", limit: 2)
    assert program("2.times { ReportJob.perform_later(7) }")
    victim = work
    assert_equal ["begun", "7 #{victim}"], begun
    assert program("exit(report_now(7) { true }.nil? && report_now(8) { true })"), "a request for customer 7 is refused, for 8 not"
    other = work
    wait_for("its job waits") { waiters("reports:7") == 1 }
    assert_equal 0, @other.llen("begun")
    Process.kill(:KILL, victim)
    Process.wait(@workers.delete(victim))
    assert_equal ["begun", "7 #{other}"], begun # the other worker began at once, although leases last for minutes
    @other.rpush("end:7", "now")
    wait_for("only this one is left") { info(@other, "reports:7")["holders"] == 1 }
    mine.release
    assert_empty info(@other, "reports:7")
  end
end
