// Cohere's SDK in both versions of its API. It retries whatever it is told and closes its connection at the stream's
// last event.
import assert from "node:assert/strict";
import { CohereClient, CohereClientV2, CohereError } from "cohere-ai";
import { failure, kHello } from "./common.mjs";

const kModel = "command-a-03-2025";
const kAsk = { model: kModel, messages: [{ role: "user", content: kHello }] };
const kAsk1 = { model: kModel, message: kHello };
const kEmbed = { model: "embed-v4.0", texts: [kHello], inputType: "search_document" };

const own = {
  async "429 with an hour to wait comes back at once"({ client, sdk, world }) {
    // It sleeps out up to 60 s of any Retry-After and cannot be told not to retry; so it is told a short one.
    await world.script([{ answer: { status: 429, headers: [["retry-after", "3600"]] } }]);
    const before = Date.now();
    const error = await failure(client.call(sdk));
    assert.equal(error.statusCode, 429, String(error));
    assert.ok(Date.now() - before < 8_000, `after ${Date.now() - before} ms`);
  },
  async rerank({ sdk, world }) {
    await world.script([]);
    const { results } = await sdk.rerank({ model: "rerank-v3.5", query: kHello, documents: ["hello", "good bye"] });
    assert.ok(results.length > 0);
    assert.ok(results.every(({ relevanceScore }) => relevanceScore >= 0));
  },
};

const family = (more) => ({
  upstream: "cohere",
  dialect: "cohere",
  at: "/cohere",
  direct: "",
  world: { upstreams: { cohere: "" } },
  statuses: [400, 401, 403, 404, 413, 422],
  expect: (error) => assert.ok(error instanceof CohereError, String(error)),
  obeys: false,
  own,
  ...more,
});

export const clients = [
  family({
    name: "cohere",
    bases: ["/cohere/v2", ""],
    idles: true,
    connect: (baseUrl) => new CohereClientV2({ token: "test-key", baseUrl }),
    call: async (sdk, abortSignal) => (await sdk.chat(kAsk, { abortSignal })).message.content[0].text,
    async once(baseUrl) {
      return (await this.connect(baseUrl).chat(kAsk, { maxRetries: 0 })).message.content[0].text;
    },
    async *parts(sdk, abortSignal) {
      for await (const event of await sdk.chatStream(kAsk, { abortSignal })) {
        if (event.type === "content-delta") yield event.delta.message.content.text;
      }
    },
    embed: async (sdk) => (await sdk.embed({ ...kEmbed, embeddingTypes: ["float"] })).embeddings.float[0],
  }),
  family({
    name: "cohere v1",
    bases: ["/cohere/v1"],
    connect: (baseUrl) => new CohereClient({ token: "test-key", baseUrl }),
    call: async (sdk, abortSignal) => (await sdk.chat(kAsk1, { abortSignal })).text,
    async once(baseUrl) {
      return (await this.connect(baseUrl).chat(kAsk1, { maxRetries: 0 })).text;
    },
    async *parts(sdk, abortSignal) {
      for await (const event of await sdk.chatStream(kAsk1, { abortSignal })) {
        if (event.eventType === "text-generation") yield event.text;
      }
    },
    embed: async (sdk) => (await sdk.embed(kEmbed)).embeddings[0],
  }),
];
