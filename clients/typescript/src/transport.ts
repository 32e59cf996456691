// One request and its attempts: sign, send, read a bounded answer, wait, send again.
// Implements: retries.ts and credentials.ts over fetch. Not here: what the requests ask (client.ts).

import { type Answer, documentOf, type Figures, figuresOf, objectOf, plain } from "./answers.js";
import { utf8 } from "./bytes.js";
import { type Credential, headersOf, Session } from "./credentials.js";
import { BadAnswer, Denied, LedgerGatewayError, Unreachable } from "./errors.js";
import { type Repeatable, RetryPolicy } from "./retries.js";
import { type OpenSocket, openSocket } from "./socket.js";

export const ANSWER_BYTES_MAX = 256 * 2 ** 20; // Blocks are tens of megabytes; an endless answer must not fill the memory.
const RENEW_SECONDS = 60; // A session is renewed this long before it ends.
// Codes of Node and Bun for a connection that never was. Browsers do not tell, so there a request counts as sent.
const NOT_SENT = new Set([
  "ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH", "UND_ERR_CONNECT_TIMEOUT", "ConnectionRefused",
]);

/** Waits so many seconds; ends early where the signal is aborted. */
export type Sleep = (seconds: number, signal?: AbortSignal) => Promise<void>;

export interface TransportOptions {
  /** In place of the runtime's, such as one of `@x402/fetch`, which pays. */
  fetch?: typeof fetch;
  /** In place of the runtime's WebSocket, such as one of the package `ws`. */
  openSocket?: OpenSocket;
  retry?: RetryPolicy;
  /** Of one attempt. The longest method has 30 s at the gateway. */
  timeoutSeconds?: number;
  /** 0 to 1, random. */
  jitter?: () => number;
  sleep?: Sleep;
  /** Unix seconds, for signatures. */
  now?: () => number;
}

export interface Question {
  body?: string;
  query?: Readonly<Record<string, unknown>>;
  headers?: Readonly<Record<string, string>>;
  again?: Repeatable;
  isPublic?: boolean;
}

/** A gateway's URL without its last slash. Throws TypeError; the text does not repeat a secret in it. */
export function checkedUrl(url: string): string {
  let parts: URL;
  try {
    parts = new URL(url.trim());
  } catch {
    throw new TypeError("the URL must look like https://gateway.example or http://127.0.0.1:8080");
  }
  if (parts.protocol !== "http:" && parts.protocol !== "https:")
    throw new TypeError("the URL must look like https://gateway.example or http://127.0.0.1:8080");
  if (parts.username || parts.password || parts.search || parts.hash)
    throw new TypeError("the URL must hold no user name, key or fragment; give the key apart from it");
  return parts.origin + parts.pathname.replace(/\/+$/, "");
}

/** Requests of one caller. figures: of the last answer that told them. */
export class Transport {
  readonly url: string;
  readonly retry: RetryPolicy;
  readonly openSocket: OpenSocket;
  readonly jitter: () => number;
  readonly sleep: Sleep;
  figures: Figures = figuresOf({});
  headers: Answer["headers"] = {};
  readonly #fetch: typeof fetch;
  readonly #timeoutSeconds: number;
  readonly #now: () => number;
  #signingIn: Promise<void> = Promise.resolve();
  #sessionSeconds = 0;
  #sessionUntil = 0;

  constructor(url: string, readonly credential: Credential, options: TransportOptions) {
    this.url = checkedUrl(url);
    this.retry = options.retry ?? new RetryPolicy();
    this.openSocket = options.openSocket ?? openSocket;
    this.jitter = options.jitter ?? Math.random;
    this.sleep = options.sleep ?? sleep;
    this.#fetch = options.fetch ?? ((...given) => fetch(...given));
    this.#timeoutSeconds = options.timeoutSeconds ?? 40;
    this.#now = options.now ?? (() => Date.now() / 1000);
  }

  /** Send a request until it has an answer or may not be sent again. Throws LedgerGatewayError. */
  async ask<Value>(method: string, path: string, parse: (answer: Answer) => Value, asked: Question = {}): Promise<Value> {
    const { body = "", again = "harmless", isPublic = false } = asked;
    let attempts = 0, hasRenewed = false;
    for (;;) {
      attempts += 1;
      let signed: Record<string, string> = {}, wait: number | null;
      try {
        signed = isPublic ? {} : await this.credentialHeaders(method, path, body);
        const answer = await this.#attempt(method, path, body, asked.query ?? {}, { ...asked.headers, ...signed });
        this.#note(answer);
        return parse(answer);
      } catch (error) {
        if (!(error instanceof LedgerGatewayError)) throw error;
        if (error instanceof Denied && this.#hasEnded(error, signed) && !hasRenewed && again !== "never") {
          attempts -= 1;
          hasRenewed = true;
          continue;
        }
        wait = this.retry.waitSeconds(error, attempts, again, this.jitter());
        if (wait === null) throw error;
      }
      await this.sleep(wait);
    }
  }

  /** The headers of one attempt; a session signs in where it has to. */
  async credentialHeaders(method: string, path: string, body: string): Promise<Record<string, string>> {
    if (this.credential instanceof Session) await this.#signInOnce(this.credential);
    const signed = new URL(this.url).pathname.replace(/\/$/, "") + path;
    return headersOf(this.credential, method, signed, body, this.#now());
  }

  /** End the session, where there is one. */
  async signOut(): Promise<void> {
    if (this.credential instanceof Session && this.credential.token !== null) {
      await this.ask("POST", "/auth/logout", documentOf, { body: "{}" });
      this.credential.token = null;
    }
  }

  /** Whether the token of this attempt has ended; it is then forgotten. */
  #hasEnded(error: Denied, signed: Readonly<Record<string, string>>): boolean {
    if (!(this.credential instanceof Session) || error.http !== 401 || !signed.Authorization) return false;
    if (signed.Authorization === `Bearer ${this.credential.token}`) this.credential.token = null; // Unless renewed meanwhile.
    return true;
  }

  /** Calls that wait here find the token of the first one. */
  #signInOnce(session: Session): Promise<void> {
    const turn = this.#signingIn.then(() => this.#signIn(session));
    this.#signingIn = turn.catch(() => undefined);
    return turn;
  }

  async #signIn(session: Session): Promise<void> {
    if (session.token !== null && this.#now() < this.#sessionUntil) {
      this.#sessionUntil = this.#now() + this.#sessionSeconds; // Each use prolongs it.
      return;
    }
    const pubkey = session.wallet.pubkey;
    const { challenge } = await this.#post("/auth/challenge", { pubkey });
    // A challenge is hex alone: what a server has signed here can never be the bytes of a transaction.
    if (typeof challenge !== "string" || !/^[0-9a-f]{64}$/.test(challenge))
      throw new BadAnswer("the challenge is not 64 hex characters", 200);
    const signature = await session.wallet.sign(utf8(challenge));
    const { token, expires_in: seconds } = await this.#post("/auth/verify", { pubkey, challenge, signature });
    if (typeof token !== "string" || !/^[!-~]+$/.test(token)) throw new BadAnswer("the sign-in gave no token", 200);
    session.token = token;
    const life = Number.isSafeInteger(seconds) && seconds > 0 && seconds < 1e9 ? seconds : 2 * RENEW_SECONDS;
    this.#sessionSeconds = Math.max(life - RENEW_SECONDS, life / 2);
    this.#sessionUntil = this.#now() + this.#sessionSeconds;
  }

  #post(path: string, content: unknown): Promise<any> {
    return this.ask("POST", path, (answer) => objectOf(documentOf(answer)), {
      body: JSON.stringify(content), isPublic: true,
    });
  }

  async #attempt(
    method: string, path: string, body: string, query: Readonly<Record<string, unknown>>, headers: Record<string, string>,
  ): Promise<Answer> {
    const given = Object.entries(query).filter(([, value]) => value !== null && value !== undefined);
    const parameters = given.length ? "?" + new URLSearchParams(given.map(([name, value]) => [name, String(value)])) : "";
    const request: RequestInit = {
      method,
      headers: body ? { ...headers, "Content-Type": "application/json" } : headers,
      redirect: "manual", // A redirect takes no credential elsewhere.
      credentials: "omit",
      cache: "no-store",
      signal: AbortSignal.timeout(this.#timeoutSeconds * 1000),
    };
    if (body) request.body = body;
    try {
      const response = await this.#fetch(this.url + path + parameters, request);
      return { status: response.status, headers: Object.fromEntries(response.headers), body: await read(response) };
    } catch (error) {
      if (error instanceof LedgerGatewayError) throw error;
      const wasSent = !NOT_SENT.has(codeOf(error));
      const told = wasSent ? `no answer from ${this.url}` : `no connection to ${this.url}`;
      throw new Unreachable(`${told}: ${reasonOf(error)}`, wasSent);
    }
  }

  #note(answer: Answer): void {
    this.headers = answer.headers;
    const told = figuresOf(answer.headers);
    if (told.creditsRemaining !== null) this.figures = told;
  }
}

async function read(response: Response): Promise<string> {
  const decoder = new TextDecoder(), reader = response.body?.getReader();
  let text = "", length = 0;
  for (;;) {
    const { done, value } = (await reader?.read()) ?? { done: true, value: undefined };
    if (done || value === undefined) return text + decoder.decode();
    length += value.length;
    if (length > ANSWER_BYTES_MAX) {
      await reader?.cancel();
      throw new BadAnswer(`the answer is larger than ${ANSWER_BYTES_MAX / 2 ** 20} MiB`, response.status);
    }
    text += decoder.decode(value, { stream: true });
  }
}

function sleep(seconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const end = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, seconds * 1000);
    signal?.addEventListener("abort", end);
  });
}

/** The code of a failed connection. Of several addresses of a name, each has failed with one. */
function codeOf(error: any): string {
  const cause = error?.cause ?? error;
  return String(cause?.code ?? cause?.errors?.[0]?.code ?? "");
}

function reasonOf(error: any): string {
  if (error?.name === "TimeoutError") return "it took too long";
  const cause = error?.cause ?? error;
  return plain(String(cause?.message || codeOf(error) || error)).slice(0, 200);
}
