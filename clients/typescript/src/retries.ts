// Whether a failed request is sent again, and after how long.
// Implements: README.md of the project, "Errors" (what passes by itself). Pure: the jitter is an argument.

import { GatewayError, type LedgerGatewayError, Unreachable } from "./errors.js";

/** Errors that pass by themselves, with the least wait in seconds. Others stay as they are, however often one asks. */
export const WAIT_SECONDS: Readonly<Record<string, number>> = {
  RATE_LIMITED: 1,
  CONCURRENCY_LIMITED: 1,
  BACKEND_UNAVAILABLE: 2,
  UPSTREAM_ERROR: 2,
  SERVICE_TEMPORARILY_UNAVAILABLE: 5,
  TIMEOUT: 1,
  INTERNAL_ERROR: 1,
  IDEMPOTENCY_KEY_IN_USE: 1,
  DEPOSIT_NOT_FOUND: 5,
  DEPOSIT_NOT_FINAL: 5,
};
/** Methods that move money: done twice, they act twice. The gateway honours an Idempotency-Key for each. */
export const SENDS: ReadonlySet<string> = new Set([
  "sendTransaction", "sendSmartTransaction", "sendAndConfirm", "sendBundle", "executeSnipe", "executeSell",
]);
const BACK_OFF = 2; // Each further wait is twice as long.
const BUSY_SECONDS = 1; // Of a 503 that names no time.
const UNREACHABLE_SECONDS = 0.5;

/** What happens when a request is carried out twice. harmless: nothing, as it is free or has an Idempotency-Key.
 * charged: it costs twice. never: it acts twice. */
export type Repeatable = "harmless" | "charged" | "never";

export interface RetryOptions {
  /** Requests in all; 1 turns retries off. */
  attemptsMax?: number;
  /** Of one wait; an error that asks for more is thrown at once. */
  waitSecondsMax?: number;
  /** By how much of itself a wait may grow, so that clients do not come back together. */
  jitterPart?: number;
}

export class RetryPolicy {
  readonly attemptsMax: number;
  readonly waitSecondsMax: number;
  readonly jitterPart: number;

  constructor(options: RetryOptions = {}) {
    this.attemptsMax = options.attemptsMax ?? 4;
    this.waitSecondsMax = options.waitSecondsMax ?? 30;
    this.jitterPart = options.jitterPart ?? 0.5;
  }

  /** How long to wait before the next attempt, or null to give up. attempts: made so far, from 1. jitter: 0 to 1. */
  waitSeconds(error: LedgerGatewayError, attempts: number, repeatable: Repeatable, jitter: number): number | null {
    const least = leastWait(error, repeatable);
    if (least === null || attempts >= this.attemptsMax) return null;
    const asked = error instanceof GatewayError ? (error.retryAfter ?? 0) : 0;
    if (asked > this.waitSecondsMax) return null;
    const growing = Math.min(Math.max(least, asked) * BACK_OFF ** Math.min(attempts - 1, 20), this.waitSecondsMax);
    return Math.max(asked, growing) * (1 + this.jitterPart * jitter);
  }
}

/** The least wait in seconds, or null where the same request must not be sent again. */
function leastWait(error: LedgerGatewayError, repeatable: Repeatable): number | null {
  if (repeatable === "never") return null;
  if (error instanceof Unreachable) return !error.wasSent || repeatable === "harmless" ? UNREACHABLE_SECONDS : null;
  if (!(error instanceof GatewayError)) return null;
  const known = Object.hasOwn(WAIT_SECONDS, error.constant) ? WAIT_SECONDS[error.constant]! : null;
  if (known !== null) return known;
  // A constant of a later version: the gateway says when to ask again exactly where that can help.
  return error.retryAfter !== null || (error.http === 503 && !error.constant) ? BUSY_SECONDS : null;
}

/** What a second JSON-RPC call of this method would do. */
export function repeatable(method: string, idempotencyKey: string | null): Repeatable {
  return idempotencyKey !== null ? "harmless" : SENDS.has(method) ? "never" : "charged";
}
