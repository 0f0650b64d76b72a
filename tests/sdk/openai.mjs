// What the openai SDK must see through callgate, unchanged, in two major versions.
import assert from "node:assert/strict";
import { createReadStream, writeFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const kMessages = [{ role: "user", content: "Say hello" }];
const kModel = "gpt-5-mini";

async function textOf(stream) {
  const parts = [];
  for await (const part of stream) parts.push(part);
  return { parts, text: parts.map((part) => part.choices[0]?.delta?.content ?? "").join("") };
}

async function failure(promise) {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  throw new assert.AssertionError({ message: "it should have failed" });
}

export const scenarios = {
  async "plain call"({ client, world }) {
    await world.script([]);
    const answer = await client.chat.completions.create({ model: kModel, messages: kMessages });
    assert.equal(answer.choices[0].message.content, "hello");
    assert.equal((await world.seen()).length, 1);
  },
  async "plain stream"({ client, world }) {
    await world.script([]);
    const { parts, text } = await textOf(await client.chat.completions.create({ model: kModel, messages: kMessages, stream: true }));
    assert.equal(text, "hello");
    assert.ok(parts.every((part) => part.choices.length > 0), "no chunk with empty choices that nobody asked for");
    assert.ok((await world.call()).usage.output > 0, "and yet its usage is known");
    assert.equal((await world.seen()).length, 1);
  },
  async "stream with usage asked"({ client, world }) {
    await world.script([]);
    const { parts } = await textOf(
      await client.chat.completions.create({ model: kModel, messages: kMessages, stream: true, stream_options: { include_usage: true } }),
    );
    assert.ok(parts.at(-1).usage.total_tokens > 0);
  },
  async "responses, unary and stream"({ client, world }) {
    await world.script([]);
    const answer = await client.responses.create({ model: kModel, input: "hi" });
    assert.equal(answer.output_text, "hello");
    const types = [];
    for await (const event of await client.responses.create({ model: kModel, input: "hi", stream: true })) types.push(event.type);
    assert.equal(types.at(-1), "response.completed");
  },
  async embeddings({ client, world }) {
    await world.script([]);
    const answer = await client.embeddings.create({ model: "text-embedding-3-small", input: "hi", encoding_format: "float" });
    assert.ok(answer.data[0].embedding.length > 0);
  },
  async "503 twice, then fine"({ client, world }) {
    await world.script([{ match: { times: 2 }, answer: 503 }]);
    const answer = await client.chat.completions.create({ model: kModel, messages: kMessages });
    assert.equal(answer.choices[0].message.content, "hello");
    const seen = await world.seen();
    assert.equal(seen.length, 3);
    const counts = seen.map((request) => new Map(request.headers.map(([name, value]) => [name.toLowerCase(), value])).get("x-stainless-retry-count"));
    assert.deepEqual(counts, ["0", "0", "0"], "the SDK itself did not retry");
  },
  async "503 for ever: one request of the SDK, three attempts"({ client, world, OpenAI }) {
    await world.script([{ answer: 503 }]);
    const error = await failure(client.chat.completions.create({ model: kModel, messages: kMessages }));
    assert.ok(error instanceof OpenAI.InternalServerError, String(error));
    assert.equal(error.status, 503);
    assert.equal((await world.seen()).length, 3);
  },
  async "429 with an hour to wait comes back at once"({ client, world, OpenAI }) {
    await world.script([{ answer: { status: 429, headers: [["retry-after", "3600"]], json: { error: { message: "slow down", type: "requests", code: "rate_limit_exceeded" } } } }]);
    const before = Date.now();
    const error = await failure(client.chat.completions.create({ model: kModel, messages: kMessages }));
    assert.ok(error instanceof OpenAI.RateLimitError, String(error));
    assert.ok(Date.now() - before < 2_000);
    assert.equal((await world.seen()).length, 1);
  },
  async "errors keep class, code and request id"({ client, world, OpenAI }) {
    const classes = { 400: "BadRequestError", 401: "AuthenticationError", 403: "PermissionDeniedError", 404: "NotFoundError", 422: "UnprocessableEntityError" };
    for (const [status, name] of Object.entries(classes)) {
      await world.script([{ answer: { status: Number(status), headers: [["x-request-id", "req_77"]], json: { error: { message: "told", type: "invalid_request_error", param: "model", code: "some_code" } } } }]);
      const error = await failure(client.chat.completions.create({ model: kModel, messages: kMessages }));
      assert.ok(error instanceof OpenAI[name], `${status}: ${error}`);
      assert.equal(error.code, "some_code");
      assert.equal(error.requestID ?? error.request_id, "req_77");
      assert.equal((await world.seen()).length, 1);
    }
  },
  async "an error hidden in a 200 stream becomes a typed error"({ client, world, OpenAI }) {
    await world.script([{ answer: { stream: [{ error: 503 }] } }]);
    const error = await failure(client.chat.completions.create({ model: kModel, messages: kMessages, stream: true }));
    assert.ok(error instanceof OpenAI.InternalServerError, String(error));
    assert.equal((await world.seen()).length, 3);
  },
  async "a stream that breaks throws after its parts"({ client, world }) {
    for (const how of [{ close: "fin" }, { close: "rst" }, { end: true }]) {
      await world.script([{ answer: { stream: [{ say: "one" }, { say: "two" }, how] } }]);
      if (how.end) await world.script([{ answer: { status: 200, headers: [["content-type", "text/event-stream"]], body: 'data: {"id":"c","choices":[{"index":0,"delta":{"content":"onetwo"}}]}\n\n' } }]);
      const stream = await client.chat.completions.create({ model: kModel, messages: kMessages, stream: true });
      let text = "";
      await assert.rejects(async () => {
        for await (const part of stream) text += part.choices[0]?.delta?.content ?? "";
      });
      assert.equal(text, "onetwo");
      assert.equal((await world.seen()).length, 1);
    }
  },
  async "an abort closes the provider's connection"({ client, world }) {
    await world.script([{ answer: { stream: [{ say: "one" }, { hang: true }] } }]);
    const stop = new AbortController();
    const stream = await client.chat.completions.create({ model: kModel, messages: kMessages, stream: true }, { signal: stop.signal });
    const before = Date.now();
    stop.abort();
    await world.wait("open_requests=0");
    assert.ok(Date.now() - before < 1_000);
    stream.controller.abort();
    assert.equal((await world.call()).outcome, "cancelled");
  },
  async "a file upload survives a 503"({ client, world }) {
    const folder = mkdtempSync(join(tmpdir(), "callgate-upload-"));
    try {
      const file = join(folder, "batch.jsonl");
      writeFileSync(file, "{}\n".repeat(100_000));
      await world.script([{ match: { times: 1 }, answer: 503 }, { answer: { json: { id: "file-1", object: "file" } } }]);
      const uploaded = await client.files.create({ file: createReadStream(file), purpose: "batch" });
      assert.equal(uploaded.id, "file-1");
      const seen = await world.seen();
      assert.equal(seen.length, 2);
      assert.equal(seen[0].sha256, seen[1].sha256);
    } finally {
      rmSync(folder, { recursive: true });
    }
  },
  async "a 25 MB image arrives as it is"({ client, world }) {
    await world.script([]);
    const url = "data:image/png;base64," + "A".repeat(25_000_000);
    await client.chat.completions.create({ model: kModel, messages: [{ role: "user", content: [{ type: "image_url", image_url: { url } }] }] });
    const [request] = await world.seen();
    assert.ok(request.body_bytes > 25_000_000);
  },
  async "a call too large is a 413 of the dialect"({ client, world, OpenAI }) {
    await world.script([]);
    const error = await failure(client.chat.completions.create({ model: kModel, messages: [{ role: "user", content: "A".repeat(65 * 1024 * 1024) }] }));
    assert.ok(error instanceof OpenAI.APIError, String(error));
    assert.equal(error.status, 413);
    assert.equal((await world.seen()).length, 0);
  },
};
