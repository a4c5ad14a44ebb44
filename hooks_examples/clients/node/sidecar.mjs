// A client of `picohook serve`. Node 18, nothing else.

import { spawn } from "node:child_process";

/** The sidecar as a child process. Many requests can wait at once; answers come as they are ready. */
export class Hooks {
  #waiting = new Map();
  #own = new Map();
  #last = 0;
  #rest = "";
  #ended;

  /** Without a configuration, the hooks are your own and those of the working directory, if you trust them. */
  constructor(config, { cwd } = {}) {
    const named = config ? ["--config", config] : [];
    this.child = spawn("picohook", ["serve", ...named], { cwd, stdio: ["pipe", "pipe", "inherit"] });
    this.child.stdin.on("error", () => {}); // the exit says it
    this.child.stdout.setEncoding("utf8").on("data", (data) => this.#received(data));
    this.child.on("error", (error) => this.#failed(error));
    this.child.on("close", () => this.#failed(new Error("the sidecar has ended")));
  }

  ask(method, params = {}) {
    return new Promise((resolve, reject) => {
      if (this.#ended) throw this.#ended;
      const id = ++this.#last;
      this.#waiting.set(id, { resolve, reject, method });
      this.#send({ id, method, params });
    });
  }

  /** Add a hook of the agent to this session. `answer` gets each request, and returns what a hook process would. */
  mount(session, hook, answer, settings) {
    this.#own.set(hook, answer);
    return this.ask("session.mount", { session, hook, ...settings });
  }

  #send(message) {
    this.child.stdin.write(JSON.stringify({ jsonrpc: "2.0", ...message }) + "\n");
  }

  async #answer(id, asked) {
    try {
      this.#send({ id, result: await this.#own.get(asked.hook)(asked) });
    } catch (error) {
      this.#send({ id, error: { code: -32000, message: String(error) } });
    }
  }

  /** Close the input of the sidecar, which ends it. */
  close() {
    this.child.stdin.end();
  }

  #received(data) {
    const lines = (this.#rest + data).split("\n"); // and not at U+2028, as readline would
    this.#rest = lines.pop();
    for (const line of lines) {
      const { id, method, params, result, error } = JSON.parse(line);
      if (method === "ask") this.#answer(id, params); // with an id of the sidecar's own
      if (method) continue;
      const asked = this.#waiting.get(id);
      this.#waiting.delete(id);
      if (error) asked?.reject(new Error(`${asked.method}: ${error.message}`));
      else asked?.resolve(result);
    }
  }

  #failed(error) {
    this.#ended ??= error;
    for (const { reject } of this.#waiting.values()) reject(error);
    this.#waiting.clear();
  }
}
