# frozen_string_literal: true

require_relative "errors"

module Redislock
  # The servers of a client that has only one server.
  class Server
    # Extends a connection to a server that must not be a node of a cluster: a redirect raises an error that says so.
    module Alone
      def call(words)
        super
      rescue StandardError => error
        raise if Refusal.code(error) != "MOVED"

        raise Error, "this server is one node of a cluster: the locks need a client of the whole cluster (#{error.message})"
      end
    end

    def initialize(&connect)
      @connect = connect
    end

    def connect(_node = nil) = @connect.call.extend(Alone)
    def shards? = false
    def node(_key) = nil
    def channel(name, _node) = name
    def refresh(_suspect, _knows = nil) = nil
  end

  # The nodes of a cluster, and the slots of each, for all threads. The client libraries don't offer this, and some read it again only after
  # seconds. Nodes are "host:port".
  class Cluster
    TAGS = 1 << 17 # each of the 16,384 slots has 8 of these tags on average
    CRC = Array.new(256) { |byte| 8.times.inject(byte << 8) { |crc, _| (crc << 1) ^ (crc[15] * 0x11021) } }.freeze

    def self.slot(key)
      crc = 0
      (key.b[/\A[^{]*\{([^}]+)\}/n, 1] || key).each_byte { |byte| crc = ((crc << 8) & 0xffff) ^ CRC[(crc >> 8) ^ byte] }
      crc % 16_384
    end

    # `nodes` are the first ones to ask. The block connects to a node.
    def initialize(nodes, &connect)
      @nodes, @slots, @read, @mutex, @connect_to = nodes, [], 0, Mutex.new, connect
    end

    # Connects to this node or, without one, returns a connection that finds the node for each command.
    def connect(node = nil) = node ? @connect_to.call(node) : Everywhere.new(self)

    def shards? = true

    # The node that serves the key; nil if it is not known.
    def node(key) = @slots[Cluster.slot(key)]

    # Any node: it redirects commands for other nodes.
    def any = @slots.find(&:itself) || @nodes.sample

    # The channel for messages of this node's shard.
    def channel(name, node)
      tag = (0...TAGS).find { |each| node && self.node(each.to_s) == node } or raise IOError, "no node has these slots"
      "#{name}:{#{tag}}"
    end

    # Handles MOVED or ASK. Returns the node that the error names.
    def redirected(error)
      word, slot, node = error.message.split
      @slots[slot.to_i] = node if word == "MOVED"
      node
    end

    # Reads the slots again: first from the node `knows`, which reported a move that others may not know of yet; last from `suspect`, which may
    # not answer.
    def refresh(suspect, knows = nil)
      begun = Wires.now
      @mutex.synchronize do
        return if @read > begun # another thread has read them

        known = (@slots.compact | @nodes).shuffle
        known << known.delete(suspect) if known.include?(suspect)
        known.unshift(knows) if knows
        begin
          read(node = known.shift)
        rescue StandardError
          known.empty? ? raise : retry
        end
        @read = Wires.now
      end
    end

    private

    def read(node)
      connection, slots = connect(node), []
      connection.call(%w[CLUSTER SLOTS]).each do |first, last, (host, port)|
        host = node[/.*(?=:)/] if host.nil? || host.empty? # the node does not know its own host
        slots[first..last] = ["#{host}:#{port}"] * (last - first + 1)
      end
      raise IOError, "#{node} knows of no slots: it was removed from the cluster" if slots.empty?

      @slots = slots
    ensure
      Wires.close_quietly(connection)
    end
  end

  # Connects to each node of a cluster when a command needs it.
  class Everywhere
    REDIRECTS = 5

    def initialize(cluster)
      @cluster, @connections = cluster, {}
    end

    def call(words)
      node, redirects, asking = @cluster.node(words[0].start_with?("LOCK.M") ? words[2] : words[1]) || @cluster.any, 0, false
      begin
        connection = @connections[node] ||= @cluster.connect(node)
        connection.call(["ASKING"]) if asking
        connection.call(words)
      rescue StandardError => error
        code = Refusal.code(error)
        if %w[ASK MOVED].include?(code) && (redirects += 1) <= REDIRECTS
          node, asking = @cluster.redirected(error), code == "ASK"
          retry
        end
        doubt(node, error) if Refusal.passes?(error)
        raise
      end
    end

    # The connection that failed is closed already.
    def ended_by?(_error) = false

    def close = @connections.each_value { |connection| Wires.close_quietly(connection) }

    private

    def doubt(node, error)
      Wires.close_quietly(@connections.delete(node)) if Refusal.ends_connection?(error)
      @cluster.refresh(node)
    rescue StandardError # no node answers: the original error tells more
    end
  end
end
