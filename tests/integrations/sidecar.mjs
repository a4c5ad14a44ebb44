// An agent's tool calls in Node, guarded by `picohook serve`: node sidecar.mjs PICOHOOK CONFIG CALLS
// It prints what its model would be told of each call.

import { spawn } from "node:child_process";

const [picohook, config, calls] = process.argv.slice(2);
const sidecar = spawn(picohook, ["serve", "--config", config], { stdio: ["pipe", "pipe", "inherit"] });
const waiting = new Map();
let rest = "";

sidecar.stdout.setEncoding("utf8").on("data", (data) => {
  const lines = (rest + data).split("\n");
  rest = lines.pop();
  for (const { id, result, error } of lines.map((line) => JSON.parse(line))) {
    if (error) throw new Error(error.message);
    waiting.get(id)(result);
  }
});

function ask(method, params) {
  const id = waiting.size + 1;
  return new Promise((resolve) => {
    waiting.set(id, resolve);
    sidecar.stdin.write(JSON.stringify({ jsonrpc: "2.0", id, method, params }) + "\n");
  });
}

async function call([id, tool, args]) {
  const asked = { tool, arguments: args, tool_call_id: id };
  const before = await ask("before_tool", asked);
  if (before.action === "deny_tool") return [id, `Tool execution denied by hook: ${before.reason}`];
  const approval = await ask("approve_tool", before.payload ?? asked);
  if (!approval.approved) return [id, `Tool execution denied by approval hook: ${approval.reason}`];
  return [id, "it ran"];
}

console.log(JSON.stringify(Object.fromEntries(await Promise.all(JSON.parse(calls).map(call)))));
sidecar.stdin.end();
