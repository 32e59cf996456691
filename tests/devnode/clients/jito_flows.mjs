// jito-js-rpc with @solana/web3.js 1.x, as their registry ships them, straight at a devnode's block engine. Prints one
// line of JSON; any failure is an exit code.
import { Connection, Keypair, LAMPORTS_PER_SOL, PublicKey, SystemProgram, Transaction } from '@solana/web3.js';
import jito from 'jito-js-rpc';

const { RPC_URL } = process.env;
const commitment = 'confirmed';
const connection = new Connection(RPC_URL, commitment);
const engine = new jito.JitoJsonRpcClient(`${RPC_URL}/api/v1`, '');
const encoding = { encoding: 'base64' };
const found = {};

const payer = Keypair.generate();
const funding = await connection.requestAirdrop(payer.publicKey, 10 * LAMPORTS_PER_SOL);
await connection.confirmTransaction({ signature: funding, ...(await connection.getLatestBlockhash(commitment)) });

async function encoded(toPubkey, lamports) {
  const { blockhash } = await connection.getLatestBlockhash(commitment);
  const transaction = new Transaction({ feePayer: payer.publicKey, recentBlockhash: blockhash });
  transaction.add(SystemProgram.transfer({ fromPubkey: payer.publicKey, toPubkey, lamports }));
  transaction.sign(payer);
  return transaction.serialize().toString('base64');
}

const tipAccount = new PublicKey(await engine.getRandomTipAccount());
const receiver = Keypair.generate().publicKey;
const good = await engine.sendBundle([[await encoded(receiver, 5_000_000), await encoded(tipAccount, 10_000)], encoding]);
const landed = await engine.confirmInflightBundle(good.result, 30_000);
found.landed = {
  transactions: landed.transactions.length, err: landed.err, balance: await connection.getBalance(receiver, 'processed'),
};

const bad = await engine.sendBundle([
  [await encoded(receiver, 6_000_000), await encoded(tipAccount, 100 * LAMPORTS_PER_SOL)], encoding,
]);
found.failed = (await engine.confirmInflightBundle(bad.result, 30_000)).status;
found.balanceAfter = await connection.getBalance(receiver, 'processed');

const alone = await engine.sendTxn([await encoded(tipAccount, 20_000), encoding], true);
found.bundleOnly = typeof alone.result;
const refused = await engine.sendBundle([[await encoded(receiver, 1_000)], encoding]).catch((error) => error.response);
found.refused = { status: refused.status, code: refused.data.error.code };

console.log(JSON.stringify(found));
process.exit(0);
