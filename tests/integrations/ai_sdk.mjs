// A scripted agent of the AI SDK, with its real loop and its own mock model: node ai_sdk.mjs CONFIG SCRIPT [WORD ...] [ID ...]
// Words: `stream`; `agent`, whose `prepareCall` gives the tools; `elsewhere`, with a tool without `execute`; `unguarded`.
// It prints what the model was told of each call, the answer, the tools that ran, and the error, if there is one.
// With ids, a pause is an approval request. A second run continues the first: calls with these ids are approved, others are not.

import { generateText, jsonSchema, stepCountIs, streamText, tool, ToolLoopAgent } from "../../hooks_examples/clients/node/node_modules/ai/dist/index.mjs";
import { MockLanguageModelV3, simulateReadableStream } from "../../hooks_examples/clients/node/node_modules/ai/dist/test/index.mjs";
import { inTurn } from "../../hooks_examples/clients/node/ai-sdk.mjs";
import { Hooks } from "../../hooks_examples/clients/node/sidecar.mjs";

const [config, script, ...words] = process.argv.slice(2);
const stream = words.includes("stream");
const approved = words.filter((word) => !["stream", "agent", "elsewhere", "unguarded"].includes(word));
const said = JSON.parse(script);
const told = {};
const ran = [];
const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 } };
let place = 0;

function next({ prompt }) {
  for (const { role, content } of prompt) {
    if (role !== "tool") continue;
    for (const { toolCallId, output } of content) told[toolCallId] = output.value;
  }
  const answer = said[place++];
  if (typeof answer === "string") return { content: [{ type: "text", text: answer }], finishReason: { unified: "stop" }, usage, warnings: [] };
  const content = answer.map(([toolCallId, toolName, input]) => ({ type: "tool-call", toolCallId, toolName, input: JSON.stringify(input) }));
  return { content, finishReason: { unified: "tool-calls" }, usage, warnings: [] };
}

function inPieces(options) {
  const { content, finishReason } = next(options);
  const pieces = ({ text, ...part }) =>
    part.type === "text"
      ? [{ type: "text-start", id: "1" }, { type: "text-delta", id: "1", delta: text }, { type: "text-end", id: "1" }]
      : [part];
  const chunks = [{ type: "stream-start", warnings: [] }, ...content.flatMap(pieces), { type: "finish", finishReason, usage }];
  return { stream: simulateReadableStream({ chunks, initialDelayInMs: null, chunkDelayInMs: null }) };
}

const execute = (name) => async (input) => {
  ran.push([name, input]);
  if (input.path === "inner") {
    const inner = [{ content: [{ type: "tool-call", toolCallId: "i", toolName: "read", input: '{"path":"whose"}' }], finishReason: { unified: "tool-calls" }, usage, warnings: [] }];
    const model = new MockLanguageModelV3({ doGenerate: async (options) => inner.shift() ?? next(options) });
    return await inTurn(hooks, "inner", async (guarded) => (await generateText({ ...options, model, ...guarded({ tools }) })).text);
  }
  if (input.path === "fail") throw new Error("it failed");
  return `it ran: ${Object.values(input)[0]}`;
};
const schema = (field) => jsonSchema({ type: "object", properties: { [field]: { type: "string" } } });
const tools = {
  read: tool({ description: "Reads.", inputSchema: schema("path"), execute: execute("read") }),
  bash: tool({ description: "Runs.", inputSchema: schema("command"), execute: execute("bash") }),
  ...(words.includes("elsewhere") && { search: tool({ description: "Searches.", inputSchema: schema("query") }) }),
};
const model = new MockLanguageModelV3({ doGenerate: async (options) => next(options), doStream: async (options) => inPieces(options) });
const options = { model, prompt: "hello", stopWhen: stepCountIs(9), maxRetries: 0 };
const hooks = new Hooks(config);
const done = { told, ran };
const onPause = approved.length ? ({ toolCallId, reason }) => { done.pauses = { ...done.pauses, [toolCallId]: reason }; } : undefined;

function run(more) {
  return inTurn(hooks, "hello", async (guarded) => {
    if (words.includes("agent")) {
      const agent = new ToolLoopAgent({ model, ...guarded({ tools: { bash: tools.bash }, prepareCall: (call) => ({ ...call, tools }) }) });
      return await agent.generate({ prompt: "hello" });
    }
    const result = stream
      ? streamText({ ...options, ...more, ...guarded({ tools }), onError: () => {} })
      : await generateText({ ...options, ...more, ...guarded({ tools }) });
    if (stream) for await (const _ of result.textStream);
    return { text: await result.text, content: await result.content, messages: (await result.response).messages };
  }, { onPause, unguarded: words.includes("unguarded") ? ["search"] : [] });
}

try {
  let left = await run({});
  if (done.pauses) {
    const answers = left.content
      .filter(({ type }) => type === "tool-approval-request")
      .map(({ approvalId, toolCall }) => ({ type: "tool-approval-response", approvalId, approved: approved.includes(toolCall.toolCallId) }));
    const kept = [{ role: "user", content: "hello" }, ...left.messages, { role: "tool", content: answers }];
    left = await run({ prompt: undefined, messages: JSON.parse(JSON.stringify(kept)) });
  }
  done.text = left.text;
} catch (error) {
  done.error = `${error.name}: ${error.message}`;
}
hooks.close();
console.log(JSON.stringify(done));
