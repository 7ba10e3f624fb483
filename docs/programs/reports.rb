# frozen_string_literal: true

# At most two reports at once for each customer, over all processes: jobs wait for their turn, requests are refused.
# The worker: sidekiq -r ./reports.rb

require "active_job"
require "redis"
require "redislock"
require "sidekiq"

LOCKS = Redislock::Locks.new(Redis.new(url: ENV.fetch("REDIS_URL", "redis://localhost:6379")))

# The session frees the place of a worker that is killed.
def report(customer, wait:)
  LOCKS.with_lock("reports:#{customer}", limit: 2, session: true, wait: wait) { |held| yield held.fence }
end

class ReportJob < ActiveJob::Base
  self.queue_adapter = :sidekiq
  retry_on Redislock::NotAcquired, wait: 60, attempts: 100 # meanwhile, this thread works for other customers

  around_perform { |job, work| report(job.arguments[0], wait: 10) { work.call } }

  def perform(customer)
    logger.info("the report of customer #{customer}")
  end
end

# In a controller: nil stands for "429 Too Many Requests".
def report_now(customer, &work)
  report(customer, wait: 0, &work)
rescue Redislock::NotAcquired
  nil
end

report_now(42) { |fence| puts "held with fence #{fence}" } if $PROGRAM_NAME == __FILE__
