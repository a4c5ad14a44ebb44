// A review gate, a tool plugin and a redactor in one hook.
//
// Run it with: node hook.mjs
//
// A stage returns its decision. The host logs what goes to stderr; stdout is for the protocol.

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

const methods = {
  "hook.hello": () => ({ ok: true, name: "node" }),

  "hook.before_llm": ({ tools }) => {
    if (tools?.some((tool) => tool?.function?.name === "get_weather")) return { action: "continue" };
    return { action: "modify", request: { tools: [...(tools ?? []), WEATHER] } };
  },

  // A tool is about to be called. Some agents write bash, and some Bash.
  "hook.before_tool": ({ tool, arguments: given }) => {
    if (tool === "get_weather") {
      return { action: "respond", result: { for_llm: `${given?.city ?? ""}: 21 °C, sunny` } };
    }
    const command = given?.command ?? "";
    if (/^bash$/i.test(tool ?? "") && (typeof command !== "string" || command.includes("rm -rf"))) {
      return { action: "deny_tool", reason: "rm -rf is not allowed" };
    }
    return { action: "continue" };
  },

  // May a tool be called? Anything but a clear yes is a no.
  "hook.approve_tool": ({ tool }) =>
    READ_ONLY.has(tool) ? { approved: true } : { approved: false, reason: `${tool} is not a read-only tool` },

  "hook.after_tool": ({ result }) => {
    const clean = {};
    for (const name of ["for_llm", "for_user"]) {
      const text = result?.[name] ?? "";
      const redacted = text.replaceAll(SECRETS, "[redacted]");
      if (redacted !== text) clean[name] = redacted;
    }
    return Object.keys(clean).length ? { action: "modify", result: clean } : { action: "continue" };
  },
};

// Not node:readline, for which U+2028 ends a line, in the middle of a JSON string too.
async function* lines(stream) {
  let rest = "";
  for await (const chunk of stream.setEncoding("utf8")) {
    const [first, ...others] = chunk.split("\n");
    rest += first;
    for (const other of others) {
      yield rest;
      rest = other;
    }
  }
}

// From Node 21 on, integers that a double would round stay as they were written.
const exact = (_, value, context) =>
  JSON.rawJSON && Number.isInteger(value) && !Number.isSafeInteger(value) ? JSON.rawJSON(context.source) : value;

function parse(line) {
  try {
    return JSON.parse(line, exact) ?? {};
  } catch (error) {
    console.error(`not JSON: ${error.message}`);
    return {};
  }
}

function answer(method, params) {
  if (!Object.hasOwn(methods, method)) return { error: { code: -32601, message: `no such method: ${method}` } };
  try {
    return { result: methods[method](params ?? {}) };
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
