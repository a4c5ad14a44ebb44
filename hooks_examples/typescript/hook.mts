// A review gate, a tool plugin and a redactor in one hook, in TypeScript.
//
// Run it with: node hook.mts                                         (Node 22.18 or newer takes the types out itself)
//         or:  npm install && npx tsc && node dist/hook.mjs          (any Node from 18 on)

type Decision =
  | { action: "continue" }
  | { action: "modify"; request: { tools: unknown[] } }
  | { action: "modify"; result: Texts }
  | { action: "respond"; result: Texts }
  | { action: "deny_tool"; reason: string };
type Approval = { approved: true } | { approved: false; reason: string };

interface Texts {
  for_llm?: string;
  for_user?: string;
}

interface Params {
  tools?: { function?: { name?: string } }[];
  tool?: string;
  arguments?: { city?: unknown; command?: unknown };
  result?: Texts;
}

interface Message {
  id?: number | string;
  method?: string;
  params?: Params;
}

const READ_ONLY = new Set(["read_file", "list_dir", "search", "get_weather"]);
const SECRETS = /(?<=password=)\S+|sk-[A-Za-z0-9]{8,}/g;
const WEATHER = {
  type: "function",
  function: {
    name: "get_weather",
    description: "Today's weather in a city.",
    parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
  },
};

function beforeLlm({ tools }: Params): Decision {
  if (tools?.some((tool) => tool?.function?.name === "get_weather")) return { action: "continue" };
  return { action: "modify", request: { tools: [...(tools ?? []), WEATHER] } };
}

function beforeTool({ tool, arguments: given }: Params): Decision {
  if (tool === "get_weather") {
    return { action: "respond", result: { for_llm: `${given?.city ?? ""}: 21 °C, sunny` } };
  }
  if (tool === "bash" && String(given?.command ?? "").includes("rm -rf")) {
    return { action: "deny_tool", reason: "rm -rf is not allowed" };
  }
  return { action: "continue" };
}

function approveTool({ tool = "" }: Params): Approval {
  return READ_ONLY.has(tool) ? { approved: true } : { approved: false, reason: `${tool} is not a read-only tool` };
}

function afterTool({ result }: Params): Decision {
  const clean: Texts = {};
  for (const name of ["for_llm", "for_user"] as const) {
    const text = result?.[name] ?? "";
    const redacted = text.replaceAll(SECRETS, "[redacted]");
    if (redacted !== text) clean[name] = redacted;
  }
  return Object.keys(clean).length ? { action: "modify", result: clean } : { action: "continue" };
}

const methods = new Map<string | undefined, (params: Params) => Decision | Approval | { ok: boolean; name: string }>([
  ["hook.hello", () => ({ ok: true, name: "typescript" })],
  ["hook.before_llm", beforeLlm],
  ["hook.before_tool", beforeTool],
  ["hook.approve_tool", approveTool],
  ["hook.after_tool", afterTool],
]);

// Not node:readline, for which U+2028 ends a line, in the middle of a JSON string too.
async function* lines(stream: NodeJS.ReadStream): AsyncGenerator<string> {
  let rest = "";
  for await (const chunk of stream.setEncoding("utf8")) {
    const [first, ...others] = String(chunk).split("\n");
    rest += first;
    for (const other of others) {
      yield rest;
      rest = other;
    }
  }
}

function parse(line: string): Message {
  try {
    return JSON.parse(line) ?? {};
  } catch (error) {
    console.error(`not JSON: ${error}`);
    return {};
  }
}

for await (const line of lines(process.stdin)) {
  const { id, method, params } = parse(line);
  if (!id || typeof method !== "string") continue; // 0 or none: a notification, from PicoClaw too
  const stage = methods.get(method);
  const answer = stage
    ? { result: stage(params ?? {}) }
    : { error: { code: -32601, message: `no such method: ${method}` } };
  process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", id, ...answer })}\n`);
}

export {};
