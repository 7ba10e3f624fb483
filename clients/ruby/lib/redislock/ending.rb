# frozen_string_literal: true

require_relative "wires"

module Redislock
  # Ends locks without a release by their holders: at the end of the program, and when their client is closed.
  module Ending
    WITHIN = 1.0 # s: how long both wait for a server that does not answer

    @cores = ObjectSpace::WeakMap.new # maps each core to its client

    # Makes calls of these methods of a client end its locks. A closed client opens again when it is used, and so do the locks.
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

    # Watches for the end of the client, except for a RedisClient: this calls its own `close` whenever a connection has failed.
    def self.watch(core, client)
      client = client.wrapped_pool if client.respond_to?(:wrapped_pool)
      if defined?(::Redis) && client.is_a?(::Redis) then client.extend(CLIENT)
      elsif defined?(::ConnectionPool) && client.is_a?(::ConnectionPool) then client.extend(POOL)
      end
      @cores[core] = client
      @at_exit ||= at_exit { program_ends } # set at the first lock, so handlers that were set earlier run after this one, and may still lock
    end

    def self.closed(client)
      each_core { |core| Wires.thread { core.client_closed }.join(WITHIN) if @cores[core].equal?(client) }
    end

    def self.program_ends
      limit = Wires.now + WITHIN
      each_core { |core| core.program_ends(limit) }
    end

    # After a fork, the parent's cores are left out.
    def self.each_core(&block) = @cores.keys.select { |core| core.pid == Process.pid }.each(&block)
    private_class_method :each_core
  end
end
