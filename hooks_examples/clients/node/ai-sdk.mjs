// Hooks for the tools of the AI SDK: they are asked before and after each call of `generateText`, `streamText` and agents.
//
//     const hooks = new Hooks("picohook.toml");
//     const { text } = await inTurn(hooks, prompt, (guarded) =>
//       generateText({ model, prompt, stopWhen: stepCountIs(9), ...guarded({ tools }) }),
//     );
//     hooks.close();

import { AsyncLocalStorage } from "node:async_hooks";
import { isDeepStrictEqual } from "node:util";

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
 *
 * With `onPause`, a pause about a call is an approval request of the SDK, and `onPause` is told of it: `toolCallId`, `toolName`,
 * `input`, `reason`. Continue in a later turn with the messages of the run and a `tool-approval-response`.
 *
 * A tool without `execute` asks no hooks: it runs at the provider, or in your own code. It is refused unless `unguarded` has its name.
 */
export async function inTurn(hooks, prompt, run, { session, onPause, unguarded = [] } = {}) {
  await refuseUnasked(hooks);
  const outer = current.getStore()?.hooks === hooks ? current.getStore() : undefined;
  const own = outer?.session ?? session ?? (await hooks.ask("session.start")).session;
  const parent = outer && { parent: outer.turn };
  const { turn } = await hooks.ask("turn.start", { session: own, user_message: String(prompt), ...parent });
  const ending = new AbortController();
  const guarded = ({ tools, prepareCall, abortSignal, ...options }) => {
    const place = { hooks, session: own, turn, onPause, unguarded, known: new Map(), approved: new Set() };
    return {
      ...options,
      tools: guardTools(place, tools, ending),
      ...(prepareCall && { prepareCall: async (call) => withGuarded(await prepareCall(call), place, ending) }),
      abortSignal: abortSignal ? AbortSignal.any([abortSignal, ending.signal]) : ending.signal,
    };
  };
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

/** The tools that ask hooks already. */
const asking = new WeakSet();

function guardTools(place, tools = {}, ending) {
  const guard = (name, tool) => {
    if (asking.has(tool)) return tool;
    if (!tool.execute) {
      if (place.unguarded.includes(name)) return tool;
      throw new Error(`${name}: this tool has no \`execute\`, and asks no hooks: leave it out, or run it without hooks by \`unguarded: ["${name}"]\``);
    }
    const needsApproval = place.onPause && { needsApproval: askedBefore(place, name, tool) };
    const guarded = { ...tool, execute: guardedExecute(place, name, tool, ending), ...needsApproval };
    asking.add(guarded);
    return guarded;
  };
  return Object.fromEntries(Object.entries(tools).map(([name, tool]) => [name, guard(name, tool)]));
}

/** Return what an agent's `prepareCall` made, with guarded tools. */
function withGuarded(call, place, ending) {
  return call?.tools ? { ...call, tools: guardTools(place, call.tools, ending) } : call;
}

/** Ask hooks at before_tool and approve_tool. */
function decide({ hooks, turn, approved }, name, input, toolCallId) {
  const call = { meta: { TurnID: turn }, tool: name, arguments: input, tool_call_id: toolCallId };
  return hooks.ask("tool.decide", approved?.has(toolCallId) ? { ...call, approved: true } : call);
}

/** Return a function that asks hooks early, and says whether one of them pauses about the call as the model wrote it. */
function askedBefore(place, name, tool) {
  return async (input, options) => {
    const own = tool.needsApproval;
    if (typeof own === "function" ? await own(input, options) : own) return true; // a person has not seen what hooks say
    const { toolCallId } = options;
    if (isApproved(options.messages, toolCallId)) {
      place.approved.add(toolCallId);
      return true;
    }
    const decided = await decide(place, name, input, toolCallId);
    if (decided.action !== "pause" || !isDeepStrictEqual(decided.call.arguments, input)) {
      place.known.set(toolCallId, { input, decided });
      return false;
    }
    await place.onPause({ toolCallId, toolName: name, input, reason: decided.reason });
    return true;
  };
}

/** Whether the last message approves this call, which the SDK holds against the request. */
function isApproved(messages, toolCallId) {
  const parts = messages.flatMap(({ content }) => (Array.isArray(content) ? content : []));
  const asked = parts.filter((part) => part.type === "tool-approval-request" && part.toolCallId === toolCallId);
  const last = messages.at(-1);
  const answers = last?.role === "tool" ? last.content.filter(({ type }) => type === "tool-approval-response") : [];
  return answers.some(({ approvalId, approved }) => approved && asked.some((one) => one.approvalId === approvalId));
}

/** Return a function in place of the tool's: hooks decide, the tool runs, hooks see the result. */
function guardedExecute(place, name, tool, ending) {
  const { hooks } = place;
  // The SDK tells the model of an error, and continues. So the end of the turn goes through its signal.
  const end = (outcome) => {
    ending.abort(new TurnEndedError(outcome));
    throw ending.signal.reason;
  };
  return async (input, options) => {
    ending.signal.throwIfAborted();
    const known = place.known.get(options.toolCallId);
    place.known.delete(options.toolCallId);
    const decided = isDeepStrictEqual(known?.input, input) ? known.decided : await decide(place, name, input, options.toolCallId);
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
