// curl is the one client that sends Expect: 100-continue by itself, for bodies over 1 MB.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { text } from "node:stream/consumers";

export const clients = [
  {
    name: "curl",
    at: "/openai/v1",
    connect: (baseUrl) => baseUrl,
    scenarios: {
      async "Expect: 100-continue is answered at once"({ sdk, world }) {
        await world.script([]);
        const body = JSON.stringify({ model: "gpt-5-mini", messages: [{ role: "user", content: "A".repeat(3_000_000) }] });
        const args = ["-sS", "-v", "-m", "20", "-o", "/dev/null", "-w", "%{http_code}", "--json", "@-", `${sdk}/chat/completions`];
        const curl = spawn("curl", args);
        curl.stdin.end(body);
        const [out, talk] = await Promise.all([text(curl.stdout), text(curl.stderr)]);
        assert.equal(out, "200");
        assert.match(talk, /^> Expect: 100-continue/m);
        assert.match(talk, /^< HTTP\/1.1 100 Continue/m);
        assert.doesNotMatch(talk, /Done waiting for 100-continue/, "it gives up after a second");
        assert.equal((await world.seen())[0].body_bytes, body.length);
      },
    },
  },
];
