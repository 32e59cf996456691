// From an HTTP answer to its value, or to the error that it means. Pure.
// An error of the gateway itself names its source; any other error inside HTTP 200 is the node's.

import { BadAnswer, errorOf, LedgerGatewayError, NodeError } from "./errors.js";
import { parseExact } from "./exact_json.js";

export const CALL_ID = 0; // JSON-RPC id of a call that is sent alone.
const RETRY_AFTER_SECONDS_MAX = 86_400; // A later time than this is nonsense, and counts as "do not ask again".
const TEXT_MAX = 500; // Characters of a server's text that go into an error.

type Fields = Readonly<Record<string, unknown>>;

/** An HTTP answer, as it arrived. headers: with lower-case names. */
export interface Answer {
  status: number;
  headers: Readonly<Record<string, string>>;
  body: string;
}

/** The account's figures, as the last answer told them; null where it did not tell. */
export interface Figures {
  creditsRemaining: number | null;
  creditsLow: boolean;
  requestsPerSecond: number | null;
  requestsLeft: number | null;
  requestId: string | null;
}

/** The end of one call of a batch. */
export class BatchItem {
  constructor(readonly value: any = null, readonly error: LedgerGatewayError | null = null) {}

  /** The node's result. Throws the error of this call. */
  result(): any {
    if (this.error !== null) throw this.error;
    return this.value;
  }
}

export function figuresOf(headers: Answer["headers"]): Figures {
  return {
    creditsRemaining: whole(headers["x-credits-remaining"]),
    creditsLow: (headers["x-credits-low"] ?? "").toLowerCase() === "true",
    requestsPerSecond: whole(headers["x-ratelimit-limit"]),
    requestsLeft: whole(headers["x-ratelimit-remaining"]),
    requestId: text(headers["x-request-id"]) || null,
  };
}

/** The JSON of a path that is no JSON-RPC. Throws GatewayError for a refusal, BadAnswer for anything else. */
export function documentOf(answer: Answer): any {
  const value = json(answer);
  if (isGood(answer)) return value;
  throw refusal(value, answer);
}

/** A page that is no JSON. */
export function textOf(answer: Answer): string {
  if (isGood(answer)) return answer.body;
  throw refusal(json(answer), answer);
}

/** The result of a single JSON-RPC call, whose id is CALL_ID. Throws NodeError, GatewayError or BadAnswer. */
export function resultOf(answer: Answer): any {
  const reply = json(answer);
  if (isFields(reply) && ("id" in reply || "result" in reply)) {
    // A request that cannot be read is refused under the id null (JSON-RPC 2.0, section 5).
    const isRefusal = (reply.id ?? null) === null && !("result" in reply);
    if (!isRefusal && reply.id !== CALL_ID)
      throw new BadAnswer(`the answer has the id ${text(reply.id) || "null"}, and the call had ${CALL_ID}`, answer.status);
  }
  return itemOf(reply, answer, whole(answer.headers["x-credits-cost"])).result();
}

/** The ends of a batch's calls, whose ids are 0 to count-1, in their order; the replies may have another one. A call
 * without a reply, or with two, ends in BadAnswer. Throws GatewayError for a refusal of the whole batch. */
export function itemsOf(answer: Answer, count: number): BatchItem[] {
  const value = json(answer);
  if (!Array.isArray(value)) throw refusal(value, answer);
  const found = new Map<number, BatchItem>(), status = answer.status;
  let strays = 0;
  for (const reply of value) {
    const id = isFields(reply) ? reply.id : null;
    if (typeof id !== "number" || !Number.isInteger(id) || id < 0 || id >= count) strays += 1;
    else if (found.has(id))
      found.set(id, new BatchItem(null, new BadAnswer(`the batch's answer has two replies to the call with id ${id}`, status)));
    else found.set(id, itemOf(reply, answer));
  }
  const told = strays ? `, and ${strays} with ids that no call had` : "";
  const lost = new BatchItem(null, new BadAnswer(`the batch's answer has no reply to this call${told}`, status));
  return Array.from({ length: count }, (_, id) => found.get(id) ?? lost);
}

/** The end that one JSON-RPC reply means. cost: the credits of this reply alone, where the answer tells. */
export function itemOf(reply: unknown, answer: Answer, cost: number | null = null): BatchItem {
  if (!isFields(reply)) return new BatchItem(null, new BadAnswer("the answer is no JSON-RPC reply", answer.status));
  const error = reply.error ?? null;
  if (error === null && isGood(answer) && "result" in reply) return new BatchItem(reply.result);
  if (isFields(error) && answer.status === 200 && Number.isInteger(error.code)) {
    const isGateways = isFields(error.data) && error.data.source === "gateway";
    if (!isGateways) {
      const told = new NodeError(error.code as number, text(error.message), error.data ?? null, requestId(answer), cost);
      return new BatchItem(null, told);
    }
  }
  return new BatchItem(null, refusal(reply, answer));
}

/** Seconds, or null for what is none: a date, a negative number, more than a day. */
export function retryAfterOf(value: unknown): number | null {
  const seconds = typeof value === "number" ? value : typeof value === "string" && value.trim() ? Number(value) : NaN;
  return seconds >= 0 && seconds <= RETRY_AFTER_SECONDS_MAX ? seconds : null;
}

/** The seconds of Retry-After, or null. A proxy may send a date (RFC 9110, section 10.2.3): it counts from the date of the
 * answer, as the clock of this machine may be another one. */
export function askedWait(headers: Answer["headers"]): number | null {
  const [until, sent] = [headers["retry-after"], headers.date].map((date) => Date.parse(date ?? "")) as [number, number];
  const isDate = /[a-z]/i.test(headers["retry-after"] ?? "") && !Number.isNaN(until - sent);
  return retryAfterOf(isDate ? Math.max(until - sent, 0) / 1000 : headers["retry-after"]);
}

/** The value as a JSON object. Throws BadAnswer. fields: those that must be there, each a whole number, a text or a list. */
export function objectOf(
  value: unknown, fields: Readonly<Record<string, "whole" | "text" | "list">> = {}, http = 200,
): any {
  if (!isFields(value)) throw new BadAnswer("the answer is not as documented: wanted a JSON object", http);
  for (const [name, kind] of Object.entries(fields)) {
    const field = value[name];
    const holds = kind === "list" ? Array.isArray(field) : kind === "text" ? typeof field === "string" : isWhole(field);
    if (!holds) throw new BadAnswer(`the answer is not as documented: ${name} is no ${kind === "whole" ? "whole number" : kind}`, http);
  }
  return value;
}

/** Text of a server without control characters, which could drive a terminal, and without reordering ones. */
export const plain = (said: string): string =>
  said.replace(/[\n\t\r]/g, " ").replace(/[\p{C}\p{Zl}\p{Zp}]/gu, "\u{FFFD}");

export const isFields = (value: unknown): value is Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const isWhole = (value: unknown): boolean => typeof value === "bigint" || Number.isSafeInteger(value);
const isGood = (answer: Answer): boolean => answer.status >= 200 && answer.status < 300;

function json(answer: Answer): any {
  try {
    return parseExact(answer.body);
  } catch (error) {
    if (!(error instanceof SyntaxError || error instanceof RangeError)) throw error;
  }
  if (answer.status === 503) {
    // Of a proxy that has no replica to ask: nothing was carried out.
    const retryAfter = askedWait(answer.headers);
    throw errorOf({ constant: "", http: 503, told: "no replica of the gateway is ready", retryAfter });
  }
  throw new BadAnswer("the answer is not JSON", answer.status);
}

function refusal(value: unknown, answer: Answer): LedgerGatewayError {
  const error = isFields(value) ? value.error : null;
  const fields: Fields = isFields(error) ? error : {};
  const data: Fields = isFields(fields.data) ? fields.data : {};
  // Beside the code in plain errors, in the data of JSON-RPC errors; the code is the name in those of older gateways.
  const constant = [fields.constant, data.constant, fields.code].find((each) => typeof each === "string");
  const told = fields.message ?? (typeof error === "string" ? error : null);
  if (isGood(answer) && Object.keys(fields).length === 0)
    return new BadAnswer("the answer has neither a result nor an error", answer.status);
  if (!told && constant === undefined) return new BadAnswer("a refusal without a reason", answer.status);
  const waits = [askedWait(answer.headers), retryAfterOf(data.retry_after_secs)].filter((wait) => wait !== null);
  const id = fields.requestId || data.requestId;
  return errorOf({
    constant: text(constant),
    http: answer.status,
    told: text(told),
    code: typeof fields.code === "number" ? fields.code : null,
    retryAfter: waits.length ? Math.max(...waits) : null,
    requestId: typeof id === "string" ? text(id) : requestId(answer),
    data,
  });
}

function text(value: unknown): string {
  if (value === undefined || value === null) return "";
  return plain((typeof value === "string" ? value : String(value)).slice(0, TEXT_MAX));
}

function whole(told: string | undefined): number | null {
  return told !== undefined && /^\d{1,15}$/.test(told) ? Number(told) : null;
}

const requestId = (answer: Answer): string | null => text(answer.headers["x-request-id"]) || null;
