// standardwebhooks, unmodified, verifies deliveries; each is {secret, body, headers}. Prints for each whether it is good.
import { readFileSync } from "node:fs";
import { Webhook } from "standardwebhooks";

const deliveries = JSON.parse(readFileSync(process.env.DELIVERIES, "utf8"));
const verdicts = deliveries.map(({ secret, body, headers }) => {
  try {
    new Webhook(secret).verify(body, headers);
    return true;
  } catch {
    return false;
  }
});
console.log(JSON.stringify(verdicts));
