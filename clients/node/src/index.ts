// Locks of a Redis or Valkey server with the module Redislock.
import { connectionOf, type Client } from "./connection.js";
import { Desk } from "./desk.js";
import { NotAcquiredError } from "./errors.js";
import type { Held } from "./held.js";
import type { Observer } from "./observer.js";
import { Request, type Options } from "./request.js";
import { Wait } from "./wait.js";

export type { Client, Connection, Events, IoredisClient, NodeRedisClient } from "./connection.js";
export {
  ClosedError, DeadlockError, LockError, LockLostError, NoModuleError, NotAcquiredError, NotConfirmedError, TooOldError,
} from "./errors.js";
export type { Held } from "./held.js";
export type { Observed, Observer, Outcome } from "./observer.js";
export type { Options } from "./request.js";

export interface Settings {
  /** The prefix of each key: by default the client's own (`keyPrefix` of ioredis); "" for none. */
  prefix?: string | undefined;
  /** Is told of waits and of held locks: see also `redislock-client/opentelemetry`. */
  observer?: Observer | undefined;
}

/** The locks of a process: make one for each client, and share it between all tasks. */
export class Locks {
  readonly #desk: Desk;
  readonly #prefix: string;

  /** Duplicates of the client send commands and hear messages, from the first lock on. Closing the client ends them. */
  constructor(client: Client, settings: Settings = {}) {
    const connection = connectionOf(client);
    this.#prefix = settings.prefix ?? connection.prefix ?? "";
    this.#desk = new Desk(connection, settings.observer);
  }

  /** Waits for a lock, or for several at once, all or none. Release it with `release()`, or use `await using`. */
  acquire(keys: string | readonly string[], options: Options = {}) {
    return new Promise<Held>((resolve, reject) => {
      new Wait(this.#desk, new Request(keys, options, this.#prefix), resolve, reject).start();
    });
  }

  /** Asks once: undefined if somebody else holds the lock. */
  async tryAcquire(keys: string | readonly string[], options: Omit<Options, "wait"> = {}) {
    try {
      return await this.acquire(keys, { ...options, wait: 0 });
    } catch (error) {
      if (error instanceof NotAcquiredError) return undefined;
      throw error;
    }
  }

  /** Holds a lock while the body runs. If the body throws, its error is thrown, and an error of the release is dropped. */
  async using<T>(keys: string | readonly string[], options: Options, body: (held: Held) => T | Promise<T>): Promise<T> {
    const held = await this.acquire(keys, options);
    let result: T;
    try {
      result = await body(held);
    } catch (error) {
      await held.release().catch(() => {});
      throw held.lost && error instanceof Error && error.name === "AbortError" ? held.lost : error; // the loss aborted the body
    }
    await held.release();
    return result;
  }

  /** Releases what is held, and ends all waits. The client stays open. */
  close() {
    return this.#desk.close();
  }

  [Symbol.asyncDispose]() {
    return this.close();
  }
}
