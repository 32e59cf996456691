// JSON whose whole numbers stay exact: those beyond 2^53 are `bigint`, as lamports and supplies can be. Pure.

const WHOLE = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
const LARGE = /\d{16}/;

/** The value of a JSON text. Throws SyntaxError. */
export function parseExact(text: string): any {
  if (!LARGE.test(text)) return JSON.parse(text);
  JSON.parse(text); // Throws for what is no JSON, so the pattern below meets JSON alone.
  const mark = markNotIn(text);
  const marked = text.replace(WHOLE, (found) =>
    /^-?\d{16,}$/.test(found) && !Number.isSafeInteger(Number(found)) ? `"${mark}${found}"` : found,
  );
  return JSON.parse(marked, (_, value) =>
    typeof value === "string" && value.startsWith(mark) ? BigInt(value.slice(mark.length)) : value,
  );
}

/** The JSON text of a value, in which a `bigint` is a number. Throws TypeError for numbers that JSON does not have. */
export function exactJson(value: unknown): string {
  const large: bigint[] = [], told: string[] = [];
  const first = JSON.stringify(value, (_, part) => {
    if (typeof part === "number" && !Number.isFinite(part)) throw new TypeError("JSON has no NaN and no Infinity");
    if (typeof part === "bigint") large.push(part);
    else if (typeof part === "string") told.push(part);
    return typeof part === "bigint" ? null : part;
  });
  if (large.length === 0) return first;
  const mark = markNotIn(first + told.join());
  const marked = JSON.stringify(value, (_, part) => (typeof part === "bigint" ? mark + part : part));
  return marked.replace(new RegExp(`"${mark}(-?\\d+)"`, "g"), "$1");
}

/** Letters that the text does not have in it, and that nobody can foresee: a text may hide letters as escapes. */
function markNotIn(text: string): string {
  let mark;
  do mark = `bigint${Math.random().toString(36).slice(2)}:`;
  while (text.includes(mark));
  return mark;
}
