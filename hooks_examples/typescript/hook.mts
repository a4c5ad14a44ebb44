// A review gate, a tool plugin and a redactor in one hook.
//
// Run it with: node hook.mts                                  (Node 22.18 or newer)
//         or:  npm install && npx tsc && node dist/hook.mjs   (any Node from 18 on)
//
// A stage returns its decision. The host logs what goes to stderr; stdout is for the protocol.

interface Texts {
  for_llm?: string;
  for_user?: string;
}

interface Params {
  tools?: { function?: { name?: string } }[];
  result?: Texts;
  tool?: string;
  arguments?: Record<string, unknown>;
}

type Decision =
  | { action: "continue" }
  | { action: "modify"; request: { tools: unknown[] } }
  | { action: "modify"; result: Texts }
  | { action: "respond"; result: Texts }
  | { action: "deny_tool"; reason: string };
type Approval = { approved: true } | { approved: false; reason: string };
type Hello = { ok: boolean; name: string };

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

const methods = new Map<string | undefined, (params: Params) => Decision | Approval | Hello>([
  ["hook.hello", () => ({ ok: true, name: "typescript" })],

  ["hook.before_llm", ({ tools }) => {
    if (tools?.some((tool) => tool?.function?.name === "get_weather")) return { action: "continue" };
    return { action: "modify", request: { tools: [...(tools ?? []), WEATHER] } };
  }],

  // A tool is about to be called. Some agents write bash, and some Bash.
  ["hook.before_tool", ({ tool, arguments: given }) => {
    if (tool === "get_weather") {
      return { action: "respond", result: { for_llm: `${given?.city ?? ""}: 21 °C, sunny` } };
    }
    const command = given?.command ?? "";
    if (/^bash$/i.test(tool ?? "") && (typeof command !== "string" || command.includes("rm -rf"))) {
      return { action: "deny_tool", reason: "rm -rf is not allowed" };
    }
    return { action: "continue" };
  }],

  // May a tool be called? Anything but a clear yes is a no.
  ["hook.approve_tool", ({ tool = "" }) =>
    READ_ONLY.has(tool) ? { approved: true } : { approved: false, reason: `${tool} is not a read-only tool` }],

  ["hook.after_tool", ({ result }) => {
    const clean: Texts = {};
    for (const name of ["for_llm", "for_user"] as const) {
      const text = result?.[name] ?? "";
      const redacted = text.replaceAll(SECRETS, "[redacted]");
      if (redacted !== text) clean[name] = redacted;
    }
    return Object.keys(clean).length ? { action: "modify", result: clean } : { action: "continue" };
  }],
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

function answer(method: string, params: Params | undefined): object {
  const stage = methods.get(method);
  if (!stage) return { error: { code: -32601, message: `no such method: ${method}` } };
  try {
    return { result: stage(params ?? {}) };
  } catch (error) {
    console.error(error); // only this call fails
    return { error: { code: -32603, message: "internal error" } };
  }
}

for await (const line of lines(process.stdin)) {
  const { id, method, params } = parse(line);
  if (!id || typeof method !== "string") continue; // an event: it gets no answer
  process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", id, ...answer(method, params) })}\n`);
}

export {};
