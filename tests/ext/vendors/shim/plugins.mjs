// Stands for the agents that load the plugins: what each does with a plugin's answers. node plugins.mjs NODE MOD CLIENT
// It prints what became of each call: the command that ran, or why none did, and what the model was told.

import { spawn } from "node:child_process";
import { pathToFileURL } from "node:url";

const [node, mod, client] = process.argv.slice(2);
const load = (path) => import(pathToFileURL(path));
const tool = (command) => `ran ${command}, a secret`;
const COMMANDS = ["ls", "rm -rf /", "edit"];
const became = {};

async function calls(agent, call) {
  became[agent] = await Promise.all(COMMANDS.map(call));
}

// OpenCode: a hook that throws ends the call. It runs the object that the plugin was given.
const { Picohook } = await load(`${node}/opencode.mjs`);
const plugin = await Picohook({ directory: process.cwd() });
const openCode = async (command, index) => {
  const input = { tool: "bash", sessionID: "s", callID: `o${index}` };
  const args = { command };
  try {
    await plugin["tool.execute.before"](input, { args });
  } catch (error) {
    return error.message;
  }
  const output = { title: "", output: tool(args.command), metadata: {} };
  await plugin["tool.execute.after"]({ ...input, args }, output);
  return output.output;
};
await calls("opencode", openCode);
await plugin.dispose();
await new Promise((resolve) => setTimeout(resolve, 0));
became.opencodeWithoutSidecar = [await openCode("ls", 9)];

// Amp: a handler returns what is to be done.
const handlers = {};
(await load(`${node}/amp.mjs`)).default({ on: (event, handler) => (handlers[event] = handler) });
await calls("amp", async (command, index) => {
  const event = { tool: "bash", input: { command }, toolUseID: `a${index}`, thread: { id: "T-1" } };
  const answer = await handlers["tool.call"](event);
  if (answer.action === "reject-and-continue") return answer.message;
  const input = answer.action === "modify" ? answer.input : event.input;
  const result = await handlers["tool.result"]({ ...event, input, status: "done", output: tool(input.command) });
  return result?.output ?? tool(input.command);
});

// Claude Code: a mod's handler wraps the call. If it throws, its `catch` answers.
let handle, caught;
const on = (event, handler) => {
  handle = handler;
  return { catch: (answer) => (caught = answer) };
};
const $ = {
  session: { id: async () => "s" },
  process: {
    run: (command, { stdin }) =>
      new Promise((resolve, reject) => {
        const child = spawn(command[0], command.slice(1));
        const out = { stdout: "", stderr: "" };
        for (const name of ["stdout", "stderr"]) child[name].setEncoding("utf8").on("data", (data) => (out[name] += data));
        child.on("error", reject);
        child.on("close", (exitCode) => resolve({ exitCode, ...out }));
        child.stdin.end(stdin);
      }),
  },
};
const next = async (e) => ({ result: { stdout: tool(e.command), stderr: "" } });
const { register } = await load(`${mod}/hooks/register.mjs`);
const claudeCode = async (command) => {
  const e = Object.freeze({ tool: "Bash", command, tool_use_id: `m-${command}` });
  const ran = await handle($, e, next).catch((error) => caught($, e, next, error));
  return ran.deny ?? ran.result.stdout;
};
register(on, { client: JSON.parse(client) });
await calls("mod", claudeCode);
register(on, { client: ["/nowhere/python"] });
became.modWithoutClient = [await claudeCode("ls")];

console.log(JSON.stringify(became));
process.exit(0);
