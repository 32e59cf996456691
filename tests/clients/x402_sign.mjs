// Signs a payment by the terms in TERMS, with @x402/fetch and @x402/svm as their registry ships them. Prints it as one
// line of JSON; any failure is an exit code.
import { x402Client } from '@x402/fetch';
import { ExactSvmScheme } from '@x402/svm';
import { createKeyPairSignerFromBytes, getBase58Encoder } from '@solana/kit';

const { NODE_URL, SECRET_KEY, PAYMENT_NETWORK, TERMS } = process.env;
const signer = await createKeyPairSignerFromBytes(getBase58Encoder().encode(SECRET_KEY));
const payer = new x402Client().register(PAYMENT_NETWORK, new ExactSvmScheme(signer, { rpcUrl: NODE_URL }));
console.log(JSON.stringify(await payer.createPaymentPayload(JSON.parse(TERMS))));
