// Validates a document with @readme/openapi-parser and, if its version is 3.0, with oas-validator.
import { readFileSync } from "node:fs";
import { validate } from "@readme/openapi-parser";
import validator from "oas-validator";

const [, , file] = process.argv;
const document = () => JSON.parse(readFileSync(file, "utf8"));
const result = await validate(document());
if (!result.valid || result.warnings.length > 0) {
  console.error(`${file}: openapi-parser: ${JSON.stringify(result, null, 2)}`);
  process.exitCode = 1;
}
if (document().openapi.startsWith("3.0")) {
  try {
    await validator.validate(document(), {});
  } catch (error) {
    console.error(`${file}: oas-validator: ${error.message}`);
    process.exitCode = 1;
  }
}
