// ECMA-262, as JSON Schema asks for: with Unicode. Reads lines of two hexadecimal texts, a pattern and a
// value, and prints whether the pattern matches.
import { readFileSync } from "node:fs";

const text = (hex) => Buffer.from(hex, "hex").toString("utf8");
for (const line of readFileSync(0, "latin1").split("\n").slice(0, -1)) {
  const [pattern, value] = line.split(" ").map(text);
  console.log(new RegExp(pattern, "u").test(value));
}
