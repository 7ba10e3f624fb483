# frozen_string_literal: true

require_relative "wires"

module Redislock
  # What ends locks besides their release: the end of the program, and that of the client of which they were made.
  module Ending
    WITHIN = 1.0 # so long either waits for a server that does not answer

    @cores = ObjectSpace::WeakMap.new # each with its client

    # Calls of these methods end the locks of a client. It opens again when it is used again, and so do they.
    def self.by(*names)
      Module.new do
        names.each do |name|
          define_method(name) do |*given, &block|
            super(*given, &block)
          ensure
            Ending.closed(self)
          end
        end
      end
    end

    CLIENT = by(:close, :disconnect!, :quit)
    POOL = by(:shutdown)

    # A RedisClient can't be watched: it calls its own `close` whenever a connection has failed.
    def self.watch(core, client)
      client = client.wrapped_pool if client.respond_to?(:wrapped_pool)
      if defined?(::Redis) && client.is_a?(::Redis) then client.extend(CLIENT)
      elsif defined?(::ConnectionPool) && client.is_a?(::ConnectionPool) then client.extend(POOL)
      end
      @cores[core] = client
      @at_exit ||= at_exit { program_ends } # from the first lock on: what was to run at exit before runs later, and may still lock
    end

    def self.closed(client)
      each_core { |core| Wires.thread { core.client_closed }.join(WITHIN) if @cores[core].equal?(client) }
    end

    def self.program_ends
      limit = Wires.now + WITHIN
      each_core { |core| core.program_ends(limit) }
    end

    # Those of a parent are none of this process.
    def self.each_core(&block) = @cores.keys.select { |core| core.pid == Process.pid }.each(&block)
    private_class_method :each_core
  end
end
