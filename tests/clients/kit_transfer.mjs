// A full transfer with @solana/kit as its registry ships it. Prints one line of JSON; any failure is an exit code.
import {
  address, appendTransactionMessageInstruction, createKeyPairSignerFromBytes, createSolanaRpc, createTransactionMessage,
  generateKeyPairSigner, getBase58Encoder, getBase64EncodedWireTransaction, getSignatureFromTransaction, lamports, pipe,
  setTransactionMessageFeePayerSigner, setTransactionMessageLifetimeUsingBlockhash, signTransactionMessageWithSigners,
} from '@solana/kit';
import { getTransferSolInstruction } from '@solana-program/system';

const { RPC_URL, RPC_API_KEY, SECRET_KEY, LAMPORTS } = process.env;
const rpc = createSolanaRpc(RPC_URL, RPC_API_KEY ? { headers: { 'X-Api-Key': RPC_API_KEY } } : {});
const sender = await createKeyPairSignerFromBytes(getBase58Encoder().encode(SECRET_KEY));
const receiver = (await generateKeyPairSigner()).address;

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
const signature = getSignatureFromTransaction(transaction);
const sent = await rpc.sendTransaction(getBase64EncodedWireTransaction(transaction), { encoding: 'base64' }).send();

let status = null;
for (let attempt = 0; attempt < 600; attempt += 1) {
  status = (await rpc.getSignatureStatuses([signature]).send()).value[0];
  if (status?.err) throw new Error(`the transfer failed: ${JSON.stringify(status.err)}`);
  if (['confirmed', 'finalized'].includes(status?.confirmationStatus)) break;
  await new Promise((resolve) => setTimeout(resolve, 200));
}
const balance = (await rpc.getBalance(receiver, { commitment: 'confirmed' }).send()).value;
console.log(JSON.stringify({ sent, signature, status: status?.confirmationStatus ?? null, balance: Number(balance) }));
