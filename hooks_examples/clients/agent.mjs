// An agent in Node whose tools are guarded by `picohook serve`, which it starts itself. Node 18, nothing else.
//
// Run it with:
//
//     node agent.mjs ../picohook.toml

import { Hooks } from "./node/sidecar.mjs";

/** Make a whole tool call: hooks decide, the tool runs, hooks see the result. Returns the text for the model. */
async function runTool(hooks, turn, tool, args, execute) {
  let decided = await hooks.ask("tool.decide", { meta: { TurnID: turn }, tool, arguments: args });
  if (decided.action === "continue") {
    const result = { for_llm: await execute(decided.call.arguments) };
    decided = await hooks.ask("tool.conclude", { decided: decided.decided, result });
  }
  if (!decided.result) throw new Error(`${decided.action}: ${decided.reason}`); // pause, abort_turn, hard_abort
  return decided.result.for_llm;
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
