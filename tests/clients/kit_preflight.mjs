// What @solana/kit makes of a failed preflight, at each of two URLs. Prints one line of JSON; any other failure is an
// exit code.
import {
  SOLANA_ERROR__JSON_RPC__SERVER_ERROR_SEND_TRANSACTION_PREFLIGHT_FAILURE, appendTransactionMessageInstruction,
  createKeyPairSignerFromBytes, createSolanaRpc, createTransactionMessage, generateKeyPairSigner, getBase58Encoder,
  getBase64EncodedWireTransaction, isSolanaError, lamports, pipe, setTransactionMessageFeePayerSigner,
  setTransactionMessageLifetimeUsingBlockhash, signTransactionMessageWithSigners,
} from '@solana/kit';
import { getTransferSolInstruction } from '@solana-program/system';

const { RPC_URL, RPC_API_KEY, NODE_URL, SECRET_KEY } = process.env;
const gateway = createSolanaRpc(RPC_URL, { headers: { 'X-Api-Key': RPC_API_KEY } });
const sender = await createKeyPairSignerFromBytes(getBase58Encoder().encode(SECRET_KEY));
const receiver = (await generateKeyPairSigner()).address;

const { value: blockhash } = await gateway.getLatestBlockhash({ commitment: 'confirmed' }).send();
const message = pipe(
  createTransactionMessage({ version: 0 }),
  (built) => setTransactionMessageFeePayerSigner(sender, built),
  (built) => setTransactionMessageLifetimeUsingBlockhash(blockhash, built),
  (built) => appendTransactionMessageInstruction(
    getTransferSolInstruction({ source: sender, destination: receiver, amount: lamports(10n ** 16n) }), built,
  ),
);
const wire = getBase64EncodedWireTransaction(await signTransactionMessageWithSigners(message));

const plain = (value) => JSON.parse(JSON.stringify(value, (_, one) => (typeof one === 'bigint' ? one.toString() : one)));
async function failure(rpc) {
  try {
    await rpc.sendTransaction(wire, { encoding: 'base64', preflightCommitment: 'confirmed' }).send();
  } catch (error) {
    const known = isSolanaError(error, SOLANA_ERROR__JSON_RPC__SERVER_ERROR_SEND_TRANSACTION_PREFLIGHT_FAILURE);
    const cause = error.cause ? { message: error.cause.message, context: plain(error.cause.context ?? null) } : null;
    return { known, message: error.message, context: plain(error.context), cause };
  }
  throw new Error('the preflight passed');
}
console.log(JSON.stringify({ gateway: await failure(gateway), node: await failure(createSolanaRpc(NODE_URL)) }));
