// The AI SDK with three providers. It retries by status, whatever it is told: that needs a memory of final failures.
import assert from "node:assert/strict";
import { createAnthropic } from "@ai-sdk/anthropic";
import { createGoogleGenerativeAI } from "@ai-sdk/google";
import { createOpenAI } from "@ai-sdk/openai";
import { APICallError, embed, generateText, streamText } from "ai";
import { kHello } from "./common.mjs";

const own = {
  async "usage that was asked for arrives"({ client, sdk, world }) {
    await world.script([{ answer: { usage: { input: 3, output: 4 } } }]);
    const { totalUsage } = streamText({ model: client.model(sdk), prompt: kHello });
    assert.equal((await totalUsage).totalTokens, 7);
  },
};

const family = (more) => ({
  statuses: [400, 401, 403, 404, 413, 422],
  async call(sdk, abortSignal) {
    return (await generateText({ model: this.model(sdk), prompt: kHello, abortSignal })).text;
  },
  async once(baseURL) {
    return (await generateText({ model: this.model(this.connect(baseURL)), prompt: kHello, maxRetries: 0 })).text;
  },
  async *parts(sdk, abortSignal) {
    const { fullStream } = streamText({ model: this.model(sdk), prompt: kHello, abortSignal, onError() {} });
    for await (const part of fullStream) {
      if (part.type === "text-delta") yield part.text;
      if (part.type === "error") throw part.error;
      if (part.type === "finish" && part.finishReason !== "stop") throw new Error(`finished by ${part.finishReason}`);
    }
  },
  expect: (error) => assert.ok(APICallError.isInstance(error), String(error)),
  obeys: false,
  own,
  ...more,
});

const openai = family({
  name: "ai openai",
  upstream: "openai",
  dialect: "openai",
  at: "/openai/v1",
  direct: "/v1",
  bases: ["/openai", "/v1"],
  environment: { name: "OPENAI_BASE_URL", at: ["/openai/v1", "/openai"] },
  connect: (baseURL) => createOpenAI({ baseURL, apiKey: "sk-test" }),
  model: (sdk) => sdk("gpt-5-mini"),
  embed: async (sdk) => (await embed({ model: sdk.embedding("text-embedding-3-small"), value: kHello })).embedding,
});

export const clients = [
  openai,
  // As OpenAI's elder API, where it asks for the stream's usage by itself.
  { ...openai, name: "ai openai chat", model: (sdk) => sdk.chat("gpt-5-mini") },
  family({
    name: "ai anthropic",
    upstream: "anthropic",
    dialect: "anthropic",
    at: "/anthropic/v1",
    direct: "/v1",
    bases: ["/anthropic", "", "/v1"],
    environment: { name: "ANTHROPIC_BASE_URL", at: ["/anthropic", "/anthropic/v1"] },
    connect: (baseURL) => createAnthropic({ baseURL, apiKey: "sk-ant-test" }),
    model: (sdk) => sdk("claude-haiku-4-5"),
  }),
  family({
    name: "ai google",
    upstream: "gemini",
    dialect: "gemini",
    at: "/gemini/v1beta",
    direct: "/v1beta",
    bases: ["/gemini", "/v1beta"],
    connect: (baseURL) => createGoogleGenerativeAI({ baseURL, apiKey: "test-key" }),
    model: (sdk) => sdk("gemini-flash-latest"),
    embed: async (sdk) => (await embed({ model: sdk.embedding("gemini-embedding-001"), value: kHello })).embedding,
  }),
];
