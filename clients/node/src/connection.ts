// What this package needs of a client, and how ioredis and node-redis provide it.

import { ClosedError, LockError, code } from "./errors.js";
import { PING, UNANSWERED, listenIn, slotOf, type Cluster } from "./shards.js";

/** What a connection reports. */
export interface Events {
  hear(message: string): void;
  /** The connection for commands is lost. */
  lost(): void;
  /** The connection was made anew, so messages or answers may have been lost: if a channel is given, only its messages. */
  again(channel?: string): void;
  /** Whether a wait or a held lock uses this channel. */
  needs(channel: string): boolean;
}

/** The interface that this package needs; any client that has it can be used. */
export interface Connection {
  /** Connects, and subscribes to the channel. Both last until the signal aborts. */
  open(channel: string, events: Events, signal: AbortSignal): Promise<void>;
  /** Subscribes for the key, and returns the channel to which its server is to send. Absent if this is always the channel of `open`. */
  channelOf?(key: string): Promise<string>;
  /**
   * Sends a command. All commands to one server go over one connection, in order. `key` tells a cluster which node the command is for. The
   * server answers at once or, if replicas have to confirm the command, within `patience` ms.
   */
  send(key: string, words: string[], patience: number): Promise<unknown>;
  /** Calls `ended` when the client was closed for good. Returns a function that ends the watching. */
  watch(ended: () => void): () => void;
  /** Whether the client was closed for good. */
  readonly closed: boolean;
  /** The prefix that the client puts before each key. */
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
  readonly condition?: any; // holds the database that `select` has chosen
  call(command: string, ...args: string[]): Promise<unknown>;
  duplicate(...overrides: any[]): any;
}

/** The clients that `createClient`, `createCluster` and `createSentinel` of node-redis return. */
export interface NodeRedisClient extends Emitter {
  readonly isOpen: boolean;
  readonly options?: any;
  readonly _keyPrefix?: { toString(): string } | undefined;
  sendCommand(...args: any[]): Promise<unknown>;
  duplicate(...overrides: any[]): any;
}

export type Client = IoredisClient | NodeRedisClient | Connection;

/** A duplicate of the user's client. When it loses a connection, it connects again, and reports this. */
interface Line {
  send(key: string, words: string[]): Promise<unknown>;
  subscribe(channel: string, hear: (message: string) => void): Promise<unknown>;
  /** Absent in a cluster, where one of several connections can be silent while others answer. */
  ping?(): Promise<unknown>;
  end(): void;
  cluster?: Cluster;
}
type Told = Pick<Events, "lost" | "again">;

const ignore = () => {};

/** A cluster's connection that is silent for so many ms is replaced, unless the user's client has its own timeout: we send it no PINGs. */
export const SILENCE = 8000;
const retry = (tries: number) => Math.min(100 * tries, 2000);

function listen(emitter: Emitter, events: Record<string, Listener>) {
  for (const [event, listener] of Object.entries(events)) emitter.on(event, listener);
  return () => {
    for (const [event, listener] of Object.entries(events)) emitter.off(event, listener);
  };
}

export function connectionOf(client: Client): Connection {
  if ("open" in client) return client;
  if ("call" in client) return ioredis(client);
  if ("sendCommand" in client && !("totalClients" in client)) return nodeRedis(client);
  throw new TypeError("no client of ioredis or node-redis, nor a Connection. A pool can't be used: its connections come and go");
}

/** Throws a MOVED as another error: a client of one server does not follow it, so asking again would not help. */
function stray(error: unknown): never {
  if (code(error) !== "MOVED") throw error;
  throw new LockError("this server is one node of a cluster: use a client for clusters", { cause: error });
}

/**
 * Uses duplicates of the client, because the user's client may be in a MULTI, block, have several connections, or notice only after minutes
 * that its connection is dead. `both`: one line sends and hears, over several connections.
 */
function linesOf(make: (told: Told, sends: boolean) => Line, both: boolean): Pick<Connection, "open" | "send" | "channelOf"> {
  let sending: { line: Line; heard(): void; patience: number } | undefined;
  let listen: (key: string) => Promise<string> | string;

  async function keep(told: Told, sends: boolean, begin: (line: Line) => Promise<unknown>, signal: AbortSignal) {
    let unanswered = 0, begun = false, stop = ignore;
    const stopped = new Promise<never>((_, reject) => (stop = () => reject(new Error("the connection was given up"))));
    const heard = () => void (unanswered = 0), line = make(told, sends), kept = { line, heard, patience: 0 };
    if (sends) sending = kept;
    const end = () => {
      clearInterval(beat);
      signal.removeEventListener("abort", close);
      line.end();
      stop();
    };
    const close = () => {
      if (sending === kept) sending = undefined;
      end();
    };
    const replace = async () => {
      told.lost();
      while (!signal.aborted) {
        try {
          await keep(told, sends, begin, signal);
          return told.again();
        } catch {
          await new Promise((resolve) => setTimeout(resolve, 1000));
        }
      }
    };
    // This counts turns of the event loop's timer instead of time: while the process is suspended, there are no turns.
    const beat = line.ping && setInterval(() => {
      if (unanswered >= UNANSWERED + kept.patience / PING) {
        end();
        return begun ? void replace() : undefined; // before the line has begun, whoever waits for it tries again
      }
      unanswered += 1;
      line.ping!().then(heard, (error) => code(error) && heard());
    }, PING);
    signal.addEventListener("abort", close);
    try {
      await Promise.race([begin(line), stopped]);
      begun = true;
    } catch (error) {
      end();
      throw error;
    }
    if (signal.aborted) close();
  }

  return {
    async open(channel, events, signal) {
      const subscribe = (line: Line) => line.subscribe(channel, events.hear);
      listen = () => channel;
      const begin = (line: Line) => {
        if (!line.cluster) return subscribe(line);
        listen = listenIn(line.cluster, channel, events, signal);
        return line.cluster.ready;
      };
      const lost = () => events.lost(), again = () => events.again(); // drops the arguments of the clients' events
      if (both) return keep({ lost, again }, true, begin, signal);
      await Promise.all([
        keep({ lost, again }, true, async () => {}, signal), keep({ lost: ignore, again }, false, subscribe, signal),
      ]);
    },
    channelOf: async (key) => listen(key),
    send(key, words, patience) {
      if (!sending) return Promise.reject(new ClosedError("the locks were closed"));
      const { line, heard } = sending, reply = line.send(key, words);
      if (patience) {
        // A PING queues behind these commands, so each answer proves that the connection is alive.
        sending.patience = Math.max(sending.patience, patience);
        reply.then(heard, heard);
      }
      return reply;
    },
  };
}

/** The credentials of the last call of `auth`: ioredis forgets them when it loses the connection. */
const credentials = new WeakMap<object, { username?: string; password?: string }>();

function noteCredentials(client: any) {
  if (credentials.has(client)) return;
  const { auth } = client;
  credentials.set(client, {});
  client.auth = (...words: any[]) => {
    const done = auth.apply(client, words);
    const said = words.flat().filter((word) => typeof word !== "function"), password = said.pop();
    const isOwn = password === client.options.password; // ioredis itself sent it, when it connected
    done.then(() => credentials.set(client, isOwn ? {} : { username: said.pop(), password }), ignore);
    return done;
  };
}

const OWN = { lazyConnect: false, enableOfflineQueue: true, keyPrefix: "" };

/** If the user lacks the right for SSUBSCRIBE, SUBSCRIBE is enough: its messages come over all nodes. */
function both(inShard: Promise<unknown>, subscribed: Promise<unknown>) {
  const refused = (error: unknown) => {
    if (code(error) !== "NOPERM") throw error;
  };
  return Promise.all([inShard.catch(refused), subscribed]);
}

function ioredisCluster(line: any): Cluster {
  return {
    ready: new Promise((resolve, reject) => {
      line.once("ready", resolve).once("end", () => reject(new Error("no node of the cluster can be reached")));
    }),
    primary: (slot) => line.slots[slot]?.[0],
    refresh: () => new Promise((resolve) => line.refreshSlotsCache(resolve)),
    connect(address, lost) {
      const known = line.nodes().find(({ options }: any) => `${options.host}:${options.port}` === address);
      if (!known) throw new Error(`the client has no connection to ${address}`);
      const node = known.duplicate({ ...OWN, readOnly: false, retryStrategy: null, socketTimeout: undefined, disconnectTimeout: 100 });
      // When a slot has moved, ioredis before version 6 receives a push without a pending command, which it reports as an error.
      listen(node, { error: lost, end: () => lost(), moved: () => lost() });
      return {
        subscribe(channel, hear) {
          for (const event of ["smessage", "message"]) node.on(event, (_: string, message: string) => hear(message));
          return both(node.ssubscribe(channel), node.subscribe(channel));
        },
        ping: () => node.ping(),
        end: () => node.disconnect(),
      };
    },
  };
}

function ioredis(client: IoredisClient): Connection {
  const { isCluster } = client;
  if (!isCluster) noteCredentials(client);
  const make = ({ lost, again }: Told, sends: boolean): Line => {
    const single = {
      ...OWN, ...credentials.get(client), db: client.condition?.select ?? client.options?.db, retryStrategy: retry, socketTimeout: undefined, disconnectTimeout: 100,
      ...(!sends && { maxRetriesPerRequest: null }),
    };
    const nodes = { ...OWN, redisOptions: { socketTimeout: SILENCE, ...client.options.redisOptions } };
    const line = isCluster ? client.duplicate([], nodes) : client.duplicate(single);
    let wasReady = false, channel: string | undefined, slot: number | undefined;
    const changed = () => wasReady && again();
    const ready = () => {
      if (wasReady && channel !== undefined) line.subscribe(channel).then(again, ignore);
      else changed();
      wasReady = true;
    };
    const close = () => {
      const { username, password } = client.options;
      Object.assign(line.options, { username, password }, credentials.get(client)); // for the next connection
      lost();
    };
    const added = (node: any) => {
      const { asking } = node;
      node.asking = () => asking.call(node).catch(ignore); // ioredis does not catch it, so a lost connection would end the process
      changed();
    };
    if (isCluster) {
      // ioredis does not know which word of our commands is the key: it would ask any node, and read the slots again for each MOVED.
      const { sendCommand } = line;
      line.sendCommand = (command: any, ...more: unknown[]) => {
        const to = slot;
        if (to !== undefined) command.getSlot = () => to;
        slot = undefined;
        return sendCommand.call(line, command, ...more);
      };
    }
    line.on("error", ignore);
    // In a cluster, the connections to the single nodes come and go.
    const unlisten = listen(line, isCluster ? { ready, "-node": changed, "+node": added } : { ready, close });
    return {
      send(key, [command, ...words]) {
        if (!isCluster) return line.call(command!, ...words).catch(stray);
        slot = slotOf(key);
        return line.call(command!, ...words);
      },
      subscribe(name, hear) {
        channel = name;
        line.on("message", (_: string, message: string) => hear(message));
        return line.subscribe(name);
      },
      ...(isCluster ? { cluster: ioredisCluster(line) } : { ping: () => line.ping() }),
      end() {
        unlisten();
        line.disconnect();
      },
    };
  };
  return {
    ...linesOf(make, isCluster),
    watch: (ended) => listen(client, { end: ended }),
    get closed() {
      return client.status === "end";
    },
    get prefix() {
      return client.options?.keyPrefix ?? "";
    },
  };
}

function nodeRedisCluster(line: any, ready: Promise<unknown>): Cluster {
  return {
    ready,
    primary: (slot) => line.slots[slot]?.master.address,
    refresh: async () => line._slots.rediscover(line.masters.find(({ client }: any) => client?.isReady)?.client),
    connect(address, lost) {
      const made = (async () => {
        const node = line.nodeByAddress.get(address), known = node.client ?? (await line.nodeClient(node));
        const socket = { ...known.options.socket, socketTimeout: undefined, reconnectStrategy: false };
        const own = known.duplicate({ disableOfflineQueue: false, pingInterval: undefined, socket }), gone = () => lost();
        // The last two events, of versions 6 and 5, report that the slot has moved.
        listen(own, { error: lost, end: gone, "sharded-channel-moved": gone, "server-sunsubscribe": gone });
        await own.connect();
        return own;
      })();
      made.catch(ignore);
      return {
        async subscribe(channel, hear) {
          const own = await made;
          return both(own.sSubscribe(channel, hear), own.subscribe(channel, hear));
        },
        ping: async () => (await made).ping(),
        end: () => void made.then((own) => own.destroy()).catch(ignore),
      };
    },
  };
}

/** Cuts the connection to this node. The client makes another one for the next command. */
function cut(node: any) {
  const { client } = node ?? {};
  if (!client) return;
  node.client = undefined;
  client.destroy();
}

function nodeRedis(client: NodeRedisClient): Connection {
  const isCluster = "masters" in client, isSentinel = "acquire" in client;
  const make = ({ lost, again }: Told): Line => {
    const socket = { ...client.options?.socket, socketTimeout: undefined, reconnectStrategy: retry };
    // With several connections, commands would overtake each other.
    const sentinel = { masterPoolSize: 1, replicaPoolSize: 0, reserveClient: true };
    const { defaults } = client.options ?? {};
    const nodes = { defaults: { pingInterval: SILENCE / 2, ...defaults, socket: { socketTimeout: SILENCE, ...defaults?.socket } } };
    const silence = nodes.defaults.socket.socketTimeout;
    const line = client.duplicate(isCluster ? nodes : isSentinel ? sentinel : { disableOfflineQueue: false, socket });
    const events: Record<string, Listener> =
      isCluster ? { "node-ready": again, "node-reconnecting": again, "node-disconnect": again }
      : isSentinel ? { ready: again, "topology-change": again } : { ready: again, reconnecting: lost };
    let unlisten = ignore, ended = false;
    line.on("error", ignore);
    const end = async () => {
      ended = true;
      unlisten();
      await line.destroy();
    };
    const connected = line.connect().then(() => {
      // If node-redis is destroyed while it connects, it still connects.
      if (ended) return end();
      unlisten = listen(line, events);
    });
    connected.catch(ignore);
    return {
      send(key, words) {
        if (isCluster) {
          // Each command restarts the socket's timeout, so use our own. After a freeze, let the event loop read answers first.
          const node = line.slots[slotOf(key)]?.master, reply = line.sendCommand(key, false, words);
          if (!silence) return reply;
          const late = setTimeout(() => setImmediate(() => late.hasRef() && cut(node)), silence), answered = () => clearTimeout(late.unref());
          reply.then(answered, answered);
          return reply;
        }
        return isSentinel ? line.sendCommand(false, words) : line.sendCommand(words).catch(stray);
      },
      async subscribe(channel, hear) {
        await connected;
        await line.subscribe(channel, hear);
      },
      ...(isCluster ? { cluster: nodeRedisCluster(line, connected) } : { ping: () => (isSentinel ? line.sendCommand(false, ["PING"]) : line.ping()) }),
      end: () => void end().catch(ignore), // some versions throw if it has ended before
    };
  };
  return {
    ...linesOf(make, isCluster || isSentinel),
    watch: (ended) => listen(client, { [isCluster ? "disconnect" : "end"]: ended }),
    get closed() {
      return !client.isOpen;
    },
    get prefix() {
      return client._keyPrefix?.toString() ?? "";
    },
  };
}
