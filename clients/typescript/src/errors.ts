// Errors that calls of the client throw. Implements: README.md of the project, "Errors". Pure.
// Not here: telling from an answer which error it is (answers.ts), which errors pass by themselves (retries.ts).

/** Any failure of a call. `nextStep` says in one sentence what the caller can do. */
export class LedgerGatewayError extends Error {
  override get name(): string {
    return this.constructor.name;
  }
  get nextStep(): string {
    return "";
  }
}

/** No answer came. wasSent: the request may have reached the gateway, so it may have been charged. */
export class Unreachable extends LedgerGatewayError {
  constructor(reason: string, readonly wasSent: boolean) {
    super(reason);
  }
  override get nextStep(): string {
    return this.wasSent
      ? "The request may have been carried out: look at the ledger before you send it again."
      : "Check the URL, and that the gateway runs.";
  }
}

/** An answer that no gateway gives: no JSON, another shape, too large. http: its status. */
export class BadAnswer extends LedgerGatewayError {
  constructor(reason: string, readonly http: number) {
    super(`${reason} (HTTP ${http})`);
  }
  override get nextStep(): string {
    return "Check that the URL is the gateway's own; a proxy or another service may have answered.";
  }
}

/** A JSON-RPC error of the Solana node, passed on untouched by the gateway. credits: the charge that the answer names;
 * null where it names none, and in a batch, whose answer has only the sum. */
export class NodeError extends LedgerGatewayError {
  constructor(
    readonly code: number,
    readonly told: string,
    readonly data: unknown = null,
    readonly requestId: string | null = null,
    readonly credits: number | null = null,
  ) {
    super(`${told} (${code})`);
  }
  override get nextStep(): string {
    const charge = this.credits ? `, and it is charged: ${this.credits} ${this.credits === 1 ? "credit" : "credits"}` : "";
    return `This is the node's own answer${charge}; the same call gets the same answer.`;
  }
}

export interface Refusal {
  /** Of the error table, such as RATE_LIMITED; "" where the answer names none. */
  constant: string;
  /** HTTP status. */
  http: number;
  told: string;
  /** Of JSON-RPC. */
  code?: number | null;
  /** Seconds after which the gateway wants to be asked again. */
  retryAfter?: number | null;
  /** To report. */
  requestId?: string | null;
  data?: Readonly<Record<string, unknown>>;
}

/** A refusal by the gateway itself. Nothing was charged. */
export class GatewayError extends LedgerGatewayError {
  readonly constant: string;
  readonly http: number;
  readonly told: string;
  readonly code: number | null;
  readonly retryAfter: number | null;
  readonly requestId: string | null;
  readonly data: Readonly<Record<string, unknown>>;

  constructor(refusal: Refusal) {
    super(`${refusal.constant || `HTTP ${refusal.http}`}: ${refusal.told}`);
    this.constant = refusal.constant;
    this.http = refusal.http;
    this.told = refusal.told;
    this.code = refusal.code ?? null;
    this.retryAfter = refusal.retryAfter ?? null;
    this.requestId = refusal.requestId ?? null;
    this.data = refusal.data ?? {};
  }
  /** The gateway's advice, or an empty text. */
  get hint(): string {
    return typeof this.data.hint === "string" ? this.data.hint : "";
  }
  override get nextStep(): string {
    return "Look the error up at /docs of the gateway, or report its request id to the operator.";
  }
}

/** HTTP 402: no credentials, no account, or no credits. `howToPay` is a sentence for people. */
export class PaymentNeeded extends GatewayError {
  get howToPay(): string {
    const told = (name: string, otherwise: string) =>
      typeof this.data[name] === "string" ? (this.data[name] as string) : otherwise;
    if (!told("deposit_address", ""))
      return "Send USDC to the deposit address that GET /account/info names, from this account's own wallet.";
    return (
      `Send at least ${told("minimum_deposit_usdc", "0.01")} USDC (mint ${told("usdc_mint", "unknown")}, network ` +
      `${told("network_name", told("network", "unknown"))}) to ${told("deposit_address", "")}, from the wallet that is to ` +
      "own the credits; they appear within seconds after the transfer is final."
    );
  }
  override get nextStep(): string {
    return this.constant === "PAYMENT_REQUIRED"
      ? `Give a credential that has an account, or pay: ${this.howToPay}`
      : this.howToPay;
  }
}

/** HTTP 429: too many requests in this second, or too many calls at once. */
export class LimitReached extends GatewayError {
  override get nextStep(): string {
    return "Send fewer calls at once, or ask the operator for higher limits.";
  }
}

/** The gateway or its nodes cannot answer now: 502, 503, 504, internal errors. */
export class Unavailable extends GatewayError {
  override get nextStep(): string {
    return "Ask again later; GET /health tells the state of the service.";
  }
}

/** 401 and 403: a bad credential, a suspended account, a nonce that was used before. */
export class Denied extends GatewayError {
  override get nextStep(): string {
    return "Check the API key or the wallet, and the clock of this machine; a new key ends the old one.";
  }
}

/** The request itself is wrong, or names what this gateway does not offer. */
export class BadRequest extends GatewayError {
  override get nextStep(): string {
    return "Correct the request; GET /capabilities lists what the service offers.";
  }
}

/** HTTP 404 and 410: no such account, path, webhook or transaction (yet), or a month that is not kept any more. */
export class NotFound extends GatewayError {
  override get nextStep(): string {
    return (
      "Check the name; an account exists after its first deposit, or its first API key. For a month that is not kept" +
      " any more, ask the operator, who has its export."
    );
  }
}

/** HTTP 409: the Idempotency-Key belongs to another request, or its request is still running. */
export class KeyConflict extends GatewayError {
  override get nextStep(): string {
    return "Use a fresh key for each request; the same key and body later for the answer of the first one.";
  }
}

type Kind = new (refusal: Refusal) => GatewayError;
const KINDS: readonly (readonly [Kind, readonly string[], readonly number[]])[] = [
  [PaymentNeeded, ["PAYMENT_REQUIRED", "INSUFFICIENT_CREDITS"], [402]],
  [LimitReached, ["RATE_LIMITED", "CONCURRENCY_LIMITED", "SUBSCRIPTION_LIMIT"], [429]],
  [
    Unavailable,
    ["BACKEND_UNAVAILABLE", "UPSTREAM_ERROR", "SERVICE_TEMPORARILY_UNAVAILABLE", "TIMEOUT", "INTERNAL_ERROR"],
    [],
  ],
  [Denied, ["AUTH_FAILED", "METHOD_NOT_ALLOWED", "NONCE_REUSED", "CONFIRMATION_DECLINED"], [401, 403]],
  [
    BadRequest,
    [
      "INVALID_REQUEST", "INVALID_PARAMS", "METHOD_NOT_FOUND", "SERVICE_PROFILE_DISABLED", "MAX_CREDITS_EXCEEDED",
      "SIMULATION_FAILED",
    ],
    [400, 405, 408, 412, 413, 415],
  ],
  [
    NotFound,
    ["ACCOUNT_NOT_FOUND", "NOT_FOUND", "DEPOSIT_NOT_FOUND", "DEPOSIT_NOT_FINAL", "MONTH_DETACHED"],
    [404, 410],
  ],
  [KeyConflict, ["IDEMPOTENCY_KEY_REUSED", "IDEMPOTENCY_KEY_IN_USE"], [409]],
];

/** The error of a refusal: by its constant, and by its status where the constant is not known here. */
export function errorOf(refusal: Refusal): GatewayError {
  const kind =
    KINDS.find(([, constants]) => constants.includes(refusal.constant))?.[0] ??
    KINDS.find(([, , statuses]) => statuses.includes(refusal.http))?.[0] ??
    (refusal.http >= 500 ? Unavailable : GatewayError);
  return new kind(refusal);
}
