// Hooks for OpenCode's tools. Copy this directory to .opencode/plugins/picohook/ or ~/.config/opencode/plugins/picohook/, and
// name this file in "plugin" of opencode.json: "file:///.../picohook/opencode.mjs".
//
// A call is not made if its hook throws. So it is not made if hooks refuse it, and not if nobody answers.

import { Guard } from "./guard.mjs";

export const Picohook = async ({ directory }) => {
  const guard = new Guard(directory);
  return {
    "tool.execute.before": async ({ tool, sessionID, callID }, output) => {
      const { args, refused, answer } = await guard.before({ tool, args: output.args, id: callID, session: sessionID });
      if (!args) throw new Error(refused ?? answer);
      for (const name of Object.keys(output.args)) delete output.args[name]; // OpenCode runs this very object
      Object.assign(output.args, args);
    },
    "tool.execute.after": async ({ tool, sessionID, callID, args }, output) => {
      const text = String(output.output ?? "");
      output.output = await guard.after({ tool, args, ran: args, id: callID, session: sessionID, text });
    },
    dispose: async () => guard.hooks.close(),
  };
};
