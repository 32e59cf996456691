// The typed client of Ledger Gateway, for browsers and Node. See README.md in this folder.

export { BatchItem, type Figures } from "./answers.js";
export { CallLog, type CallLogQuery } from "./call_log.js";
export {
  BATCH_MAX, type Call, type CallOptions, type Checked, type Consistency, DEFAULT_URL, Gateway, type LedgerQuery, newIdempotencyKey, type ParamsOf,
} from "./client.js";
export { ApiKey, BadCredential, Session, Wallet } from "./credentials.js";
export {
  BadAnswer, BadRequest, Denied, GatewayError, KeyConflict, LedgerGatewayError, LimitReached, NodeError, NotFound,
  PaymentNeeded, Unavailable, Unreachable,
} from "./errors.js";
export { exactJson, parseExact } from "./exact_json.js";
export { Keys, narrow } from "./keys.js";
export type { MethodName, Methods } from "./methods.js";
export {
  callDigestOf, type Chain, check, checkContinued, digestOf, hashAfter, keyOf, NotProven, OUTCOMES, publicKeys,
  type PublicKeys, type PublishedKey, readChain, readReceipts, type Receipt, type ReceiptEntry, requestIdOf, TYPES,
} from "./receipts.js";
export type * from "./records.js";
export { type Repeatable, type RetryOptions, RetryPolicy, SENDS, WAIT_SECONDS } from "./retries.js";
export { Continuity, current, isGap, type Signal, type SignalFilters, type SignalGap, type SignalPage } from "./signals.js";
export type { OpenSocket, Socket } from "./socket.js";
export { Stream } from "./stream.js";
export { type Gap, NativeSubscription, type Notification, SignalSubscription, Subscription } from "./subscriptions.js";
export type { Sleep, TransportOptions } from "./transport.js";
export { type Delivery, TOLERANCE_SECONDS, verify, WebhookInvalid } from "./webhooks.js";
