// What the plugins for OpenCode and Amp share: a tool call that hooks decide on before it, and see after it.

import { Hooks } from "./sidecar.mjs";

/** Asks the hooks of `PICOHOOK_CONFIG`, or your own and those of the directory if you trust them. */
export class Guard {
  #decided = new Map();

  constructor(cwd) {
    this.hooks = new Hooks(process.env.PICOHOOK_CONFIG, { cwd });
  }

  /** Returns the arguments to run the tool with; or `refused`, or `answer`, for the model. Rejects if there is no decision. */
  async before({ tool, args, id, session }) {
    const meta = { SessionKey: session };
    const outcome = await this.hooks.ask("tool.decide", { meta, tool, arguments: args, tool_call_id: id });
    if (outcome.action === "respond") return { answer: outcome.result.for_llm };
    if (outcome.action !== "continue") {
      return { refused: outcome.result?.for_llm ?? `${outcome.action}: ${outcome.reason}` };
    }
    if (outcome.call.tool !== tool) return { refused: `a hook put ${outcome.call.tool} in place of ${tool}` };
    this.#decided.set(id, outcome.decided);
    return { args: outcome.call.arguments };
  }

  /**
   * Returns the text that the model gets. Rejects if there is no decision, or if the agent says that it `ran` the tool with
   * other arguments than hooks decided on.
   */
  async after({ tool, args, ran, id, session, text, isError = false }) {
    const result = { for_llm: text, is_error: isError };
    const decided = this.#decided.get(id);
    this.#decided.delete(id);
    const outcome =
      decided === undefined
        ? await this.hooks.ask("after_tool", { meta: { SessionKey: session }, tool, arguments: args, tool_call_id: id, result })
        : await this.hooks.ask("tool.conclude", { decided, result, tool, arguments: ran });
    const left = outcome.result ?? outcome.payload?.result;
    if (outcome.action === "continue" || outcome.action === "modify") return left?.for_llm ?? text;
    throw new Error(`${outcome.action}: ${outcome.reason}`);
  }
}
