// What this package needs of a client, and where ioredis and node-redis have it.

import { LockError, code } from "./errors.js";

/** Any client that has this can be used. */
export interface Connection {
  /** Sends a command, to one server all of them over one connection, in order. `key` tells a cluster which node it is for. */
  send(key: string, words: string[]): Promise<unknown>;
  /** Hears messages until the signal, over another connection that is made anew when it is lost: then it calls `again`. */
  subscribe(channel: string, hear: (message: string) => void, again: () => void, signal: AbortSignal): Promise<void>;
  /**
   * Calls `lost` when the connection for commands is lost, `again` when it is there again, `ended` when the client was closed for
   * good. Returns what ends that.
   */
  watch(lost: () => void, again: () => void, ended: () => void): () => void;
  /** Whether the client was closed for good. */
  readonly closed: boolean;
  /** What the client puts before each key. */
  readonly prefix?: string;
}

type Listener = (...args: any[]) => void;
interface Emitter {
  on(event: string, listener: Listener): unknown;
  off(event: string, listener: Listener): unknown;
}

/** `Redis` and `Cluster` of ioredis. */
export interface IoredisClient extends Emitter {
  readonly status: string;
  readonly isCluster: boolean;
  readonly options?: any;
  call(command: string, ...args: string[]): Promise<unknown>;
  duplicate(...overrides: any[]): any;
}

/** What `createClient`, `createCluster` and `createSentinel` of node-redis make. */
export interface NodeRedisClient extends Emitter {
  readonly isOpen: boolean;
  readonly options?: any;
  sendCommand(...args: any[]): Promise<unknown>;
  duplicate(...overrides: any[]): any;
}

export type Client = IoredisClient | NodeRedisClient | Connection;

const ignore = () => {};

/** A subscription that died unnoticed is found out: each ping wants an answer. */
const PING = 4000, SILENCE = 8000;
const retry = (tries: number) => Math.min(100 * tries, 2000);

function listen(emitter: Emitter, events: Record<string, Listener>) {
  for (const [event, listener] of Object.entries(events)) emitter.on(event, listener);
  return () => {
    for (const [event, listener] of Object.entries(events)) emitter.off(event, listener);
  };
}

export function connectionOf(client: Client): Connection {
  if ("send" in client) return client;
  if ("call" in client) return ioredis(client);
  if ("sendCommand" in client && !("totalClients" in client)) return nodeRedis(client);
  throw new TypeError("no client of ioredis or node-redis, nor a Connection. A pool can't be used: its connections come and go");
}

/** A client of one server does not follow a cluster's MOVED, however often it asks. */
function stray(error: unknown): never {
  if (code(error) !== "MOVED") throw error;
  throw new LockError("this server is one node of a cluster: use a client for clusters", { cause: error });
}

function ioredis(client: IoredisClient): Connection {
  return {
    send(_, [command, ...words]) {
      const reply = client.call(command!, ...words);
      return client.isCluster ? reply : reply.catch(stray);
    },
    async subscribe(channel, hear, again, signal) {
      const own = {
        lazyConnect: false, enableOfflineQueue: true, maxRetriesPerRequest: null, keyPrefix: "", socketTimeout: SILENCE,
        retryStrategy: retry,
      };
      const subscriber = client.isCluster ? client.duplicate([], own) : client.duplicate(own);
      subscriber.on("error", ignore);
      subscriber.on("message", (_: string, message: string) => hear(message));
      const pings = setInterval(() => subscriber.status === "ready" && subscriber.ping().catch(ignore), PING);
      signal.addEventListener("abort", () => (clearInterval(pings), subscriber.disconnect()));
      await subscriber.subscribe(channel);
      subscriber.on("ready", () => subscriber.subscribe(channel).then(again, ignore));
    },
    watch(lost, again, ended) {
      let connected = client.status === "ready"; // until it was for the first time, nothing is sent, so nothing is lost
      const ready = () => (connected ? again() : void (connected = true)), changed = () => connected && again();
      // The connections to a cluster's nodes come and go one by one.
      return listen(client, client.isCluster ? { ready, end: ended, "+node": changed, "-node": changed } : { close: lost, ready, end: ended });
    },
    get closed() {
      return client.status === "end";
    },
    get prefix() {
      return client.options?.keyPrefix ?? "";
    },
  };
}

function nodeRedis(client: NodeRedisClient): Connection {
  const isCluster = "masters" in client, isSentinel = "acquire" in client;
  const send = (key: string, words: string[]) => {
    if (isCluster) return client.sendCommand(key, false, words);
    return isSentinel ? client.sendCommand(false, words) : client.sendCommand(words).catch(stray);
  };
  return {
    send,
    async subscribe(channel, hear, again, signal) {
      const socket = { ...client.options?.socket, socketTimeout: SILENCE, reconnectStrategy: retry };
      const subscriber = client.duplicate(isCluster || isSentinel ? {} : { pingInterval: PING, socket });
      subscriber.on("error", ignore);
      const end = () => {
        try {
          subscriber.destroy();
        } catch {
          // Some versions throw if it has ended.
        }
      };
      signal.addEventListener("abort", end);
      try {
        await subscriber.connect();
      } finally {
        // A node-redis that is destroyed while it connects connects all the same, and its pings then keep the process.
        if (signal.aborted) end();
      }
      await subscriber.subscribe(channel, hear);
      listen(subscriber, { ready: again, "node-ready": again, "topology-change": again });
    },
    watch(lost, again, ended) {
      if (isCluster) return listen(client, { "node-ready": again, "node-reconnecting": again, "node-disconnect": again, disconnect: ended });
      if (isSentinel) return listen(client, { ready: again, "topology-change": again, end: ended });
      return listen(client, { reconnecting: lost, ready: again, end: ended });
    },
    get closed() {
      return !client.isOpen;
    },
  };
}
