// `Gateway`: calls, batches, the account, bulk look-ups, quotes, webhooks and streams of one caller.
// Implements: docs/interface.md of the project, "Endpoints". Every method throws LedgerGatewayError (errors.ts).
// Not here: HTTP and retries (transport.ts), the WebSocket (stream.ts), named keys (keys.ts).

import { type Answer, BatchItem, CALL_ID, documentOf, type Figures, itemsOf, objectOf, resultOf, textOf } from "./answers.js";
import { randomBytes, toBase64Url } from "./bytes.js";
import { type ApiKey, credentialOf, type Session, type Wallet } from "./credentials.js";
import { GatewayError, LimitReached, NotFound, Unavailable, Unreachable } from "./errors.js";
import { exactJson } from "./exact_json.js";
import type { MethodName, Methods } from "./methods.js";
import { type Chain, type PublicKeys, publicKeys, readChain, readReceipts, type Receipt } from "./receipts.js";
import type {
  Account, Bill, Bulk, Confirmation, LedgerEntry, Quote, SendOutcome, Usage, UsageEntry, Webhook,
} from "./records.js";
import { repeatable, type Repeatable, SENDS } from "./retries.js";
import type { Signal, SignalFilters, SignalGap, SignalPage } from "./signals.js";
import { Stream } from "./stream.js";
import type { Gap, Notification } from "./subscriptions.js";
import { Transport, type TransportOptions } from "./transport.js";

export const DEFAULT_URL = "http://127.0.0.1:8080";
export const BATCH_MAX = 100;
const PAGE_MAX = 500;

/** The parameters of a method: as the gateway's OpenRPC document has them; of a method that it does not have, any. */
export type ParamsOf<M extends string> = M extends MethodName ? Methods[M] : readonly unknown[];
/** One call of a batch or a quote: a method and its parameters. */
export type Call = readonly [string, ...unknown[]];
/** These calls, with the parameters that their methods have. */
export type Checked<Calls extends readonly Call[]> = {
  readonly [Place in keyof Calls]: Calls[Place] extends readonly [infer M extends MethodName, ...unknown[]]
    ? readonly [M, ...Methods[M]]
    : Calls[Place];
};
type Rest<P> = P extends readonly [] ? [params?: P, options?: CallOptions]
  : [] extends P ? [params?: P, options?: CallOptions] : [params: P, options?: CallOptions];
type Query = Readonly<Record<string, unknown>>;

export interface CallOptions {
  /** Of a call that moves money: it is carried out and charged once, however often it is sent, so it can be sent again.
   * One is made where none is given. "": without one, for those who send more than 100,000 a day, which is how many the
   * gateway keeps; such a call is never sent again. */
  idempotencyKey?: string;
  /** Refuse the call, free, where it could cost more. */
  maxCredits?: number;
  /** "monotonic": no answer is older than the monotonic reads of this account before it; else as the constructor has it. */
  consistency?: Consistency;
}

export type Consistency = "any" | "monotonic";

/** Of entries of the ledger. from, to: ISO 8601 or Unix seconds. */
export interface LedgerQuery {
  from?: string | number;
  to?: string | number;
  type?: string;
  method?: string;
}

/** One account at one gateway. credential: an API key as text, a Wallet, a Session; none: public pages alone. */
export class Gateway {
  readonly #transport: Transport;
  readonly #consistency: Consistency | undefined;

  constructor(
    url: string = DEFAULT_URL,
    credential: string | ApiKey | Wallet | Session | null = null,
    options: TransportOptions & { consistency?: Consistency } = {},
  ) {
    this.#consistency = options.consistency;
    this.#transport = new Transport(url, credentialOf(credential), options);
  }

  get url(): string {
    return this.#transport.url;
  }

  /** Credits and limits, of the last answer that told them. */
  get figures(): Figures {
    return this.#transport.figures;
  }

  /** The headers of the last answer, with lower-case names. */
  get headers(): Answer["headers"] {
    return this.#transport.headers;
  }

  // --- calls

  /** Make one JSON-RPC call and return its result. Whole numbers beyond 2^53 in it are `bigint`. */
  async call<M extends string>(method: M | MethodName, ...rest: Rest<ParamsOf<M>>): Promise<any> {
    const [params = [], options = {}] = rest as readonly [(readonly unknown[])?, CallOptions?];
    const key = (options.idempotencyKey ?? (SENDS.has(method) ? newIdempotencyKey() : "")) || null;
    return this.#transport.ask("POST", "/", resultOf, {
      body: exactJson(request(CALL_ID, [method, ...params])),
      headers: this.#callHeaders(key, options),
      again: repeatable(method, key),
    });
  }

  /** Make many calls, each `[method, ...params]`, and return their ends in order.
   *
   * They travel in batches of at most 100. Calls that the gateway refuses for a reason that passes are sent again; sends
   * are not, as a batch has no Idempotency-Key. */
  async batch<const Calls extends readonly Call[]>(
    calls: Calls & (Calls extends Checked<Calls> ? unknown : Checked<Calls>), options: Omit<CallOptions, "idempotencyKey"> = {},
  ): Promise<BatchItem[]> {
    const ends: BatchItem[] = [];
    for (let first = 0; first < calls.length; first += BATCH_MAX)
      ends.push(...(await this.#batch(calls.slice(first, first + BATCH_MAX), options)));
    return ends;
  }

  /** Send a signed transaction (base64) and return its outcome. A key is made where none is given, so that the request can
   * be repeated without a second charge. */
  sendAndConfirm(
    transaction: string, options: Methods["sendAndConfirm"][1] = null, idempotencyKey: string = newIdempotencyKey(),
  ): Promise<SendOutcome> {
    return this.call("sendAndConfirm", options === null ? [transaction] : [transaction, options], { idempotencyKey });
  }

  /** What these calls would cost; free. */
  async quote<const Calls extends readonly Call[]>(calls: Calls & (Calls extends Checked<Calls> ? unknown : Checked<Calls>)): Promise<Quote> {
    const asked = calls.map((call, id) => request(id, call));
    const found = await this.document("POST", "/quote", asked.length === 1 ? asked[0] : asked);
    return { calls: [], ...objectOf(found, { credits: "whole" }) };
  }

  async #batch(calls: readonly Call[], options: CallOptions): Promise<BatchItem[]> {
    const ends: BatchItem[] = calls.map(() => new BatchItem());
    const { retry, jitter, sleep } = this.#transport;
    let left = calls.map((_, place) => place);
    for (let attempts = 1; left.length > 0; attempts += 1) {
      const asked = left.map((place) => calls[place]!);
      const items = await this.#transport.ask("POST", "/", (answer) => itemsOf(answer, asked.length), {
        body: exactJson(asked.map((call, id) => request(id, call))),
        headers: this.#callHeaders(null, options),
        again: asked.some(([method]) => SENDS.has(method)) ? "never" : "charged",
      });
      const waits = new Map<number, number>();
      items.forEach((item, id) => {
        const place = left[id]!;
        ends[place] = item;
        if (!(item.error instanceof GatewayError)) return;
        const wait = retry.waitSeconds(item.error, attempts, repeatable(calls[place]![0], null), jitter());
        if (wait !== null) waits.set(place, wait);
      });
      left = [...waits.keys()];
      if (left.length > 0) await sleep(Math.max(...waits.values()));
    }
    return ends;
  }

  // --- the account

  async account(): Promise<Account> {
    const fields = { pubkey: "text", balance: "whole", deposit_address: "text", status: "text" } as const;
    return objectOf(await this.page("/account/info"), fields);
  }

  /** Entries of the ledger, newest first; at most 500. */
  async ledger(limit = 50, offset = 0): Promise<LedgerEntry[]> {
    return objectOf(await this.page("/account/ledger", { limit, offset }), { entries: "list" }).entries;
  }

  /** All entries of the ledger, newest first, read page by page. */
  async *ledgerEntries(query: LedgerQuery = {}): AsyncGenerator<LedgerEntry, void, void> {
    for await (const page of this.#pages("/account/ledger", { ...query, limit: PAGE_MAX, details: "true" }))
      yield* objectOf(page, { entries: "list" }).entries;
  }

  /** Charged calls, newest first; at most 500. */
  async history(limit = 50, offset = 0): Promise<UsageEntry[]> {
    return objectOf(await this.page("/account/history", { limit, offset }), { entries: "list" }).entries;
  }

  /** Charged calls, grouped. by: of method, hour, day, key. from, to: ISO 8601 or Unix seconds. */
  async usage(
    by: readonly ("method" | "hour" | "day" | "key")[] = ["method", "hour"], range: Pick<LedgerQuery, "from" | "to"> = {},
  ): Promise<Usage> {
    const found = await this.page("/account/usage", { by: by.join(","), ...range, format: "json" });
    objectOf(objectOf(found, { rows: "list" }).totals, { calls: "whole", credits: "whole" });
    return found;
  }

  /** Receipts of one call (an operation of X-Receipt) or of one entry (`AT_MS-NUMBER`). */
  async receipt(id: string): Promise<Receipt[]> {
    return readReceipts(await this.page(`/account/receipts/${segment(id)}`));
  }

  /** Receipts of entries, newest first, read page by page. Entries of the last seconds have none yet. */
  async *receipts(query: LedgerQuery = {}): AsyncGenerator<Receipt, void, void> {
    for await (const page of this.#pages("/account/receipts", { ...query, limit: 100 })) yield* readReceipts(page);
  }

  /** The entries after the first of both up to the second, each named `AT_MS-NUMBER`; at most 1,000. */
  async consistency(from: string, to: string): Promise<Chain> {
    return readChain(await this.page("/account/consistency", { from, to }));
  }

  /** The gateway's published keys, for `check`. Keep them: a receipt is then checked without asking anybody. */
  async ledgerKeys(): Promise<PublicKeys> {
    return publicKeys(await this.#public("/.well-known/ledger-keys.json"));
  }

  /** A month (of UTC), added up. month: as 2026-11. */
  async bill(month: string, by: "month" | "day" = "month"): Promise<Bill> {
    const found = await this.page(`/account/bills/${segment(month)}`, { by, format: "json" });
    objectOf(objectOf(found, { lines: "list" }).closing, { balance: "whole" });
    return found;
  }

  /** A month as text. opening: of beancount; false for a month that follows another one in one file. */
  billText(month: string, format: "csv" | "beancount" | "html", query: Query = {}): Promise<string> {
    return this.text(`/account/bills/${segment(month)}`, { ...query, format });
  }

  /** Make an API key; the key before it ends at once. The credential must be a wallet. The first key of a wallet opens its
   * account; refCode then links a referral code. */
  async newApiKey(refCode: string | null = null): Promise<string> {
    const content = refCode === null ? {} : { ref_code: refCode };
    return objectOf(await this.document("POST", "/account/api-key", content, "charged"), { api_key: "text" }).api_key;
  }

  /** Have a transfer credited as soon as it is final. */
  confirmDeposit(signature: string): Promise<Confirmation> {
    return this.#confirm(signature, "harmless");
  }

  /** Ask until a transfer is final and credited. Throws what the last question got, when that takes too long. */
  async waitForDeposit(signature: string, secondsMax = 120, every = 2): Promise<Confirmation> {
    for (let waited = 0; ; ) {
      let wait = every;
      try {
        return await this.#confirm(signature, "never"); // This loop asks again, and not the retry policy below it.
      } catch (error) {
        const passes = [NotFound, Unavailable, LimitReached, Unreachable].some((kind) => error instanceof kind);
        if (error instanceof GatewayError) wait = Math.max(every, error.retryAfter ?? 0);
        if (!passes || waited + wait > secondsMax) throw error;
      }
      await this.#transport.sleep(wait);
      waited += wait;
    }
  }

  /** End the session. */
  signOut(): Promise<void> {
    return this.#transport.signOut();
  }

  // --- look-ups

  bulkBalances(addresses: readonly string[], commitment?: string): Promise<Bulk> {
    return this.#bulk("/bulk/getBalances", { addresses, commitment });
  }

  bulkTokenBalances(owners: readonly string[], commitment?: string): Promise<Bulk> {
    return this.#bulk("/bulk/getTokenBalances", { owners, commitment });
  }

  bulkTransactions(signatures: readonly string[], commitment?: string): Promise<Bulk> {
    return this.#bulk("/bulk/getTransactions", { signatures, commitment });
  }

  /** The JSON of a free page, such as /health, /pricing or /capabilities. */
  page(path: string, query: Query = {}): Promise<any> {
    return this.#transport.ask("GET", path, documentOf, { query });
  }

  /** A free page that is no JSON. */
  text(path: string, query: Query = {}): Promise<string> {
    return this.#transport.ask("GET", path, textOf, { query });
  }

  /** The health document, also while the service starts (503). */
  health(): Promise<any> {
    return this.#transport.ask("GET", "/health", healthOf, { isPublic: true });
  }

  // --- signals and subscriptions

  /** Recent signals, newest first; after `since` oldest first. */
  async recentSignals(
    query: { limit?: number; since?: string | null; kinds?: readonly string[]; mint?: string; program?: string } = {},
  ): Promise<SignalPage> {
    const { kinds, ...others } = query;
    const found = await this.#public("/signals/recent", { limit: 50, ...others, kinds: kinds?.join(",") });
    return objectOf(found, { events: "list" });
  }

  /** The signals that the gateway has kept, oldest first, page by page; free. */
  async *pastSignals(
    query: { since?: string; kinds?: readonly string[]; mint?: string; program?: string } = {},
  ): AsyncGenerator<Signal, void, void> {
    for (let cursor: string | null = query.since ?? "0-0"; cursor !== null; ) {
      const page: SignalPage = await this.recentSignals({ ...query, limit: PAGE_MAX, since: cursor });
      yield* page.events;
      cursor = page.next_cursor !== cursor ? (page.next_cursor ?? null) : null;
    }
  }

  /** A WebSocket for many subscriptions; it connects, and connects again, by itself. `close` ends it. */
  stream(): Stream {
    return new Stream(this.#transport);
  }

  /** Signals as they happen, and gaps. since: a cursor; signals after it come first. After a lost connection the stream
   * goes on behind the last signal. Leaving the loop ends it. */
  async *signals(asked: SignalFilters & { since?: string | null } = {}): AsyncGenerator<Signal | SignalGap, void, void> {
    const stream = this.stream();
    try {
      yield* await stream.signals(asked);
    } finally {
      await stream.close();
    }
  }

  /** What a native subscription such as accountSubscribe tells, and gaps. Leaving the loop ends it. */
  async *subscribe(method: string, ...params: unknown[]): AsyncGenerator<Notification | Gap, void, void> {
    const stream = this.stream();
    try {
      yield* await stream.subscribe(method, ...params);
    } finally {
      await stream.close();
    }
  }

  // --- webhooks

  async webhooks(): Promise<Webhook[]> {
    return objectOf(await this.page("/webhooks"), { webhooks: "list" }).webhooks;
  }

  /** Register a URL. fields: filter_value, lifecycle_events, signal_events, wallets. The answer has the secret. */
  async createWebhook(url: string, filterType: string, fields: Query = {}): Promise<Webhook> {
    const found = await this.document("POST", "/webhooks", { url, filter_type: filterType, ...fields }, "charged");
    return objectOf(found.webhook ?? found, { id: "text", url: "text" });
  }

  /** POST /webhooks/{id}/{action}: rotate-secret, test, replay; or DELETE and PATCH with an empty action. */
  webhookAction(id: string, action: string, content: Query = {}, method = "POST"): Promise<any> {
    const path = `/webhooks/${segment(id)}${action && `/${action}`}`;
    const again = method === "DELETE" || method === "PATCH" ? "harmless" : "charged";
    return this.document(method, path, method === "GET" || method === "DELETE" ? undefined : content, again);
  }

  async webhookDeliveries(id: string, limit = 50, before: string | null = null): Promise<Record<string, any>[]> {
    const found = await this.page(`/webhooks/${segment(id)}/deliveries`, { limit, before });
    return objectOf(found, { deliveries: "list" }).deliveries;
  }

  // --- the steps

  /** Ask a page, and return the JSON object that it answers with. content: of the body; none where it is missing. */
  document(method: string, path: string, content?: unknown, again: Repeatable = "harmless"): Promise<any> {
    const body = content === undefined ? "" : exactJson(content);
    const parse = (answer: Answer): any => objectOf(documentOf(answer), {}, answer.status);
    return this.#transport.ask(method, path, parse, { body, again });
  }

  async *#pages(path: string, query: Query): AsyncGenerator<any, void, void> {
    for (let cursor: string | null = null; ; ) {
      const page = objectOf(await this.page(path, { ...query, cursor }));
      yield page;
      cursor = page.next_cursor ?? null;
      if (cursor === null) return;
    }
  }

  async #confirm(signature: string, again: Repeatable): Promise<Confirmation> {
    const found = await this.document("POST", "/account/confirm-deposit", { signature }, again);
    return objectOf(found, { credits_added: "whole", new_balance: "whole" });
  }

  #callHeaders(idempotencyKey: string | null, options: CallOptions = {}): Record<string, string> {
    const headers: Record<string, string> = {}, consistency = options.consistency ?? this.#consistency;
    if (idempotencyKey !== null) headers["Idempotency-Key"] = idempotencyKey;
    if (options.maxCredits !== undefined) headers["X-Max-Credits"] = String(options.maxCredits);
    if (consistency !== undefined) headers["X-Consistency"] = consistency;
    return headers;
  }

  async #bulk(path: string, content: Query): Promise<Bulk> {
    const request = { body: exactJson(content), headers: this.#callHeaders(null), again: "charged" } as const;
    const found = await this.#transport.ask("POST", path, (answer) => objectOf(documentOf(answer), {}, answer.status), request);
    return { errors: [], commitment: "", ...objectOf(found, { results: "list" }) };
  }

  #public(path: string, query: Query = {}): Promise<any> {
    return this.#transport.ask("GET", path, documentOf, { query, isPublic: true });
  }
}

export const newIdempotencyKey = (): string => toBase64Url(randomBytes(24));

const request = (id: number, [method, ...params]: readonly [string, ...unknown[]]): unknown => ({
  jsonrpc: "2.0", id, method, params,
});

/** A part of a path: nothing in it leads to another one. */
function segment(id: string): string {
  if (/^[A-Za-z0-9_-]+$/.test(id)) return id;
  throw new TypeError("an id in a path has letters, digits, - and _ alone");
}

/** The document of a service that starts too: its status is 503. */
function healthOf(answer: Answer): any {
  const found = documentOf(answer.status === 503 ? { ...answer, status: 200 } : answer);
  return typeof found === "object" && found !== null && "status" in found ? found : documentOf(answer);
}
