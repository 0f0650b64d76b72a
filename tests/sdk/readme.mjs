// The examples of README.md, taken from its text and run as a newcomer would run them; only the port is another.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";

const kExampleMs = 30_000;
const run = promisify(execFile);

const text = readFileSync(new URL("../../README.md", import.meta.url), "utf8");
const blocks = [...text.matchAll(/^```(ts|python)\n(.*?)^```$/gms)].map(([, language, code]) => ({ language, code }));

// What an example must contain, by which it is told; and whose answers it shows.
const kExamples = [
  { client: "openai 6", language: "ts", mark: 'from "openai"' },
  { client: "anthropic 1", language: "ts", mark: 'from "@anthropic-ai/sdk"' },
  { client: "genai", language: "ts", mark: 'from "@google/genai"' },
  { client: "python openai", language: "python", mark: "from openai import" },
  { client: "python anthropic", language: "python", mark: "from anthropic import" },
  { client: "python genai", language: "python", mark: "from google import genai" },
];

/// Throws if README.md has an example that nobody tries, or lacks one.
export function checkReadme() {
  for (const { language, code } of blocks) {
    const known = kExamples.filter((example) => example.language === language && code.includes(example.mark));
    assert.equal(known.length, 1, `README.md has an example that this test does not know:\n${code}`);
  }
  for (const { language, mark } of kExamples) {
    assert.ok(blocks.some((block) => block.language === language && block.code.includes(mark)), `README.md has no ${language} example with ${mark}`);
  }
}

const packages = realpathSync(new URL("node_modules", import.meta.url));
const keys = { OPENAI_API_KEY: "sk-test", ANTHROPIC_API_KEY: "sk-ant-test", GEMINI_API_KEY: "test-key" };

export async function runExamples(client, world) {
  const { language, mark } = kExamples.find((example) => example.client === client);
  // Where node finds the packages.
  const folder = mkdtempSync(join(packages, "..", "readme-"));
  try {
    for (const { code } of blocks.filter((block) => block.language === language && block.code.includes(mark))) {
      await world.script([]);
      const ported = code.replaceAll("http://127.0.0.1:4600", world.base);
      assert.notEqual(ported, code, "the example names callgate's address");
      const file = join(folder, language === "ts" ? "example.mjs" : "example.py");
      writeFileSync(file, ported);
      const program = language === "ts" ? process.execPath : process.env.SDK_PYTHON;
      const { stdout, stderr } = await run(program, [file], { env: { ...process.env, ...keys, NO_PROXY: "127.0.0.1,localhost" }, timeout: kExampleMs });
      assert.match(stdout, /\bhello\b/, stderr);
      const runId = /"Callgate-Run-Id": "([^"]+)"/.exec(code)?.[1] ?? null;
      assert.equal((await world.call()).run_id, runId);
      const [{ headers }] = await world.seen();
      assert.ok(!headers.some(([name]) => /^callgate-/i.test(name)), "what is ours stays here");
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
}

export const has = (client) => kExamples.some((example) => example.client === client);

