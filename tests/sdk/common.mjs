// What every SDK must see through callgate. A client says how to talk through its SDK:
//   name        its column in the matrix
//   upstream    callgate's name of the provider; at: base URL below callgate; direct: base URL below the provider
//   bases       further base URLs below callgate that must reach the same place
//   environment variable that holds a base URL, and the values below callgate that must do; if it has one
//   connect     base URL → SDK; without one it is the environment's
//   call        (sdk, signal) → text of a whole answer
//   once        base URL → text of a whole answer, by an SDK that is told not to retry; if it would
//   parts       (sdk, signal) → texts of a stream, one by one; throws what the SDK throws or tells
//   models      sdk → lists the models; embed: sdk → the numbers of an embedding; if it can
//   dialect     whose error bodies it understands
//   statuses    those that the SDK does not retry by itself
//   obeys       after callgate's last attempt the SDK is quiet, because it is told so or never retries
//   idles       it surfaces a stale connection instead of asking again
//   own         scenarios of its own, by row
import assert from "node:assert/strict";
import { pause, start } from "./world.mjs";

export const kHello = "Say hello";
// Far below the minutes that a client would sleep or hang if it were told wrongly, far above a busy machine's delays.
export const kSoonMs = 20_000;

export async function failure(promise) {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  throw new assert.AssertionError({ message: "it should have failed" });
}

/// An SDK that gives up early and asks again, and a queue that delivers again: `ask` (options of one request) → text.
export async function paidOnce(world, ask) {
  await world.script([{ answer: { delay_ms: 400 } }]);
  const options = { timeout: 150, maxRetries: 3, headers: { "Idempotency-Key": `job:${Math.random()}` } };
  for (let delivery = 0; delivery < 3; ++delivery) assert.equal(await ask(options), "hello");
  assert.equal((await world.seen()).length, 1, "the provider is asked once");
}

/// A tenant's minute is used up and one call waits for more: another gets a 429 with the true wait, which the SDK sleeps
/// out, and has its answer.
export async function limiterWaitedOut(client) {
  const world = await start({
    more: { tenants: { default: { limits: { requests_per_minute: 60 } } }, queue: { per_tenant: 1 } },
  });
  try {
    await world.script([]);
    const sdk = client.connect(world.base + client.at);
    let refused = 0;
    for (let i = 0; i < 100 && refused === 0; ++i) {
      assert.deepEqual(await Promise.all([client.call(sdk), client.call(sdk)]), ["hello", "hello"]);
      for (let answered = 0; answered < 2; ) {
        const call = await world.call();
        if (call.outcome === "answered") {
          ++answered;
        } else {
          assert.equal(call.status, 429);
          ++refused;
        }
      }
    }
    assert.ok(refused > 0, "no call met the limit");
  } finally {
    await world.end();
  }
}

/// The texts up to the end or the error.
export async function read(parts) {
  const texts = [];
  try {
    for await (const text of parts) if (text) texts.push(text);
  } catch (error) {
    return { texts, error };
  }
  return { texts };
}

export const dialect = {
  openai: {
    told: () => ({ error: { message: "told", type: "invalid_request_error", param: "model", code: "some_code" } }),
    requestId: "x-request-id",
  },
  anthropic: {
    told: () => ({ type: "error", error: { type: "invalid_request_error", message: "told" }, request_id: "req_77" }),
    requestId: "request-id",
  },
  gemini: {
    told: (status) => ({ error: { code: status, message: "told", status: "INVALID_ARGUMENT", details: [] } }),
    requestId: "x-goog-request-id",
  },
  mistral: {
    told: (status) =>
      status === 422
        ? { detail: [{ loc: ["body", "model"], msg: "told", type: "missing" }] }
        : { object: "error", message: "told", type: "invalid_request_error", param: null, code: "3051" },
    requestId: "x-request-id",
  },
  cohere: { told: () => ({ id: "77", message: "told" }), requestId: "x-request-id" },
};

// What a hop adds for itself, or what differs by the minute.
const kOfTheHop = /^(host|connection|keep-alive|transfer-encoding|content-length|date|x-should-retry|callgate-.*)$/;

const passed = (headers) =>
  headers.map(([name, value]) => [name.toLowerCase(), value]).filter(([name]) => !kOfTheHop.test(name));

function headersOf(error) {
  const headers = error.headers ?? error.responseHeaders ?? error.rawResponse?.headers;
  if (!headers) return undefined;
  const pairs = headers[Symbol.iterator] ? [...headers] : Object.entries(headers);
  return Object.fromEntries(passed(pairs));
}

/// Of an SDK's error all that code could look at; the address apart.
function portrait(error) {
  const { status, statusCode, code, type, param, message, isRetryable, retryAfter } = error;
  return {
    class: error.constructor.name,
    name: error.name,
    status: status ?? statusCode,
    code,
    type,
    param,
    message,
    isRetryable,
    retryAfter,
    request_id: error.requestID ?? error.request_id ?? error.requestId,
    body: error.error ?? error.body ?? error.responseBody,
    headers: headersOf(error),
  };
}

/// The stream that callgate asks for, asked for once more: what three deltas and their ending look like on the wire.
async function rawStream(client, sdk, world) {
  await world.script([{ answer: { stream: [{ say: "one" }, { say: "two" }, { say: "three" }] } }]);
  await read(client.parts(sdk));
  const [request] = await world.seen();
  const answer = await fetch(world.provider + request.target, { method: request.method, headers: { "content-type": "application/json" }, body: request.body });
  return { type: answer.headers.get("content-type"), text: await answer.text() };
}

const kThree = ["one", "two", "three"];

export const common = {
  async "plain call"({ client, sdk, world }) {
    await world.script([]);
    assert.equal(await client.call(sdk), "hello");
    assert.equal((await world.seen()).length, 1);
    assert.equal((await world.call()).upstream, client.upstream);
  },
  async "plain stream"({ client, sdk, world }) {
    await world.script([]);
    const { texts, error } = await read(client.parts(sdk));
    assert.equal(error, undefined);
    assert.deepEqual(texts, ["hel", "lo"]);
    assert.equal((await world.seen()).length, 1);
    const { outcome, usage } = await world.call();
    assert.equal(outcome, "answered");
    assert.equal(usage?.output, 2);
  },
  async "the provider gets what it would get directly"({ client, sdk, world }) {
    await world.script([]);
    const direct = client.connect(world.provider + client.direct);
    for (const connection of [direct, sdk]) {
      await client.call(connection);
      await read(client.parts(connection));
    }
    const seen = await world.seen();
    assert.equal(seen.length, 4);
    for (const i of [0, 1]) {
      const [alone, through] = [seen[i], seen[i + 2]];
      assert.equal(through.target, alone.target);
      // callgate reads the answers, so it asks for them unpacked.
      const asTold = ([name, value]) => [name, name === "accept-encoding" ? "identity" : value];
      assert.deepEqual(passed(through.headers), passed(alone.headers).map(asTold));
      const asked = JSON.parse(through.body);
      const already = JSON.parse(alone.body);
      if (i === 1 && client.usageIsAskedFor) {
        assert.deepEqual(asked.stream_options, { include_usage: true });
        delete asked.stream_options;
        assert.deepEqual(asked, already);
      } else {
        assert.equal(through.sha256, alone.sha256);
      }
    }
  },
  async "base URLs as people write them"({ client, world }) {
    await world.script([]);
    await client.call(client.connect(world.provider + client.direct));
    const [{ target }] = await world.seen();
    const wrong = [];
    for (const base of [client.at, `${client.at}/`, ...client.bases]) {
      await world.script([]);
      const sdk = client.connect(world.base + base);
      try {
        assert.equal(await client.call(sdk), "hello");
        assert.deepEqual((await read(client.parts(sdk))).texts, ["hel", "lo"]);
        assert.equal((await world.seen())[0].target, target);
        assert.equal((await world.call()).upstream, client.upstream);
      } catch (error) {
        wrong.push(`${base}: ${error.message}`);
      }
    }
    assert.deepEqual(wrong, []);
  },
  async "base URL from the environment"({ client, world }) {
    const { name, at } = client.environment;
    for (const base of at) {
      await world.script([]);
      process.env[name] = world.base + base;
      let sdk;
      try {
        sdk = client.connect();
      } finally {
        delete process.env[name];
      }
      assert.equal(await client.call(sdk), "hello", base);
      assert.equal((await world.call()).upstream, client.upstream);
    }
  },
  async "a path of several APIs goes where the key belongs"({ client, world }) {
    await world.script([]);
    await client.models(client.connect(world.base + client.direct));
    assert.equal((await world.call()).upstream, client.upstream);
    const [{ target }] = await world.seen();
    assert.match(target, /\/models(\?|$)/);
  },
  async embeddings({ client, sdk, world }) {
    await world.script([]);
    assert.deepEqual(await client.embed(sdk), [0.5, -0.25, 0.125]);
    assert.equal((await world.seen()).length, 1);
  },
  async "503 twice, then fine"({ client, sdk, world }) {
    await world.script([{ match: { times: 2 }, answer: 503 }]);
    assert.equal(await client.call(sdk), "hello");
    const seen = await world.seen();
    assert.equal(seen.length, 3);
    for (const { headers } of seen) {
      const count = new Map(headers.map(([name, value]) => [name.toLowerCase(), value])).get("x-stainless-retry-count");
      assert.ok(count === undefined || count === "0", "the SDK itself did not retry");
    }
    assert.equal((await world.call()).attempts.length, 3);
    await world.script([{ match: { times: 2 }, answer: 503 }]);
    assert.deepEqual((await read(client.parts(sdk))).texts, ["hel", "lo"]);
    assert.equal((await world.seen()).length, 3);
  },
  async "503 for ever: three attempts, one typed error"({ client, sdk, world }) {
    for (const play of [() => client.call(sdk), async () => { throw (await read(client.parts(sdk))).error; }]) {
      await world.script([{ answer: 503 }]);
      const error = await failure(play());
      assert.equal(error.status ?? error.statusCode, 503, String(error));
      client.expect?.(error, 503);
      assert.equal((await world.seen()).length, 3);
    }
  },
  async "503 for ever, the SDK's retries turned off"({ client, world }) {
    await world.script([{ answer: 503 }]);
    const error = await failure(client.once(world.base + client.at));
    assert.equal(error.status ?? error.statusCode, 503, String(error));
    client.expect?.(error, 503);
    assert.equal((await world.seen()).length, 3);
  },
  async "SDK retries find the final failure remembered"({ client }) {
    // A world of its own, which remembers.
    const own = await start({ ...client.world, memo: "15s" });
    await own.script([{ answer: 503 }]);
    const error = await failure(client.call(client.connect(own.base + client.at)));
    assert.match(String(error), /./);
    assert.equal((await own.seen()).length, 3, "its retries cost the provider nothing");
    await own.end();
  },
  async "429 with an hour to wait comes back at once"({ client, sdk, world }) {
    await world.script([{ answer: { status: 429, headers: [["retry-after", "3600"]] } }]);
    const before = Date.now();
    const error = await failure(client.call(sdk));
    assert.equal(error.status ?? error.statusCode, 429, String(error));
    client.expect?.(error, 429);
    assert.ok(Date.now() - before < kSoonMs);
    assert.equal((await world.seen()).length, 1);
  },
  async "4xx: class, fields and headers as without callgate"({ client, sdk, world }) {
    const { told, requestId } = dialect[client.dialect];
    const direct = client.connect(world.provider + client.direct);
    for (const status of client.statuses) {
      const headers = [[requestId, "req_77"], ["x-ratelimit-remaining-requests", "12"], ["x-new-header", "a  b"]];
      await world.script([{ answer: { status, headers, json: told(status) } }]);
      const alone = portrait(await failure(client.call(direct)));
      const error = await failure(client.call(sdk));
      assert.deepEqual(portrait(error), alone, `${status}`);
      client.expect?.(error, status);
      assert.equal((await world.seen()).length, 2, `${status} is asked once each time`);
    }
  },
  async "an error hidden in a 200 stream becomes a typed error"({ client, sdk, world }) {
    await world.script([{ answer: { stream: [{ error: 503 }] } }]);
    const { texts, error } = await read(client.parts(sdk));
    assert.deepEqual(texts, []);
    assert.ok((error.status ?? error.statusCode) >= 500, String(error));
    assert.equal((await world.seen()).length, 3);
  },
  async "a broken stream throws after its parts"({ client, sdk, world }) {
    for (const close of ["fin", "rst"]) {
      await world.script([{ answer: { stream: [{ say: "one" }, { say: "two" }, { say: "three" }, { wait_ms: 50 }, { close }] } }]);
      const { texts, error } = await read(client.parts(sdk));
      assert.deepEqual(texts, kThree);
      assert.ok(error, `${close} must throw`);
      assert.equal((await world.seen()).length, 1);
    }
  },
  async "a stream without its ending throws"({ client, sdk, world }) {
    const { type, text } = await rawStream(client, sdk, world);
    // Up to the event with the third part; Cohere's elder API has lines without blank ones between.
    const [body] = /^.*?three[^\n]*\r?\n(\r?\n)?/s.exec(text);
    await world.script([{ answer: { status: 200, headers: [["content-type", type]], body } }]);
    const { texts, error } = await read(client.parts(sdk));
    assert.deepEqual(texts, kThree);
    assert.ok(error, "a short stream is no success");
    assert.equal((await world.seen()).length, 1);
  },
  async "a stream that dies before its first byte is whole"({ client, sdk, world }) {
    for (const answer of [{ drop: "fin" }, { drop: "rst" }, { stream: [{ wait_ms: 20 }, { close: "rst" }] }]) {
      await world.script([{ match: { times: 1 }, answer }]);
      const { texts, error } = await read(client.parts(sdk));
      assert.equal(error, undefined);
      assert.deepEqual(texts, ["hel", "lo"]);
      assert.equal((await world.seen()).length, 2);
    }
  },
  async "a long silence with heartbeats loses nothing"({ client, sdk, world }) {
    await world.script([{ answer: { stream: [{ say: "one" }, { wait_ms: 2_500 }, { say: "two" }, { say: "three" }] } }]);
    const { texts, error } = await read(client.parts(sdk));
    assert.equal(error, undefined);
    assert.deepEqual(texts, kThree);
    assert.equal((await world.seen()).length, 1);
  },
  async "an abort ends the provider's call"({ client, sdk, world }) {
    const silent = { unary: { hang: true }, stream: { stream: [{ say: "one" }, { hang: true }] } };
    for (const [how, answer] of Object.entries(silent)) {
      await world.script([{ answer }]);
      const stop = new AbortController();
      const done = how === "unary" ? client.call(sdk, stop.signal).catch(() => {}) : read(client.parts(sdk, stop.signal));
      await world.wait("requests=1");
      await pause(300);
      const before = Date.now();
      stop.abort();
      await world.wait("open_requests=0");
      assert.ok(Date.now() - before < 3_000, `${how}: after ${Date.now() - before} ms`);
      await done;
      assert.equal((await world.call()).outcome, "cancelled", how);
      await world.rest();
      assert.equal((await world.seen()).length, 1, how);
    }
  },
  async "the connection outlives a client that leaves at the marker"({ client, sdk, world }) {
    const { type, text } = await rawStream(client, sdk, world);
    await world.script([{ answer: { steps: [{ head: { status: 200, headers: [["content-type", type]], framing: "chunked" } }, { send: text }, { wait_ms: 150 }, { end: true }] } }]);
    const { texts, error } = await read(client.parts(sdk));
    assert.equal(error, undefined);
    assert.deepEqual(texts, kThree);
    const { outcome, usage } = await world.call();
    assert.equal(outcome, "answered");
    assert.equal(usage?.output, 2);
    await world.wait("open_requests=0");
    assert.deepEqual((await read(client.parts(sdk))).texts, kThree);
    const [first, second] = await world.seen();
    assert.equal(first.connection, second.connection, "the provider's connection is used again");
  },
  async "an answer cut short is an error soon"({ client, sdk, world }) {
    await world.script([{ answer: { cut_at: 300 } }]);
    const before = Date.now();
    assert.ok(await failure(client.call(sdk)));
    // Too long to be held and judged, so it was under way when it broke.
    await world.script([{ answer: { headers: [["content-type", "application/json"]], fill: 6_000_000, content_length: 9_000_000, close: "fin" } }]);
    assert.ok(await failure(client.call(sdk)));
    assert.ok(Date.now() - before < kSoonMs, `after ${Date.now() - before} ms`);
  },
  async "calls with pauses meet no stale connection"({ client, sdk, world }) {
    const answers = ["default", { close_idle_ms: 15 }, { close_when_next_request_arrives: "fin" }, { close_when_next_request_arrives: "rst" }];
    await world.script([{ answers, weights: [5, 2, 1, 1], seed: 7 }]);
    let seed = 7;
    const random = () => (seed = (seed * 48271) % 2147483647) / 2147483647;
    for (let i = 0; i < 200; ++i) {
      assert.equal(await client.call(sdk), "hello", `call ${i}`);
      // Clients drop a connection that was idle for four seconds.
      await pause(i % 60 === 30 ? 3_950 + 100 * random() : 30 * random());
    }
  },
};

// Rows that need something of a client.
const kNeeds = {
  // LangChain goes on for longer than the memory lasts, and than a test should.
  "SDK retries find the final failure remembered": ({ obeys, name }) => !obeys && name !== "langchain",
  "base URL from the environment": ({ environment }) => environment,
  "a path of several APIs goes where the key belongs": ({ models }) => models,
  "calls with pauses meet no stale connection": ({ idles }) => idles,
  embeddings: ({ embed }) => embed,
  "503 for ever: three attempts, one typed error": ({ obeys }) => obeys,
  "503 for ever, the SDK's retries turned off": ({ once }) => once,
  "429 with an hour to wait comes back at once": ({ obeys }) => obeys,
  "an error hidden in a 200 stream becomes a typed error": ({ obeys }) => obeys,
  "an answer cut short is an error soon": ({ obeys }) => obeys,
};

/// The common scenarios that suit the client, and its own, which win.
export function scenariosOf(client) {
  const suiting = Object.entries(common).filter(([row]) => !(row in kNeeds) || kNeeds[row](client));
  return { ...Object.fromEntries(suiting), ...client.own };
}
