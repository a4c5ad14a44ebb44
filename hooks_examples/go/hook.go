// A review gate, a tool plugin and a redactor in one hook, with only Go's standard library.
//
// Build it with: go build hook.go
// Run it with:   ./hook
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"
	"regexp"
	"slices"
	"strings"
)

var (
	readOnly = []string{"read_file", "list_dir", "search", "get_weather"}
	secrets  = regexp.MustCompile(`(password=)\S+|sk-[A-Za-z0-9]{8,}`)
	weather  = json.RawMessage(`{"type":"function","function":{"name":"get_weather","description":"Today's weather in a city.",` +
		`"parameters":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}}}`)
)

// object is the answer of a hook. A json.RawMessage in it is passed on unchanged, digit by digit.
type object map[string]any

type request struct {
	ID     json.RawMessage `json:"id"`
	Method *string         `json:"method"` // nil if this is not a request
	Params json.RawMessage `json:"params"`
}

type params struct {
	Tools     []json.RawMessage          `json:"tools"`
	Tool      string                     `json:"tool"`
	Arguments map[string]json.RawMessage `json:"arguments"`
	Result    map[string]json.RawMessage `json:"result"`
}

// text is the string that a JSON value is, and "" for any other.
func text(value json.RawMessage) (text string) {
	if json.Unmarshal(value, &text) != nil {
		return ""
	}
	return text
}

func isWeather(tool json.RawMessage) bool {
	var named struct {
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	}
	return json.Unmarshal(tool, &named) == nil && named.Function.Name == "get_weather"
}

func beforeLLM(p params) object {
	if slices.ContainsFunc(p.Tools, isWeather) {
		return object{"action": "continue"}
	}
	return object{"action": "modify", "request": object{"tools": append(p.Tools, weather)}}
}

func beforeTool(p params) object {
	switch {
	case p.Tool == "get_weather":
		return object{"action": "respond", "result": object{"for_llm": text(p.Arguments["city"]) + ": 21 °C, sunny"}}
	case p.Tool == "bash" && strings.Contains(text(p.Arguments["command"]), "rm -rf"):
		return object{"action": "deny_tool", "reason": "rm -rf is not allowed"}
	}
	return object{"action": "continue"}
}

func approveTool(p params) object {
	if slices.Contains(readOnly, p.Tool) {
		return object{"approved": true}
	}
	return object{"approved": false, "reason": p.Tool + " is not a read-only tool"}
}

func afterTool(p params) object {
	clean := object{}
	for _, name := range []string{"for_llm", "for_user"} {
		said := text(p.Result[name])
		if redacted := secrets.ReplaceAllString(said, "${1}[redacted]"); redacted != said {
			clean[name] = redacted
		}
	}
	if len(clean) == 0 {
		return object{"action": "continue"}
	}
	return object{"action": "modify", "result": clean}
}

var stages = map[string]func(params) object{
	"hook.hello":        func(params) object { return object{"ok": true, "name": "go"} },
	"hook.before_llm":   beforeLLM,
	"hook.before_tool":  beforeTool,
	"hook.approve_tool": approveTool,
	"hook.after_tool":   afterTool,
}

func answer(r request) object {
	reply := object{"jsonrpc": "2.0", "id": r.ID}
	var p params
	if stage := stages[*r.Method]; stage == nil {
		reply["error"] = object{"code": -32601, "message": "no such method: " + *r.Method}
	} else if err := json.Unmarshal(r.Params, &p); len(r.Params) > 0 && err != nil {
		reply["error"] = object{"code": -32602, "message": err.Error()}
	} else {
		reply["result"] = stage(p)
	}
	return reply
}

func main() {
	log.SetFlags(0) // to stderr, which the host logs
	lines := bufio.NewReader(os.Stdin)
	replies := json.NewEncoder(os.Stdout)
	replies.SetEscapeHTML(false)
	for {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			return
		} else if err != nil {
			log.Fatal(err)
		}
		var r request
		if err := json.Unmarshal(line, &r); err != nil {
			log.Print(fmt.Errorf("not a request: %w", err))
		} else if r.Method != nil && r.ID != nil && string(r.ID) != "0" { // none or 0: a notification, from PicoClaw too
			if err := replies.Encode(answer(r)); err != nil {
				log.Fatal(err)
			}
		}
	}
}
