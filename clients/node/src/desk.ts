// What all locks of a process share: the connection, the subscription, the timer.
import { LockError, passes } from "./errors.js";
import type { Connection } from "./connection.js";
import type { Request } from "./request.js";

/** After a lost connection. */
export const TRY_AGAIN = 100;

/** Never goes back, unlike the clock of the day. */
export const now = () => performance.now();

export const sleep = (milliseconds: number) => new Promise<void>((resolve) => setTimeout(resolve, milliseconds));

/** A wait, or a lock that is held. */
export interface Entry {
  readonly request: Request;
  /** It is being released. */
  readonly parting: boolean;
  /** When there is something to do: `tick` does it. */
  readonly due: number;
  tick(): void;
  /** A message for this owner. */
  hear(word: string, fence: number): void;
  /** Messages, and perhaps more, may be lost: find out how things are. */
  doubt(): void;
  /** The connection for commands is lost. */
  cut(): void;
  /** Another entry for the same grant is over, and leaves it to this one. */
  inherit(fences: readonly number[]): void;
  /** The locks are closed. */
  end(reason: LockError): Promise<unknown>;
}

export class Desk {
  readonly channel = `redislock:${crypto.randomUUID()}`;
  /** How often an answer may have been lost. */
  upsets = 0;
  readonly #connection: Connection;
  readonly #entries = new Map<string, Set<Entry>>(); // by owner
  readonly #unwatch: () => void;
  readonly #closing = new AbortController();
  #subscription: Promise<void> | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #next = Infinity;

  constructor(connection: Connection) {
    this.#connection = connection;
    const lost = () => {
      this.upsets += 1;
      for (const entry of this.#all()) entry.cut();
    };
    const again = () => {
      this.upsets += 1;
      this.#doubt();
    };
    this.#unwatch = connection.watch(lost, again);
  }

  #all() {
    return [...this.#entries.values()].flatMap((entries) => [...entries]);
  }

  readonly #doubt = () => {
    for (const entry of this.#all()) entry.doubt();
  };

  add(entry: Entry) {
    const { owner } = entry.request;
    this.#entries.set(owner, (this.#entries.get(owner) ?? new Set()).add(entry));
    this.plan(entry.due);
  }

  remove(entry: Entry) {
    const { owner } = entry.request;
    const entries = this.#entries.get(owner);
    entries?.delete(entry);
    if (!entries?.size) this.#entries.delete(owner);
  }

  /** Another entry for the same grant. */
  partner(entry: Entry) {
    const { owner } = entry.request;
    const isOne = (other: Entry) => other !== entry && !other.parting && other.request.sharesWith(entry.request);
    return [...(this.#entries.get(owner) ?? [])].find(isOne);
  }

  send(request: Request, words: string[]) {
    return this.#connection.send(request.keys[0]!, words);
  }

  /** Sends it until it is answered, as long as that is worth it. */
  async deliver(request: Request, words: string[], until: number) {
    for (;;) {
      try {
        return await this.send(request, words);
      } catch (error) {
        if (!this.passes(error) || now() > until) throw error;
        this.upsets += 1;
        await sleep(TRY_AGAIN);
      }
    }
  }

  /** Whether it is worth to try again later. */
  passes(error: unknown) {
    return passes(error) && !this.#connection.closed;
  }

  /** There is one subscription, from the first lock on. */
  subscribed() {
    const hear = (message: string) => this.#hear(message);
    this.#subscription ??= this.#connection.subscribe(this.channel, hear, this.#doubt, this.#closing.signal).catch((error) => {
      this.#subscription = undefined;
      throw error;
    });
    return this.#subscription;
  }

  #hear(message: string) {
    // The owner comes last, because it may contain anything.
    const [, word, fence, owner] = /^(granted|lost|timeout|gone)(?:(?<=granted|lost) (\d+))? (.*)$/s.exec(message) ?? [];
    for (const entry of [...(this.#entries.get(owner ?? "") ?? [])]) entry.hear(word!, Number(fence));
  }

  /** One timer for all. */
  plan(due: number) {
    if (due >= this.#next) return;
    clearTimeout(this.#timer);
    this.#next = due;
    this.#timer = setTimeout(this.#tick, Math.min(Math.max(due - now(), 0), 2 ** 31 - 1));
  }

  readonly #tick = () => {
    this.#next = Infinity;
    const time = now();
    let next = Infinity;
    for (const entry of this.#all()) {
      if (entry.due <= time) entry.tick();
      next = Math.min(next, entry.due);
    }
    this.plan(next);
  };

  get closed() {
    return this.#closing.signal.aborted;
  }

  async close() {
    this.#closing.abort();
    const reason = new LockError("the locks were closed");
    await Promise.allSettled(this.#all().map((entry) => entry.end(reason)));
    this.#unwatch();
    clearTimeout(this.#timer);
  }
}
