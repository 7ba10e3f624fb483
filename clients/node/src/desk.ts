// What all locks of a client share: the connection, the subscription and the timer.
import { hostname } from "node:os";
import { ClosedError, passes } from "./errors.js";
import type { Connection } from "./connection.js";
import type { Observer } from "./observer.js";
import type { Request } from "./request.js";

/** The pause in ms before a try after a lost connection. */
export const TRY_AGAIN = 100;

/** The longest time in ms that closing the client waits for its locks to be released. */
const AT_END = 1000;

/** A clock in ms that never goes back. */
export const now = () => performance.now();

export const sleep = (milliseconds: number) => new Promise<void>((resolve) => setTimeout(resolve, milliseconds));

/** The words of messages that this package handles, and how many numbers each has. */
const NUMBERS = new Map([["start", 4], ["granted", 1], ["lost", 1], ["timeout", 0], ["gone", 0]]);

/** A command that awaits its answer, which tells the lease. */
export interface Flight {
  readonly of: Entry;
  /** When the lease ends at the latest, whatever the answer says. */
  atMost: number;
  /** The lease that the command sets, if it is an extension. */
  readonly sets: number;
}

/** A wait for a lock, or a held lock. */
export interface Entry {
  readonly request: Request;
  /** Whether the lock is being released. */
  readonly parting: boolean;
  /** The fences of a grant that another entry of this owner left to this one. */
  left: readonly number[];
  /** The server may have a place for this entry, or for another one that left it. */
  place: boolean;
  /** When `tick` has to be called. */
  readonly due: number;
  tick(): void;
  /** Handles a message for this owner. The first of its numbers is the fence. */
  hear(word: string, numbers: readonly number[]): void;
  /** Checks with the server how things are: messages, and perhaps more, may be lost. */
  doubt(): void;
  /** The connection for commands is lost. */
  cut(): void;
  /** The locks are being closed. */
  end(reason: ClosedError): Promise<unknown>;
}

type Lists<One> = Map<string, readonly One[]>; // by owner; lists are never changed in place, so they can be iterated at any time

function put<One>(lists: Lists<One>, owner: string, one: One) {
  const others = lists.get(owner);
  lists.set(owner, others ? [...others, one] : [one]);
}

function drop<One>(lists: Lists<One>, owner: string, one: One) {
  const others = lists.get(owner)?.filter((other) => other !== one);
  if (others?.length) lists.set(owner, others);
  else lists.delete(owner);
}

export class Desk {
  /** LOCK.INFO shows host and process to operators. */
  readonly channel = `redislock:${hostname().replace(/[^\w.-]/g, "_").slice(0, 64)}:${process.pid}:${crypto.randomUUID()}`;
  /** Counts the events at which an answer may have been lost. */
  upsets = 0;
  closed = false;
  /** False once a server did not know START. */
  starts = true;
  readonly #connection: Connection;
  readonly #entries = new Map<string, readonly Entry[]>();
  readonly #flights = new Map<string, readonly Flight[]>(); // by owner
  readonly #leaving = new Map<string, readonly Request[]>(); // requests whose grants or places are being given up, by owner
  readonly #unwatch: () => void;
  #opening: Promise<void> | undefined;
  #closing = new AbortController();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #next = Infinity;

  constructor(connection: Connection, readonly observer: Observer | undefined) {
    this.#connection = connection;
    this.#unwatch = connection.watch(() => void this.#finish(new ClosedError("the client was closed"), AT_END));
  }

  #all() {
    return [...this.#entries.values()].flat();
  }

  ofOwner(owner: string) {
    return this.#entries.get(owner) ?? [];
  }

  add(entry: Entry) {
    put(this.#entries, entry.request.owner, entry);
    this.plan(entry.due);
  }

  remove(entry: Entry) {
    drop(this.#entries, entry.request.owner, entry);
  }

  /** Whether the same locks are being given up for this owner: the release could end the grant that a new acquire would enter. */
  isLeft(request: Request) {
    return this.#leaving.get(request.owner)?.some((other) => other.id === request.id);
  }

  /** Lets all waits of this owner ask again, because an entry that left may have ended their places, too. */
  wake(owner: string) {
    for (const entry of this.ofOwner(owner)) entry.hear("timeout", []);
  }

  #partner(entry: Entry) {
    const isOne = (other: Entry) => other !== entry && !other.parting && other.request.id === entry.request.id;
    return this.ofOwner(entry.request.owner).find(isOne);
  }

  /** All entries of the same owner for the same locks, including this one. */
  sharers(entry: Entry) {
    return this.ofOwner(entry.request.owner).filter((other) => other === entry || other.request.id === entry.request.id);
  }

  /** Commands on their way, of the same owner for the same locks. */
  flights(entry: Entry) {
    return this.#flights.get(entry.request.owner)?.filter((flight) => flight.of.request.id === entry.request.id) ?? [];
  }

  /** Registers a command that is about to be sent: a pending extension of the same grant may reach the server after it. */
  departs(entry: Entry, sets = Infinity) {
    const others = this.flights(entry).filter((flight) => flight.of !== entry);
    const flight: Flight = { of: entry, sets, atMost: now() + Math.min(...others.map((other) => other.sets)) };
    put(this.#flights, entry.request.owner, flight);
    return flight;
  }

  lands(flight: Flight) {
    drop(this.#flights, flight.of.request.owner, flight);
  }

  /** Leaves the grant or the place to another entry that shares it. Returns whether there is one: only the last entry gives it up. */
  leaveTo(entry: Entry, fences: readonly number[], place = false) {
    const partner = this.#partner(entry);
    if (!partner) return false;
    if (fences.length) partner.left = fences;
    partner.place ||= place;
    this.wake(entry.request.owner);
    return true;
  }

  /** Waits for the subscription, and returns the channel for the messages of this request. */
  async listens(request: Request) {
    await this.opened();
    return (request.channel = (await this.#connection.channelOf?.(request.names[0]!)) ?? this.channel);
  }

  send(request: Request, words: string[]) {
    return this.#connection.send(request.names[0]!, words, request.options.sync?.[1] ?? 0);
  }

  /** Sends a command that gives something up until it is answered, or the lease is over. A session lasts while its connection is open. */
  async deliver(request: Request, words: string[], until: number) {
    put(this.#leaving, request.owner, request);
    try {
      for (;;) {
        try {
          return await this.send(request, words);
        } catch (error) {
          const goesOn = now() <= until || (request.options.session && !this.closed);
          if (!this.passes(error) || !goesOn) throw error;
          this.upsets += 1;
          await sleep(TRY_AGAIN);
        }
      }
    } finally {
      drop(this.#leaving, request.owner, request);
      this.wake(request.owner);
    }
  }

  /** Whether the error may pass, so that it makes sense to try again later. */
  passes(error: unknown) {
    return passes(error) && !this.#connection.closed;
  }

  /** Connects for the first lock, and returns when the subscription is confirmed. */
  opened() {
    if (this.#connection.closed) throw new ClosedError("the client was closed"); // the client may be opened again
    return (this.#opening ??= this.#open());
  }

  async #open() {
    const closing = this.#closing;
    const uses = (channel: string) => this.#all().filter((entry) => entry.request.channel === channel);
    const tell = (how: "cut" | "doubt") => (channel?: string) => {
      this.upsets += 1;
      this.starts = true; // the new server may know START
      for (const entry of channel === undefined ? this.#all() : uses(channel)) entry[how]();
    };
    try {
      const events = { hear: (message: string) => this.#hear(message), lost: tell("cut"), again: tell("doubt"), needs: (channel: string) => uses(channel).length > 0 };
      await this.#connection.open(this.channel, events, closing.signal);
    } catch (error) {
      if (closing === this.#closing) this.#leave().abort();
      throw error;
    }
  }

  #hear(message: string) {
    let at = message.indexOf(" ");
    const word = message.slice(0, at), count = NUMBERS.get(word), numbers: number[] = [];
    if (count === undefined) return;
    while (numbers.length < count) {
      const end = message.indexOf(" ", at + 1);
      numbers.push(Number(message.slice(at + 1, end)));
      at = end;
    }
    // The owner comes last, because it may contain spaces.
    for (const entry of this.ofOwner(message.slice(at + 1))) entry.hear(word, numbers);
  }

  /** Plans a call of `tick`, by the one timer for all entries. */
  plan(due: number) {
    if (due >= this.#next) return;
    clearTimeout(this.#timer);
    this.#next = due;
    this.#timer = setTimeout(() => this.#tick(), Math.min(Math.max(due - now(), 0), 2 ** 31 - 1));
  }

  #tick() {
    this.#next = Infinity;
    const time = now(), entries = this.#all();
    for (const entry of entries) {
      if (entry.due <= time) entry.tick();
      this.plan(entry.due);
    }
  }

  async close() {
    this.closed = true;
    await this.#finish(new ClosedError("the locks were closed"), Infinity);
    this.#unwatch();
  }

  /** Leaves this connection: what is acquired from now on makes another one. */
  #leave() {
    const closing = this.#closing;
    this.#closing = new AbortController();
    this.#opening = undefined;
    return closing;
  }

  /** Ends all entries and the connection, so that nothing keeps the process alive. */
  async #finish(reason: ClosedError, patience: number) {
    const closing = this.#leave(), ending = Promise.allSettled(this.#all().map((entry) => entry.end(reason)));
    await (patience === Infinity ? ending : Promise.race([ending, sleep(patience)]));
    closing.abort();
    if (this.#entries.size) return;
    clearTimeout(this.#timer);
    this.#next = Infinity;
  }
}
