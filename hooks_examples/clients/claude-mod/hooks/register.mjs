// A mod for Claude Code: hooks decide on each tool call, and see its result. Start it with: claude --plugin-dir claude-mod
//
// A mod cannot open a socket. So it starts the client of `picohook shim`, as the entries of `picohook shim claude` do. Use one of
// the two. Without the handler at the end, Claude Code would make a call whose mod has failed.

/** The first words of the command that `picohook shim claude` writes. */
const CLIENT = ["python3", "-I", "-S", "/path/of/picohook/ext/vendors/shim/client.py"];
const SECONDS = 290;

/** Returns what hooks say about an event. Throws if they say nothing, or end the turn. */
async function ask($, client, event, given) {
  const stdin = JSON.stringify({ hook_event_name: event, session_id: await $.session.id(), ...given });
  const command = [...client, "claude", event, "deny", String(SECONDS)];
  const ran = await $.process.run(command, { stdin, timeoutMs: (SECONDS + 5) * 1000 });
  if (ran.exitCode !== 0) throw new Error(ran.stderr.trim() || `the client exited with ${ran.exitCode}`);
  const told = ran.stdout.trim() ? JSON.parse(ran.stdout) : {};
  if (told.continue === false) throw new Error(told.stopReason);
  return told.hookSpecificOutput ?? {};
}

export const register = (on, { client = CLIENT } = {}) => {
  on("tool.call", async ($, e, next) => {
    const { tool, agentId: agent_id, tool_use_id, ...input } = e;
    const about = { tool_name: tool, tool_input: input, tool_use_id, agent_id };
    const before = await ask($, client, "PreToolUse", about);
    if (before.permissionDecision) return { deny: before.permissionDecisionReason };
    const changed = before.updatedInput ?? input;
    if (Object.keys(input).some((name) => !(name in changed))) return { deny: "picohook: a hook removed an argument" };
    const ran = await next({ ...e, ...changed });
    if (ran.deny !== undefined) return ran;
    const after = await ask($, client, "PostToolUse", { ...about, tool_input: changed, tool_response: ran.result });
    return after.updatedToolOutput === undefined ? ran : { ...ran, result: after.updatedToolOutput };
  }).catch(() => ({ deny: "picohook: there is no decision about this call" }));
};
