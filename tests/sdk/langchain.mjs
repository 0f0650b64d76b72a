// LangChain, which retries six times, and a 429 only if it is told how long to wait.
import assert from "node:assert/strict";
import { ChatOpenAI } from "@langchain/openai";
import { common, failure, kHello } from "./common.mjs";

const own = {
  "429 with an hour to wait comes back at once": common["429 with an hour to wait comes back at once"],
  async "usage that was asked for arrives"({ sdk, world }) {
    await world.script([{ answer: { usage: { input: 3, output: 4 } } }]);
    let total = 0;
    for await (const part of await sdk.stream(kHello)) total += part.usage_metadata?.total_tokens ?? 0;
    assert.equal(total, 7);
  },
};

export const clients = [
  {
    name: "langchain",
    upstream: "openai",
    dialect: "openai",
    at: "/openai/v1",
    direct: "/v1",
    bases: ["/openai", "/v1"],
    // It repeats a 422 by itself.
    statuses: [400, 401, 403, 404, 413],
    connect: (baseURL, options) => new ChatOpenAI({ model: "gpt-5-mini", apiKey: "sk-test", configuration: { baseURL }, ...options }),
    async once(baseURL) {
      return (await this.connect(baseURL, { maxRetries: 0 }).invoke(kHello)).content;
    },
    call: async (sdk, signal) => (await sdk.invoke(kHello, { signal })).content,
    async *parts(sdk, signal) {
      for await (const part of await sdk.stream(kHello, { signal })) yield part.content;
    },
    obeys: false,
    own,
  },
];
