// A worker that has one job and ends: node worker.mjs PACKAGE BASE_URL JOB, PACKAGE being openai or openai4. Prints the
// answer's text and what callgate says of the key, as JSON.
const [, , name, baseURL, job] = process.argv;
const { default: OpenAI } = await import(name);
const sdk = new OpenAI({ baseURL, apiKey: "sk-test" });
const { data, response } = await sdk.chat.completions
  .create({ model: "gpt-5-mini", messages: [{ role: "user", content: "Say hello" }] }, { headers: { "Idempotency-Key": job } })
  .withResponse();
console.log(JSON.stringify({ text: data.choices[0].message.content, key: response.headers.get("callgate-idempotency") }));
