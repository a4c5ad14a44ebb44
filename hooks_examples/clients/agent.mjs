// An agent in Node whose tools are guarded by `picohook serve`, which it starts itself. Node 18, nothing else.
//
// Run it with:
//
//     node agent.mjs ../picohook.toml

import { spawn } from "node:child_process";

/** The sidecar as a child process. Many requests can wait at once; answers come as they are ready. */
class Hooks {
  #waiting = new Map();
  #own = new Map();
  #last = 0;
  #rest = "";

  constructor(config) {
    this.child = spawn("picohook", ["serve", "--config", config], { stdio: ["pipe", "pipe", "inherit"] });
    this.child.stdin.on("error", () => {}); // the exit says it
    this.child.stdout.setEncoding("utf8").on("data", (data) => this.#received(data));
    this.child.on("error", (error) => this.#failed(error));
    this.child.on("close", () => this.#failed(new Error("the sidecar has ended")));
  }

  ask(method, params = {}) {
    return new Promise((resolve, reject) => {
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
    for (const { reject } of this.#waiting.values()) reject(error);
    this.#waiting.clear();
  }
}

/** Make a whole tool call: before, approve, execute, after. Returns the text for the model. */
async function runTool(hooks, turn, tool, args, execute) {
  const asked = { meta: { TurnID: turn }, tool, arguments: args };
  const before = await hooks.ask("before_tool", asked);
  if (before.action === "respond") return before.result.for_llm;
  if (before.action === "deny_tool") {
    const by = before.approved === false ? "approval hook" : "hook";
    return denied(by, before);
  }
  goesOn(before);
  const call = before.payload ?? asked; // as the hooks left it; a `continue` has none
  const approval = await hooks.ask("approve_tool", call);
  if (approval.approved !== true)
    return denied("approval hook", approval);
  const result = { for_llm: await execute(call.arguments) };
  const after = await hooks.ask("after_tool", { ...call, result });
  goesOn(after);
  return (after.payload?.result ?? result).for_llm;
}

/** The text for the model about a call that does not run. */
function denied(by, outcome) {
  const reason = outcome.reason_for_llm ?? outcome.reason;
  return `Tool execution denied by ${by}${reason ? `: ${reason}` : ""}`;
}

/** Throws for pause, abort_turn and hard_abort. */
function goesOn({ action, reason }) {
  if (action !== "continue" && action !== "modify") throw new Error(`${action}: ${reason}`);
}

if (process.argv.length !== 3) {
  console.error("usage: node agent.mjs CONFIG");
  process.exit(1);
}
const hooks = new Hooks(process.argv[2]);
const { session } = await hooks.ask("session.start");
// A hook for the user at the agent, who accepts everything but a deletion.
const user = async ({ payload }) => ({ approved: !JSON.stringify(payload.arguments).includes("rm"), reason: "the user said no" });
await hooks.mount(session, "user", user, { stages: ["approve_tool"] });
const { turn } = await hooks.ask("turn.start", { session, user_message: "Look around." });
const calls = [
  ["read_file", { path: "notes.txt" }],
  ["bash", { command: "rm -rf /" }],
  ["bash", { command: "ls" }],
  ["get_weather", { city: "Tokyo" }],
];
const tool = async () => "password=hunter2"; // what the agent's own tools would do
const results = await Promise.all(calls.map(([name, args]) => runTool(hooks, turn, name, args, tool)));
for (const result of results) console.log(result);
await hooks.ask("turn.end", { turn });
await hooks.ask("session.end", { session });
hooks.close();
