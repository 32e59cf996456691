// The calls that an account has made in the last day, refused and free ones too.
// Implements: README of the project, "The log of your calls". A named key sees the calls that it paid for, any other
// credential all.

import { objectOf } from "./answers.js";
import type { Gateway } from "./client.js";
import type { LoggedCall } from "./records.js";

const PAGE_MAX = 200;

/** requestId: the X-Request-Id of an answer; a batch has one for all its calls. outcome: "result", "node_error", "refused" or
 * a constant of the error table. key: id of a named key; 0: calls of no named key. before: the id of a call. */
export interface CallLogQuery {
  requestId?: string;
  method?: string;
  outcome?: string;
  key?: number;
  before?: string;
}

export class CallLog {
  readonly #gateway: Gateway;

  constructor(gateway: Gateway) {
    this.#gateway = gateway;
  }

  /** Calls, newest first; at most 200. */
  async newest(limit = 50, query: CallLogQuery = {}): Promise<LoggedCall[]> {
    return (await this.#page(limit, query)).calls;
  }

  /** Every call that is kept, newest first, read page by page. */
  async *all(query: CallLogQuery = {}): AsyncGenerator<LoggedCall, void, void> {
    for (let before = query.before ?? null; ; ) {
      const page = await this.#page(PAGE_MAX, before === null ? query : { ...query, before });
      yield* page.calls;
      before = page.next_before ?? null;
      if (before === null) return;
    }
  }

  async #page(limit: number, { requestId, ...query }: CallLogQuery): Promise<any> {
    const found = await this.#gateway.page("/account/calls", { limit, ...query, request_id: requestId });
    return objectOf(found, { calls: "list" });
  }
}
