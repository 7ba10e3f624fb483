# frozen_string_literal: true

require_relative "cluster"
require_relative "errors"

module Redislock
  # Connections of our own, with the settings of the user's client, which may have one connection, or a busy pool. They send each command only
  # once: this package repeats what was lost.
  module Connection
    # Returns the Server or the Cluster that this client connects to.
    def self.like(client)
      one = client.respond_to?(:with) ? client.with(&:itself) : client # one of a pool
      if defined?(::Redis) && one.is_a?(::Redis)
        ::Redis::VERSION.to_i < 5 ? like4(one) : like5(one._client, -> { Redis5.new(one.dup) }) { |settings| Redis5.new(::Redis.new(settings)) }
      elsif one.respond_to?(:call_once_v) && one.respond_to?(:config)
        like5(one, -> { Plain.new(one.config.new_client) }) { |settings| Plain.new(::RedisClient.config(**settings).new_client) }
      else
        raise ArgumentError, "the client must be a Redis, a RedisClient, or a pool of them: #{client.class}"
      end
    end

    def self.like4(one)
      return cluster4(one.instance_variable_get(:@options)) if cluster?(one._client)

      database = one._client.db # a copy does not know of a `select`
      Server.new { Redis4.new(one.dup.tap { |copy| copy._client.db = database }) }
    end

    def self.cluster4(settings)
      Cluster.new(::Redis::Cluster::Option.new(settings).per_node_key.keys) do |node|
        host, _, port = node.rpartition(":")
        option = ::Redis::Cluster::Option.new(settings)
        option.update_node([{ host: host, port: port.to_i }])
        Redis4.new(::Redis.new(option.per_node_key.values[0]))
      end
    end

    # For redis-client, and for redis-rb from version 5 on. `alone` connects to a single server; the block connects to a node of a cluster.
    def self.like5(client, alone)
      return Server.new(&alone) unless cluster?(client)

      config = client.config
      Cluster.new(config.startup_nodes.keys) { |node| yield config.client_config_for_node(node).except(:command_builder) }
    end

    def self.cluster?(client) = client.class.ancestors.any? { |kind| kind.name&.end_with?("::Cluster") }
    private_class_method :like4, :cluster4, :like5, :cluster?

    # A connection by redis-client.
    class Plain
      LEAST = 0.001 # s; to redis-rb, a timeout of 0 means none

      attr_reader :channel

      def initialize(client)
        @client = client
      end

      # All bytes are sent as they are, whatever their encodings.
      def call(words) = once(words.map { |word| word.to_s.b })

      # Whether this error means that the connection can't be used any more.
      def ended_by?(error) = Refusal.ends_connection?(error)

      # In a shard of a cluster, SSUBSCRIBE hears only the shard's messages. SUBSCRIBE, too, hears messages from other nodes, such as one to
      # which a slot is moving.
      def subscribe(channel, sharded)
        @channel, @sharded = channel, sharded
        listen([["SUBSCRIBE", channel], *([["SSUBSCRIBE", channel]] if sharded)])
      end

      # Returns :up for a confirmed subscription, a message, or :alive; nil if nothing came for so many seconds.
      def hear(seconds) = heard(@pubsub.next_event([seconds, LEAST].max))

      # The answer shows that the subscription is alive. Another thread than the reading one may call this.
      def ping = @pubsub.call_v(["PING"])

      def close
        @pubsub&.close
        @client.close
      end

      private

      # Anything else is the rest of a reply that came so slowly that reading was given up in the middle.
      def heard(reply)
        case reply
        in ["message" | "smessage", _, message] then message
        in nil then nil
        in ["subscribe", *] then @sharded ? :alive : :up
        in ["ssubscribe", *] then :up
        in ["sunsubscribe", *] then raise IOError, "the slot of the channel has moved"
        in "PONG" | ["pong", *] then :alive
        in Exception then raise reply
        end
      end

      def listen(commands)
        @pubsub = pubsub
        commands.each { |words| @pubsub.call_v(words) }
      end

      def once(words) = @client.call_once_v(words)
      def pubsub = @client.pubsub
    end

    # A connection by redis-rb from version 5 on, which is based on redis-client.
    class Redis5 < Plain
      private

      def once(words) = @client.without_reconnect { @client.call(*words) }
      def pubsub = @client._client.pubsub
    end

    # A connection by redis-rb before version 5.
    class Redis4 < Plain
      # This redis-rb handles encodings itself. Only one thread at a time uses a connection, so the client's own lock is not needed.
      def call(words) = @client._client.with_reconnect(false) { @client._client.call(words) }

      def hear(seconds)
        @client._client.connection.timeout = [seconds, LEAST].max
        heard(@client._client.read)
      rescue ::Redis::TimeoutError
        nil
      end

      def ping = @client._client.write([:ping])

      private

      def listen(commands) = @client._client.with_reconnect(false) { @client._client.process(commands) }
    end
  end
end
