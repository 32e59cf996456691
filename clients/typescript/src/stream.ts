// Subscriptions over one WebSocket, which connects again by itself.
// Implements: actors/streams/README.md of the project, "Close codes" and "What a client hears when something is lost".
// After a break every subscription is made anew (and paid anew). Signals go on behind the last one; for the others a Gap
// tells that events may be missing.
// Bounded: QUEUE_MAX events wait for a subscription whose reader is slow. A WebSocket of a browser cannot be told to read
// no more, so the connection is then closed here, and made again once the reader has made room.

import { documentOf, isFields, itemOf, objectOf, plain } from "./answers.js";
import { ApiKey, Session } from "./credentials.js";
import { BadAnswer, Denied, errorOf, GatewayError, LedgerGatewayError, Unreachable } from "./errors.js";
import { exactJson, parseExact } from "./exact_json.js";
import type { SignalFilters } from "./signals.js";
import { type Closed, Connection, protocolsOf } from "./socket.js";
import { LOST, NativeSubscription, type Owner, SignalSubscription, type Subscription } from "./subscriptions.js";
import type { Transport } from "./transport.js";

const ANSWER_SECONDS = 30;
const OPEN_SECONDS = 15;
const WAIT_SECONDS = 0.5, WAIT_SECONDS_MAX = 30;
const IN_VAIN_MAX = 10; // Connections in a row that end soon and tell nothing; each costs the price of its subscriptions.
const SOON_SECONDS = 60;
const NO_CREDITS = 4002, POLICY_CODES: readonly number[] = [1008, 4001];

interface Pending {
  subscription: Subscription<any> | null;
  resolve: (value: any) => void;
  reject: (error: Error) => void;
  timer: ReturnType<typeof setTimeout>;
}

/** Made by `gateway.stream()`; `close` ends it. */
export class Stream implements Owner {
  /** Made so far. */
  connections = 0;
  readonly #transport: Transport;
  readonly #subscriptions = new Set<Subscription<any>>();
  readonly #byId = new Map<number | string, Subscription<any>>();
  readonly #pending = new Map<number, Pending>();
  readonly #givenUp = new Set<number>(); // Requests of this connection whose answers may still come.
  #connection: Connection | null = null;
  #running: Promise<void> | null = null;
  #stop = new AbortController();
  #first: Promise<void> = Promise.resolve();
  #began: (error?: Error) => void = () => undefined;
  #refused: Error | null = null; // Why a connection ended that is not made again.
  #numbers = 0;
  #fruitless = 0; // Connections and attempts in a row that told nothing.
  #inVain = 0; // Connections among them that were made, and ended soon.

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** End all subscriptions and the connection. */
  async close(): Promise<void> {
    this.#stop.abort();
    for (const subscription of this.#subscriptions) subscription.end(null);
    this.#connection?.close();
    await this.#running;
  }

  /** Begin a native subscription, such as ("accountSubscribe", pubkey, { commitment: "confirmed" }). */
  subscribe(method: string, ...params: unknown[]): Promise<NativeSubscription> {
    return this.#begin(new NativeSubscription(this, method, params));
  }

  /** Begin a subscription to signals. since: a cursor; signals after it come first. */
  async signals(asked: SignalFilters & { since?: string | null } = {}): Promise<SignalSubscription> {
    const { since = null, ...filters } = asked;
    const subscription = new SignalSubscription(this, filters, since);
    // The log's end, so that a break before the first signal loses nothing.
    if (since === null) subscription.continuity.cursor = await this.#endOfLog();
    return this.#begin(subscription);
  }

  drop(subscription: Subscription<any>): void {
    this.#subscriptions.delete(subscription);
    if (subscription.id !== null) this.#byId.delete(subscription.id);
  }

  async forget(subscription: Subscription<any>): Promise<void> {
    const { id, method } = subscription, isKnown = this.#subscriptions.has(subscription);
    this.drop(subscription);
    if (!isKnown || id === null || this.#connection === null) return;
    const name = method === "subscribeSignal" ? "signalUnsubscribe" : method.replace("Subscribe", "Unsubscribe");
    try {
      await this.#ask(this.#connection, name, [id], null);
    } catch (error) {
      if (!(error instanceof LedgerGatewayError)) throw error;
    }
  }

  async #begin<Made extends Subscription<any>>(subscription: Made): Promise<Made> {
    if (this.#running === null) {
      this.#stop = new AbortController();
      this.#refused = null;
      this.#fruitless = this.#inVain = 0;
      this.#first = new Promise((resolve, reject) => {
        this.#began = (error) => (error === undefined ? resolve() : reject(error));
      });
      this.#first.catch(() => undefined);
      this.#running = this.#run();
    }
    await this.#first;
    const connection = this.#connection;
    if (connection === null) throw this.#refused ?? new Unreachable("the connection is lost at the moment", false);
    await this.#make(connection, subscription);
    return subscription;
  }

  /** Asked again where the refusal passes by itself: a refused subscription is free. */
  async #make(connection: Connection, subscription: Subscription<any>): Promise<void> {
    const { retry, jitter } = this.#transport;
    for (let attempts = 1; ; attempts += 1) {
      try {
        await this.#ask(connection, subscription.method, subscription.params(), subscription);
        return;
      } catch (error) {
        if (!(error instanceof GatewayError)) throw error;
        const wait = retry.waitSeconds(error, attempts, "charged", jitter());
        if (wait === null) throw error;
        await this.#transport.sleep(wait, this.#stop.signal);
        if (this.#connection !== connection) throw this.#refused ?? new Unreachable(LOST, false);
      }
    }
  }

  #ask(connection: Connection, method: string, params: unknown[], subscription: Subscription<any> | null): Promise<any> {
    this.#numbers += 1;
    const id = this.#numbers;
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#pending.delete(id);
        this.#givenUp.add(id);
        reject(new Unreachable("the WebSocket gave no answer", true));
      }, ANSWER_SECONDS * 1000);
      this.#pending.set(id, { subscription, resolve, reject, timer });
      connection.send(exactJson({ jsonrpc: "2.0", id, method, params }));
    });
  }

  /** Connect, and connect again, until the caller may not any more. */
  async #run(): Promise<void> {
    let failed: Error | null = null;
    try {
      while (!this.#stop.signal.aborted) {
        await this.#connected();
        if (!this.#stop.signal.aborted) await this.#transport.sleep(this.#wait(), this.#stop.signal);
      }
    } catch (error) {
      failed = error as Error;
    }
    this.#running = null;
    this.#finish(failed);
  }

  /** Open one connection, make the subscriptions, and read until it ends. Throws for what no repetition mends. */
  async #connected(): Promise<void> {
    const connection = await this.#opened();
    if (connection === null) return;
    if (this.#stop.signal.aborted) return connection.close();
    let fault: Error | null = null, reason: Error = new Unreachable(LOST, true);
    connection.onMessage = (data) => {
      try {
        this.#heard(connection, data);
      } catch (error) {
        fault = error as Error;
        connection.close();
      }
    };
    this.connections += 1;
    this.#connection = connection;
    const began = Date.now();
    const made = this.#makeAgain(connection).then(() => this.#began());
    const closed = await connection.closed;
    this.#connection = null;
    connection.close();
    try {
      if (fault !== null) throw fault;
      if (!this.#stop.signal.aborted) this.#judge(closed, (Date.now() - began) / 1000);
    } catch (error) {
      reason = this.#refused = error as Error;
      throw error;
    } finally {
      this.#lose(reason);
    }
    await made;
    for (const subscription of [...this.#subscriptions]) await subscription.broke();
  }

  /** A connection; null: there is none now, and the next one may be. */
  async #opened(): Promise<Connection | null> {
    try {
      return await this.#open();
    } catch (error) {
      if (!(error instanceof LedgerGatewayError)) throw error;
      const attempts = this.connections ? 1 : this.#fruitless + 1; // Once it was there, it is waited for.
      if (this.#transport.retry.waitSeconds(error, attempts, "harmless", this.#transport.jitter()) === null) throw error;
      this.#fruitless += 1;
      return null;
    }
  }

  async #open(): Promise<Connection> {
    const { credential, url, openSocket } = this.#transport;
    const isKey = credential instanceof ApiKey;
    const headers = isKey ? {} : await this.#transport.credentialHeaders("GET", "/ws", "");
    const place = url.replace(/^http/, "ws") + "/ws";
    return Connection.open(openSocket(place, protocolsOf(credential), headers), place, OPEN_SECONDS);
  }

  async #makeAgain(connection: Connection): Promise<void> {
    for (const subscription of [...this.#subscriptions]) {
      try {
        await this.#make(connection, subscription);
      } catch (error) {
        if (this.#connection !== connection) return; // Lost already: the next connection makes it.
        this.drop(subscription);
        subscription.end(error as Error);
      }
    }
  }

  #heard(connection: Connection, data: unknown): void {
    let said: unknown = null;
    try {
      said = typeof data === "string" ? parseExact(data) : null;
    } catch (error) {
      if (!(error instanceof SyntaxError || error instanceof RangeError)) throw error;
      throw new BadAnswer("a WebSocket message is not JSON", 200);
    }
    if (!isFields(said)) throw new BadAnswer("a WebSocket message is no JSON-RPC", 200);
    if ("method" in said) return this.#handOver(connection, said);
    const id = said.id as number, pending = this.#pending.get(id);
    if (pending !== undefined) this.#answered(id, pending, said);
    else if (!this.#givenUp.delete(id))
      throw new BadAnswer(`a WebSocket answer has an id that no request had: ${plain(String(id)).slice(0, 40)}`, 200);
  }

  #handOver(connection: Connection, said: Readonly<Record<string, unknown>>): void {
    const params = isFields(said.params) ? said.params : {};
    const subscription = this.#byId.get(params.subscription as number | string);
    if (subscription === undefined) return;
    this.#fruitless = this.#inVain = 0;
    if (!subscription.take(String(said.method), params.result)) connection.close();
  }

  /** Bind the subscription here, before its first notification is read. */
  #answered(id: number, pending: Pending, said: unknown): void {
    const { value, error } = itemOf(said, { status: 200, headers: {}, body: "" }), { subscription } = pending;
    this.#pending.delete(id);
    clearTimeout(pending.timer);
    if (error !== null) return pending.reject(error);
    if (subscription !== null) {
      if (typeof value !== "number" && typeof value !== "string")
        return pending.reject(new BadAnswer("the id of a subscription is neither a number nor a text", 200));
      subscription.id = value;
      this.#byId.set(value, subscription);
      this.#subscriptions.add(subscription);
    }
    pending.resolve(value);
  }

  /** Throw where a new connection would end in the same way. */
  #judge({ code, reason }: Closed, livedSeconds: number): void {
    const session = this.#transport.credential instanceof Session ? this.#transport.credential : null;
    const told = plain(reason);
    this.#fruitless += 1;
    this.#inVain = livedSeconds > SOON_SECONDS ? 0 : this.#inVain + 1;
    if (this.#inVain >= IN_VAIN_MAX)
      throw new Unreachable(`${this.#inVain} connections in a row ended without an event (${code})`, true);
    if (code === NO_CREDITS)
      throw errorOf({ constant: "INSUFFICIENT_CREDITS", http: 402, told: told || "the balance is below 10 credits" });
    if (POLICY_CODES.includes(code)) {
      if (session === null || this.#fruitless > 1)
        throw new Denied({ constant: "AUTH_FAILED", http: 401, told: told || `the gateway closed the WebSocket (${code})` });
      session.token = null;
    }
  }

  #wait(): number {
    const growing = WAIT_SECONDS * 2 ** Math.min(Math.max(this.#fruitless - 1, 0), 10);
    return Math.min(growing, WAIT_SECONDS_MAX) * (1 + this.#transport.jitter() / 2);
  }

  #lose(reason: Error): void {
    this.#byId.clear();
    this.#givenUp.clear();
    for (const subscription of this.#subscriptions) subscription.id = null;
    for (const pending of this.#pending.values()) {
      clearTimeout(pending.timer);
      pending.reject(reason);
    }
    this.#pending.clear();
  }

  #finish(error: Error | null): void {
    this.#began(error ?? new Unreachable("the stream was closed", false));
    for (const subscription of this.#subscriptions) subscription.end(error);
    this.#subscriptions.clear();
  }

  async #endOfLog(): Promise<string | null> {
    try {
      const asked = { query: { limit: 1 }, isPublic: true };
      const page = await this.#transport.ask("GET", "/signals/recent", (answer) => objectOf(documentOf(answer)), asked);
      return typeof page.next_cursor === "string" ? page.next_cursor : null;
    } catch (error) {
      if (!(error instanceof LedgerGatewayError)) throw error;
      return null; // A break before the first signal is then told as a gap.
    }
  }
}
