// In a cluster: one subscription for each shard in which somebody waits or holds, at the shard's primary. When it is lost, the next acquire
// opens a new one, with the topology that the client knows by then.
import type { Events } from "./connection.js";

/** The topology of a cluster, as a client knows it. */
export interface Cluster {
  ready: Promise<unknown>;
  /** The address of the slot's primary. */
  primary(slot: number): string | undefined;
  refresh(): Promise<unknown>;
  /** Makes our own connection to this node. It does not reconnect; `lost` is called when it ends. */
  connect(address: string, lost: (error?: unknown) => void): {
    /** With SSUBSCRIBE, and with SUBSCRIBE for messages that other nodes send while a slot is moving. */
    subscribe(channel: string, hear: (message: string) => void): Promise<unknown>;
    ping(): Promise<unknown>;
    end(): void;
  };
}

interface Shard {
  opened: Promise<string>;
  used: number;
}

/** After so many PINGs without an answer, sent every so many ms, a connection is given up: the network may drop packets silently. */
export const PING = 2000, UNANSWERED = 4;
/** A subscription that nobody needs for this many ms is closed. */
const IDLE = 10_000;
const REFRESH = 1000; // the longest wait, in ms, for a refresh

/** CRC16, as the server computes it, of the text in the first braces, or of the whole key. */
export function slotOf(key: string) {
  let crc = 0;
  for (const byte of new TextEncoder().encode(/^[^{]*\{([^}]+)\}/.exec(key)?.[1] ?? key)) {
    crc ^= byte << 8;
    for (let bit = 0; bit < 8; bit += 1) crc = ((crc << 1) ^ (crc & 0x8000 ? 0x1021 : 0)) & 0xffff;
  }
  return crc % 16_384;
}

/** Returns a function that subscribes for a key, and gives the channel once the server has confirmed it. */
export function listenIn(cluster: Cluster, name: string, { hear, again, needs }: Events, signal: AbortSignal) {
  const shards = new Map<string, Shard>(); // by the primary's address

  function open(address: string) {
    let tag = 0, unanswered = 0, confirmed = false;
    while (cluster.primary(slotOf(`${tag}`)) !== address) tag += 1;
    const channel = `${name}:{${tag}}`;
    let fail: (error: unknown) => void;
    const end = (error?: unknown) => {
      clearInterval(beat);
      signal.removeEventListener("abort", end);
      shards.delete(address);
      line.end();
      fail(error);
    };
    const lost = (error: unknown = new Error("the subscription was lost")) => {
      if (shards.get(address) !== shard) return;
      end(error);
      if (confirmed) again(channel);
    };
    const line = cluster.connect(address, lost);
    // This counts turns of the event loop's timer instead of time: while the process is suspended, there are no turns.
    const beat = setInterval(() => {
      if (unanswered >= UNANSWERED) return lost();
      if (performance.now() - shard.used > IDLE) {
        if (!needs(channel)) return end();
        shard.used = performance.now();
      }
      unanswered += 1;
      line.ping().then(() => (unanswered = 0), () => {});
    }, PING);
    const opened = new Promise<string>((resolve, reject) => {
      fail = reject;
      line.subscribe(channel, hear).then(() => resolve(channel), lost);
    });
    opened.then(() => (confirmed = true), () => {});
    const shard: Shard = { opened, used: 0 };
    shards.set(address, shard);
    signal.addEventListener("abort", end);
    return shard;
  }

  return async (key: string) => {
    const slot = slotOf(key);
    let address = cluster.primary(slot);
    if (address === undefined || !shards.has(address)) {
      await Promise.race([cluster.refresh().catch(() => {}), new Promise((resolve) => setTimeout(resolve, REFRESH))]);
      address = cluster.primary(slot);
    }
    if (signal.aborted || address === undefined) throw new Error(`no node of the cluster is known to have ${key}`);
    const shard = shards.get(address) ?? open(address);
    shard.used = performance.now();
    return shard.opened;
  };
}
