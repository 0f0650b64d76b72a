// The openai SDK in two major versions.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { createReadStream, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import OpenAI6 from "openai";
import OpenAI4 from "openai4";
import { failure, kHello, kSoonMs, limiterWaitedOut, paidOnce } from "./common.mjs";

const kAsk = { model: "gpt-5-mini", messages: [{ role: "user", content: kHello }] };
const kErrors = {
  400: "BadRequestError",
  401: "AuthenticationError",
  403: "PermissionDeniedError",
  404: "NotFoundError",
  413: "APIError",
  422: "UnprocessableEntityError",
  429: "RateLimitError",
  503: "InternalServerError",
};

const image = (bytes) => ({
  model: kAsk.model,
  messages: [{ role: "user", content: [{ type: "image_url", image_url: { url: "data:image/png;base64," + "A".repeat(bytes) } }] }],
});

const own = {
  async "a full limiter is waited out"({ client }) {
    await limiterWaitedOut(client);
  },
  async "a keyed call is paid once, whatever the client repeats"({ sdk, world }) {
    await paidOnce(world, async (options) => (await sdk.chat.completions.create(kAsk, options)).choices[0].message.content);
  },
  async "a job that is given to the other of two workers is replayed"({ world, client }) {
    await world.script([]);
    const job = `job:${Math.random()}`;
    const file = fileURLToPath(new URL("worker.mjs", import.meta.url));
    const work = async () => {
      const args = [file, client.name === "openai 4" ? "openai4" : "openai", world.base + client.at, job];
      return JSON.parse((await promisify(execFile)(process.execPath, args, { timeout: 30_000 })).stdout);
    };
    assert.deepEqual(await work(), { text: "hello", key: "stored" });
    // The first one has ended without an acknowledgement.
    assert.deepEqual(await work(), { text: "hello", key: "replayed" });
    assert.equal((await world.seen()).length, 1, "the provider is asked once");
    const [paid, replayed] = [await world.call(), await world.call()];
    assert.ok(Number(paid.cost_usd) > 0);
    assert.equal(replayed.attempts.length, 0);
    assert.equal(replayed.saved_usd, paid.cost_usd);
  },
  async "429 with an hour to wait comes back at once"({ sdk, world, client }) {
    await world.script([{ answer: { status: 429, headers: [["retry-after", "3600"]] } }]);
    const before = Date.now();
    const error = await failure(client.call(sdk));
    assert.ok(error instanceof client.OpenAI.RateLimitError, String(error));
    assert.ok(Date.now() - before < kSoonMs);
    const told = new Headers([...Object.entries(error.headers), ...(error.headers.entries?.() ?? [])]);
    assert.equal(told.get("callgate-retry-after-ms"), "3600000");
    assert.equal((await world.seen()).length, 1);
  },
  async "no usage chunk that nobody asked for, and yet its count"({ sdk, world }) {
    await world.script([]);
    for await (const part of await sdk.chat.completions.create({ ...kAsk, stream: true })) assert.ok(part.choices.length > 0);
    assert.equal((await world.call()).usage.output, 2);
  },
  async "usage that was asked for arrives"({ sdk, world }) {
    await world.script([{ answer: { usage: { input: 3, output: 4 } } }]);
    let last;
    for await (const part of await sdk.chat.completions.create({ ...kAsk, stream: true, stream_options: { include_usage: true } })) last = part;
    assert.equal(last.usage.total_tokens, 7);
    assert.deepEqual(last.choices, []);
  },
  async "responses, unary and stream"({ sdk, world }) {
    await world.script([]);
    const answer = await sdk.responses.create({ model: kAsk.model, input: kHello });
    assert.equal(answer.output_text, "hello");
    const types = [];
    for await (const event of await sdk.responses.create({ model: kAsk.model, input: kHello, stream: true })) types.push(event.type);
    assert.equal(types.at(-1), "response.completed");
  },
  async "a file upload survives a 503"({ sdk, world }) {
    const folder = mkdtempSync(join(tmpdir(), "callgate-upload-"));
    try {
      const file = join(folder, "batch.jsonl");
      writeFileSync(file, "{}\n".repeat(100_000));
      await world.script([{ match: { times: 1 }, answer: 503 }, { answer: { json: { id: "file-1", object: "file" } } }]);
      const uploaded = await sdk.files.create({ file: createReadStream(file), purpose: "batch" });
      assert.equal(uploaded.id, "file-1");
      const seen = await world.seen();
      assert.equal(seen.length, 2);
      assert.ok(seen[0].body_bytes > 300_000);
      assert.equal(seen[0].sha256, seen[1].sha256);
    } finally {
      rmSync(folder, { recursive: true });
    }
  },
  async "a 25 MB image arrives as it is, after a 503"({ sdk, world, client }) {
    const body = image(25_000_000);
    await world.script([{ match: { times: 1 }, answer: 503 }]);
    const answer = await sdk.chat.completions.create(body);
    assert.equal(answer.choices[0].message.content, "hello");
    const seen = await world.seen();
    assert.equal(seen.length, 2);
    const sha256 = createHash("sha256").update(client.json(body)).digest("hex");
    for (const request of seen) assert.equal(request.sha256, sha256);
  },
  async "a body over the limit is a 413 of the dialect"({ sdk, world, client }) {
    await world.script([]);
    const before = Date.now();
    const error = await failure(sdk.chat.completions.create(image(33 * 1024 * 1024)));
    assert.ok(error instanceof client.OpenAI.APIError, String(error));
    assert.equal(error.status, 413);
    assert.ok(error.error?.message, "told in the dialect");
    assert.ok(Date.now() - before < kSoonMs, `after ${Date.now() - before} ms`);
    assert.equal((await world.seen()).length, 0);
  },
};

const family = (OpenAI, more) => ({
  OpenAI,
  upstream: "openai",
  dialect: "openai",
  at: "/openai/v1",
  direct: "/v1",
  bases: ["/openai", "/v1", ""],
  environment: { name: "OPENAI_BASE_URL", at: ["/openai/v1", "/openai"] },
  statuses: [400, 401, 403, 404, 413, 422],
  usageIsAskedFor: true,
  connect: (baseURL) => new OpenAI({ baseURL, apiKey: "sk-test" }),
  call: async (sdk, signal) => (await sdk.chat.completions.create(kAsk, { signal })).choices[0].message.content,
  async *parts(sdk, signal) {
    for await (const part of await sdk.chat.completions.create({ ...kAsk, stream: true }, { signal })) yield part.choices[0].delta.content;
  },
  models: (sdk) => sdk.models.list(),
  embed: async (sdk) => (await sdk.embeddings.create({ model: "text-embedding-3-small", input: kHello, encoding_format: "float" })).data[0].embedding,
  expect: (error, status) => assert.ok(error instanceof OpenAI[kErrors[status]], String(error)),
  obeys: true,
  own,
  ...more,
});

export const clients = [
  family(OpenAI6, { name: "openai 6", json: (body) => JSON.stringify(body) }),
  family(OpenAI4, { name: "openai 4", json: (body) => JSON.stringify(body, null, 2) }),
];
