// Google's SDK, which never retries and, once a loop over a stream is left, just stops reading.
import assert from "node:assert/strict";
import { ApiError, GoogleGenAI } from "@google/genai";
import { kHello } from "./common.mjs";

const kModel = "gemini-flash-latest";
const config = (abortSignal) => (abortSignal ? { config: { abortSignal } } : {});

const own = {
  async "a reader that stops reading is given up"({ sdk, world }) {
    await world.script([{ answer: { stream: { events: 200, size: 250_000 } } }]);
    const before = world.peakMemory();
    const stream = await sdk.models.generateContentStream({ model: kModel, contents: kHello });
    assert.ok((await stream.next()).value.text.length > 100_000);
    await world.wait("open_requests=0");
    await world.rest();
    const [request] = await world.seen();
    assert.ok(request.ended.answered_bytes < 40_000_000, `the provider sent ${request.ended.answered_bytes} bytes`);
    const grown = world.peakMemory() - before;
    assert.ok(grown < 16_000_000, `callgate grew by ${grown} bytes`);
    assert.equal((await world.call()).outcome, "cancelled");
  },
};

export const clients = [
  {
    name: "genai",
    upstream: "gemini",
    dialect: "gemini",
    at: "/gemini",
    direct: "",
    bases: [""],
    world: { limits: { write_stall: "2s" } },
    environment: { name: "GOOGLE_GEMINI_BASE_URL", at: ["/gemini"] },
    statuses: [400, 401, 403, 404, 413, 422],
    connect: (baseUrl) => new GoogleGenAI({ apiKey: "test-key", httpOptions: { baseUrl } }),
    call: async (sdk, signal) => (await sdk.models.generateContent({ model: kModel, contents: kHello, ...config(signal) })).text,
    async *parts(sdk, signal) {
      for await (const part of await sdk.models.generateContentStream({ model: kModel, contents: kHello, ...config(signal) })) yield part.text;
    },
    models: (sdk) => sdk.models.list(),
    embed: async (sdk) => (await sdk.models.embedContent({ model: "gemini-embedding-001", contents: kHello })).embeddings[0].values,
    expect: (error) => assert.ok(error instanceof ApiError, String(error)),
    obeys: true,
    idles: true,
    own,
  },
];
