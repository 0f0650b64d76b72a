// Remembers what was asked.
export const asked = [];
export default class OpenAI {
  constructor(options) {
    this.options = options;
    OpenAI.last = this;
    const create = async (request, more) => {
      asked.push({ request, more });
      return { choices: [{ message: { content: "answer" } }] };
    };
    this.chat = { completions: { create } };
  }
}
