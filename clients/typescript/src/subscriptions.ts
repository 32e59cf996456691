// Subscriptions: what a client iterates over, and how each kind goes on after a break.
// Implements: actors/streams/README.md of the project, "What a client hears when something is lost".
// Not here: the connection (stream.ts).

import { isFields, plain } from "./answers.js";
import { BadAnswer } from "./errors.js";
import { Continuity, isGap, type Signal, type SignalFilters, type SignalGap } from "./signals.js";

export const QUEUE_MAX = 1_000; // Events that wait for a reader that is slow.
export const LOST = "the connection was lost";

/** The stream of a subscription. */
export interface Owner {
  drop(subscription: Subscription<any>): void;
  forget(subscription: Subscription<any>): Promise<void>;
}

/** What a native subscription told. slot: where the result names one. */
export interface Notification {
  result: any;
  slot: number | null;
}

/** Events of the subscription between these slots may be missing; null: not known. */
export interface Gap {
  gap: { fromSlot: number | null; toSlot: number | null; reason: string };
}

/** An asynchronous iterable of events. Made by Stream. */
export abstract class Subscription<Event> implements AsyncIterable<Event> {
  /** At the gateway; null while there is no connection. */
  id: number | string | null = null;
  readonly #events: Event[] = [];
  #isOver = false;
  #error: Error | null = null;
  #wake: (() => void)[] = [];

  constructor(protected readonly stream: Owner, readonly method: string) {}

  /** What it is made with, now. */
  abstract params(): unknown[];

  /** Take the result of a notification. false: there is no room for it. Throws BadAnswer. */
  abstract take(kind: string, result: unknown): boolean;

  /** Note that the connection was lost after the subscription had been made. Waits until a slow reader has caught up, as
   * a connection that is full again at once costs its price for nothing. */
  async broke(): Promise<void> {
    const event = this.lossEvent();
    while (event !== null && !this.#isOver && !this.put(event)) await this.#change();
    while (!this.#isOver && this.#events.length > QUEUE_MAX / 2) await this.#change();
  }

  /** What tells a reader that the connection was lost; null: nothing is missing. */
  protected abstract lossEvent(): Event | null;

  async *[Symbol.asyncIterator](): AsyncGenerator<Event, void, void> {
    for (;;) {
      if (this.#events.length > 0) {
        const event = this.#events.shift()!;
        this.#wakeAll();
        yield event;
      } else if (this.#isOver) {
        if (this.#error !== null) throw this.#error;
        return;
      } else await this.#change();
    }
  }

  /** End the subscription; free. */
  async close(): Promise<void> {
    this.end(null);
    await this.stream.forget(this);
  }

  end(error: Error | null): void {
    if (!this.#isOver) [this.#isOver, this.#error] = [true, error];
    this.#wakeAll();
  }

  protected put(event: Event): boolean {
    if (this.#events.length >= QUEUE_MAX) return false;
    this.#events.push(event);
    this.#wakeAll();
    return true;
  }

  protected get hasRoom(): boolean {
    return this.#events.length < QUEUE_MAX;
  }

  #change(): Promise<void> {
    return new Promise((resolve) => this.#wake.push(resolve));
  }

  #wakeAll(): void {
    for (const wake of this.#wake.splice(0)) wake();
  }
}

/** One of the node's own subscriptions. */
export class NativeSubscription extends Subscription<Notification | Gap> {
  #slot: number | null = null;

  constructor(stream: Owner, method: string, private readonly given: readonly unknown[]) {
    super(stream, method);
  }

  override params(): unknown[] {
    return [...this.given];
  }

  override take(kind: string, result: unknown): boolean {
    const fields = isFields(result) ? result : {};
    if (kind === "gapNotification") {
      const reason = typeof fields.reason === "string" ? plain(fields.reason) : "events were lost";
      return this.put({ gap: { fromSlot: numberOf(fields.from_slot), toSlot: numberOf(fields.to_slot), reason } });
    }
    const slot = slotOf(result);
    if (!this.put({ result, slot })) return false;
    this.#slot = slot ?? this.#slot;
    if (this.method === "signatureSubscribe" && fields.value !== "receivedSignature") {
      this.stream.drop(this); // The gateway has ended it with this notification.
      this.end(null);
    }
    return true;
  }

  protected override lossEvent(): Gap {
    return { gap: { fromSlot: this.#slot, toSlot: null, reason: LOST } };
  }
}

/** subscribeSignal, gone on with after a break behind the last signal; duplicates are left out. */
export class SignalSubscription extends Subscription<Signal | SignalGap> {
  readonly continuity: Continuity;
  #hasBegun: boolean;

  constructor(stream: Owner, private readonly filters: SignalFilters, since: string | null) {
    super(stream, "subscribeSignal");
    this.continuity = new Continuity(since);
    this.#hasBegun = since !== null;
  }

  override params(): unknown[] {
    const since = this.#hasBegun ? this.continuity.cursor : null;
    this.#hasBegun = true;
    return [since === null ? this.filters : { ...this.filters, since }];
  }

  override take(_kind: string, result: unknown): boolean {
    const event = eventOf(result);
    if (!this.hasRoom) return false; // Not noted, so the next connection tells it again.
    if (this.continuity.take(event)) this.put(event);
    return true;
  }

  protected override lossEvent(): SignalGap | null {
    return this.continuity.cursor === null ? { gap: { reason: `${LOST} before the first signal` } } : null;
  }
}

/** The slot that a notification names, in any of the node's forms. */
export function slotOf(result: unknown): number | null {
  if (!isFields(result)) return numberOf(result);
  return numberOf(isFields(result.context) ? result.context.slot : result.slot);
}

function eventOf(result: unknown): Signal | SignalGap {
  const found = result as Signal | SignalGap;
  const holds =
    isFields(result) &&
    (isGap(found)
      ? isFields(result.gap) && typeof result.gap.reason === "string"
      : [result.kind, result.program, result.signature].every((text) => typeof text === "string") &&
        numberOf(result.slot) !== null);
  if (!holds) throw new BadAnswer("a signal is not as documented", 200);
  return found;
}

const numberOf = (value: unknown): number | null => (Number.isSafeInteger(value) ? (value as number) : null);
