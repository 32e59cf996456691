// Signals, and where a stream of them stands: what it has seen, and from where it goes on after a break. Pure.

/** One event that a program emitted on the chain. lamports: the SOL side of a largeSwap. wallets: watched ones, of a
 * walletActivity. cursor: its place in the log, for `since`. correction: removed, moved or restored, where a lost fork
 * changed an earlier signal. */
export interface Signal {
  kind: string;
  program: string;
  signature: string;
  slot: number;
  mint?: string | null;
  accounts?: string[];
  quote_asset?: string | null;
  curve_type?: string | null;
  complete?: boolean | null;
  lamports?: number | bigint | null;
  wallets?: string[];
  cursor?: string | null;
  correction?: string | null;
}

/** Signals between these cursors may be missing; nobody has them any more. */
export interface SignalGap {
  gap: {
    reason: string;
    from_cursor?: string | null;
    to_cursor?: string | null;
    from_slot?: number | null;
    to_slot?: number | null;
  };
}

/** GET /signals/recent. next_cursor: where to go on, as `since`. */
export interface SignalPage {
  events: Signal[];
  next_cursor: string | null;
}

export interface SignalFilters {
  kinds?: readonly string[];
  mint?: string;
  programs?: readonly string[];
  wallets?: readonly string[];
  min_lamports?: number | bigint;
}

export const isGap = (event: Signal | SignalGap): event is SignalGap => "gap" in event;

const SEEN_MAX = 20_000; // A replay after a break repeats far fewer.

/** cursor: where to go on; null until the first event, where no beginning is known. */
export class Continuity {
  readonly #seen = new Set<string>();

  constructor(public cursor: string | null = null, private readonly seenMax: number = SEEN_MAX) {}

  /** Note an event. false: it came before. A correction is another event than the signal that it corrects, and each
   * correction is one by itself. */
  take(event: Signal | SignalGap): boolean {
    if (isGap(event)) {
      this.cursor = event.gap.to_cursor || this.cursor;
      return true;
    }
    const { correction = null, cursor = null } = event;
    const key = JSON.stringify([identityOf(event), correction, correction ? cursor : null]);
    const isNew = !this.#seen.delete(key);
    this.#seen.add(key); // Sets keep their order: what was seen last is forgotten last.
    if (this.#seen.size > this.seenMax) this.#seen.delete(this.#seen.values().next().value!);
    this.cursor = cursor || this.cursor;
    return isNew;
  }
}

/** Apply corrections: leave out signals of lost forks, and give moved ones their new slot. Order is kept. */
export function current(signals: Iterable<Signal>): Signal[] {
  const kept = new Map<string, Signal>();
  for (const signal of signals) {
    const key = identityOf(signal);
    if (signal.correction === "removed") kept.delete(key);
    else kept.set(key, { ...signal, correction: null });
  }
  return [...kept.values()];
}

/** What makes two reports one signal. */
const identityOf = (signal: Signal): string => JSON.stringify([signal.signature, signal.kind, signal.mint || ""]);
