# frozen_string_literal: true

# Locks of a Redis or Valkey server with the module Redislock. docs/protocol.md tells in full what this does.
module Redislock
  # What all errors of this package are. Bad input is an ArgumentError.
  class Error < StandardError; end

  # The lock was not free until the wait was over, or the server could not be asked until then.
  class NotAcquired < Error; end

  # The lock has ended without a release: somebody else may hold it now.
  class LockLost < Error
    # Why, without the keys.
    attr_reader :reason

    def self.of(request, reason) = new("#{request}: #{reason}", reason)

    def initialize(message, reason = message)
      @reason = reason
      super(message)
    end
  end

  # The locks were closed.
  class Closed < Error; end

  # Too few replicas confirmed the lock in time (`sync`).
  class NotConfirmed < Error; end

  # The server has no lock commands.
  class NoModule < Error; end

  # The server's Redislock doesn't know an option.
  class TooOld < Error; end

  # This wait would never end. `cycle` tells who waits for whom.
  class Deadlock < Error
    attr_reader :cycle

    def initialize(cycle)
      @cycle = cycle
      super
    end
  end

  # What the errors of redis-rb and redis-client mean.
  module Refusal
    # What a server says that is not yet, or no longer, the one to ask.
    PASSING = [
      "ASK", "BUSY", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "MOVED", "NOREPLICAS Not enough", "READONLY", "TRYAGAIN", "UNBLOCKED"
    ].freeze
    REPLACED = %w[LOADING MASTERDOWN READONLY UNBLOCKED].freeze # and of these, what one says that another may have replaced

    module_function

    # The code of what the server said; nil if it said nothing.
    def code(error)
      error.message[/\A[A-Z]{2,}\b/]
    end

    # The connection is lost, or the server is not yet, or no longer, the one to ask.
    def passes?(error)
      said = code(error)
      said ? error.message.start_with?(*PASSING) : [Error, ArgumentError, NameError, TypeError].none? { |kind| error.is_a?(kind) }
    end

    # The connection is lost, or leads to a server that another one may have replaced.
    def ends_connection?(error)
      said = code(error)
      passes?(error) && (said.nil? || REPLACED.include?(said))
    end

    # Why the server says that the grant has ended, without the lock's name. Nil: it says something else.
    def gone(error)
      case code(error)
      when "NOTHELD" then said(error).sub(/\A.*?by this owner: ('.*'|it) /, "it ")
      when "WRONGTYPE" then "its key has something else"
      end
    end

    def said(error) = error.message.sub(%r{ \((rediss?|unix)://\S*\)\z}, "") # which redis-client adds

    # The error of this package for what the server said, or that itself.
    def explained(error, request)
      said = said(error)
      rest = said.split(" ", 2).last
      case code(error)
      when "NOTHELD" then LockLost.of(request, gone(error))
      when "DEADLOCK" then Deadlock.new(rest)
      when "GRACE" then NotAcquired.new("#{request}: #{rest}")
      when "NOREPLICAS" then request.sync ? NotConfirmed.new("#{request}: #{rest}") : error
      when "ERR"
        if said.match?(/unknown command/i)
          NoModule.new("this server has no Redislock module: load libredislock.so into it (loadmodule), or connect to one that has it")
        elsif said.include?("syntax error")
          TooOld.new("this server's Redislock doesn't know one of these options: upgrade the module, or leave the option out")
        else
          error
        end
      else error
      end
    end
  end
end
