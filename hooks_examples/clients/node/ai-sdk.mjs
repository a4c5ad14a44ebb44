// Hooks for the tools of the AI SDK: they are asked before and after each call of `generateText`, `streamText` and agents.
//
//     const hooks = new Hooks("picohook.toml");
//     const { text } = await inTurn(hooks, prompt, (guarded) =>
//       generateText({ model, prompt, stopWhen: stepCountIs(9), ...guarded({ tools }) }),
//     );
//     hooks.close();

import { AsyncLocalStorage } from "node:async_hooks";

/** The turn whose tool runs here. A run of an agent inside it is a sub-turn. */
const current = new AsyncLocalStorage();

/** The stages that the SDK's model calls have no place for. */
const UNASKED = ["before_llm", "after_llm"];

/** A hook ended the turn. `action` is abort_turn, hard_abort or pause. */
export class TurnEndedError extends Error {
  constructor({ action, reason }) {
    super(reason || action);
    this.name = "TurnEndedError";
    this.action = action;
  }
}

/**
 * Make a run of an agent a turn of this session. `run` gets `guarded`, which returns options of the SDK with guarded tools.
 * Returns what `run` returns, once it is settled. Throws a TurnEndedError if a hook ends the turn.
 */
export async function inTurn(hooks, prompt, run, { session } = {}) {
  await refuseUnasked(hooks);
  const outer = current.getStore()?.hooks === hooks ? current.getStore() : undefined;
  const own = outer?.session ?? session ?? (await hooks.ask("session.start")).session;
  const parent = outer && { parent: outer.turn };
  const { turn } = await hooks.ask("turn.start", { session: own, user_message: String(prompt), ...parent });
  const ending = new AbortController();
  const guarded = ({ tools, abortSignal, ...options }) => ({
    ...options,
    tools: guardTools({ hooks, session: own, turn }, tools, ending),
    abortSignal: abortSignal ? AbortSignal.any([abortSignal, ending.signal]) : ending.signal,
  });
  try {
    const result = await run(guarded);
    ending.signal.throwIfAborted();
    await hooks.ask("turn.end", { turn });
    return result;
  } catch (error) {
    const reason = ending.signal.aborted ? ending.signal.reason : error;
    const status = ending.signal.aborted ? "aborted" : "error";
    await hooks.ask("turn.end", { turn, status, reason: String(reason.message) });
    throw reason;
  } finally {
    if (!outer && session === undefined) await hooks.ask("session.end", { session: own });
  }
}

async function refuseUnasked(hooks) {
  const { stages } = await hooks.ask("list");
  for (const stage of UNASKED) {
    for (const { hook } of stages[stage] ?? []) {
      throw new Error(`${hook}: the AI SDK asks no hooks at ${stage}: give this hook other \`stages\` in its configuration`);
    }
  }
}

function guardTools(place, tools, ending) {
  const guard = ([name, tool]) => [name, tool.execute ? { ...tool, execute: guardedExecute(place, name, tool, ending) } : tool];
  return Object.fromEntries(Object.entries(tools).map(guard));
}

/** Return a function in place of the tool's: hooks decide, the tool runs, hooks see the result. */
function guardedExecute(place, name, tool, ending) {
  const { hooks, turn } = place;
  // The SDK tells the model of an error, and continues. So the end of the turn goes through its signal.
  const end = (outcome) => {
    ending.abort(new TurnEndedError(outcome));
    throw ending.signal.reason;
  };
  return async (input, options) => {
    ending.signal.throwIfAborted();
    const call = { meta: { TurnID: turn }, tool: name, arguments: input, tool_call_id: options.toolCallId };
    const decided = await hooks.ask("tool.decide", call);
    if (decided.action === "respond" || decided.action === "deny_tool") return decided.result.for_llm;
    if (decided.action !== "continue") return end(decided);
    if (decided.call.tool !== name) throw new Error(`${decided.call.tool}: a hook put this tool in place of ${name}`);
    let value;
    let raised;
    try {
      value = await current.run(place, () => last(tool.execute(decided.call.arguments, options)));
    } catch (error) {
      if (error instanceof TurnEndedError && error.action !== "abort_turn") return end({ action: error.action, reason: error.message });
      raised = error;
    }
    const text = raised ? String(raised) : typeof value === "string" ? value : JSON.stringify(value) ?? "";
    const returned = { decided: decided.decided, result: { for_llm: text, is_error: Boolean(raised) } };
    const concluded = await hooks.ask("tool.conclude", raised ? { ...returned, error: text } : returned);
    if (!concluded.result) return end(concluded);
    if (concluded.result.for_llm !== text) {
      if (raised) throw new Error(concluded.result.for_llm);
      return concluded.result.for_llm;
    }
    if (raised) throw raised;
    return value;
  };
}

/** Return the last value of a tool that gives several. The values before it are not shown: no hook has seen them. */
async function last(returned) {
  const value = await returned;
  if (!value?.[Symbol.asyncIterator]) return value;
  let final;
  for await (const one of value) final = one;
  return final;
}
