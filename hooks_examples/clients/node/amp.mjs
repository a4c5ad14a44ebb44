// Hooks for Amp's tools. Copy this directory to .amp/plugins/picohook/ or ~/.config/amp/plugins/picohook/, and write beside it
// picohook.ts: export { default } from "./picohook/amp.mjs"

import { Guard } from "./guard.mjs";

export default function (amp) {
  const guard = new Guard();
  amp.on("tool.call", async ({ tool, input, toolUseID, thread }) => {
    try {
      const { args, refused, answer } = await guard.before({ tool, args: input, id: toolUseID, session: thread.id });
      if (answer !== undefined) return { action: "synthesize", result: { output: answer } };
      return args ? { action: "modify", input: args } : { action: "reject-and-continue", message: refused };
    } catch (error) {
      return { action: "reject-and-continue", message: `picohook: ${error.message}` };
    }
  });
  amp.on("tool.result", async ({ tool, input, toolUseID, thread, status, output, error }) => {
    const isError = status !== "done";
    const given = isError ? error ?? output : output;
    const text = typeof given === "string" ? given : JSON.stringify(given) ?? "";
    try {
      const left = await guard.after({ tool, args: input, id: toolUseID, session: thread.id, text, isError });
      if (left === text) return undefined;
      return isError ? { status, error: left } : { status, output: left };
    } catch (failure) {
      return { status: "error", error: `picohook: ${failure.message}` };
    }
  });
}
