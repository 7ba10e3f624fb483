// What locks tell of themselves while they are waited for and held.
import type { LockLostError } from "./errors.js";

/** The same object in all events of one acquire. */
export interface Observed {
  readonly keys: readonly string[];
  readonly owner: string;
  readonly mode: "exclusive" | "shared" | "limit";
}

export type Outcome = "timeout" | "busy" | "cancelled" | "deadlock" | "closed" | "error";

/**
 * Implement what you want to hear of; times are ms. Each `waiting` is followed by one `acquired` or `refused`, and each `acquired` by
 * one `released` or `lost`; a re-entry is a lock of its own. What an observer throws is logged, and changes nothing.
 */
export interface Observer {
  /** The lock is not free, and the wait begins. */
  waiting?(lock: Observed): void;
  /** `waited` counts from the call, also where the lock was free. */
  acquired?(lock: Observed, waited: number, fence: number): void;
  /** The acquire rejects with the error. */
  refused?(lock: Observed, waited: number, outcome: Outcome, error: unknown): void;
  /** Its holder released it. */
  released?(lock: Observed, held: number): void;
  /** It ended before its release. `error.reason` says why, in few words that repeat. */
  lost?(lock: Observed, held: number, error: LockLostError): void;
}

const log = (error: unknown) => console.error("redislock: an observer failed:", error);

/** Calls that method, if there is one. */
export function tell<Event extends keyof Observer>(observer: Observer, event: Event, ...what: Parameters<Required<Observer>[Event]>) {
  try {
    const told: unknown = (observer[event] as ((...what: unknown[]) => unknown) | undefined)?.call(observer, ...what);
    if (told instanceof Promise) told.catch(log);
  } catch (error) {
    log(error);
  }
}
