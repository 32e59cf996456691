// Subscriptions and sendAndConfirmTransactionFactory with @solana/kit as its registry ships it. Prints one line of JSON.
import {
  address, appendTransactionMessageInstruction, createKeyPairSignerFromBytes, createSolanaRpc,
  createSolanaRpcSubscriptions, createTransactionMessage, generateKeyPairSigner, getBase58Encoder,
  getSignatureFromTransaction, lamports, pipe, sendAndConfirmTransactionFactory, setTransactionMessageFeePayerSigner,
  setTransactionMessageLifetimeUsingBlockhash, signTransactionMessageWithSigners,
} from '@solana/kit';
import { getTransferSolInstruction } from '@solana-program/system';

const { RPC_URL, WS_URL, SECRET_KEY, LAMPORTS } = process.env;
const rpc = createSolanaRpc(RPC_URL);
const rpcSubscriptions = createSolanaRpcSubscriptions(WS_URL);
const sender = await createKeyPairSignerFromBytes(getBase58Encoder().encode(SECRET_KEY));
const receiver = (await generateKeyPairSigner()).address;
const stop = new AbortController();

const notifications = await rpcSubscriptions
  .accountNotifications(receiver, { commitment: 'confirmed', encoding: 'base64' })
  .subscribe({ abortSignal: stop.signal });
const first = notifications[Symbol.asyncIterator]().next();
const slots = await rpcSubscriptions.slotNotifications().subscribe({ abortSignal: stop.signal });
const slot = (await slots[Symbol.asyncIterator]().next()).value.slot;

const { value: blockhash } = await rpc.getLatestBlockhash().send();
const message = pipe(
  createTransactionMessage({ version: 0 }),
  (built) => setTransactionMessageFeePayerSigner(sender, built),
  (built) => setTransactionMessageLifetimeUsingBlockhash(blockhash, built),
  (built) => appendTransactionMessageInstruction(
    getTransferSolInstruction({ source: sender, destination: address(receiver), amount: lamports(BigInt(LAMPORTS)) }),
    built,
  ),
);
const transaction = await signTransactionMessageWithSigners(message);
await sendAndConfirmTransactionFactory({ rpc, rpcSubscriptions })(transaction, { commitment: 'confirmed' });
const account = (await first).value;
stop.abort();
console.log(JSON.stringify({
  signature: getSignatureFromTransaction(transaction), lamports: Number(account.value.lamports), slot: Number(slot),
}));
process.exit(0);
