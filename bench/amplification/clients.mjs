// The clients, each with its own defaults for retries and timeouts. Only the one that is asked for is loaded.
//   upstream   callgate's name of the provider; at: base URL below callgate; direct: base URL below the provider
//   connect    base URL → ask(prompt, headers), which throws when the client has given up

const openai = { upstream: "openai", at: "/openai/v1", direct: "/v1" };
const kModel = "gpt-5-mini";
const messages = (content) => [{ role: "user", content }];

export const clients = {
  openai: {
    ...openai,
    async connect(baseURL) {
      const { default: OpenAI } = await import("openai");
      const sdk = new OpenAI({ baseURL, apiKey: "sk-test" });
      return (prompt, headers) => sdk.chat.completions.create({ model: kModel, messages: messages(prompt) }, { headers });
    },
  },
  ai: {
    ...openai,
    async connect(baseURL) {
      const { createOpenAI } = await import("@ai-sdk/openai");
      const { generateText } = await import("ai");
      const sdk = createOpenAI({ baseURL, apiKey: "sk-test" });
      return (prompt, headers) => generateText({ model: sdk(kModel), prompt, headers });
    },
  },
  cohere: {
    upstream: "cohere",
    at: "/cohere",
    direct: "",
    async connect(baseUrl) {
      const { CohereClientV2 } = await import("cohere-ai");
      const sdk = new CohereClientV2({ token: "test-key", baseUrl });
      return (prompt, headers) => sdk.chat({ model: "command-a-03-2025", messages: messages(prompt) }, { headers });
    },
  },
  langchain: {
    ...openai,
    async connect(baseURL) {
      const { ChatOpenAI } = await import("@langchain/openai");
      const sdk = new ChatOpenAI({ model: kModel, apiKey: "sk-test", configuration: { baseURL } });
      return (prompt, headers) => sdk.invoke(prompt, { options: { headers } });
    },
  },
  fetch: {
    ...openai,
    connect: (baseURL) => async (prompt, headers) => {
      const response = await fetch(`${baseURL}/chat/completions`, {
        method: "POST",
        headers: { "content-type": "application/json", authorization: "Bearer sk-test", ...headers },
        body: JSON.stringify({ model: kModel, messages: messages(prompt) }),
      });
      const text = await response.text();
      if (!response.ok) throw new Error(`${response.status}: ${text}`);
    },
  },
};
