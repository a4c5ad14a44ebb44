#!/usr/bin/env bash
# A review gate, a tool plugin and a redactor in one hook.
#
# Run it with: bash hook.sh
#
# A stage is its decision. One jq reads all lines, because bash reads a pipe byte by byte.
set -euo pipefail

program='
def hello: {ok: true, name: "bash"};

def weather: {
  type: "function",
  function: {
    name: "get_weather",
    description: "Today\u0027s weather in a city.",
    parameters: {type: "object", properties: {city: {type: "string"}}, required: ["city"]}
  }
};

def redact: gsub("(?<=password=)\\S+|sk-[A-Za-z0-9]{8,}"; "[redacted]");

def before_llm:
  (.tools // []) as $tools
  | if any($tools[]; . == weather) then {action: "continue"}
    else {action: "modify", request: {tools: ($tools + [weather])}} end;

# A tool is about to be called. Some agents write bash, and some Bash.
def before_tool:
  if (.tool | tostring | ascii_downcase) == "bash" and (.arguments.command // "" | type != "string" or contains("rm -rf")) then
    {action: "deny_tool", reason: "rm -rf is not allowed"}
  elif .tool == "get_weather" then {action: "respond", result: {for_llm: "\(.arguments.city // ""): 21 °C, sunny"}}
  else {action: "continue"} end;

# May a tool be called? Anything but a clear yes is a no.
def approve_tool:
  if .tool | IN("read_file", "list_dir", "search", "get_weather") then {approved: true}
  else {approved: false, reason: "\(.tool) is not a read-only tool"} end;

def after_tool:
  (.result // {} | {for_llm, for_user} | with_entries(select(.value | type == "string"))) as $texts
  | ($texts | map_values(redact)) as $clean
  | if $clean == $texts then {action: "continue"} else {action: "modify", result: $clean} end;

def answer:
  .method as $method | .params // {}
  | if $method == "hook.hello" then {result: hello}
    elif $method == "hook.before_tool" then {result: before_tool}
    elif $method == "hook.approve_tool" then {result: approve_tool}
    elif $method == "hook.before_llm" then {result: before_llm}
    elif $method == "hook.after_tool" then {result: after_tool}
    else {error: {code: -32601, message: "no such method: \($method)"}} end;

fromjson?
| select(type == "object" and (.method | type == "string"))
| select(.id // 0 | . != 0)  # an event: it gets no answer
| {jsonrpc: "2.0", id} + answer
'

exec jq --raw-input --compact-output --unbuffered "$program"
