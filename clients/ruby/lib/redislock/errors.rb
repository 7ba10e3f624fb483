# frozen_string_literal: true

# Locks of a Redis or Valkey server with the module Redislock. docs/protocol.md describes the protocol.
module Redislock
  # Base of all errors of this package. Bad input is an ArgumentError.
  class Error < StandardError; end

  # The lock was not free until the wait was over, or the server could not be asked until then.
  class NotAcquired < Error; end

  # The lock has ended without a release: somebody else may hold it now.
  class LockLost < Error
    # Why the lock was lost, without the names of the locks.
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

  # The wait would never end. `cycle` tells who waits for whom.
  class Deadlock < Error
    attr_reader :cycle

    def initialize(cycle)
      @cycle = cycle
      super
    end
  end

  # The meaning of errors of redis-rb and redis-client.
  module Refusal
    # Errors of a server that can't serve the command at the moment, or is no longer the right one to ask.
    PASSING = [
      "ASK", "BUSY", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "MOVED", "NOREPLICAS Not enough", "READONLY", "TRYAGAIN", "UNBLOCKED"
    ].freeze
    REPLACED = %w[LOADING MASTERDOWN READONLY UNBLOCKED].freeze # those after which to reconnect: another server may have replaced this one

    module_function

    # The code of an error that the server sent; nil for any other error.
    def code(error)
      error.message[/\A[A-Z]{2,}\b/]
    end

    # Whether to ask again later: the connection is lost, or the server can't serve the command at the moment.
    def passes?(error)
      said = code(error)
      said ? error.message.start_with?(*PASSING) : [Error, ArgumentError, NameError, TypeError].none? { |kind| error.is_a?(kind) }
    end

    # Whether the connection is lost, or leads to a server that another one may have replaced.
    def ends_connection?(error)
      said = code(error)
      passes?(error) && (said.nil? || REPLACED.include?(said))
    end

    # Why the grant has ended, from an error of the server, without the lock's name; nil if the error does not say so.
    def gone(error)
      case code(error)
      when "NOTHELD" then said(error).sub(/\A.*?by this owner: ('.*'|it) /, "it ")
      when "WRONGTYPE" then "its key has something else"
      end
    end

    def said(error) = error.message.sub(%r{ \((rediss?|unix)://\S*\)\z}, "") # the part that redis-client adds

    # Converts an error of the server to one of this package; returns any other error as it is.
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
